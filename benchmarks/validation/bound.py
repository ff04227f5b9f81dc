"""Measurements that exceed the physical bound, which indicates an error in the specs or the record."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from pathlib import Path

from inference_econ.extras.servers.measurements import FULL_LOADS, Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.validation.servers import QUANTITIES, InputRow, Quantity
from inference_econ.inputs import catalog

#: Deviation of random arrivals from the offered rate, in a run of several hundred requests [1].
_SLACK = 0.03
_PRESET = "ideal"
#: Kinds of load in which requests may queue on arrival.
_LOADS = ("concurrency", "rate")


@dataclass(frozen=True, slots=True)
class Explained:
    """Diagnosis of rows that are faster than the bound.

    Attributes
    ----------
    source, engine, model, hardware : str
        Prefixes of the fields of rows; empty matches any.
    why : str
        Diagnosis.
    """

    why: str
    source: str = ""
    engine: str = ""
    model: str = ""
    hardware: str = ""

    def applies(self, row: Measurement) -> bool:
        """Check whether a row matches."""
        row_key = (row.source, row.engine, row.model, row.hardware)
        begins = (self.source, self.engine, self.model, self.hardware)
        return all(words.startswith(begin) for words, begin in zip(row_key, begins, strict=True))


#: Known diagnoses, in matching order.
_TABLE = tomllib.loads(Path(__file__).with_name("explained.toml").read_text(encoding="utf-8"))
EXPLAINED = tuple(Explained(**entry) for entry in _TABLE["explained"])


@dataclass(frozen=True, slots=True)
class Violation:
    """Measurement that is faster than the physical bound.

    Attributes
    ----------
    row : InputRow
        The row.
    quantity : Quantity
        The quantity.
    measured, bound : float
        Values in base units.
    factor : float
        Ratio by which the measurement is better [1].
    why : str
        Diagnosis.
    """

    row: InputRow
    quantity: Quantity
    measured: float
    bound: float
    factor: float
    why: str


def violations(rows: Sequence[InputRow]) -> list[Violation]:
    """Find measurements that are faster than the preset ``ideal``, largest violations first.

    Parameters
    ----------
    rows : sequence of InputRow
        All rows. Rows with speculation are ignored.

    Returns
    -------
    list of Violation
        Measurements that are faster than the bound. A TTFT under load is compared with the TTFT of a single request,
        because the exact arrival times are unknown. A TPOT is compared with the TPOT at the concurrency, or at the
        number of requests that decode concurrently (:func:`_decodes_few`).
    """
    ideal = catalog.assumptions(_PRESET)
    plain, measured = [], []
    for row in rows:
        if (at := row.measurement) is not None and not row.apart:
            # Another layout or more workers could be faster. For full servers, the prediction already uses the best
            # layout.
            if row.assumed and (at.decode is not None or at.load not in FULL_LOADS):
                continue
            plain.append(row)
            measured.append(at)
    every = predict(measured, lambda _: ideal)
    # Runs of a deployment that differ only in load share one prediction, for a single request.
    timed = [row for row in measured if row.ttft_seconds is not None and row.load in _LOADS]
    single = list(dict.fromkeys(map(_alone, timed)))
    by_itself = dict(zip(single, predict(single, lambda _: ideal), strict=True))
    beyond = []
    for row, at, prediction in zip(plain, measured, every, strict=True):
        alone = by_itself.get(_alone(at), prediction)
        ideal_row = replace(row, prediction=prediction, skipped=prediction.skipped)
        for quantity in QUANTITIES:
            value = ideal_row.measured(quantity)
            bound = alone.ttft_seconds if quantity.field == "ttft_seconds" else ideal_row.predicted(quantity)
            if value is None or bound is None or not bound > 0:
                continue
            factor = value / bound if quantity.field.endswith("per_accelerator") else bound / value
            if factor > 1.0 + _SLACK:
                beyond.append(Violation(ideal_row, quantity, value, bound, factor, diagnosis(at)))
    return sorted(filterfalse(_decodes_few, beyond), key=lambda violation: -violation.factor)


def _decodes_few(violation: Violation) -> bool:
    """True if a TPOT is within the bound at the mean number of requests that decode concurrently.

    If memory holds few requests, the other requests of a closed loop wait for their first token. The number of requests
    that decode follows from the measured latencies by Little's law.
    """
    row, tpot = violation.row.measurement, violation.measured
    if row is None or violation.quantity.field != "tpot_seconds" or row.load != "concurrency":
        return False
    if row.concurrency is None or row.ttft_seconds is None or row.osl is None:
        return False
    decoding = row.concurrency * row.osl * tpot / (row.ttft_seconds + row.osl * tpot)
    few, ideal = replace(row, concurrency=float(math.ceil(decoding)), ttft_seconds=None), catalog.assumptions(_PRESET)
    (found,) = predict([few], lambda _: ideal)
    return found.tpot_seconds is not None and found.tpot_seconds <= (1.0 + _SLACK) * tpot


def _alone(row: Measurement) -> Measurement:
    """Row whose load is a single request. Batches are unchanged, because their TTFT covers all prompts.

    The measured values are removed.
    """
    if row.load not in _LOADS:
        return row
    return replace(
        row, id="", load="concurrency", concurrency=1.0, requests_per_second=None, requests=None, wait_steps=0.0,
        ttft_seconds=None, tpot_seconds=None, request_seconds=None, output_tokens_per_second_per_accelerator=None,
        input_tokens_per_second_per_accelerator=None, total_tokens_per_second_per_accelerator=None, remarks=(),
        engine_version="", speculation="none", quality="", tier="",
    )  # fmt: skip


def diagnosis(row: Measurement) -> str:
    """Known reason why a row is faster than the bound, or possible reasons."""
    for explained in EXPLAINED:
        if explained.applies(row):
            return explained.why
    doubts = ["a fact of the model or chip", "the row itself"]
    if row.speculation == "unrecorded":
        doubts.append("speculation, which is not recorded")
    if row.load in ("concurrency", "rate"):
        doubts.append("cached prompts, or a lower concurrency than recorded")
    return f"not explained: look into {', '.join(doubts)}"
