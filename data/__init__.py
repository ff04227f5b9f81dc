"""Makers of the data that come with the package, and the published tables that they read; no part of the wheel."""
