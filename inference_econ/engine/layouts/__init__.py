"""Layouts of an instance: fixed parallelism degrees, layouts to search, search grids, and divisibility rules."""
