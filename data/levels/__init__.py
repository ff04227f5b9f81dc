"""Measured corrections of fitted profiles: their fit, and their errors on rows that they have not seen.

``spreads`` estimates the standard deviations for pooling. ``left_out`` computes the errors that remain. ``fitted``
creates the files. ``judged`` predicts rows again with corrections that have not seen them.
:mod:`inference_econ.extras.servers.levels` defines the corrections ("levels" in code) and their pooling.
"""
