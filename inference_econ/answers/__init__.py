"""Results of queries, one module per command; ``report`` and ``cli`` have modules of the same names.

Functions take a :class:`~inference_econ.engine.Setup` and the inputs of the query. Each function returns a frozen
result, which lists its deployments as ``subjects``. ``report`` formats results.

Other packages use the modules of this package and of ``disaggregated`` (prefill and decode pools).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
