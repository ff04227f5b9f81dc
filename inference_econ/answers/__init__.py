"""One file per question that people ask; the same name in ``report`` and ``cli``.

What belongs here: functions that take a :class:`~inference_econ.engine.Setup` and what is their own, and return a
frozen answer that knows what it is about (``subjects``). How an answer is shown is the business of ``report``.

Others use the modules of this package, and of ``disaggregated``: pools that read prompts or decode.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
