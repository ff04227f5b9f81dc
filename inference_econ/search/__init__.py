"""Search for Pareto-optimal layouts.

``fastest`` finds the fastest layout of each instance size and batch. ``every_plan`` lists every plan of a grid with the
reason why it cannot run. ``frontier`` computes the frontier of speed against cost.

The public names are listed in ``__init__.pyi``. ``_search`` has the bounds that skip slow layouts, and is only used by
``fastest``. The package knows prices of chips, but no requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
