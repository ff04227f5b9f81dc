"""Specifications of input files (catalog facts and assumptions), with their readers.

All values are validated and frozen. The package defines the specifications of hardware, models, engines, assumptions,
workloads and scenarios. The package reads YAML and Hugging Face configurations, and writes YAML. The package also finds
files by name (``catalog``), selects the profile for a chip (``profiles``), converts units and number formats, and
applies user-set values such as ``hardware.watts=500``. No other package uses pydantic or YAML, and this package
contains no formulas.

``__init__.pyi`` lists the public names. ``catalog`` reads an entry of any kind by name. The modules ``_spec``,
``_yaml`` and the modules inside ``huggingface`` are private to this package.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
