"""Charts of results: Vega-Lite, created with Altair, for notebooks, pages and files.

The package has the theme, the marks that charts share (lines with bands, measured points, SLOs, titles, tooltips), one
module per kind of chart, and the outputs (specification, JavaScript, files). The pages of the commands select the data
of a chart.

Altair and vl-convert are imported when a chart is created. Charts need no network: vl-convert includes the JavaScript.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
