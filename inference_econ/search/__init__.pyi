"""What other packages may use; see ``__init__.py``."""

from . import fastest as fastest
from .frontier import METRICS as METRICS
from .frontier import Choosable as Choosable
from .frontier import Frontier as Frontier
from .frontier import FrontierSummary as FrontierSummary
from .frontier import Metric as Metric
from .frontier import Point as Point
from .frontier import Sampling as Sampling
from .frontier import Saving as Saving
from .frontier import common_problems as common_problems
from .frontier import compute as compute
from .frontier import every_plan as every_plan
from .frontier import no_room as no_room
from .frontier import saved_by as saved_by
from .frontier import summarise as summarise
from .frontier import why_nothing_fits as why_nothing_fits
