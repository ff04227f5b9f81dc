"""What other packages may use; see ``__init__.py``."""

from . import infer as infer
from .infer import CredibleInterval as CredibleInterval
from .infer import Draws as Draws
from .infer import Inferred as Inferred
from .infer import ServedOffer as ServedOffer
