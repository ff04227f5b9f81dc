"""A server played event by event."""
