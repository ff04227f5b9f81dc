"""From steps to what requests see: steady states, load, simulation.

What belongs here: the closed loop at a concurrency (``steady``: the one that answers and the one that is validated),
every layout of a grid as a service (``services``), a service under a stream of requests (``load``), and the same
played request by request (``simulation``).

What others use stands in ``__init__.pyi``. Dollars and choices belong to ``answers``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
