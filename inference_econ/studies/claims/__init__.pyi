"""What other packages may use; see ``__init__.py``."""

from .answer import answered as answered
from .answer import claims as claims
