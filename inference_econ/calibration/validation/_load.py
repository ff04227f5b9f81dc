"""Servers under Poisson arrivals beside the closed forms of their load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inference_econ.calibration.measurements import UnusableRowError, engine_name, hardware_name, model_name, served
from inference_econ.calibration.validation._files import Line, preset, read
from inference_econ.calibration.validation._report import ComparedPoint, Dataset, Report
from inference_econ.engine import Plans, Setup
from inference_econ.errors import InferenceEconError
from inference_econ.inputs import Assumptions, Length, Precision, Requests, catalog
from inference_econ.serving import Loaded, Service, loaded, slots_of
from inference_econ.serving.services import services

#: Requests that an engine runs at a time on such cards if nobody tells it otherwise: vLLM's max_num_seqs [1].
_MOST = {"vllm": 256}
#: Of those who are served at once, half have their first token within this; with more of a wait there is a queue [s].
_QUEUE = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """One row.

    Attributes
    ----------
    line : Line
        Where it stands.
    service : Service
        The server.
    load : Loaded
        Predicted at the offered rate.
    """

    line: Line
    service: Service
    load: Loaded

    def pairs(self) -> Iterator[tuple[str, str, float | None, float]]:
        """Compared quantities: name, unit, measured and predicted."""
        line, output = self.line, self.service.requests.osl.mean
        rate = self.load.completed_per_second * output
        tpot = line.number("tpot_p50_ms")
        yield "TPOT by rate", "ms", tpot, 1e3 * self.load.tpot_seconds["p50"]
        yield "TPOT by number in flight", "ms", tpot, 1e3 * self._tpot_in_flight()
        if not self.load.saturated and self.kept_up:
            yield "TTFT", "ms", line.number("ttft_p50_ms"), 1e3 * self.load.ttft_seconds["p50"]
        yield "tokens/s", "1/s", line.number("tps_output"), rate
        cost = line.needed("gpu_cost_hr") / (3600.0 * rate) * 1e6
        yield "$/M", "USD", line.number("c_eff_per_mtok"), cost

    @property
    def kept_up(self) -> bool:
        """Whether hardly anybody waited for a slot."""
        return self.line.needed("ttft_p50_ms") <= 1e3 * _QUEUE

    def _tpot_in_flight(self) -> float:
        in_flight = self.line.needed("request_throughput") * self.line.needed("e2el_p50_ms") / 1e3
        return float(self.service.at(in_flight).tpot_seconds)


def report(dataset: Dataset, path: Path, names: Sequence[str]) -> Report:
    """Every row of a file, predicted under each of some assumptions."""
    lines = read(path, dataset.columns)
    points: list[ComparedPoint] = []
    for name in names:
        assumed = preset(name)
        services: dict[tuple[str, ...], Service] = {}
        points += [point for line in lines for point in _points(line, name, assumed, services)]
    return dataset.report(path, points)


def _points(
    line: Line, name: str, assumed: Assumptions, services_by_key: dict[tuple[str, ...], Service]
) -> Iterator[ComparedPoint]:
    engine, _ = engine_name(line.text("engine"))
    subject = (
        f"{engine}, {line.text('model')} ({line.text('precision')}), {line.text('gpus')} x {line.text('hardware')}, "
        f"{line.text('rps')} requests/s"
    )
    key = tuple(line.text(column) for column in ("engine", "model", "precision", "hardware", "gpus", "isl", "osl"))
    try:
        service = services_by_key[key] = services_by_key.get(key) or _service(line, engine, assumed)
        run = Run(line, service, loaded(service, line.needed("rps")))
        pairs = list(run.pairs())
    except (UnusableRowError, InferenceEconError) as error:
        yield ComparedPoint(id=line.id, series="all", subject=subject, assumptions=name, unit="", note=str(error))
        return
    for quantity, unit, measured, predicted in pairs:
        yield ComparedPoint(
            id=line.id,
            series=f"{quantity}, {engine}, {'kept up' if run.kept_up else 'queue'}",
            subject=subject,
            assumptions=name,
            unit=unit,
            measured=measured,
            predicted=predicted,
        )


def _service(line: Line, engine: str, assumed: Assumptions) -> Service:
    """The server of a row.

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
