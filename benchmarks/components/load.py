"""Comparison of servers under Poisson arrivals with the analytical load model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Compared, NumberedRow, preset
from inference_econ.engine import Plans, Setup
from inference_econ.errors import InferenceEconError
from inference_econ.extras.servers.measurements import UnusableRowError, engine_name, hardware_name, model_name, served
from inference_econ.inputs import Assumptions, Length, Precision, Requests, catalog
from inference_econ.serving import Service, loaded, slots_of
from inference_econ.serving.services import services

#: Default maximum of concurrent requests on the measured GPUs: vLLM's max_num_seqs [1].
_MOST = {"vllm": 256}
#: Maximum median TTFT of a server whose requests do not queue for slots [s].
_QUEUE = 1.0


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Predictions of every row under each preset."""
    points: list[ComparedPoint] = []
    for name in names:
        assumed = preset(name)
        services: dict[tuple[str, ...], Service] = {}
        points += [point for line in lines for point in _points(line, name, assumed, services)]
    return points, (), ()


def _points(
    line: NumberedRow, name: str, assumed: Assumptions, services_by_key: dict[tuple[str, ...], Service]
) -> Iterator[ComparedPoint]:
    engine, _ = engine_name(line.text("engine"))
    subject = (
        f"{engine}, {line.text('model')} ({line.text('precision')}), {line.text('gpus')} x {line.text('hardware')}, "
        f"{line.text('rps')} requests/s"
    )
    key = tuple(line.text(column) for column in ("engine", "model", "precision", "hardware", "gpus", "isl", "osl"))
    blank = ComparedPoint(id=line.id, series="all", subject=subject, assumptions=name, unit="")
    try:
        service = services_by_key[key] = services_by_key.get(key) or _service(line, engine, assumed)
        kept_up = line.needed("ttft_p50_ms") <= 1e3 * _QUEUE
        pairs = list(_pairs(line, service, kept_up=kept_up))
    except (UnusableRowError, InferenceEconError) as error:
        yield replace(blank, note=str(error))
        return
    for quantity, unit, measured, predicted in pairs:
        series = f"{quantity}, {engine}, {'kept up' if kept_up else 'queue'}"
        yield replace(blank, series=series, unit=unit, measured=measured, predicted=predicted)


def _pairs(line: NumberedRow, service: Service, *, kept_up: bool) -> Iterator[tuple[str, str, float | None, float]]:
    """Compared quantities of a row: name, unit, measured and predicted value.

    ``kept_up`` is False if requests queued for slots.
    """
    load, tpot = loaded(service, line.needed("rps")), line.number("tpot_p50_ms")
    in_flight = line.needed("request_throughput") * line.needed("e2el_p50_ms") / 1e3
    rate = load.completed_per_second * service.requests.osl.mean
    yield "TPOT by rate", "ms", tpot, 1e3 * load.tpot_seconds["p50"]
    yield "TPOT by number in flight", "ms", tpot, 1e3 * float(service.at(in_flight).tpot_seconds)
    if not load.saturated and kept_up:
        yield "TTFT", "ms", line.number("ttft_p50_ms"), 1e3 * load.ttft_seconds["p50"]
    yield "tokens/s", "1/s", line.number("tps_output"), rate
    yield "$/M", "USD", line.number("c_eff_per_mtok"), line.needed("gpu_cost_hr") / (3600.0 * rate) * 1e6


def _service(line: NumberedRow, engine: str, assumed: Assumptions) -> Service:
    """Server of a row.

    Raises
    ------
    UnusableRowError
        If a name is unknown, or the model does not fit.
    """
    hardware = hardware_name(line.text("hardware"))
    base, weights = served(model_name(line.text("model")), hardware, line.text("precision"))
    model, chips = catalog.model(base), line.needed("gpus")
    requests = Requests(isl=Length.parse(line.needed("isl")), osl=Length.parse(line.needed("osl")))
    precision = Precision.of(model, weights, embeddings=assumed.capacity.embedding_format)
    setup = Setup(model, catalog.hardware(hardware), precision, requests.mean_context, assumed)
    ones = np.ones(1)
    plans = Plans(ones * chips, ones, ones, ones * chips, ones, whole=True)
    slots = np.minimum(slots_of(setup, plans), _MOST.get(engine, math.inf))
    if slots[0] < 1.0:
        raise UnusableRowError(f"{model.name} does not fit {chips:g} x {hardware}")
    return services(setup, requests, plans, slots).service(0)
