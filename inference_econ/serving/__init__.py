"""Predict how instances serve requests: steady states, latencies under load, and request simulation.

``steady`` computes steady states at a fixed concurrency (closed loop), and ``services`` computes the steady states of
all layouts of a grid. ``load`` is the analytical model of an instance under a stream of requests. ``simulation`` is the
request simulator. ``__init__.pyi`` lists the names that other packages use. The package ``answers`` computes costs and
selects deployments.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
