"""Cost model of one engine step: time, memory and energy of an instance under given assumptions.

A :class:`Setup` combines a model, a GPU, number formats, assumptions and a price. The package lists the possible
layouts (``layouts``), builds the operator table of a step (``operators``), and checks whether a layout fits in memory
(``memory``). The package predicts the time of collectives, steps (``step``), prefill (``prefill``) and speculative
decoding (``speculation``), and the errors of these predictions (``uncertainty``).

``__init__.pyi`` lists the public names. The package ``serving`` models requests and queues, and ``search`` selects the
best deployment.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
