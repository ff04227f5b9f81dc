"""Roofline economics of serving language models: speed per user against dollars per million tokens.

What is public stands in ``__init__.pyi``, and is loaded when it is first used, so that ``--help`` answers in a blink.

Examples
--------
>>> import inference_econ as ie
>>> setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8")
>>> front = ie.frontier(setup, ie.Traffic(isl=2000, osl=500))
>>> best = front.preferred(exponent=3)
>>> best.tokens_per_second_per_user > 50
True
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
