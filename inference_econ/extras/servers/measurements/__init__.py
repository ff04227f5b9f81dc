"""Measured performance of servers, from many file formats, in one form.

Measurements use catalog names and base units. One reader handles tables whose columns are measurement fields, as in all
shipped files. Smaller readers handle your tables and results of load generators. ``__init__.pyi`` lists the names that
other packages use, including the cell reader and name matching for other kinds of files (memory, collectives,
speculation).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
