"""Facts and opinions by name: validated and frozen."""
