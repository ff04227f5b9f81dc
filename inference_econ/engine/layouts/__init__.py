"""Layouts that could exist: pinned degrees, families of layouts, the search grid, and divisibility rules."""
