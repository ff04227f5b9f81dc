"""Cost model of one step: the time, memory and energy of a deployment under given assumptions.

A :class:`Setup` combines a model, a GPU, number formats, assumptions and a price. The package lists the possible
layouts (``layouts``), builds the operator table of a step (``operators``), and checks whether a layout fits in memory
(``memory``). The package predicts the time of collectives, steps (``step``), prefill (``prefill``) and speculative
decoding (``speculation``), and the errors of these predictions (``uncertainty``).

The public names are listed in ``__init__.pyi``. Requests and queues are in ``serving``, and the choice of the best
deployment is in ``search``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
