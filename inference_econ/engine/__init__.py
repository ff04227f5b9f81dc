"""One step of one deployment."""
