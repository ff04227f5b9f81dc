"""Measured performance of real servers, from many kinds of files, in one form.

Here belongs what files of measurements say, in the catalogue's names and in base units: a reader of tables whose
columns are the fields of a measurement, as all that come with the package, and small ones for tables and results of
load generators that users bring. Others use what is listed below: rows of servers, and for files of other kinds
(memory, collectives, speculation) the reader of cells and what people call models, chips, engines and formats. How a
file is told and which columns it has is nobody else's business.
"""

from __future__ import annotations

from inference_econ.calibration.measurements._collections import distinct
from inference_econ.calibration.measurements._dates import Days
from inference_econ.calibration.measurements._files import SHIPPED, cells, read, shipped
from inference_econ.calibration.measurements._names import (
    chip_count,
    engine_name,
    format_name,
    hardware_name,
    is_number,
    model_name,
    served,
)
from inference_econ.calibration.measurements._record import FULL_LOADS, Load, Measurement, Pool, Skipped
from inference_econ.calibration.measurements._reports import read_report, read_run
from inference_econ.calibration.measurements._rows import Row, UnusableRowError
from inference_econ.calibration.measurements._run import BenchmarkRun, MeasuredServer
from inference_econ.calibration.measurements._scrape import Scrape, scrape, window

__all__ = [
    "FULL_LOADS",
    "SHIPPED",
    "BenchmarkRun",
    "Days",
    "Load",
    "MeasuredServer",
    "Measurement",
    "Pool",
    "Row",
    "Scrape",
    "Skipped",
    "UnusableRowError",
    "cells",
    "chip_count",
    "distinct",
    "engine_name",
    "format_name",
    "hardware_name",
    "is_number",
    "model_name",
    "read",
    "read_report",
    "read_run",
    "scrape",
    "served",
    "shipped",
    "window",
]  # fmt: skip
