"""One grammar for the pictures of answers: Vega-Lite, made with Altair, for notebooks, pages and files alike.

What belongs here: the theme (all colours and sizes, light and dark), the marks that kinds of charts share (lines with
bands, measured points, promises, titles, tooltips), one module per kind of chart, and the ways out (a specification,
the JavaScript that draws it, files). What a chart shows is said by the page of its question.

Altair and vl-convert are loaded when a picture is made. Nothing is loaded from a network: vl-convert carries the
JavaScript.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
