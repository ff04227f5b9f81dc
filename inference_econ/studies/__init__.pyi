"""What other packages may use; see ``__init__.py``."""

from . import compare as compare
from . import exhibits as exhibits
from . import results as results
from . import scenario as scenario
from . import what_if as what_if
