"""Rows of measured servers beside their predictions: what they say, and how many take part."""

from __future__ import annotations

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

#: Why a row counts apart that says what another says.
REPEATED = "repeats a row: same subject, demand and results"
#: How other such reasons begin.
SPECULATION, SPOILT = "speculation: ", "spoilt run: "


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that is measured and predicted.

    Attributes
    ----------
    name, title : str
        For programs and for people.
    field : str
        Of :class:`Measurement` and :class:`Prediction`.
    of : str
        Of servers, whatever their load; of those that have hardly anything else to do, or of others; or of batches that
        were given at once, which no server had to schedule.
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
#: Those of servers, then those of static batches.
QUANTITIES = (
    *_OF_SERVERS,
    _TTFT_OF_BATCHES,
    *(
        Quantity(f"{kind.name}_of_batches", f"{kind.title}, static batches", kind.field, "batches")
        for kind in _OF_SERVERS
        if kind.field != _TTFT_OF_BATCHES.field
    ),
)

#: What the errors of a fit are about, by the field of a prediction. Rates of a run are in fixed proportion.
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
        Of its latencies: ``ms`` or ``s``.
    published : tuple
        For each row the number that it is and its unit, as published; None if it is no single number.
    found : tuple of Measurement or Skipped
        What the rows say.
    """

    unit: Literal["ms", "s"]
    published: tuple[tuple[str, str] | None, ...]
    found: tuple[Measurement | Skipped, ...]


@dataclass(frozen=True)
class InputRow:
    """One row of the input, in its order.

    Attributes
    ----------
    dataset : str
        Name of the file.
    number : int
        From 1.
    id : str
        Of the row, or its number.
    measurement : Measurement or None
        What it says; None if it is no usable measurement.
    prediction : Prediction or None
        Beside it.
    skipped : str
        Why there is no prediction; empty if there is one.
    apart : str
        Why it does not count with the others although it is predicted; empty if it does.
    assumptions : Assumptions or None
        That it is predicted under; None without a measurement.
    fitted : bool or None
        Whether these were fitted to its deployment; None if nobody knows.
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
        """Whether latencies are those without load; without a prediction, as far as the row itself says."""
        if self.prediction is not None and not self.skipped:
            return self.prediction.idle
        return self.measurement is not None and (self.measurement.concurrency or 2.0) <= 1.0

    @property
    def assumed(self) -> str:
        """Settings that the row does not say and that were chosen to predict it; empty if nothing was."""
        return "" if self.prediction is None else self.prediction.assumed

    @property
    def rounds(self) -> str:
        """Parts of a server's rounds that are not recorded, and what was taken for them; empty if nothing."""
        return "" if self.prediction is None else self.prediction.rounds

    def measured(self, quantity: Quantity) -> float | None:
        """Value in base units; None if there is none, or it belongs to another kind of load."""
        if self.measurement is None or (self.measurement.load == "batch") != (quantity.of == "batches"):
            return None
        if quantity.of in ("idle", "loaded") and self.idle != (quantity.of == "idle"):
            return None
        value: float | None = getattr(self.measurement, quantity.field)
        return value

    def predicted(self, quantity: Quantity) -> float | None:
        """Value in base units; None if there is none."""
        value: float | None = None if self.prediction is None else getattr(self.prediction, quantity.field)
        return value

    def interval(self, field: str) -> Interval | None:
        """Where 80 % of such measurements are, by a field of the prediction [base units]; None if nobody knows.

        Nobody does where the layout had to be assumed, or the server speculates: no fit has seen such rows.
        """
        value: float | None = None if self.prediction is None else getattr(self.prediction, field)
        around = None if value is None else self._around[_FITTED[field]]
        return None if value is None or around is None else Interval(value * around.low, value * around.high)

    @cached_property
    def _around(self) -> Mapping[Fitted, Interval | None]:
        """The intervals around 1, by what the errors of a fit are about."""
        if self.assumptions is None or self.measurement is None or self.assumed or self.measurement.speculates:
            return dict.fromkeys(_FITTED.values())
        subjects = [measured_subject(self.measurement, self.assumptions.levels)]
        return {name: interval(1.0, self.assumptions, name, subjects=subjects) for name in set(_FITTED.values())}

    @property
    def unlike(self) -> list[UnlikeReason]:
        """Reasons why it is unlike what was fitted: what was assumed, and what memory lacks.

        See :func:`inference_econ.engine.uncertainty.unlike_reasons` for the last.
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
        """The reasons for people, with the numbers."""
        return [reason.text for reason in self.unlike]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Numbers of rows that take part [1]."""

    read: int
    """Rows of the input."""
    mapped: int
    """Understood, with a model and a chip of the catalogue."""
    repeats: int
    """Repeats among these."""
    speculative: int
    """Of the others, with speculation, recorded or suspected: they count apart."""
    spoilt: int
    """Of the others, that are slower by far than another run of the same configuration."""
    plain: int
    """The rest: what counts."""
    predicted: int
    """Of these."""
    assumed: int
    """Of the predicted ones, with a layout that was chosen, as it is not recorded."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Every row of some files beside its prediction under one set of assumptions.

    Attributes
    ----------
    assumptions : str
        Name of a preset, or ``by hardware``: chosen row by row.
    rows : tuple of Row
        In the order of the files.
    files : tuple of File
        Where they are from.
    """

    assumptions: str
    rows: tuple[InputRow, ...]
    files: tuple[File, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def counted(self) -> list[InputRow]:
        """Rows that count: measurements that are neither repeats nor speculative nor spoilt."""
        return [row for row in self.rows if row.measurement is not None and not row.apart]

    def split(self) -> dict[str, list[InputRow]]:
        """Rows that count: all, and where some were fitted, those that were and were not."""
        rows = self.counted()
        fitted = [row for row in rows if row.fitted]
        others = [row for row in rows if row.fitted is False]
        return {"all": rows, "fitted": fitted, "not fitted": others} if fitted else {"all": rows}

    def speculative(self) -> list[InputRow]:
        """Rows with speculation, recorded or suspected: those with a known draft length are predicted so."""
        return [row for row in self.rows if row.apart.startswith(SPECULATION)]

    def coverage(self, dataset: str | None = None) -> Coverage:
        """Numbers of rows that take part, of one file or of all."""
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
        """Why rows have no prediction, the most frequent reason first."""
        by_reason: dict[str, list[InputRow]] = {}
        for row in self.rows:
            if row.skipped:
                by_reason.setdefault(row.skipped, []).append(row)
        return dict(sorted(by_reason.items(), key=lambda item: -len(item[1])))
