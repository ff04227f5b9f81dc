"""Studies of other publications: claims, attention layers, ways to process one prompt."""
