"""What other packages may use; see ``__init__.py``."""

from . import assess as assess
from . import burstiness as burstiness
from . import conversations as conversations
from . import explain as explain
from . import frontier as frontier
from . import hour_cost as hour_cost
from . import intensity as intensity
from . import load as load
from . import means as means
from . import most_traffic as most_traffic
from . import offer as offer
from . import operating_point as operating_point
from . import prefix_cache as prefix_cache
from . import price as price
from . import recommend as recommend
from . import serving_frontier as serving_frontier
from . import slots as slots
from . import speculate as speculate
from . import subjects as subjects
