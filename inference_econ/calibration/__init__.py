"""Measured servers: read, predict, fit, validate."""
