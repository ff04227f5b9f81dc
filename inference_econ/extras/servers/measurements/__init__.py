"""Measured performance of servers, read from many file formats into one form.

Measurements use catalog names and base units. One reader handles tables whose columns are measurement fields, such as
all files in the package. Smaller readers handle user tables and results of load generators. ``__init__.pyi`` lists the
names that other packages use, including the cell reader and name matching for other kinds of files (memory,
collectives, speculation).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
