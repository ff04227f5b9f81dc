"""What others use; see ``__init__.py``."""

from .document import text as text
from .document import write as write
from .section import Asked as Asked
from .section import section as section
