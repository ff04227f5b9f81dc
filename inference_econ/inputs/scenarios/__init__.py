"""Scenario files: schemas of each kind, and the reader."""
