"""Measured servers: read and predict measurements, fit constants to measurements, and validate predictions.

``measurements`` reads many file formats into one form. ``prediction`` applies the ordinary service model to
measurements. ``validation`` reports errors by dataset. All further modules fit constants and corrections, which are
stored as profiles. The package has no separate model of a server, so validation covers the code that users run.
``__init__.pyi`` lists the names that other packages use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
