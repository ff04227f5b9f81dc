"""Display of results: tables, charts and documents.

There is one module per command, which creates the page of its result (``page``: tables, charts, sentences), plus the
glossary of fields and the figures of the study. A page formats numbers of the result and computes none. No other
package imports Altair and matplotlib.

``cli`` uses the modules of this package; no package below it does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
