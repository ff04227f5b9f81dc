"""Validation and commands use the same cost model: shipped deployments both ways, to the last digits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.answers.disaggregated.load import pools_under_load
from inference_econ.extras.servers import Measurement, measurements
from inference_econ.extras.servers.measurements import FULL_LOADS
from inference_econ.extras.servers.prediction import predict as deployed
from inference_econ.extras.servers.prediction.closed_loop import closed_loop, played
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.extras.servers.validation.servers import of_hardware
from inference_econ.inputs import Assumptions, catalog
from inference_econ.serving import Service, loaded
from inference_econ.serving.simulation import simulator

EXACTLY = 1e-12
#: Sampling intervals of shipped deployments: aggregated ones, and those with pools [1].
APART, POOLS_APART = 3, 5


@cache
def shipped() -> tuple[Measurement, ...]:
    """Return rows of shipped deployments, each as an endless run."""
    rows = [it for name in measurements.SHIPPED for it in measurements.read_measurements(catalog.server_files()[name])]
    endless: dict[object, list[Measurement]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement):
            run = replace(row, requests=None, spread=None, wait_steps=0.0, prefill_first=False, statistic="mean")
            endless[run.load, bare(run)].append(run)
    return tuple(run for deployment in list(endless.values())[::APART] for run in deployment)


def bare(row: Measurement) -> Measurement:
    """Return the deployment of a row, without load or measured values."""
    facts = deployed.facts_of(row)
    return replace(
        row, id="", days=None, ran="", engine_version=facts.version if facts else "",
        dataset="", source="", concurrency=None, requests_per_second=None,
        spread=None, ttft_seconds=None, tpot_seconds=None, request_seconds=None,
        output_tokens_per_second_per_accelerator=None, input_tokens_per_second_per_accelerator=None,
        total_tokens_per_second_per_accelerator=None, ttft_limit_seconds=None, tpot_limit_seconds=None,
        speculation=row.speculation if row.speculates else "none", spoilt="", warmed_up=False, quality="",
        tier="", remarks=(),
    )  # fmt: skip


#: Changes of assumptions for a server that is warm.
WARM: Mapping[str, float | bool | str | None] = {"host.warm_up": 0.0, "host.transfer_warm_up": 0.0}


def profile(row: Measurement) -> Assumptions:
    return of_hardware(row.hardware, row.engine)


@cache
def predictions(loads: tuple[str, ...], pools: bool) -> tuple[Prediction, ...]:
    """Return predictions of rows with these loads, for disaggregated deployments or aggregated ones with a known
    layout.
    """
    rows = [
        row
        for row in shipped()
        if row.load in loads and (row.decode is not None) == pools and (pools or row.tp is not None)
    ]
    if pools:
        some = list(dict.fromkeys(map(bare, rows)))[::POOLS_APART]
        rows = [row for row in rows if bare(row) in some]
    return tuple(prediction for prediction in predict(rows, profile) if not prediction.skipped)


def groups(*loads: str, pools: bool = False) -> Iterator[list[Prediction]]:
    """Return the predictions of the rows of each deployment."""
    together: dict[object, list[Prediction]] = defaultdict(list)
    for prediction in predictions(loads, pools):
        together[bare(prediction.measurement)].append(prediction)
    yield from together.values()


def service_of(group: list[Prediction]) -> tuple[Service, float]:
    rows = [prediction.measurement for prediction in group]
    return deployed.instance(rows, profile(rows[0]))


def same(prediction: Prediction, ttft: float, tpot: float, requests_per_second: float, service: Service) -> None:
    steps = service.requests.decode_steps
    output = requests_per_second * service.requests.osl.mean / service.accelerators
    assert prediction.output_tokens_per_second_per_accelerator == pytest.approx(output, rel=EXACTLY)
    assert prediction.tpot_seconds == (pytest.approx(tpot, rel=EXACTLY) if steps > 0 else None)
    if np.isfinite(ttft):
        assert prediction.ttft_seconds == pytest.approx(ttft, rel=EXACTLY)
        assert prediction.request_seconds == pytest.approx(ttft + steps * tpot, rel=EXACTLY)
    else:
        assert prediction.ttft_seconds is prediction.request_seconds is None


@pytest.mark.long
def test_a_closed_loop_is_the_steady_state_of_a_service() -> None:
    """Compare rows at a concurrency with ``Service.at``, which load, price and recommend use."""
    compared = 0
    for group in groups("concurrency"):
        service, replicas = service_of(group)
        for prediction in group:
            each = max((prediction.measurement.concurrency or 0.0) / replicas, 1.0)
            state = service.at(each)
            wait = max(each - service.most_in_flight, 0.0) / float(state.requests_per_second)
            ttft, tpot, rate = (float(v) for v in (state.ttft_seconds, state.tpot_seconds, state.requests_per_second))
            same(prediction, ttft + wait, tpot, rate, service)
            compared += 1
    assert compared > 300


@pytest.mark.long
@pytest.mark.parametrize("prefill_first", [False, True])
def test_runs_of_closed_loops_are_played_by_the_server_of_load(prefill_first: bool) -> None:
    """Compare with the server of ``load --simulate``, with the row's prompt lengths."""
    for group in list(groups("concurrency"))[::40]:
        service, replicas = service_of(group)
        row = group[0].measurement
        run = replace(
            row, spread=0.2, concurrency=4.0 * replicas, requests=20.0 * replicas, prefill_first=prefill_first
        )
        (prediction,) = predict([run], profile)
        service, _ = service_of([replace(group[0], measurement=run)])
        simulated = simulator.server(service, deployed.rounded_ends(service, 0.2), prefill_first=prefill_first)
        seen = deployed.closed_loop(service, simulated, 4, 20, 0.2)
        tpot = float(np.mean(seen.trace.tpot)) if service.requests.decode_steps > 0 else 0.0
        same(prediction, float(np.mean(seen.trace.ttft)), tpot, seen.requests_per_second, service)


