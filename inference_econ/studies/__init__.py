"""Scenarios and other papers."""
