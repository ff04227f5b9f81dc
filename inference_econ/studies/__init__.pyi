"""What other packages may use; see ``__init__.py``."""

from . import compare as compare
from . import exhibits as exhibits
from . import inference as inference
from . import one_line as one_line
from . import results as results
from . import scenario as scenario
from . import uncertainty as uncertainty
from . import what_if as what_if
