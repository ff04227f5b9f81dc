"""What other packages may use; see ``__init__.py``."""

from . import attention as attention
from . import collectives as collectives
from . import experts as experts
from . import grouped_matmul as grouped_matmul
from . import kernels as kernels
from . import matmul as matmul
from . import money as money
from . import pareto as pareto
from . import pipeline as pipeline
from . import power as power
from . import prefix_cache as prefix_cache
from . import queueing as queueing
from . import renting as renting
from . import roofline as roofline
from . import routing as routing
from . import special as special
from . import speculation as speculation
