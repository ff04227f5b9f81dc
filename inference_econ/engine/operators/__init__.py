"""What one step must do, operator by operator."""
