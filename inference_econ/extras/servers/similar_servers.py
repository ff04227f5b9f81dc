"""Measured servers similar to a query, for charts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from inference_econ.engine import Setup
from inference_econ.extras.servers.accuracy import chosen, specs
from inference_econ.extras.servers.measurements import Measurement, shipped
from inference_econ.inputs import Precision
from inference_econ.report.speed_cost import SimilarServer

#: Shipped files with TPOT of servers.
_WITH_TPOT = (
    *("serving_points", "inferencemax_aggregated", "poisson_load_a100", "poisson_load_h100", "decode_points"),
)
#: Largest ratio of similar request lengths [1].
ALIKE = 1.25


def servers_like(setup: Setup, isl: float, osl: float) -> list[SimilarServer]:
    """Measured servers with the same model, chip and weight format, and similar lengths.

    Parameters
    ----------
    setup : Setup
        Model and chip; modified specs match no measurement.
    isl, osl : float
        Mean request lengths [tokens]. Servers match within a factor of :data:`ALIKE`.

    Returns
    -------
    list of SimilarServer
        Aggregated servers without speculation: one per row that has both speeds.
    """
    model, formats, servers = setup.model, _formats(setup.precision), []
    for row in _rows():
        lengths = ((row.isl, isl), (row.osl, osl))
        if any(has is None or max(has, wanted) > ALIKE * min(has, wanted) for has, wanted in lengths):
            continue
        speed = row.output_tokens_per_second_per_accelerator or row.closed_loop_rate
        measured = specs(row.model, row.hardware)
        same = model.name == measured[0].name and (model, setup.hardware) == measured
        if same and _formats(Precision.of(model, row.weights)) == formats and speed is not None and row.tpot_seconds:
            servers.append(SimilarServer(row.engine, row.dataset, 1.0 / row.tpot_seconds, speed))
    return servers


@cache
def _rows() -> Sequence[Measurement]:
    """Rows of aggregated servers, cached because reading takes most of a second."""
    rows, _ = chosen(shipped(_WITH_TPOT))
    return [row for row in rows if row.tpot_seconds and row.decode is None]


def _formats(precision: Precision) -> list[str]:
    """Weight and expert formats. The two 16-bit formats are treated as equal, because they are equally fast."""
    return [dtype.replace("fp16", "bf16") for dtype in (precision.weights, precision.experts)]
