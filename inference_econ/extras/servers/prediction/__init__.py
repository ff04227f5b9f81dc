"""Predictions of measured rows: which deployment a row is of, what its load generator did, what the model says."""
