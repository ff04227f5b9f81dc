"""Comparison of a running server with the prediction at its load, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference_econ.answers.launching.plan import UNITS, Expected, OfferedLoad
from inference_econ.answers.load import load_sweep_record, sweep
from inference_econ.answers.slo import Targets
from inference_econ.errors import InputError
from inference_econ.extras.servers import BenchmarkRun, CheckedNumber, hold
from inference_econ.extras.servers.pages.run_vs_prediction import checked_record
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.report.deployment_reader import expected_under_load
from inference_econ.report.headings import speculation_label
from inference_econ.report.service import fleet_label
from inference_econ.serving import Service

#: Measures in a line, and widths of its columns [characters].
_SHOWN, _WIDTHS = ("ttft", "tpot", "throughput"), (14, 12, 23, 23, 10)


@dataclass(frozen=True, slots=True)
class Watched:
    """One window of a server.

    Attributes
    ----------
    at : str
        End time, or the file of the second reading.
    run : BenchmarkRun or None
        Means of the window; None if it is empty.
    held : sequence of CheckedNumber
        Measured numbers with predictions at their request rate; empty if the requests differ.
    reason : str
        Reason for a missing comparison; empty if there is none.
    remarks : sequence of str
        Differences between the window and the prediction.
    """

    at: str
    run: BenchmarkRun | None
    held: Sequence[CheckedNumber]
    reason: str = ""
    remarks: Sequence[str] = ()

    @property
    def outside(self) -> Sequence[str]:
        """Measured numbers outside their intervals, with the side."""
        sides = {True: "above", False: "below"}
        wrong = [held for held in self.held if held.inside is False]
        return [f"{held.expected.name} {sides[held.measured > held.expected.value]}" for held in wrong]

    @property
    def state(self) -> str:
        """``inside``, ``outside`` or ``not compared``."""
        return "not compared" if self.reason else "outside" if self.outside else "inside"

    @property
    def text(self) -> str:
        """Line of the table under :func:`heading`."""
        by_measure = {held.expected.measure: held for held in self.held if held.expected.statistic == "mean"}
        numbers = [_number(by_measure[name]) if name in by_measure else "" for name in _SHOWN]
        rate = "" if self.run is None else f"{self.run.requests_per_second:.4g}"
        broken = [f"SLO of {held.expected.name} VIOLATED" for held in self.held if held.kept is False]
        outside = f"OUTSIDE: {', '.join(self.outside)}" if self.outside else "inside"
        verdict = f"not compared: {self.reason}" if self.reason else "; ".join((outside, *broken, *self.remarks))
        return f"{_columns((self.at, rate, *numbers))}{verdict}"

    def record(self) -> dict[str, object]:
        """Window as plain data, in base units."""
        run = self.run
        server = dict.fromkeys(("model", "engine")) if run is None else attributes(run.told, "model engine")
        means = {} if run is None else attributes(run, "requests_per_second concurrency isl osl cached_share")
        load = ("request_rate", "in_flight", "isl", "osl", "cached_share")
        return {
            "at": self.at,
            **server,
            "state": self.state,
            "reason": self.reason or None,
            "remarks": list(self.remarks),
            **dict.fromkeys(load),
            **{name: value and finite_or_none(value) for name, value in zip(load, means.values(), strict=False)},
            "numbers": [checked_record(held) for held in self.held],
        }


def heading(service: Service) -> str:
    """Deployment that the server is compared with, and the column headings."""
    columns = _columns(("at", "requests/s", "TTFT mean ms", "TPOT mean ms", "tokens/s"))
    proposer = f", {speculation_label(service.speculation)}" if service.speculation else ""
    return f"Compared with {service.setup.model.name}, {fleet_label(service, 1)}{proposer}\n{columns}in 80 % interval"


def watched(at: str, service: Service, run: BenchmarkRun, targets: Targets, arrival_scv: float) -> Watched:
    """Compare a window with the prediction at its request rate.

    Parameters
    ----------
    at : str
        End of the window.
    service : Service
        Predicted instance.
    run : BenchmarkRun
        Means of the window, at a rate.
    targets : Targets
        SLOs.
    arrival_scv : float
        Squared coefficient of variation of interarrival times [1].

    Returns
    -------
    Watched
        Window with its comparison. It is not compared if the request lengths differ from the prediction. Above the
        predicted capacity, output throughput is compared with that of a full instance.
    """
    rate, osl = run.requests_per_second or 0.0, service.requests.osl.mean
    points = sweep(service, [rate], targets=targets, arrival_scv=arrival_scv)
    record: Any = load_sweep_record(points, targets)
    expected: Sequence[Expected] = expected_under_load(record["points"][0], record["targets"], osl, "mean")
    if points[0].load.saturated:
        full = (record[f"requests_per_second_when_full{end}"] for end in ("", "_low", "_high"))
        expected = (*expected[:-1], Expected("throughput", "mean", *(end and end * osl for end in full)))
    # End-to-end latency adds no information, unless it has an SLO.
    expected = [entry for entry in expected if entry.measure in _SHOWN or entry.promised is not None]
    # Prompts in a cache have a lower TTFT than a prediction without a cache.
    remarks = () if service.requests.cached or service.requests.shared_prefix else run.remarks
    try:
        held = hold(expected, OfferedLoad(rate), 1, service, run)
        reason = "" if any(entry.inside is not None for entry in held) else "these assumptions have no known interval"
        return Watched(at, run, held, reason, remarks)
    except InputError as error:
        # Omit the advice to run a benchmark, since users determine the requests here.
        return Watched(at, run, (), str(error).partition("; run the")[0])


def _columns(cells: Sequence[str]) -> str:
    return "".join(
        f"{cell:<{width}}" if len(cell) < width else f"{cell} " for cell, width in zip(cells, _WIDTHS, strict=True)
    )


def _number(held: CheckedNumber) -> str:
    """Measured number with its predicted interval."""
    expected, factor = held.expected, UNITS[held.expected.measure][2]
    if expected.low is None or expected.high is None:
        return f"{factor * held.measured:.4g}"
    return f"{factor * held.measured:.4g} ({factor * expected.low:.4g} to {factor * expected.high:.4g})"
