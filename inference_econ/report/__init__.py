"""Answers as tables, data, pictures and documents."""
