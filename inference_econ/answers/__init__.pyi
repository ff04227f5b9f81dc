"""What other packages may use; see ``__init__.py``."""

from . import assess as assess
from . import explain as explain
from . import fits as fits
from . import layout_services as layout_services
from . import load as load
from . import prefix_cache as prefix_cache
from . import price as price
from . import resource_limit as resource_limit
from . import speculate as speculate
from . import traffic as traffic
from .deployments import recommend as recommend
from .deployments import serving_frontier as serving_frontier
