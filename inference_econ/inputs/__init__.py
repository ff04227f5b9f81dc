"""Input files by name, validated and frozen: catalog facts and assumptions.

The package defines the specifications of hardware, models, engines, assumptions, traffic and scenarios, and reads and
writes YAML and Hugging Face configurations. It knows where files are (``catalog``), which profile belongs to a chip
(``profiles``), units, number formats and what-ifs. It is the only package that uses pydantic and YAML, and it contains
no formulas.

The public names are listed in ``__init__.pyi``; ``catalog`` reads anything by name. Other packages do not import
``_base``, ``_described``, ``_spec``, ``_yaml``, or the readers inside ``huggingface``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
