"""Search for Pareto-optimal layouts.

``fastest`` finds the fastest layout for each instance size and batch. ``every_plan`` lists every plan of a grid, and
why plans cannot run. ``frontier`` computes the frontier of cost against speed.

``__init__.pyi`` lists the public names. ``_search`` computes lower bounds that skip slow layouts; only ``fastest`` uses
it. The package uses prices of chips. Requests are in other packages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
