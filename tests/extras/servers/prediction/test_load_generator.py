"""Finite runs: the first round of a closed loop, synchronous rounds, and simulated random arrivals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from inference_econ.engine import Plans, Setup
from inference_econ.extras.servers.prediction import predict as load_generator
from inference_econ.inputs import Precision, Requests, catalog
from inference_econ.serving import Service, Trace
from inference_econ.serving.services import services
from inference_econ.serving.simulation import simulator


@cache
def _service(
    isl: int = 512, osl: int = 256, chunk: int = 8192, model: str = "qwen3_30b_a3b", changes: tuple[str, ...] = ()
) -> Service:
    """Return one H100 with room for 256 requests."""
    spec, chip = catalog.model(model), catalog.hardware("h100_sxm")
    assumed = catalog.assumptions(
        "deployable", changes=[f"serving.prefill_chunk={chunk}", "host.request_overhead=0 s", *changes]
    )
    requests = Requests.model_validate({"isl": isl, "osl": osl})
    setup = Setup(spec, chip, Precision.of(spec, "fp8", None, None), requests.mean_context, assumed)
    one = np.ones(1)
    return services(setup, requests, Plans(one, one, one, one, one, whole=True), np.array([256.0])).service(0)


def _played(service: Service, rate: float, count: int) -> tuple[Trace, float]:
    simulated = simulator.server(service, np.array([load_generator.prompt_tokens(service)]))
    return load_generator.simulated_load(service, simulated, rate, count)


def _looped(
    service: Service, clients: int, rounds: int, spread: float = 0.0, **changes: Any
) -> load_generator.GeneratorRun:
    simulated = simulator.server(service, load_generator.rounded_ends(service, spread), **changes)
    return load_generator.closed_loop(service, simulated, clients, rounds * clients, spread)


def test_one_client_sees_an_idle_server() -> None:
    service = _service()
    run = _looped(service, 1, 5)
    alone = service.prefill_seconds + service.requests.decode_steps * float(service.states.decode_seconds[0])
    assert run.trace.ttft == pytest.approx(service.prefill_seconds, rel=1e-6)
    assert run.trace.tpot == pytest.approx(service.states.decode_seconds[0], rel=0.01)
    assert run.requests_per_second == pytest.approx(1.0 / alone, rel=0.01)


def test_equal_requests_march_in_step_where_prompts_go_first() -> None:
    """64 prompts of 512 tokens are four steps of 8,192; then all requests decode together, in every round."""
    service = _service()
    run = _looped(service, 64, 5, prefill_first=True)
    step = 16.0 * float(service.shared_prefill_seconds(16.0))
    waits = np.repeat([1.0, 2.0, 3.0, 4.0], 16) * step
    assert np.sort(run.trace.ttft[:64]) == pytest.approx(waits, rel=0.01)
    assert np.sort(run.trace.ttft[64:128]) == pytest.approx(waits, rel=0.01)
    # The first prompts wait for the others.
    decode = service.requests.decode_steps * float(service.step_seconds(64.0))
    steps = np.sort(run.trace.tpot[64:128]) * service.requests.decode_steps
    assert steps == pytest.approx(decode + np.repeat([0.0, 1.0, 2.0, 3.0], 16) * step, rel=0.02)


def test_unequal_requests_spread_out() -> None:
    """Fewer prompts wait for each other, and each waits less."""
    equal, spread = (_looped(_service(), 64, 10, spread, prefill_first=True).trace.ttft for spread in (0.0, 0.2))
    assert np.mean(spread[:64]) == pytest.approx(np.mean(equal[:64]), rel=0.05)
    assert np.mean(spread[320:]) < 0.8 * np.mean(equal[320:])


def test_a_long_run_is_played_in_part() -> None:
    """The first and the last round are simulated, and those between represent all others."""
    service = _service(osl=64)
    short, long = (_looped(service, 64, rounds, 0.2) for rounds in (10, 40))
    assert short.weights == pytest.approx(1.0)
    assert long.weights.size < 40 * 64
    assert long.weights.sum() == pytest.approx(40 * 64)
    assert long.requests_per_second == pytest.approx(short.requests_per_second, rel=0.05)
    for values in ("ttft", "tpot"):
        later = [run.typical(getattr(run.trace, values), median=True) for run in (short, long)]
        assert later[1] == pytest.approx(later[0], rel=0.05)


def test_means_and_medians_are_weighted() -> None:
    trace = _looped(_service(osl=2), 1, 4).trace
    run = load_generator.GeneratorRun(trace, np.array([1.0, 1.0, 8.0, 0.0]), 1.0)
    assert run.typical(np.array([1.0, 2.0, 3.0, np.nan]), median=False) == pytest.approx(2.7)
    assert run.typical(np.array([1.0, 2.0, 3.0, np.nan]), median=True) == pytest.approx(3.0, abs=0.5)


def test_a_run_with_hardly_any_load() -> None:
    service = _service()
    trace, seconds = _played(service, 0.01, 20)
    assert np.median(trace.ttft) == pytest.approx(service.prefill_seconds)
    assert np.median(trace.tpot) == pytest.approx(service.states.decode_seconds[0], rel=1e-6)
    # The last request arrives at the end of the expected time, and its own latency follows.
    assert seconds == pytest.approx(20 / 0.01 + np.median(trace.e2e))


def test_a_run_of_hosts_that_launch_slowly_and_prepare_steps() -> None:
    """At low load, and with prompts that share launches, throughput is much higher than one by one."""
    hosts = ("host.launch=80 us", "host.captured_tokens=0")
    slow, waiting = (_service(isl=128, changes=(*hosts, f"host.steps_ahead={steps}")) for steps in (1, 0))
    assert slow.prefill_seconds > 3.0 * _service(isl=128).prefill_seconds
    trace, _ = _played(slow, 0.01, 20)
    assert np.median(trace.ttft) == pytest.approx(slow.prefill_seconds)
    _, seconds = _played(slow, 3.0 / slow.prefill_seconds, 2000)
    assert 2000 / seconds > 1.5 / slow.prefill_seconds
    # Requests that arrive during a step wait for one more step.
    rate = 0.3 / slow.prefill_seconds
    ahead, at_once = (_played(each, rate, 2000)[0].ttft.mean() for each in (slow, waiting))
    assert ahead > at_once + 0.5 * float(slow.states.decode_seconds[0])


def test_a_run_beyond_capacity_ends_all_the_same() -> None:
    service = _service()
    rate = 20.0 * service.most_requests_per_second
    trace, seconds = _played(service, rate, 500)
    assert np.isfinite(trace.ttft).all()
    # Longer queues at the end, and no more completed than the server can.
    assert np.median(trace.ttft[-50:]) > 10 * service.prefill_seconds
    prompt = float(service.shared_prefill_seconds(16.0))
    least = service.requests.decode_steps * float(service.states.decode_seconds[-1]) / service.slots + prompt
    assert 500 / seconds < 1.05 / least
    # A repeated run is equal.
    assert np.array_equal(_played(service, rate, 500)[0].ttft, trace.ttft)


def test_answers_of_a_run_are_uniform_about_the_mean() -> None:
    requests = Requests.build({"isl": 100, "osl": 201}, origin="test")
    steps = load_generator.decode_steps(requests, 0.2, 5000)
    assert (steps.min(), steps.max()) == pytest.approx((180.0, 220.0), abs=0.1)
    assert steps.mean() == pytest.approx(200.0, rel=2e-3)
    assert np.all(load_generator.decode_steps(requests, 0.0, 7) == 200.0)
