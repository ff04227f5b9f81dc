"""Display of results: tables, charts and documents.

A command has one module, which creates the page of its result (``page``: tables, charts, sentences). Additional modules
have the glossary of fields and the figures of the published study. A page formats the numbers of a result and computes
no new ones. No other package imports Altair and matplotlib.

``cli`` uses the modules of this package; no package below it does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
