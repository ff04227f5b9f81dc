"""Layouts that could exist: fixed parallelism degrees, families of layouts, the search grid, and divisibility rules."""
