"""Scenario files, comparisons of frontiers, and reproductions of published tables and figures.

``scenario``, ``settings`` and ``results`` run scenario files, and ``compare`` compares frontiers. ``exhibits`` shows
results next to published values. Other packages import the modules of ``studies`` directly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
