"""What other packages may use; see ``__init__.py``."""

from . import most_traffic as most_traffic
from . import recommend as recommend
from . import service_record as service_record
from . import serving_frontier as serving_frontier
