"""Pages on measured servers: validation, calibration, comparison of runs."""
