"""Levels of measured servers over fitted profiles: fitted, and judged by rows that they have not seen.

``spreads`` finds what levels are pooled with, ``left_out`` counts the errors that remain, ``fitted`` makes the files,
and ``judged`` predicts rows again with levels that have not seen them. What levels are, and how they are pooled, is in
:mod:`inference_econ.extras.servers.levels`.
"""
