"""What other packages may use; see ``__init__.py``."""

from . import fastest as fastest
from .choosable import METRICS as METRICS
from .choosable import Choosable as Choosable
from .choosable import Metric as Metric
from .choosable import Saving as Saving
from .choosable import saved_by as saved_by
from .every_plan import PlanTable as PlanTable
from .every_plan import candidates as candidates
from .every_plan import common_problems as common_problems
from .every_plan import no_room as no_room
from .every_plan import why_nothing_fits as why_nothing_fits
from .frontier import Frontier as Frontier
from .frontier import Point as Point
from .frontier import Sampling as Sampling
from .frontier import compute as compute
from .summary import FrontierSummary as FrontierSummary
from .summary import summarise as summarise
