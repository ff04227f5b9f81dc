"""Scenarios and other papers.

What belongs here: what a scenario file asks and how it is answered (``scenario``, ``settings``, ``results``),
comparisons, and studies of other publications, each with what they printed beside what comes out here (``exhibits``).

Others use the modules of this package.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
