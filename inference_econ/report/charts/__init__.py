"""Charts of results: Vega-Lite, created with Altair, for notebooks, pages and files.

``theme`` has colors and sizes, and ``marks`` has the elements that charts share, such as lines with bands and tooltips.
Each kind of chart has one module. ``output`` creates the specification, JavaScript and files. The pages of the commands
select the data of a chart.

Altair and vl-convert are imported when a chart is created. Charts need no network: vl-convert includes the JavaScript.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
