"""What others use; see ``__init__.py``."""
