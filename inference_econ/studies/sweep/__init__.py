"""Sweeps: frontiers of every combination of some axes, as rows that are asked with SQL."""