@pytest.mark.long
def test_a_full_server_is_the_last_steady_state() -> None:
    compared = 0
    for group in groups(*FULL_LOADS):
        for prediction in group:
            row = prediction.measurement
            service, _ = service_of(group)
            ttft, tpot = row.ttft_limit_seconds or np.inf, row.tpot_limit_seconds or np.inf
            states = service.states
            kept = np.flatnonzero((states.ttft_seconds <= ttft) & (states.tpot_seconds <= tpot))
            most = float(states.concurrency[kept[-1]]) if kept.size else 1.0
            state = service.at(service.slots if row.load == "saturated" else most)
            ttft, tpot, rate = (float(v) for v in (state.ttft_seconds, state.tpot_seconds, state.requests_per_second))
            same(prediction, ttft, tpot, rate, service)
            compared += 1
    assert compared > 60


@pytest.mark.long
def test_random_arrivals_are_the_load_of_a_service() -> None:
    compared = 0
    for group in groups("rate"):
        service, replicas = service_of(group)
        for prediction in group:
            rate = (prediction.measurement.requests_per_second or 0.0) / replicas
            load = loaded(service, rate)
            tpot = load.tpot_seconds["mean"]
            if load.saturated:
                tpot = float(service.at(service.slots).tpot_seconds)
            same(prediction, load.ttft_seconds["mean"], tpot, load.completed_per_second, service)
            compared += 1
    assert compared > 20


def test_runs_of_random_arrivals_are_played_by_the_server_of_load() -> None:
    """Compare with the server of ``load --simulate``, built from the service and the row's prompts."""
    compared = 0
    for group in groups("rate"):
        service, replicas = service_of(group)
        row = group[0].measurement
        run = replace(row, requests=200.0 * replicas)
        (prediction,) = predict([run], profile)
        simulated = simulator.server(service, np.array([deployed.prompt_tokens(service)]))
        rate = (row.requests_per_second or 0.0) / replicas
        trace, seconds = deployed.simulated_load(service, simulated, rate, 200)
        tpot = float(np.mean(trace.tpot)) if service.requests.decode_steps > 0 else 0.0
        same(prediction, float(np.mean(trace.ttft)), tpot, 200 / seconds, service)
        compared += 1
    assert compared > 3


def test_pools_are_the_fleets_of_the_market() -> None:
    """Compare rows of two pools with fleets at the request rate of a loop with the same concurrency."""
    compared = 0
    for group in groups("concurrency", pools=True):
        rows = [prediction.measurement for prediction in group]
        pools = deployed.measured_pools(rows, profile(rows[0]))
        steps = pools.requests.decode_steps
        for prediction, row in zip(group, rows, strict=True):
            assert row.concurrency is not None and row.prefill is not None and row.decode is not None
            count = row.prefill.workers or 0, row.decode.workers or 0
            fleet = closed_loop(pools, (0, 0), count, row.concurrency)
            ttft, tpot = fleet.load.ttft_seconds["mean"], fleet.load.tpot_seconds["mean"]
            assert prediction.ttft_seconds == pytest.approx(ttft, rel=EXACTLY)
            assert prediction.tpot_seconds == pytest.approx(tpot, rel=EXACTLY)
            output = fleet.load.completed_per_second * pools.requests.osl.mean / sum(fleet.accelerators)
            assert prediction.output_tokens_per_second_per_accelerator == pytest.approx(output, rel=EXACTLY)
            # The equation is solved: as many others are found as there are.
            rate = fleet.load.requests_per_second
            assert rate * (ttft + steps * tpot) == pytest.approx(row.concurrency - 1.0, rel=1e-9, abs=1e-9)
            if row.concurrency > 1.0:
                answer = pools_under_load(pools, (0, 0), count, rate).load
                assert answer.ttft_seconds["mean"] == pytest.approx(ttft, rel=EXACTLY)
                assert answer.tpot_seconds["mean"] == pytest.approx(tpot, rel=EXACTLY)
            compared += 1
    assert compared > 50


def test_runs_of_pools_are_played_by_the_fleets_of_the_market() -> None:
    compared = 0
    for group in groups("concurrency", pools=True):
        row = replace(group[0].measurement, requests=3.0 * (group[0].measurement.concurrency or 1.0), spread=0.2)
        assert row.concurrency is not None and row.prefill is not None and row.decode is not None
        pools, count = deployed.measured_pools([row], profile(row)), (row.prefill.workers or 0, row.decode.workers or 0)
        steps = deployed.decode_steps(pools.requests, 0.2, round(row.requests or 0.0))
        run = played(pools, (0, 0), count, round(row.concurrency), steps)
        (prediction,) = predict([row], lambda row: profile(row).without_exceptions(WARM).changed(WARM))
        assert prediction.ttft_seconds == pytest.approx(float(np.mean(run.ttft)), rel=EXACTLY)
        assert prediction.tpot_seconds == pytest.approx(float(np.mean(run.tpot)), rel=EXACTLY)
        rate = (prediction.output_tokens_per_second_per_accelerator or 0.0) * (row.accelerators or 0)
        assert rate == pytest.approx(steps.size / run.seconds * pools.requests.osl.mean, rel=EXACTLY)
        compared += 1
    assert compared > 10
