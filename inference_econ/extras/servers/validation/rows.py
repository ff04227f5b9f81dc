"""Rows of measured servers with their predictions, and the number of rows by state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from inference_econ.engine import Interval, UnlikeReason, interval, unlike_reasons
from inference_econ.extras.servers.accuracy import measured_subject
from inference_econ.extras.servers.measurements import Measurement, Skipped
from inference_econ.extras.servers.prediction.predict import Prediction
from inference_econ.inputs import Assumptions
from inference_econ.inputs import Quantity as Fitted

#: Reason for the exclusion of a repeated row.
REPEATED = "repeats a row: same subject, demand and results"
#: Prefixes of other reasons for exclusion.
SPECULATION, SPOILT = "speculation: ", "spoilt run: "


@dataclass(frozen=True, slots=True)
class Quantity:
    """Quantity that measurements and predictions have in common.

    Attributes
    ----------
    name, title : str
        Name in records, and title in tables.
    field : str
        Field of :class:`Measurement` and :class:`Prediction`.
    of : str
        Kind of load: all servers, ``idle`` or ``loaded`` ones, or static batches.
    """

    name: str
    title: str
    field: str
    of: Literal["servers", "idle", "loaded", "batches"] = "servers"


_OF_SERVERS = (
    Quantity("tpot", "TPOT", "tpot_seconds"),
    Quantity("ttft_without_load", "TTFT without load", "ttft_seconds", "idle"),
    Quantity("ttft_under_load", "TTFT under load", "ttft_seconds", "loaded"),
    Quantity("request_latency", "request latency", "request_seconds"),
    Quantity("output_rate", "output tokens/s per accelerator", "output_tokens_per_second_per_accelerator"),
    Quantity("input_rate", "input tokens/s per accelerator", "input_tokens_per_second_per_accelerator"),
    Quantity("total_rate", "total tokens/s per accelerator", "total_tokens_per_second_per_accelerator"),
)
_TTFT_OF_BATCHES = Quantity("ttft_of_batches", "TTFT of static batches", "ttft_seconds", "batches")
#: Quantities of servers, then those of static batches.
QUANTITIES = (
    *_OF_SERVERS,
    _TTFT_OF_BATCHES,
    *(
        Quantity(f"{kind.name}_of_batches", f"{kind.title}, static batches", kind.field, "batches")
        for kind in _OF_SERVERS
        if kind.field != _TTFT_OF_BATCHES.field
    ),
)

#: Target of a fit by field of a prediction. The rates of a run have fixed ratios, so they share a target.
_FITTED: dict[str, Fitted] = {
    "tpot_seconds": "tpot",
    "ttft_seconds": "ttft",
    "request_seconds": "request",
    "output_tokens_per_second_per_accelerator": "throughput",
    "input_tokens_per_second_per_accelerator": "throughput",
    "total_tokens_per_second_per_accelerator": "throughput",
}


@dataclass(frozen=True, slots=True)
class File:
    """Rows of one file.

    Attributes
    ----------
    unit : str
        Unit of latencies: ``ms`` or ``s``.
    published : tuple
        Published number and unit of each row; None if there is no single number.
    found : tuple of Measurement or Skipped
        Converted rows.
    """

    unit: Literal["ms", "s"]
    published: tuple[tuple[str, str] | None, ...]
    found: tuple[Measurement | Skipped, ...]


@dataclass(frozen=True)
class InputRow:
    """Row of a file with its prediction.

    Attributes
    ----------
    dataset : str
        Name of the file.
    number : int
        Row number, from 1.
    id : str
        Name or number of the row.
    measurement : Measurement or None
        Measurement; None if unusable.
    prediction : Prediction or None
        Prediction.
    skipped : str
        Reason for a missing prediction; empty if there is one.
    apart : str
        Reason why the row is excluded from error statistics; empty if it is included.
    assumptions : Assumptions or None
        Assumptions of the prediction; None without a measurement.
    fitted : bool or None
        True if the assumptions were fitted to the deployment; None if unknown.
    """

    dataset: str
    number: int
    id: str
    measurement: Measurement | None
    prediction: Prediction | None
    skipped: str
    apart: str
    assumptions: Assumptions | None = None
    fitted: bool | None = False

    @property
    def idle(self) -> bool:
        """True if latencies are those without load, according to the prediction or else the row."""
        if self.prediction is not None and not self.skipped:
            return self.prediction.idle
        return self.measurement is not None and (self.measurement.concurrency or 2.0) <= 1.0

    @property
    def assumed(self) -> str:
        """Assumptions about unrecorded settings; empty if all are recorded."""
        return "" if self.prediction is None else self.prediction.assumed

    @property
    def rounds(self) -> str:
        """Assumptions about unrecorded facts of speculation; empty if all are recorded."""
        return "" if self.prediction is None else self.prediction.rounds

    def measured(self, quantity: Quantity) -> float | None:
        """Measured value in base units; None if missing, or if it belongs to another kind of load."""
        if self.measurement is None or (self.measurement.load == "batch") != (quantity.of == "batches"):
            return None
        if quantity.of in ("idle", "loaded") and self.idle != (quantity.of == "idle"):
            return None
        value: float | None = getattr(self.measurement, quantity.field)
        return value

    def predicted(self, quantity: Quantity) -> float | None:
        """Predicted value in base units; None if missing."""
        value: float | None = None if self.prediction is None else getattr(self.prediction, quantity.field)
        return value

    def interval(self, field: str) -> Interval | None:
        """80% interval of a predicted field [base units]; None if unknown.

        The interval is unknown if the layout was assumed or the server speculates, because no fit covers such rows.
        """
        value: float | None = None if self.prediction is None else getattr(self.prediction, field)
        around = None if value is None else self._around[_FITTED[field]]
        return None if value is None or around is None else Interval(value * around.low, value * around.high)

    @cached_property
    def _around(self) -> Mapping[Fitted, Interval | None]:
        """Relative intervals around the prediction, by target of a fit."""
        if self.assumptions is None or self.measurement is None or self.assumed or self.measurement.speculates:
            return dict.fromkeys(_FITTED.values())
        subjects = [measured_subject(self.measurement, self.assumptions.levels)]
        return {name: interval(1.0, self.assumptions, name, subjects=subjects) for name in set(_FITTED.values())}

    @property
    def unlike(self) -> list[UnlikeReason]:
        """Reasons why the row is outside the calibration data, including assumptions and a memory shortage.

        See :func:`inference_econ.engine.uncertainty.unlike_reasons`.
        """
        if self.measurement is None or self.assumptions is None:
            return []
        found = unlike_reasons(measured_subject(self.measurement, self.assumptions.levels), self.assumptions)
        if self.prediction is not None and self.prediction.shortage:
            found = [UnlikeReason("more memory is needed than there is", self.prediction.shortage, "layout"), *found]
        if self.assumed:
            found = [UnlikeReason("layout is not recorded", f"assumed: {self.assumed}", "layout"), *found]
        return found

    @property
    def outside(self) -> list[str]:
        """Reasons why the row is outside the calibration data, as text with numbers."""
        return [reason.text for reason in self.unlike]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPoint:
    """Measurement with one prediction.

    Attributes
    ----------
    id : str
        Name of the row.
    series : str
        Kind of row.
    subject : str
        Measured system.
    assumptions : str
        Assumptions of the prediction.
    unit : str
        Unit of both values.
    measured, predicted : float or None
        Values; None if missing, with the reason in the note.
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
        """ln(predicted / measured); None without both [1]."""
        if self.measured is None or self.predicted is None:
            return None
        return math.log(self.predicted / self.measured)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of rows by state [1]."""

    read: int
    """Rows in the files."""
    mapped: int
    """Rows with a known model and chip."""
    repeats: int
    """Repeated rows among those with a known model and chip."""
    speculative: int
    """Further rows with recorded or suspected speculation, which are reported separately."""
    spoilt: int
    """Further rows that are much slower than another run of the same configuration."""
    plain: int
    """Remaining rows, which are included."""
    predicted: int
    """Included rows with a prediction."""
    assumed: int
    """Predicted rows whose layout was not recorded and is assumed."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Rows of files with their predictions under one set of assumptions.

    Attributes
    ----------
    assumptions : str
        Name of a preset, or ``by hardware`` if chosen per row.
    rows : tuple of InputRow
        Rows in file order.
    files : tuple of File
        The files.
    """

    assumptions: str
    rows: tuple[InputRow, ...]
    files: tuple[File, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def counted(self) -> list[InputRow]:
        """Included rows: measurements without repeats, speculation and invalid runs."""
        return [row for row in self.rows if row.measurement is not None and not row.apart]

    def split(self) -> dict[str, list[InputRow]]:
        """Included rows: all, and if some were fitted, fitted ones and others."""
        rows = self.counted()
        fitted = [row for row in rows if row.fitted]
        others = [row for row in rows if row.fitted is False]
        return {"all": rows, "fitted": fitted, "not fitted": others} if fitted else {"all": rows}

    def speculative(self) -> list[InputRow]:
        """Rows with recorded or suspected speculation."""
        return [row for row in self.rows if row.apart.startswith(SPECULATION)]

    def coverage(self, dataset: str | None = None) -> Coverage:
        """Number of rows by state, in one file or in all."""
        rows = [row for row in self.rows if dataset in (None, row.dataset)]
        mapped = [row for row in rows if row.measurement is not None]
        plain = [row for row in mapped if not row.apart]
        repeats = sum(row.apart == REPEATED for row in mapped)
        spoilt = sum(row.apart.startswith(SPOILT) for row in mapped)
        speculative = len(mapped) - len(plain) - repeats - spoilt
        predicted = sum(not row.skipped for row in plain)
        assumed = sum(bool(row.assumed) for row in plain)
        return Coverage(len(rows), len(mapped), repeats, speculative, spoilt, len(plain), predicted, assumed)

    def reasons(self) -> dict[str, list[InputRow]]:
        """Rows without a prediction by reason, most frequent first."""
        by_reason: dict[str, list[InputRow]] = {}
        for row in self.rows:
            if row.skipped:
                by_reason.setdefault(row.skipped, []).append(row)
        return dict(sorted(by_reason.items(), key=lambda item: -len(item[1])))
