"""Answers as one file for a browser, to be mailed: everything is inside, nothing is loaded.

What belongs here: the question and the answer of a page in a sentence each, which of its numbers are in proportion to
a price, what one types to start it, and the document around its charts and tables with its style and its script.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
