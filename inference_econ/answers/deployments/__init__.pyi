"""What other packages may use; see ``__init__.py``."""

from . import recommend as recommend
from . import serving_frontier as serving_frontier
