"""What other packages may use; see ``__init__.py``."""

from . import against as against
from . import agreement as agreement
from . import calibrate as calibrate
from . import catalog as catalog
from . import charts as charts
from . import chosen as chosen
from . import compare as compare
from . import explain as explain
from . import frontier as frontier
from . import gallery as gallery
from . import import_model as import_model
from . import launch as launch
from . import manifests as manifests
from . import page as page
from . import pages as pages
from . import recommend as recommend
from . import schema as schema
from . import serving_frontier as serving_frontier
from . import sweep as sweep
from . import sweep_folder as sweep_folder
from . import table as table
from . import validate as validate
from . import web as web
