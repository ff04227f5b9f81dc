"""What other packages may use; see ``__init__.py``."""

from . import services as services
from . import steady as steady
from .lengths import new_tokens as new_tokens
from .lengths import quantiles as quantiles
from .load import Loaded as Loaded
from .load import check_rate as check_rate
from .load import kept_share as kept_share
from .load import loaded as loaded
from .proven import is_unproven as is_unproven
from .proven import seen as seen
from .proven import served as served
from .services import Service as Service
from .services import Services as Services
from .services import every_service as every_service
from .services import layouts as layouts
from .services import slots_of as slots_of
from .simulation.events import Server as Server
from .simulation.trace import Estimate as Estimate
from .simulation.trace import Trace as Trace
from .statistics import STATISTICS as STATISTICS
from .statistics import Statistics as Statistics
from .statistics import listed as listed
from .statistics import of_constant as of_constant
from .statistics import of_mixture as of_mixture
from .steady import Steady as Steady
