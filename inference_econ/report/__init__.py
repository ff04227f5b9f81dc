"""Answers on their way to ink: tables, data, pictures, documents, and how far off they may be.

What belongs here: one module per question that makes a page of its answer (``page``: tables, a record, a frame,
charts), the caveats below it, files that are written whole or not at all, the study's figures. The only package with
Altair and matplotlib.

``cli`` uses the modules of this package; nothing below does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
