"""Inference of closed models from their API offers: priors, frontiers of models of all sizes, and a posterior.

Sizes, formats and margins are inferred from observed prices and speeds. :mod:`inference_econ.answers` computes the
costs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
