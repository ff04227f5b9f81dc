"""What other packages may use; see ``__init__.py``."""

from . import answer as answer
