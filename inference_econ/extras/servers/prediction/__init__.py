"""Predictions of measurements: the deployment, the load generator, and the service model."""
