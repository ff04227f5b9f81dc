"""Simulated prompts: two conservation laws, over models, token budgets and lengths."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.serving import Service, loaded
from inference_econ.serving.simulation import simulator
from inference_econ.serving.simulation.arrivals import Loop, Stream
from inference_econ.serving.simulation.events import Server, StepTimes, simulate
from tests.offered import EIGHT_CHIPS, ONE_CHIP, service_of

DENSE = ("llama_3_8b", "qwen3_32b")


@cache
def _service(model: str, isl: int, osl: int, budget: int, pins: tuple[tuple[str, int], ...] = EIGHT_CHIPS) -> Service:
    changes = (f"serving.prefill_chunk={budget}",)
    return service_of(model, isl=str(isl), osl=str(osl), pins=pins, changes=changes)


def _ends(server: Server, isl: list[int]) -> float:
    """Return the end of the last prompt if all arrive at once [s]."""
    stream = Stream(np.zeros(len(isl)), np.array(isl), np.ones(len(isl), dtype=np.int64))
    trace = simulate(server, stream, warm_up=0.0, cool_down=0.0)
    return float((trace.arrival + trace.e2e).max())


@given(st.integers(1, 5000), st.lists(st.integers(1, 12_000), min_size=2, max_size=12))
def test_steps_cost_their_weights_once_and_prompts_what_they_take(chunk: int, isl: list[int]) -> None:
    """Weights take 2 s of each step, a token 0.1 s, and attention a thousandth of a second for each pair of tokens.

    Within one step of a prompt alone, attention is spread evenly.
    """

    def seconds(tokens: int, cached: int) -> float:
        return 2.0 + 0.1 * tokens + 1e-3 * ((cached + tokens) ** 2 - cached**2)

    times = StepTimes(lambda *_: 1.0, seconds, together=lambda most, _: 2.0 + 0.1 * most)
    server = Server(times, len(isl), policy="chunked", chunk=chunk)
    steps = math.ceil(sum(isl) / chunk)
    expected = 2.0 * steps + 0.1 * sum(isl) + 1e-3 * sum(length**2 for length in isl)
    assert _ends(server, isl) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(DENSE), st.integers(6000, 12_000), st.floats(0.4, 5.0))
def test_prompts_that_are_played_add_up_to_what_they_take(model: str, isl: int, budget: float) -> None:
    service = _service(model, isl, 100, round(budget * isl), ONE_CHIP)
    count = 12
    seconds = _ends(simulator.server(service, np.array([isl])), [isl] * count)
    # Steps are full, and those of a prompt alone are equal, so there are a few steps fewer.
    assert seconds / count == pytest.approx(service.full_prefill_seconds(isl), rel=0.05)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(DENSE), st.integers(2000, 6000), st.integers(100, 400), st.floats(1.0, 3.0))
def test_a_full_loop_completes_the_same_for_every_budget_that_holds_a_prompt(
    model: str, isl: int, osl: int, budget: float
) -> None:
    clients, rates = 32, []
    for tokens in (isl, round(budget * isl)):
        service = _service(model, isl, osl, tokens)
        random = np.random.default_rng(0)
        prompts, answers = (random.integers(round(0.8 * mean), mean, 15 * clients) for mean in (isl, osl))
        trace = simulator.play(service, simulator.server(service, prompts), Loop(clients, prompts, answers))
        closed = _service(model, round(float(prompts.mean())), round(float(answers.mean())), tokens).at(clients)
        rates.append(clients / float(trace.e2e.mean()))
        assert rates[-1] <= 1.03 * float(closed.requests_per_second)
    assert rates[0] == pytest.approx(rates[1], rel=0.03)


@pytest.mark.parametrize(
    ("model", "chip", "tp", "rate"), [("gpt_oss_120b", "b200", 2, 20.0), ("llama_3_70b", "h100_sxm", 8, 4.0)]
)
def test_rounds_of_speculation_are_played_as_closed_forms_have_them(
    model: str, chip: str, tp: int, rate: float
) -> None:
    # Prompts are launched during full rounds, not during the share of a token: simulated TPOTs were up to 1.6 times too
    # long.
    setup = ie.Setup.of(model, chip, engine="vllm")
    requests = ie.Requests.model_validate({"isl": 1000, "osl": 300})
    offered = ie.layouts(setup, requests, ie.Space(ie.Pins(tp=tp)), ie.Speculation.fixed("eagle", 3, 2.7))
    service = offered.service(0)
    closed, played = loaded(service, rate), simulator.rehearse(service, rate)
    assert float(np.mean(played.tpot)) == pytest.approx(closed.tpot_seconds["mean"], rel=0.03)
    assert float(np.mean(played.ttft)) == pytest.approx(closed.ttft_seconds["mean"], rel=0.06)
    assert played.in_flight == pytest.approx(closed.in_flight, rel=0.03)


def test_prompts_are_held_back_for_rounds_of_speculation() -> None:
    setup = ie.Setup.of("deepseek_v3", "h200_sxm", engine="sglang")
    requests = ie.Requests.model_validate({"isl": 1000, "osl": 300})
    offered = ie.layouts(setup, requests, ie.Space(ie.Pins(tp=1, dp=8)), ie.Speculation.fixed("mtp", 2, 2.3))
    closed, played = loaded(offered.service(0), 3.0), simulator.rehearse(offered.service(0), 3.0, count=1500)
    # Steps of one token in their place are less than half as many.
    assert float(np.mean(played.ttft)) == pytest.approx(closed.ttft_seconds["mean"], rel=0.2)


def test_a_budget_of_one_token_less_changes_nothing() -> None:
    """Two prompts of 4096 tokens fit 8192, and one and nearly all of another fit 8191."""
    latencies = []
    for budget in (8192, 8191):
        service = _service("qwen3_32b", 4096, 128, budget)
        isl, osl = np.full(320, 4096), np.full(320, 128)
        latencies.append(float(simulator.play(service, simulator.server(service, isl), Loop(32, isl, osl)).e2e.mean()))
    assert latencies[1] == pytest.approx(latencies[0], rel=0.02)
