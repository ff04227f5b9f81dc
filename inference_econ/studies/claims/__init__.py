"""Claims of publications beside our numbers.

What belongs here: the numbers that a claim can be about, each a pure function of settings (``readings``, ``chains``),
and the ledger of one claim, of a publication or of all that come with the package (``answer``). The claims themselves
are scenarios of the kind ``claims``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
