"""Cost model of one step: the time, memory and energy of a deployment under given assumptions.

A :class:`Setup` combines a model, a GPU, number formats, assumptions and a price. The package lists the layouts that
could exist (``layouts``), builds the operator table of a step (``operators``), and checks whether a layout fits in
memory (``memory``). It predicts the time of collectives, of a step (``step``), of a prefill (``prefill``) and of
speculative decoding (``speculation``), and the prediction errors (``uncertainty``).

The public names are listed in ``__init__.pyi``. Requests and queues are in ``serving``, and the choice of the best
deployment is in ``search``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
