"""Requests on instances: steady states, load and simulation.

The closed loop at a fixed concurrency is in ``steady``, the layouts of a grid are in ``services``, an instance under a
stream of requests is in ``load``, and the request simulator is in ``simulation``. ``__init__.pyi`` lists the names that
other packages use. Costs and the selection of deployments are in ``answers``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
