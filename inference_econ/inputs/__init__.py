"""Facts and opinions by name: what files say, validated and frozen.

What belongs here: specifications of hardware, models, engines, assumptions, traffic and scenarios, and everything that
reads or writes YAML and Hugging Face configs; names and where files are (``catalog``), which profile belongs to a chip
(``profiles``), units, number formats, what-ifs. The only package with pydantic and YAML.

What others use stands in ``__init__.pyi``; ``catalog`` reads anything by name. Not for others: ``_base``,
``_described``, ``_spec`` and ``_yaml``, of which specifications are made, and the readers inside ``huggingface``.
Nothing here knows a formula.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
