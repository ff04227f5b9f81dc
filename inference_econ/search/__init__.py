"""The layouts that nothing beats.

What belongs here: the fastest layout of every instance (``fastest``), bounds that make the search quick beside their
proofs (``_bounds``), every plan of a grid with why it cannot run (``every_plan``), and the frontier of speed against
cost.

What others use stands in ``__init__.pyi``; ``_search`` and ``_bounds`` are for ``fastest`` alone. No prices but that
of a chip, no requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
