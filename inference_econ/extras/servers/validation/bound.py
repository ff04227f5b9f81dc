"""Measurements that are faster than physics allows: the facts, the row, or what was recorded of it must be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_econ.extras.servers.measurements import FULL_LOADS, Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.validation import TABLE
from inference_econ.extras.servers.validation.rows import QUANTITIES, InputRow, Quantity
from inference_econ.inputs import catalog

#: Rates of random arrivals differ by that much from the offered ones in a run of some hundred requests [1].
_SLACK = 0.03
_PRESET = "ideal"
#: Where requests wait for each other as they come.
_LOADS = ("concurrency", "rate")


@dataclass(frozen=True, slots=True)
class Explained:
    """Rows that were looked into, and what is wrong with them.

    Attributes
    ----------
    source, engine, model, hardware : str
        Beginnings of what rows say; empty for any.
    why : str
        For people.
    """

    why: str
    source: str = ""
    engine: str = ""
    model: str = ""
    hardware: str = ""

    def applies(self, row: Measurement) -> bool:
        """Whether a row is one of them."""
        row_key = (row.source, row.engine, row.model, row.hardware)
        begins = (self.source, self.engine, self.model, self.hardware)
        return all(words.startswith(begin) for words, begin in zip(row_key, begins, strict=True))


#: In the order in which they are tried.
EXPLAINED = tuple(Explained(**entry) for entry in TABLE["explained"])


@dataclass(frozen=True, slots=True)
class Violation:
    """A measurement beyond the bound.

    Attributes
    ----------
    row : InputRow
        Which one.
    quantity : Quantity
        What of it.
    measured, bound : float
        In base units.
    factor : float
        How many times better than the bound [1].
    why : str
        The diagnosis.
    """

    row: InputRow
    quantity: Quantity
    measured: float
    bound: float
    factor: float
    why: str


def violations(rows: Sequence[InputRow]) -> list[Violation]:
    """Measurements that beat the preset ``ideal``, the farthest beyond it first.

    Parameters
    ----------
    rows : sequence of InputRow
        All of them; those with speculation are left out, since several tokens a step are no violation.

    Returns
    -------
    list of Violation
        TTFT under load counts only if it is less than that of a request by itself: how long prompts wait for each
        other depends on when they come, of which no more is known than their number.
    """
    ideal = catalog.assumptions(_PRESET)
    plain, measured = [], []
    for row in rows:
        if (at := row.measurement) is not None and not row.apart:
            # Another layout than a chosen one, or more workers, could be faster: of full servers the best counts.
            if row.assumed and (at.decode is not None or at.load not in FULL_LOADS):
                continue
            plain.append(row)
            measured.append(at)
    every = predict(measured, lambda _: ideal)
    # Requests by themselves: one prediction for all runs of a deployment that differ in their load only.
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
    return sorted(beyond, key=lambda violation: -violation.factor)


def _alone(row: Measurement) -> Measurement:
    """Row of one request at a time; batches stay, whose TTFT is that of all their prompts.

    What was measured is left out.
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
    """Why a row beats the bound, as far as somebody has looked into it, or what to look into."""
    for explained in EXPLAINED:
        if explained.applies(row):
            return explained.why
    doubts = ["a fact of the model or chip", "the row itself"]
    if row.speculation == "unrecorded":
        doubts.append("speculation, which is not recorded")
    if row.load in ("concurrency", "rate"):
        doubts.append("cached prompts, or fewer requests at a time than recorded")
    return f"not explained: look into {', '.join(doubts)}"
