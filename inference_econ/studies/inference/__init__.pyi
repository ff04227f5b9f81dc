"""What other packages may use; see ``__init__.py``."""

from . import frontiers as frontiers
from . import infer as infer
from . import predictive as predictive
from .draws import Draws as Draws
from .posterior import Inferred as Inferred
from .posterior import Interval as Interval
from .posterior import Served as Served
