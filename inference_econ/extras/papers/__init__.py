"""Studies of other publications: claims, attention layers, and methods to prefill one prompt."""
