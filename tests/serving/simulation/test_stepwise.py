"""The simulator compared with a second simulator, step by step, on the same arrivals and lengths; see stepwise.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from inference_econ._types import Array
from inference_econ.engine import fastest_cut, group_steps, request_seconds, saved_seconds
from inference_econ.serving import Service
from inference_econ.serving.simulation import arrivals, simulator
from inference_econ.serving.simulation.arrivals import Stream
from inference_econ.serving.simulation.trace import Trace
from tests.offered import offer_of, service_of
from tests.reading import tables
from tests.serving.simulation.stepwise import BLOCK, Request, Stepwise

#: Requests of a run, more with varying lengths or preemptions, and excluded shares at its start and end [1].
_COUNT, _MORE, _FIRST, _LAST = 600, 1600, 0.1, 0.05


@dataclass(frozen=True)
class Setting:
    """Describe a server and its load, as a share of the throughput of the analytical model."""

    model: str
    isl: str
    osl: str
    load: float
    cached: int = 0
    scv: float = 1.0
    budget: int = 8192
    slots: int | None = None
    blocks: float | None = None
    """Blocks of the cache, over those of the mean requests in all slots [1]."""


SETTINGS = {name: Setting(**told) for name, told in tables(Path(__file__))["SETTINGS"].items()}


def _service(setting: Setting) -> Service:
    changes = (f"serving.prefill_chunk={setting.budget}", "host.launch=0 us")
    service = service_of(setting.model, setting.isl, setting.osl, float(setting.cached), changes=changes)
    return service if setting.slots is None else replace(service, slots=setting.slots)


def _second(service: Service, setting: Setting, blocks: int) -> Stepwise:
    """Return the step time: decode at its context, prompts in proportion to tokens and token pairs, weights once."""
    sequences = np.arange(1.0, service.slots + 1.0)
    plans = service.plans.column(sequences[None])
    near, far = (
        fastest_cut(replace(service.setup, context=context), plans)[0].tolist() for context in (2000.0, 6000.0)
    )
    saved = saved_seconds(service.setup, plans, 500.0, 0.0, np.ones((1, sequences.size)))[0].tolist()
    sizes = np.unique(np.rint(np.geomspace(1.0, setting.budget, 40)))
    alone = np.array([_reading(service, float(tokens)) for tokens in sizes])
    some = min(1000.0, setting.budget)
    pairs = (_reading(service, some, 4000.0) - _reading(service, some)) / (2.0 * some * 4000.0)
    # Without attention: once for all tokens of a step.
    shared = np.interp(np.arange(setting.budget + 1.0), sizes, alone - pairs * sizes**2).tolist()
    cached = setting.cached

    def step(groups: Sequence[tuple[int, Sequence[tuple[int, int]]]], context: float) -> float:
        ((decoding, parts),) = groups
        total = reading = 0.0
        if decoding:
            low = near[decoding - 1]
            total = low + (far[decoding - 1] - low) / 4000.0 * (cached + context - 2000.0)
        if parts:
            reading = shared[sum(tokens for tokens, _ in parts)]
            reading += pairs * sum((cached + read + tokens) ** 2 - (cached + read) ** 2 for tokens, read in parts)
            if decoding:
                reading = max(reading - min(saved[decoding - 1], reading), 0.0)
        return total + reading

    return Stepwise(step, setting.budget, service.slots, blocks, cached)


def _second_in_groups(service: Service, held: int, *, in_turn: bool) -> Stepwise:
    """Return the engine's times of eight groups of equal prompts, for the fullest group and all, at their context."""
    setup, plans, requests = service.setup, service.plans, service.requests
    contexts, tokens = (requests.isl.mean, 2.0 * requests.isl.mean), requests.new_tokens

    @cache
    def decoded(total: int, most: int) -> tuple[float, float]:
        rows = replace(plans, batch=np.array([float(total)]), fullest=8.0 * most / total)
        near, far = (float(fastest_cut(replace(setup, context=context), rows)[0]) for context in contexts)
        return near, far

    @cache
    def read(total: int, most: int) -> float:
        prompts, fullest = (np.array([[number / tokens]]) for number in (total, most))
        return float(group_steps(setup, plans.column(prompts), tokens, 0.0, prompts, fullest)[0, 0])

    @cache
    def saved(decoding: int, total: int) -> float:
        rows = plans.column(np.array([[float(decoding)]]))
        return float(saved_seconds(setup, rows, tokens, 0.0, np.array([[total / tokens]]))[0, 0])

    def step(groups: Sequence[tuple[int, Sequence[tuple[int, int]]]], context: float) -> float:
        decoding, reading = [count for count, _ in groups], [sum(part for part, _ in parts) for _, parts in groups]
        seconds = 0.0
        if any(decoding):
            near, far = decoded(sum(decoding), max(decoding))
            seconds = near + (far - near) * (context - contexts[0]) / (contexts[1] - contexts[0])
        if any(reading):
            work = read(sum(reading), max(reading))
            seconds += max(work - saved(sum(decoding), sum(reading)), 0.0) if any(decoding) else work
        return seconds

    budget, most = int(setup.assumptions.serving.prefill_chunk), -(-service.slots // 8)
    return Stepwise(step, budget, most, 10**9, groups=8, held=held, in_turn=in_turn)


def _reading(service: Service, tokens: float, before: float = 0.0) -> float:
    """Return the chips' work for a part of a prompt [s]."""
    part = service.reading(tokens, before)
    return float(part.chip_share[0] * part.busy_seconds[0])


def _percentiles(values: Array) -> Array:
    return np.array([np.nanmean(values), *np.nanpercentile(values, [50, 90, 99])])


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_a_second_simulator_sees_the_same(name: str) -> None:
    setting = SETTINGS[name]
    service = _service(setting)
    count = _COUNT if setting.blocks is None and ":" not in setting.isl else _MORE
    rate = setting.load * service.most_requests_per_second
    isl, osl = (
        np.asarray(simulator.length_sampler(length)(count, np.random.default_rng(seed)))
        for seed, length in ((1, service.requests.isl), (2, service.requests.osl))
    )
    isl = np.maximum(isl - setting.cached, 1)
    gaps = arrivals.draw(
        count, rate, arrivals.fixed(1), arrivals.fixed(1), arrivals=arrivals.Gamma(setting.scv), seed=3
    ).arrival
    simulated = replace(simulator.server(service, isl), steps_ahead=0)
    assert simulated.cache is not None
    blocks = simulated.cache.blocks
    if setting.blocks is not None:
        blocks = round(setting.blocks * math.ceil(service.requests.mean_context / BLOCK) * service.slots)
        simulated = replace(simulated, cache=replace(simulated.cache, blocks=blocks))
    seen = simulator.play(service, simulated, Stream(gaps, isl, osl), warm_up=_FIRST, cool_down=_LAST)
    requests = [Request(*values) for values in zip(gaps.tolist(), isl.tolist(), osl.tolist(), strict=True)]
    _second(service, setting, blocks).serve(requests)
    apart = request_seconds(service.setup, float(setting.cached))
    counted = _check(seen, requests, apart, tail=0.2 if "lognormal" in setting.isl else 0.1)
    if setting.blocks is not None:
        preempted = sum(one.preempted for one in counted)
        assert preempted > 0
        assert seen.preemptions == pytest.approx(preempted, rel=0.1, abs=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "held", "load"), [("sglang", 30, 0.2), ("sglang", 30, 0.5), ("trtllm", 50, 0.5), ("vllm", 0, 0.2)]
)
def test_a_second_simulator_sees_the_same_of_groups(engine: str, held: int, load: float) -> None:
    """SGLang assigns prompts to groups in turn, others to the least busy one; vLLM never delays prefill."""
    pins = (("tp", 1), ("dp", 8), ("pp", 1), ("ep", 8))
    changes = ("host.launch=0 us", "host.steps_ahead=0")
    service = offer_of("deepseek_v3", "2000", "150", 0.0, pins, changes, hardware="h200_sxm", engine=engine).service(0)
    count, rate = 2 * _COUNT, load * service.most_requests_per_second
    gaps = arrivals.draw(count, rate, arrivals.fixed(1), arrivals.fixed(1), seed=3).arrival
    isl, osl = np.full(count, 2000), np.full(count, 150)
    simulated = simulator.server(service, isl)
    assert (simulated.held_steps, simulated.dealing == "round_robin") == (held, engine == "sglang")
    seen = simulator.play(service, simulated, Stream(gaps, isl, osl), warm_up=_FIRST, cool_down=_LAST)
    requests = [Request(*values) for values in zip(gaps.tolist(), isl.tolist(), osl.tolist(), strict=True)]
    _second_in_groups(service, held, in_turn=engine == "sglang").serve(requests)
    _check(seen, requests, request_seconds(service.setup, 0.0), tail=0.2)


def _check(seen: Trace, requests: list[Request], apart: float, tail: float) -> list[Request]:
    """Compare the simulator's means and percentiles with those of the second simulator; return the compared values."""
    counted = requests[math.floor(_FIRST * len(requests)) : len(requests) - math.floor(_LAST * len(requests))]
    limits = np.array([0.1, 0.1, 0.1, tail])
    for ours, theirs in (
        (seen.ttft, [one.ttft + apart for one in counted]),
        (seen.tpot, [one.tpot for one in counted]),
    ):
        assert (np.abs(np.log(_percentiles(ours) / _percentiles(np.array(theirs)))) < limits).all()
    return counted
