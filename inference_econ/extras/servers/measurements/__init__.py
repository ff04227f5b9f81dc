"""Measured performance of real servers, from many kinds of files, in one form.

Here belongs what files of measurements say, in the catalogue's names and in base units: a reader of tables whose
columns are the fields of a measurement, as all that come with the package, and small ones for tables and results of
load generators that users bring. Others use what stands in ``__init__.pyi``: rows of servers, and for files of other
kinds (memory, collectives, speculation) the reader of cells and what people call models, chips, engines and formats.
How a file is told and which columns it has is nobody else's business.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
