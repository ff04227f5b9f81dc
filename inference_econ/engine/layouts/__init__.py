"""Layouts that could exist: fixed degrees, families of layouts, the search grid, and divisibility rules."""
