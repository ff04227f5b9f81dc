"""The layouts that nothing beats."""
