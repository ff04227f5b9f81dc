"""Scenarios, comparisons and studies of other publications.

The package runs scenario files (``scenario``, ``settings``, ``results``), compares frontiers, and reproduces
publications next to their printed values (``exhibits``). Other packages use its modules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
