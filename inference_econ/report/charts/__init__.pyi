"""What pages use; see ``__init__.py``."""

from .lines import frontier_chart as frontier_chart
from .lines import line_chart as line_chart
from .lines import line_charts as line_charts
from .lines import panel as panel
from .lines import panels as panels
from .lines import together as together
from .lines import tornado_chart as tornado_chart
from .lines import waterfall_chart as waterfall_chart
from .output import AnyChart as AnyChart
from .output import drawn as drawn
from .output import javascript as javascript
from .output import mime_type as mime_type
from .output import specification as specification
from .output import svg as svg
from .output import write_chart as write_chart
from .plot import Band as Band
from .plot import Plot as Plot
from .plot import PlotSeries as PlotSeries
from .roofline import roofline as roofline
from .roofline import roofline_chart as roofline_chart
from .theme import config as config
