"""One step of one deployment: what must be done, what fits, and how long it takes.

What belongs here: a :class:`Setup` (model, chip, formats, assumptions, price), ``layouts`` (which deployments could
exist), ``operators`` (the operator table), ``memory`` (the only capacity check there is), collectives, ``step``
(seconds of a step), ``prefill`` (of a prompt), ``speculation`` (the only model of it), and how far off a prediction
may be (``uncertainty``).

What others use stands in ``__init__.pyi``. A step knows neither requests nor queues (``serving``) nor which
deployment is best (``search``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
