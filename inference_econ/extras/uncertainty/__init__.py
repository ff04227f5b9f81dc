"""Uncertainty of costs and choices when inputs are distributions.

The package contains the variables, the sampling design, frontiers of the samples, Sobol shares, and the combined
result.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
