"""Overheads of decode steps beyond arithmetic, memory and transfers: implied by measurements, and predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from inference_econ.engine import evaluate
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction import predict as deployed
from inference_econ.extras.servers.validation.servers import InputRow
from inference_econ.serving import Service

#: Largest concurrency per instance at which overhead dominates [1].
_FEW = 8.0
#: Layout and lengths of a measurement.
_layout = attrgetter(
    *(f"measurement.{name}" for name in ("engine", "model", "hardware", "weights", "accelerators")),
    *(f"measurement.{name}" for name in ("tp", "pp", "ep", "isl", "osl")),
)
#: Parts of a step that are overhead.
_PARTS = ("launches", "host", "all_reduce_latency", "all_to_all_latency")


@dataclass(frozen=True, slots=True)
class Overhead:
    """Overhead of the decode steps of one layout at its lowest measured concurrency.

    Attributes
    ----------
    row : Measurement
        Measurement.
    layers : int
        Layers of the model [1].
    implied, predicted : float
        Measured TPOT less all other predicted parts; and predicted launches, collective latencies and CPU time [s].
    """

    row: Measurement
    layers: int
    implied: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Implied over predicted overhead [1]."""
        return self.implied / self.predicted


def overheads(rows: Iterable[InputRow]) -> list[Overhead]:
    """Overheads of aggregated servers without attention-DP at low concurrency, by layout and lengths.

    Parameters
    ----------
    rows : iterable of InputRow
        Included rows.

    Returns
    -------
    list of Overhead
        Overheads in the order of the rows.
    """
    fewest: dict[tuple[object, ...], InputRow] = {}
    for row in filter(_usable, rows):
        key = _layout(row)
        if key not in fewest or _requests(row) < _requests(fewest[key]):
            fewest[key] = row
    return [overhead for row in fewest.values() for overhead in _overhead(row)]


def _usable(row: InputRow) -> bool:
    measurement, guess = row.measurement, row.prediction
    if measurement is None or guess is None or guess.tpot_seconds is None or measurement.tpot_seconds is None:
        return False
    return bool(
        measurement.engine
        and measurement.tp
        and measurement.decode is None
        and measurement.load == "concurrency"
        and (measurement.dp or 1) == 1
    )


def _requests(row: InputRow) -> float:
    assert row.measurement is not None and row.measurement.concurrency is not None
    return row.measurement.concurrency


def _overhead(row: InputRow) -> Iterator[Overhead]:
    """Overhead of a row, if the concurrency per instance is low enough."""
    measurement, guess = row.measurement, row.prediction
    assert measurement is not None and guess is not None and row.assumptions is not None
    assert measurement.tpot_seconds is not None and guess.tpot_seconds is not None
    service, instances = deployed.instance([measurement], row.assumptions)
    requests = max(_requests(row) / instances, 1.0)
    if requests <= _FEW:
        predicted = _predicted(service, requests)
        implied = predicted + measurement.tpot_seconds - guess.tpot_seconds
        yield Overhead(measurement, service.setup.model.layers, implied, predicted)


def _predicted(service: Service, requests: float) -> float:
    """Predicted overhead of a decode step at a concurrency [s]."""
    plans = replace(service.plans, batch=np.array([requests]))
    cut = service.setup.assumptions.layout.tensor_layouts[0]
    costs = evaluate(service.setup, plans, cut)
    return float(sum(np.ravel(costs.parts[part])[0] for part in _PARTS))
