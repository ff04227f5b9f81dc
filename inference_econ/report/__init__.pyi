"""What other packages may use; see ``__init__.py``."""

from . import agreement as agreement
from . import answer_file as answer_file
from . import assess as assess
from . import calibrate as calibrate
from . import catalog as catalog
from . import compare as compare
from . import disaggregated as disaggregated
from . import document as document
from . import explain as explain
from . import files as files
from . import frontier as frontier
from . import gallery as gallery
from . import hour_cost as hour_cost
from . import import_model as import_model
from . import launch as launch
from . import load as load
from . import page as page
from . import prefix_cache as prefix_cache
from . import price as price
from . import recommend as recommend
from . import sampling_rule as sampling_rule
from . import scenario as scenario
from . import serving_frontier as serving_frontier
from . import speculate as speculate
from . import table as table
from . import validate as validate
