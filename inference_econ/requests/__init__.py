"""Commands and their options as tables, and a typed command line as one frozen object.

``tables`` reads ``commands.toml``, ``options.csv`` and ``renamed.csv``. ``kinds`` converts text or JSON to typed
values, and ``request`` is the request that commands take. ``subject`` turns options into setups and candidates,
``workload`` into requests, SLOs and limits; there are also prices and output files. The command line creates click
options from these tables, and the explorer creates models of HTTP requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
