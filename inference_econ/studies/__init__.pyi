"""What other packages may use; see ``__init__.py``."""

from . import compare as compare
from . import exhibits as exhibits
from . import inference as inference
from . import results as results
from . import sampling_rule as sampling_rule
from . import scenario as scenario
