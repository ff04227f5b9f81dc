"""Display of results: tables, charts and documents.

Each command has a module in ``questions``, which creates the page of its result: tables, charts and sentences. Further
modules have the glossary of fields and the figures of the published study. A page only formats the numbers of a result.
No other package imports Altair and matplotlib.

``cli`` and the extras use this package; packages below ``report`` do not import it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
