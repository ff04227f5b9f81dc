"""What other packages may use; see ``__init__.py``."""

from . import percentiles as percentiles
from . import traces as traces
