"""Predictions of measured rows."""
