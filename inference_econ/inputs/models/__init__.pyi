"""What other packages may use; see ``__init__.py``."""

from . import sizes as sizes
