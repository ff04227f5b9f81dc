"""Models that could be behind the offers of a closed one: priors, frontiers of models of every size, and a posterior.

Here belongs what turns observed prices and speeds into sizes, formats and margins. What a model of a size would cost
is asked of :mod:`inference_econ.answers`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
