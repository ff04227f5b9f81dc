"""Tables of the commands and their options, and typed command lines.

``tables`` reads ``commands.toml``, ``options.csv`` and ``renamed.csv``. ``kinds`` converts text or JSON to typed
values. ``request`` has the frozen object that commands receive. ``subject`` converts options to setups and candidates.
``workload`` converts options to requests, SLOs and limits. ``prices`` and ``places`` handle prices and output files.
The command line builds click options from these tables, and the web explorer builds models of HTTP requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
