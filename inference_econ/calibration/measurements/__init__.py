"""Measured performance of real servers, from many kinds of files, in one form."""

from __future__ import annotations

from inference_econ.calibration.measurements._collections import distinct
from inference_econ.calibration.measurements._files import SHIPPED, cells, read, shipped
from inference_econ.calibration.measurements._record import FULL_LOADS, Load, Measurement, Pool, Skipped
from inference_econ.calibration.measurements._reports import Deployment, read_report

__all__ = [
    "FULL_LOADS", "SHIPPED", "Deployment", "Load", "Measurement", "Pool", "Skipped", "cells", "distinct", "read",
    "read_report", "shipped",
]  # fmt: skip
