"""What other packages may use; see ``__init__.py``."""

from . import launch_options as launch_options
from . import profiles as profiles
