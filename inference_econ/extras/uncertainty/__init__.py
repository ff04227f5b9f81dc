"""How sure an answer is whose inputs are known as distributions.

What belongs here: variables (what is uncertain, and of which series), the design that samples them, the frontiers of
the samples, Sobol shares of the inputs, and the answer that puts them together.

Others use the modules of this package.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
