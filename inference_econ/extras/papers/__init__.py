"""Studies of other publications: claims, attention layers, ways to prefill one prompt."""
