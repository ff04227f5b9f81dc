"""Benchmarks (``sh run.sh benchmark``), and comparisons that write documentation pages."""
