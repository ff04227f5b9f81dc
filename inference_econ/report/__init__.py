"""Answers on their way to ink: tables, pictures and documents.

What belongs here: one module per question that makes a page of its answer (``page``: tables, charts, sentences), the
glossary of fields, the study's figures. Numbers are the answers' own: a page writes them, and computes none. The only
package with Altair and matplotlib.

``cli`` uses the modules of this package; nothing below does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
