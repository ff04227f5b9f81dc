"""What other packages may use; see ``__init__.py``."""

from . import charts as charts
from . import deployment_reader as deployment_reader
from . import equations as equations
from . import page as page
from . import pages as pages
from . import schema as schema
from .questions import catalog as catalog
from .questions import compare as compare
from .questions import explain as explain
from .questions import frontier as frontier
from .questions import import_model as import_model
from .questions import launch as launch
from .questions import recommend as recommend
