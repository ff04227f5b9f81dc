"""Timings, ``sh run.sh benchmark`` first of all, and comparisons that write documents."""
