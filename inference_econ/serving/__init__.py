"""Steps into what requests see."""
