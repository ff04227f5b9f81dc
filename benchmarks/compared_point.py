"""One measurement with its prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPoint:
    """Measurement with one prediction.

    Attributes
    ----------
    id : str
        Name of the row.
    series : str
        Series of a plot to which the row belongs.
    subject : str
        Measured system, such as model and chip.
    assumptions : str
        Assumptions of the prediction.
    unit : str
        Unit of both values.
    measured, predicted : float or None
        Values; None if missing. ``note`` then has the reason.
    fitted : bool
        True if constants of the prediction were fitted to this row.
    note : str
        Reason for a missing prediction, or for a difference.
    """

    id: str
    series: str
    subject: str
    assumptions: str
    unit: str
    measured: float | None = None
    predicted: float | None = None
    fitted: bool = False
    note: str = ""

    @property
    def log_error(self) -> float | None:
        """ln(predicted / measured); None if either value is missing [1]."""
        if self.measured is None or self.predicted is None:
            return None
        return math.log(self.predicted / self.measured)
