"""Pages of measured servers: validation, calibration, runs against predictions, parity plots."""
