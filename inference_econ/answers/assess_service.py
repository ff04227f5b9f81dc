"""A measured service held against services: continuous batching, with the prefill of others."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inference_econ._types import Progress
from inference_econ.answers.assessment import Assessment
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.gaps import Gap, Shortage, SteadyService, gap, step_parts, useful_seconds
from inference_econ.answers.offer import offer
from inference_econ.answers.operating_point import ROUNDING, Observation, OperatingPoint
from inference_econ.answers.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.engine import Pins, Setup, Space, asked_subject, evaluate
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.inputs import Requests, catalog
from inference_econ.serving import Service, Services

#: Times that the requests in flight and their TTFT are found from each other; each brings them nearer.
_ROUNDS = 12


class _Flight(NamedTuple):
    """The measured instance: its requests in flight, what it completes, and the layout that stands for it."""

    concurrency: float
    """Requests in flight [1]."""
    requests_per_second: float
    """Completed [1/s]."""
    predicted: SteadyService
    """With as many of them in flight as fit."""
    slots: int
    """Requests that fit in its layout [1]."""


def assess_service(
    setup: Setup, requests: Requests, observed: Observation, pins: Pins, *, progress: Progress | None = None
) -> Assessment:
    """Hold a measured service against services; see :func:`inference_econ.answers.assess.assess`.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how.
    requests : Requests
        Lengths.
    observed : Observation
        Speed, chips, and utilisation, requests in flight or throughput.
    pins : Pins
        Chips and degrees of an instance.
    progress : callable, optional
        Told the share of the work done.

    Raises
    ------
    InputError
        If answers have one token, nobody knows the price, or less than one request would be in flight.
    NothingFitsError
        If the model does not fit on so many chips, or in the layout.
    """
    if not requests.decode_steps > 0:
        raise InputError(f"osl must be more than 1 token for a speed, got {requests.osl.mean:g}")
    measured_layout = offer(setup, requests, Space(pins))
    served, chips = measured_layout.setup, observed.instance_accelerators
    flight = _flight(measured_layout, observed)
    measured = _operating_point(served, requests, observed, flight)
    subject = asked_subject(served, requests.isl.mean, requests.osl.mean, float(chips), flight.concurrency)

    def against(share: float, setting: Setup, space: Space) -> Gap:
        if progress is not None:
            progress(share, "frontiers")
        layouts = offer(setting, requests, space)
        front = service_frontier([Candidate(_with_measured(layouts, flight.concurrency))])
        curve = front.tokens_per_second, front.dollars
        return gap(measured, layouts.setup, front, curve, lambda index: _point_of(front, index), subject)

    alike = Space(Pins(accelerators=chips))
    bound = replace(setup, assumptions=catalog.assumptions("ideal"), engines=())
    same_size, anywhere = against(0.0, setup, alike), against(0.2, setup, Space())
    ideal = against(0.8, bound, alike)
    best = _fastest(offer(bound, requests, alike), flight.concurrency)
    parts = step_parts(flight.predicted.parts, best[0].parts, measured.seconds - flight.predicted.tpot_seconds)
    if progress is not None:
        progress(1.0, "done")
    shortage = _shortage(served, flight)
    return Assessment(
        served, requests, measured, anywhere, same_size, ideal, flight.predicted, len(measured_layout), parts, shortage
    )


def _with_measured(layouts: Services, concurrency: float) -> Services:
    """The measured requests in flight need not be among those that are tried, and must not look better for it."""
    return replace(layouts, steady=lambda: layouts.states.joined(layouts.states.of_each_at(concurrency)))


def _point_of(front: ServiceFrontier, index: int) -> SteadyService:
    # Between decode steps and prompts there is nothing else in the time per token.
    state = front.candidate(index)
    tpot, batch = float(front.tpot_seconds[index]), float(front.batch[index])
    plans = front.plan(index)
    step = evaluate(state.setup, plans, state.setup.assumptions.layout.tensor_layouts[0])
    return SteadyService(
        state.setup,
        state.requests,
        replace(plans, batch=np.array([batch])),
        float(front.concurrency[index]),
        float(front.ttft_seconds[index]),
        tpot,
        min(float(step.seconds[0]), tpot),
        float(front.requests_per_second[index]),
    )


def _point(service: Service, concurrency: float) -> SteadyService:
    """A service with so many requests in flight, or as many as fit."""
    state = service.at(concurrency)
    return SteadyService(
        service.setup,
        service.requests,
        replace(service.plans, batch=np.array([float(state.batch)])),
        min(concurrency, service.most_in_flight),
        float(state.ttft_seconds),
        float(state.tpot_seconds),
        float(state.decode_seconds),
        float(state.requests_per_second),
    )


def _fastest(layouts: Services, concurrency: float) -> tuple[SteadyService, int]:
    """The fastest layout with so many requests in flight, of those that hold the most of them; and its slots."""
    services = [layouts.service(index) for index in range(len(layouts))]
    most = min(concurrency, max(service.slots for service in services))
    holding = [service for service in services if service.slots >= most - ROUNDING]
    points = [(_point(service, concurrency), service.slots) for service in holding]
    return min(points, key=lambda point: point[0].tpot_seconds)


def _flight(layouts: Services, observed: Observation) -> _Flight:
    """Requests that one instance has in flight and completes, by the measured time per token and the predicted TTFT.

    Requests that find no room wait, and are not served at the same time.
    """
    requests, steps = layouts.requests, layouts.requests.decode_steps
    answering = steps / observed.tokens_per_second
    name, value = observed.fullness
    value /= 1.0 if name == "utilization" else observed.instances
    if name == "batch":
        _check(observed, value)
        point, slots = _fastest(layouts, value)
        return _Flight(value, min(value, slots) / (point.ttft_seconds + answering), point, slots)
    useful = useful_seconds(layouts.setup, requests) / observed.instance_accelerators
    rate = value / useful if name == "utilization" else value / requests.osl.mean
    concurrency = rate * answering
    for _ in range(_ROUNDS):
        point, slots = _fastest(layouts, max(concurrency, 1.0))
        concurrency = rate * (point.ttft_seconds + answering)
    _check(observed, concurrency)
    return _Flight(concurrency, rate, point, slots)


def _check(observed: Observation, concurrency: float) -> None:
    """Refuse less than one request in flight at an instance."""
    if concurrency >= 1.0 - ROUNDING:
        return
    name, value = observed.fullness
    raise InputError(
        f"{name}={value:g} at {observed.tokens_per_second:g} tokens/s per user means {concurrency:.2g} requests in "
        "flight at an instance, less than one; give what was measured under load"
    )


def _operating_point(setup: Setup, requests: Requests, observed: Observation, flight: _Flight) -> OperatingPoint:
    chips, instances = observed.accelerators, observed.instances
    rate = flight.requests_per_second * instances
    throughput = rate * requests.osl.mean
    dollars = money.dollars_per_million_tokens(chips, 1.0, throughput, setup.dollars_per_accelerator_hour)
    useful = rate * useful_seconds(setup, requests) / chips
    batch = flight.concurrency * instances
    return OperatingPoint(chips, observed.tokens_per_second, batch, throughput, useful, float(dollars), instances)


def _shortage(setup: Setup, flight: _Flight) -> Shortage | None:
    """Shortage where not all requests in flight have room."""
    if flight.concurrency <= flight.slots * (1.0 + ROUNDING):
        return None
    plans = replace(flight.predicted.plans, batch=np.array([flight.concurrency]))
    weights, cache, available = setup.memory(plans).of_one_plan()
    return Shortage(flight.concurrency, weights + cache, available, flight.slots)
