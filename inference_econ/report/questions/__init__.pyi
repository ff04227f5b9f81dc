"""What other packages may use; see ``__init__.py``."""

from . import catalog as catalog
from . import compare as compare
from . import explain as explain
from . import frontier as frontier
from . import import_model as import_model
from . import launch as launch
from . import recommend as recommend
