"""Results of queries, one module per command. ``report`` and ``cli`` have modules with the same names.

Functions take a :class:`~inference_econ.engine.Setup` and the inputs of a query, and return a frozen dataclass. The
method ``subjects`` of a result lists its deployments. ``report`` formats results.

Other packages import the modules of this package and of ``disaggregated`` (prefill and decode pools).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
