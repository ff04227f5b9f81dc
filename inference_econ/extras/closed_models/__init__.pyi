"""What other packages may use; see ``__init__.py``."""

from . import frontiers as frontiers
from . import infer as infer
from . import posterior as posterior
from .draws import Draws as Draws
from .posterior import CredibleInterval as CredibleInterval
from .posterior import Inferred as Inferred
from .posterior import ServedOffer as ServedOffer
