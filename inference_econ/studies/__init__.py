"""Scenarios, comparisons, and reproductions of other publications.

The package runs scenario files (``scenario``, ``settings``, ``results``) and compares frontiers. It also shows results
next to the values that publications printed (``exhibits``). Other packages use its modules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
