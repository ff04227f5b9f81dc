"""Commands and their options as tables, and what was typed of them as one typed, frozen object.

What belongs here: ``commands.toml``, ``options.csv`` and ``renamed.csv`` with their reader (``tables``), the conversion
of a text or of JSON to a typed value (``kinds``), the request that commands take (``request``), and what answers take
in place of its options: a setup and candidates (``subject``), requests, targets and means (``workload``), prices and
places. The command line makes options of click of these tables, the explorer makes models of HTTP requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
