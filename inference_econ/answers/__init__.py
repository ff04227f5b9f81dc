"""Results of the commands, one module per command. ``report`` and ``cli`` have modules with the same names.

Each function takes a :class:`~inference_econ.engine.Setup` and the inputs of a query, and returns a frozen dataclass.
The method ``subjects`` of a result lists its deployments. The package ``report`` formats results.

Other packages may import the modules of this package and of its subpackage ``disaggregated``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
