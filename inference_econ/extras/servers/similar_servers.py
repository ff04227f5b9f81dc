"""Measured servers that are like what a question is about: to be drawn beside its answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from inference_econ.engine import Setup
from inference_econ.extras.servers.accuracy import chosen, specs
from inference_econ.extras.servers.measurements import Measurement, shipped
from inference_econ.inputs import Precision
from inference_econ.report.speed_cost import SimilarServer

#: Shipped files with times per output token of servers.
_WITH_TPOT = ("serving_points", "inferencemax_aggregated", "poisson_load_a100", "decode_points")
#: Lengths of requests are alike if neither is more than so many times the other [1].
ALIKE = 1.25


def servers_like(setup: Setup, isl: float, osl: float) -> list[SimilarServer]:
    """Measured servers of the same model on the same chip with weights of the same format, and like requests.

    Parameters
    ----------
    setup : Setup
        What is served, on what; a what-if that changes a model or chip is like nothing that was measured.
    isl, osl : float
        Mean lengths of requests, each to be met within a factor of :data:`ALIKE` [tokens].

    Returns
    -------
    list of MeasuredServer
        Of aggregated servers without speculation, one for each row that says what both speeds were.
    """
    return [
        server
        for row in _rows()
        if _near(row.isl, isl) and _near(row.osl, osl) and _same(row, setup) and (server := _server(row)) is not None
    ]


@cache
def _rows() -> Sequence[Measurement]:
    """Rows of aggregated servers that could be drawn; read once, as that takes most of a second."""
    rows, _ = chosen(shipped(_WITH_TPOT))
    return [row for row in rows if row.tpot_seconds and row.decode is None]


def _near(measured: float | None, wanted: float) -> bool:
    return measured is not None and wanted <= ALIKE * measured and measured <= ALIKE * wanted


def _same(row: Measurement, setup: Setup) -> bool:
    """Whether model, chip and formats of the weights are those of a setup."""
    model, hardware = specs(row.model, row.hardware)
    if setup.model.name != model.name or (setup.model, setup.hardware) != (model, hardware):
        return False
    return _formats(Precision.of(model, row.weights)) == _formats(setup.precision)


def _formats(precision: Precision) -> list[str]:
    """Formats of the weights and of the experts, where both kinds of 16 bits are as fast."""
    return [dtype.replace("fp16", "bf16") for dtype in (precision.weights, precision.experts)]


def _server(row: Measurement) -> SimilarServer | None:
    speed = row.output_tokens_per_second_per_accelerator or row.closed_loop_rate
    if speed is None or not row.tpot_seconds:
        return None
    return SimilarServer(row.engine, row.dataset, 1.0 / row.tpot_seconds, speed)
