"""Engine options for layouts and formats."""
