"""Measured servers: read, predict, fit, validate.

What belongs here: ``measurements`` (rows of many kinds of files in one form), ``prediction`` (what the ordinary
service model says of them), fits of constants and how they do on rows they have not seen, profiles as files,
``validation`` (reports by dataset). Nothing here models a server: what is validated is the code that answers, called
with what a row says.

What others use stands in ``__init__.pyi``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
