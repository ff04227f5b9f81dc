"""Layouts of an instance: fixed parallelism degrees, families of layouts, search grids, and divisibility rules."""
