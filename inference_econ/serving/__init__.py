"""Requests on instances: steady states, load and simulation.

``steady`` has steady states in a closed loop at a fixed concurrency, and ``services`` has them for the layouts of a
grid. ``load`` has the analytical model of an instance under a stream of requests, and ``simulation`` has the request
simulator. ``__init__.pyi`` lists the names that other packages use. Costs and the selection of deployments are in
``answers``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
