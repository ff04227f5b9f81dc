"""Scenarios, comparisons, and reproductions of other publications.

The package runs scenario files (``scenario``, ``settings``, ``results``) and compares frontiers. ``exhibits`` shows
results next to published values. Packages import the modules of ``studies`` directly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
