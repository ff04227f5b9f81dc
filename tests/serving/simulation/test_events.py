"""The simulated server: against queueing formulas, step by step with a known result, and bad input.

Results agree if they are inside the 95% confidence interval of the simulation, widened by the stated share. The random
numbers are fixed, so results are reproducible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inference_econ.errors import InputError
from inference_econ.formulas.queueing import load, wait_quantiles
from inference_econ.serving import Server, SimulatedEstimate
from inference_econ.serving.simulation.arrivals import Gamma, LengthLaw, Loop, Recorded, Stream, draw, fixed
from inference_econ.serving.simulation.events import Evicted, KvCacheMemory, Policy, StepTimes, simulate
from inference_econ.serving.simulation.trace import StepTable, estimate


def exponential(mean: float) -> LengthLaw:
    return lambda count, random: np.maximum(np.rint(random.exponential(mean, count)), 1).astype(np.int64)


def uniform(low: int, high: int) -> LengthLaw:
    return lambda count, random: random.integers(low, high, count, endpoint=True)


def lognormal(mean: float, scv: float) -> LengthLaw:
    sigma = math.sqrt(math.log1p(scv))
    return lambda count, random: np.maximum(
        np.rint(random.lognormal(math.log(mean) - sigma**2 / 2.0, sigma, count)), 1
    ).astype(np.int64)


def always(seconds: float) -> Callable[..., float]:
    return lambda *_: seconds


def per_token(seconds: float) -> Callable[[int, int], float]:
    return lambda tokens, _: tokens * seconds


def prefill_only(slots: int = 1) -> Server:
    """Return a server of one request at once whose work is its prompt: 1,000 tokens per second."""
    return Server(StepTimes(always(1.0), per_token(1e-3)), slots)


def decode_only(seconds: float, slots: int, growth: float = 0.0) -> Server:
    """Return steps of ``seconds``, and ``growth`` more for each further request; no prefill."""
    return Server(StepTimes(lambda batch, _: seconds + growth * (batch - 1), always(0.0)), slots)


# Against the formulas

LAWS = {"exponential": (exponential(1000), 1.0), "fixed": (fixed(1000), 0.0), "lognormal": (lognormal(1000, 2.0), 2.0)}


@pytest.mark.parametrize("law", LAWS)
def test_one_prompt_at_a_time_is_m_g_1(law: str) -> None:
    lengths, scv = LAWS[law]
    trace = simulate(prefill_only(), draw(40_000, 0.7, lengths, fixed(1), seed=1))
    expected = load(0.7, [1.0], service_scv=scv)
    found = trace.summary()["wait"]
    assert found["mean"].agrees(float(expected.wait_seconds), slack=0.03)  # Pollaczek-Khinchine
    assert trace.busy == pytest.approx(0.7, abs=0.01)
    assert np.mean(trace.wait > 1e-9) == pytest.approx(0.7, abs=0.01)  # PASTA
    if law == "exponential":
        for key, quantile in zip(("p50", "p90", "p99"), wait_quantiles(expected), strict=True):
            assert found[key].agrees(quantile, slack=0.03)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("growth", [0.0, 0.2, 1.0])
def test_numbers_in_flight_do_not_depend_on_the_law_of_lengths(law: str, growth: float) -> None:
    """Generalized processor sharing, from slots with separate speeds (0) to one shared speed (1)."""
    lengths, _ = LAWS[law]
    step, slots = 1e-3, 200
    trace = simulate(decode_only(step, slots, growth * step), draw(20_000, 0.6, fixed(1), lengths, seed=4))
    batches = np.arange(1, slots + 1)
    # The first token comes with the prefill, and a new request waits half a step: parts of a thousandth.
    expected = load(0.6, batches / (1000 * step * (1 + growth * (batches - 1))))
    assert trace.in_flight == pytest.approx(float(expected.in_flight), rel=0.06)
    np.testing.assert_allclose(trace.in_flight_shares[:6], expected.probabilities[:6], atol=0.015)
    assert trace.summary()["e2e"]["mean"].agrees(float(expected.service_seconds), slack=0.02)


@pytest.mark.parametrize(("slots", "use"), [(1, 0.6), (5, 0.8), (20, 0.9)])
def test_slots_of_their_own_speed_are_erlangs(slots: int, use: float) -> None:
    trace = simulate(decode_only(1e-3, slots), draw(40_000, slots * use, fixed(1), exponential(1000), seed=2))
    expected = load(slots * use, np.arange(1.0, slots + 1.0))
    assert trace.summary()["wait"]["mean"].agrees(float(expected.wait_seconds), slack=0.03)
    assert trace.in_flight == pytest.approx(slots * use, rel=0.02)
    assert np.mean(trace.wait > 1e-3) == pytest.approx(float(expected.waiting), abs=0.03)


@pytest.mark.parametrize("bursts", [1.0, 4.0])
@pytest.mark.parametrize("law", ["exponential", "fixed"])
@pytest.mark.parametrize("slots", [5, 20])
def test_limited_processor_sharing(slots: int, law: str, bursts: float) -> None:
    """One shared speed for a number of slots, then a queue; with bursts the formulas are approximations."""
    lengths, scv = LAWS[law]
    requests = draw(25_000, 0.8, fixed(1), lengths, arrivals=Gamma(bursts), seed=3)
    trace = simulate(decode_only(1e-3, slots, 1e-3), requests)
    expected = load(0.8, np.ones(slots), arrival_scv=bursts, service_scv=scv)
    approximate = bursts > 1.0 or law == "fixed"
    assert trace.in_flight == pytest.approx(float(expected.in_flight), rel=0.1)
    assert trace.summary()["wait"]["mean"].agrees(float(expected.wait_seconds), slack=0.25 if approximate else 0.05)
    assert np.mean(trace.wait > 0.05) == pytest.approx(float(expected.waiting), abs=0.07)


def test_a_saturated_server_completes_what_it_can() -> None:
    trace = simulate(decode_only(1e-3, 4), draw(4000, 6.0, fixed(1), fixed(1001)))
    assert trace.requests_per_second == pytest.approx(4.0, rel=0.01)
    assert trace.tokens_per_second == pytest.approx(4004.0, rel=0.01)
    assert trace.backlog > 500
    assert trace.in_flight == pytest.approx(4.0, rel=1e-3)
    assert load(6.0, np.arange(1.0, 5.0)).saturated


# Step by step


def play(server: Server, *requests: tuple[float, int, int]) -> list[tuple[float, float, float]]:
    """Return first token, last token and start of each request."""
    arrival, isl, osl = (np.array(column) for column in zip(*requests, strict=True))
    trace = simulate(server, Stream(arrival.astype(float), isl, osl), warm_up=0.0, cool_down=0.0)
    return [
        (round(at + first, 9), round(at + last, 9), round(at + wait, 9))
        for at, first, last, wait in zip(arrival, trace.ttft, trace.e2e, trace.wait, strict=True)
    ]


def test_prefill_first_holds_up_decoding() -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), slots=2)
    # The second arrives in the first one's second step (4.0 to 5.0), and is prefilled from 5.0 to 9.0.
    assert play(server, (0.0, 30, 5), (4.5, 40, 2)) == [(3.0, 11.0, 0.0), (9.0, 10.0, 5.0)]


def test_chunks_ride_along_with_decoding() -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), 2, policy="chunked", chunk=20)
    # Alone: 20 tokens in 2.0 s, 10 in 1.0 s. Then steps of 1.0 s; with 20 prompt tokens along, of 3.0 s.
    assert play(server, (0.0, 30, 5), (4.5, 40, 2)) == [(3.0, 11.0, 0.0), (11.0, 12.0, 5.0)]


def test_chunks_are_shared_in_the_order_of_arrival() -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), 3, policy="chunked", chunk=20)
    # 20 + (10 of the first, 10 of the second) + (5 of the second alone, in a decode step).
    assert play(server, (0.0, 30, 3), (0.0, 15, 1), (0.0, 5, 1)) == [(4.0, 7.0, 0.0), (6.0, 6.0, 2.0), (6.0, 6.0, 4.0)]


def test_chunks_know_what_is_cached() -> None:
    asked: list[tuple[int, int]] = []

    def prefill(tokens: int, cached: int) -> float:
        asked.append((tokens, cached))
        return 1.0

    play(Server(StepTimes(always(1.0), prefill), 1, policy="chunked", chunk=100), (0.0, 250, 1), (0.0, 90, 1))
    assert asked == [(100, 0), (100, 100), (50, 200), (90, 0)]


def test_a_prompt_that_only_has_room_for_a_part_takes_that_part_of_its_time() -> None:
    server = Server(StepTimes(always(1.0), lambda tokens, _: 1.0 + 0.1 * tokens), 3, policy="chunked", chunk=20)
    # During 20 tokens, two prompts arrive: 15 tokens in 2.5 s, and 5 of 20 in a quarter of 3.0 s; then their rest.
    first, second, third = play(server, (0.0, 20, 1), (0.1, 15, 1), (0.1, 20, 1))
    assert (first, second, third) == ((3.0, 3.0, 0.0), (6.25, 6.25, 3.0), (8.5, 8.5, 3.0))


def test_decoding_goes_on_while_the_host_launches_a_prompt() -> None:
    server = Server(StepTimes(always(1.0), always(3.0), chip_seconds=always(0.5)), 2, policy="chunked", chunk=20)
    # Alone 3 s; with a decode step, of which the chips need 1.5 s with the prompt, also 3 s.
    assert play(server, (0.0, 5, 5), (4.5, 5, 2)) == [(3.0, 9.0, 0.0), (8.0, 9.0, 4.5 + 0.5)]
    slow = replace(server, times=replace(server.times, chip_seconds=always(2.5)))
    assert play(slow, (0.0, 5, 5), (4.5, 5, 2)) == [(3.0, 9.5, 0.0), (8.5, 9.5, 5.0)]


def test_prompts_of_a_step_share_its_launches_and_its_weights() -> None:
    server = Server(StepTimes(always(1.0), always(3.0), chip_seconds=always(1.0)), 4, policy="chunked", chunk=20)
    # During the first prompt of 3 s, four arrive.
    five = ((0.0, 5, 1), *[(0.1, 5, 1)] * 4)
    assert play(server, *five)[-1][0] == 3.0 + 4.0
    assert play(replace(server, times=replace(server.times, together=lambda *_: 1.0)), *five)[-1][0] == 3.0 + 3.0
    # With two prompts in turn, each has half of the time, and half of its wait for the host.
    assert play(replace(server, stages=2.0), *five)[-1][0] == 3.0 + 6.0


def test_groups_step_together() -> None:
    """Two groups, A = 2 s of a prompt's group and M = 2 s of shared work for two prompts: 3 s for one, 4 s for two.

    Three prompts arrive during the first: in groups 2, 1 and 2, so that the next step takes 2 x 2 + 3 x 1 = 7 s. A
    decode step takes 1 s for the fullest group's sequences and 0.1 s for each sequence of all groups.
    """
    alone: dict[str, Any] = {"lone_step_seconds": lambda batch, _: 1.1 * batch}
    together: dict[str, Any] = {"together": lambda most, every: 2.0 * most / 5 + every / 5}
    times = StepTimes(lambda batch, _: batch / 2 + 0.1 * batch, always(3.0), **alone, **together)
    server = Server(times, 8, policy="chunked", chunk=20, groups=2)
    assert play(server, (0.0, 5, 1), (1.0, 5, 1))[1][0] == 3.0 + 3.0
    assert play(server, (0.0, 5, 1), *[(1.0, 5, 1)] * 2)[-1][0] == 3.0 + 4.0
    assert play(server, (0.0, 5, 1), *[(1.0, 5, 1)] * 3)[-1][0] == pytest.approx(3.0 + 7.0)
    # The third arrives while the first decodes: into the next group in turn, or into the idle one.
    three = ((0.0, 5, 30), (1.0, 5, 1), (10.0, 5, 3))
    in_turn = replace(server, dealing="round_robin")
    for one, step in ((server, 1.2), (in_turn, 2.2)):
        first_token, last_token, _ = play(one, *three)[-1]
        assert last_token - first_token == pytest.approx(2 * step)
    # Alone 1.1 s for a token. With two more prompts, one in each group: 1.1 + 4 s. Of three, two are in one group:
    # between 2.2 s for them alone and 2.4 s for two in each, 2.3 s.
    assert play(server, (0.0, 5, 2), (100.0, 5, 1))[0][1] == pytest.approx(3.0 + 1.1)
    assert play(server, (0.0, 5, 3), (0.1, 5, 2), (0.2, 5, 2))[0][1] == pytest.approx(3.0 + 5.1 + 2.3)
    # A mixed step saves the shared reads, at most the prompt's additional time.
    saved = replace(server.times, saved_seconds=lambda batch, tokens: 0.5 * batch * tokens / 5)
    mixed = replace(server, times=saved)
    first, second = play(mixed, (0.0, 5, 3), (3.05, 5, 1))
    assert first[1] == second[0] + 0.0 == pytest.approx(3.0 + 1.1 + (1.1 + 3.0 - 0.5))
    # Prompts that pause decode are processed one per group.
    whole = replace(server, policy="prefill_first")
    assert play(whole, *[(0.0, 5, 1)] * 3)[-1][0] == pytest.approx(4.0 + 3.0)


def test_a_newcomer_waits_for_the_steps_that_are_prepared() -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), 2, policy="chunked", chunk=20, steps_ahead=1)
    # An idle server has prepared no step; the second request meets the step to 5.0, and the next one is prepared.
    assert play(server, (0.0, 30, 6), (4.5, 20, 2)) == [(3.0, 10.0, 0.0), (9.0, 10.0, 6.0)]
    assert play(replace(server, steps_ahead=0), (0.0, 30, 6), (4.5, 20, 2))[1] == (8.0, 9.0, 5.0)
    # Requests do not wait for steps that are no longer needed.
    assert play(replace(server, steps_ahead=9), (0.0, 30, 3), (4.5, 20, 1))[1] == (7.0, 7.0, 5.0)
    # A jump over many steps, and prompts that pause decoding.
    many = Server(StepTimes(lambda batch, _: float(batch), always(0.0)), 2, steps_ahead=2)
    assert play(many, (0.0, 1, 1001), (700.5, 1, 11)) == [(0.0, 1010.0, 0.0), (703.0, 723.0, 703.0)]


def test_a_slot_that_gets_free_is_not_in_the_steps_that_are_prepared() -> None:
    server = Server(StepTimes(always(1.0), always(0.0)), 2, policy="chunked", steps_ahead=1)
    found = play(server, (0.0, 1, 11), (0.5, 1, 4), (0.6, 1, 2))
    assert found[1] == (3.0, 6.0, 2.0)
    assert found[2] == (8.0, 9.0, 7.0)


@pytest.mark.parametrize("policy", ["prefill_first", "chunked"])
def test_a_full_server_makes_others_wait(policy: Policy) -> None:
    server = Server(StepTimes(always(1.0), always(0.0)), 1, policy=policy)
    assert play(server, (0.0, 1, 4), (0.5, 1, 2), (9.0, 1, 1)) == [(0.0, 3.0, 0.0), (3.0, 4.0, 3.0), (9.0, 9.0, 9.0)]


def test_steps_that_grow_with_the_context_add_up_as_one_by_one() -> None:
    def seconds(batch: int, context: float) -> float:
        return 0.01 + 1e-4 * batch + 2e-6 * batch * context

    requests = [(0.0, 100, 300), (0.37, 2000, 100), (1.25, 50, 400), (9.0, 10, 50)]
    jumps = play(Server(StepTimes(seconds, per_token(1e-5)), 3), *requests)
    # The result is equal one step at once.
    now, waiting, running, first, last = 0.0, list(range(4)), dict[int, int](), dict[int, float](), dict[int, float]()
    while waiting or running:
        if waiting and requests[waiting[0]][0] <= now and len(running) < 3:
            one = waiting.pop(0)
            now += 1e-5 * requests[one][1]
            first[one], running[one] = now, 1
        elif running:
            context = sum(requests[one][1] + done for one, done in running.items()) / len(running)
            now += seconds(len(running), context)
            running = {one: done + 1 for one, done in running.items()}
            for one in [one for one, done in running.items() if done == requests[one][2]]:
                last[one] = now
                del running[one]
        else:
            now = requests[waiting[0]][0]
    assert [found[0] for found in jumps] == pytest.approx([first[one] for one in range(4)], abs=1e-8)
    assert [found[1] for found in jumps] == pytest.approx([last[one] for one in range(4)], abs=1e-8)


def test_all_at_once() -> None:
    trace = simulate(
        decode_only(0.1, 8), Stream(np.zeros(8), np.ones(8, dtype=int), np.full(8, 11)), warm_up=0, cool_down=0
    )
    assert trace.seconds == pytest.approx(1.0)
    assert trace.requests_per_second == pytest.approx(8.0)
    assert trace.tokens_per_second == pytest.approx(88.0)
    assert trace.in_flight_shares.tolist() == pytest.approx([0.0] * 8 + [1.0])


def test_the_same_seed_gives_the_same_trace() -> None:
    def run(seed: int) -> list[float]:
        requests = draw(300, 5.0, uniform(10, 90), lognormal(50, 1.5), arrivals=Gamma(3.0), seed=seed)
        return simulate(Server(StepTimes(always(0.01), per_token(1e-4)), 4), requests).e2e.tolist()  # type: ignore[no-any-return]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_single_tokens_have_no_time_between_tokens() -> None:
    trace = simulate(decode_only(1.0, 4), draw(100, 1.0, fixed(5), fixed(1)))
    assert np.isnan(trace.tpot).all()
    assert all(math.isnan(one.value) for one in trace.summary()["tpot"].values())


# Closed loops


def looped(
    server: Server, clients: int, isl: list[int], osl: list[int], pause: float = 0.0
) -> list[tuple[float, float, float]]:
    """Return the submission time of each request, and its first and last token."""
    loop = Loop(clients, np.array(isl), np.array(osl), pause)
    trace = simulate(server, loop, warm_up=0.0, cool_down=0.0)
    return [
        (round(at, 9), round(at + first, 9), round(at + last, 9))
        for at, first, last in zip(trace.arrival, trace.ttft, trace.e2e, strict=True)
    ]


@pytest.mark.parametrize("policy", ["prefill_first", "chunked"])
def test_one_client_sends_its_next_request_when_the_last_has_ended(policy: Policy) -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), 4, policy=policy, chunk=20)
    assert looped(server, 1, [10, 20], [3, 2]) == [(0.0, 1.0, 3.0), (3.0, 5.0, 6.0)]
    # Its request is half a second on its way, for which it waits.
    assert looped(server, 1, [10, 20], [3, 2], 0.5) == [(0.0, 1.5, 3.5), (3.5, 6.0, 7.0)]


@pytest.mark.parametrize("policy", ["prefill_first", "chunked"])
def test_equal_requests_end_in_one_step_and_their_prompts_are_read_in_one(policy: Policy) -> None:
    """Four prompts of five tokens are a step of 20: 2 s; then three decode steps; and again."""
    server = Server(StepTimes(always(1.0), per_token(0.1)), 4, policy=policy, chunk=20)
    assert looped(server, 4, [5] * 8, [4] * 8) == [(0.0, 2.0, 5.0)] * 4 + [(5.0, 7.0, 10.0)] * 4


def test_prompts_of_several_steps_go_first_or_beside() -> None:
    """Four prompts of ten tokens, two of which are a step of 2 s."""
    first = Server(StepTimes(always(1.0), per_token(0.1)), 4, chunk=20)
    # The first prompts wait for the others, then all decode.
    assert looped(first, 4, [10] * 4, [3] * 4) == [(0.0, 2.0, 6.0)] * 2 + [(0.0, 4.0, 6.0)] * 2
    # With prompts, a step takes 1 + 2 s.
    beside = replace(first, policy="chunked")
    assert looped(beside, 4, [10] * 4, [3] * 4) == [(0.0, 2.0, 6.0)] * 2 + [(0.0, 5.0, 7.0)] * 2


def test_prompts_can_be_read_one_by_one() -> None:
    server = Server(StepTimes(always(1.0), per_token(0.1)), 4, chunk=20, most_prompts=1)
    assert [first for _, first, _ in looped(server, 3, [10] * 3, [2] * 3)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("held", "last"), [(0, 12.5), (3, 15.5), (100, 22.5)])
def test_groups_hold_prompts_back_until_each_has_one(held: int, last: float) -> None:
    """Two groups, steps of 1 s, prompts of 10 s: a decode of 12 steps runs until a second prompt arrives."""
    times = StepTimes(always(1.0), per_token(0.1), lone_step_seconds=always(1.0))
    server = Server(times, 4, policy="chunked", chunk=100, groups=2, held_steps=held)
    arrival, lengths = np.array([0.0, 10.5]), np.array([100, 5])
    found = simulate(server, Stream(arrival, lengths, np.array([13, 1])), warm_up=0.0, cool_down=0.0)
    # The prompt takes 0.5 s in the step that starts at 11 s, or three steps later, or when no request decodes.
    assert found.ttft[0] == 10.0
    assert found.arrival[1] + found.ttft[1] == pytest.approx(last)


def test_newcomers_wait_until_they_are_looked_at() -> None:
    """The server polls in steps 0, 4, 8; its steps 0 to 2 process the first two prompts and decode once."""
    server = Server(StepTimes(always(1.0), per_token(0.1)), 2, policy="chunked", chunk=10, look_steps=4)
    sent = looped(server, 2, [10, 10, 10], [2, 9, 2])
    # The first request ends with step 1, at 3 s. Three more steps follow, then the prompt with the second request.
    assert sent[0] == (0.0, 1.0, 3.0)
    assert sent[2] == (3.0, 7.0, 8.0)


@pytest.mark.parametrize("policy", ["prefill_first", "chunked"])
@pytest.mark.parametrize("clients", [1, 3, 16, 40])
def test_a_closed_loop_keeps_littles_law(clients: int, policy: Policy) -> None:
    """The concurrency is the rate times the latency, with pauses and waits for a slot."""
    random = np.random.default_rng(3)
    isl, osl = uniform(50, 150)(4_000, random), uniform(20, 60)(4_000, random)
    server = Server(
        StepTimes(lambda batch, _: 0.01 + 1e-3 * batch, per_token(1e-4)), 24, policy=policy, chunk=256, steps_ahead=1
    )
    trace = simulate(server, Loop(clients, isl, osl, 0.02), warm_up=0.1, cool_down=0.1)
    assert trace.requests_per_second * np.mean(trace.e2e) == pytest.approx(clients, rel=0.01)


def test_a_closed_loop_is_a_stream_that_comes_when_it_does() -> None:
    """Requests at the times at which clients sent them have the same latencies."""
    random = np.random.default_rng(5)
    isl, osl = uniform(50, 150)(400, random), uniform(20, 60)(400, random)
    server = Server(StepTimes(lambda batch, _: 0.01 + 1e-3 * batch, per_token(1e-4)), 8, policy="chunked", chunk=256)
    loop = simulate(server, Loop(8, isl, osl, 0.005), warm_up=0.0, cool_down=0.0)
    again = simulate(server, Stream(loop.arrival + 0.005, isl, osl), warm_up=0.0, cool_down=0.0)
    np.testing.assert_allclose(again.ttft + 0.005, loop.ttft, rtol=1e-6)
    np.testing.assert_allclose(again.e2e + 0.005, loop.e2e, rtol=1e-6)


# Arrivals, lengths, estimates


@pytest.mark.parametrize("scv", [0.0, 0.5, 1.0, 6.0])
def test_gaps_have_the_mean_and_variation_asked_for(scv: float) -> None:
    gaps = np.diff(draw(200_000, 4.0, fixed(1), fixed(1), arrivals=Gamma(scv)).arrival)
    assert gaps.mean() == pytest.approx(0.25, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.03, abs=1e-9)


def test_recorded_arrivals_are_replayed_at_any_rate() -> None:
    recorded = Recorded((1.0, 0.0, 3.0, 4.0))
    assert recorded.scv == pytest.approx(0.625)
    stream = draw(6, 0.5, fixed(1), fixed(1), arrivals=recorded)
    assert stream.arrival.tolist() == [1.0, 1.0, 4.0, 8.0, 9.0, 9.0]
    for gaps in ((), (0.0, 0.0), (1.0, -1.0), (math.inf,)):
        with pytest.raises(InputError, match="times between arrivals must be numbers >= 0, at least one of them pos"):
            Recorded(gaps)


def test_confidence_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    held = [estimate(random.exponential(2.0, 400), lambda v: float(np.mean(v))).agrees(2.0) for _ in range(2000)]
    assert 0.93 < np.mean(held) < 0.965


def test_few_values_have_no_interval() -> None:
    found = estimate(np.array([1.0, np.nan, 3.0]), lambda values: float(np.mean(values)))
    assert found.value == 2.0
    assert math.isnan(found.half_width)
    assert SimulatedEstimate(2.0, 0.1).agrees(2.05)
    assert not SimulatedEstimate(2.0, 0.1).agrees(2.2)
    assert SimulatedEstimate(2.0, 0.1).agrees(2.2, slack=0.05)


def test_a_table_of_step_times() -> None:
    table = StepTable([1, 4], [0, 100], [[1.0, 2.0], [4.0, 8.0]])
    assert [table(1, 0), table(4, 100), table(2, 50), table(4, 200)] == pytest.approx([1.0, 8.0, 3.0, 12.0])
    assert StepTable([2], [5], [[3.0]])(2, 99.0) == 3.0
    assert StepTable([1, 2], [0], [[3.0], [5.0]])(2, 99.0) == 5.0
    trace = simulate(
        Server(StepTimes(StepTable([1, 8], [0], [[0.1], [0.1]]), always(0.0)), 8), draw(50, 1, fixed(1), fixed(9))
    )
    assert trace.tpot == pytest.approx(0.1)


# Bad input


def _server(**changes: object) -> Server:
    times = {name: changes.pop(name) for name in ("chip_seconds", "lone_step_seconds") if name in changes}
    decode, prefill = (changes.pop(name, always(1.0)) for name in ("decode_step_seconds", "prefill_seconds"))
    return Server(StepTimes(decode, prefill, **times), **{"slots": 2, **changes})  # type: ignore[arg-type]


@pytest.mark.rows
def test_impossible_servers(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _server(**changes)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_times(bad: float) -> None:
    requests = draw(20, 1.0, fixed(10), fixed(5))
    message = f"decode_step_seconds for a batch of 1 at 11 tokens of context must be a finite time >= 0 s, got {bad:g}"
    with pytest.raises(InputError, match=message):
        simulate(_server(decode_step_seconds=always(bad)), requests)
    with pytest.raises(InputError, match="prefill_seconds for 10 tokens after 0 cached ones must be a finite time"):
        simulate(_server(prefill_seconds=always(bad)), requests)
    with pytest.raises(InputError, match="chip_seconds for 10 tokens after 0 cached ones must be a finite time"):
        simulate(_server(chip_seconds=always(bad), policy="chunked"), requests)


def test_impossible_streams() -> None:
    one = np.array([1])
    with pytest.raises(InputError, match=r"lists of the same length, got the shapes \(2,\), \(1,\) and \(1,\)"):
        Stream(np.array([0.0, 1.0]), one, one)
    with pytest.raises(InputError, match="times of arrival must be finite and ascending"):
        Stream(np.array([1.0, 0.0]), np.array([1, 1]), np.array([1, 1]))
    with pytest.raises(InputError, match="osl must be at least 1 token, got 0"):
        Stream(np.array([0.0]), one, one - 1)
    with pytest.raises(InputError, match="count must be at least 1 request, got 0"):
        draw(0, 1.0, fixed(1), fixed(1))
    with pytest.raises(InputError, match="requests_per_second must be a positive number, got -1"):
        draw(5, -1.0, fixed(1), fixed(1))
    with pytest.raises(InputError, match="arrival_scv must be a number >= 0, got nan"):
        Gamma(math.nan)


def test_impossible_loops() -> None:
    one = np.array([1])
    with pytest.raises(InputError, match="a closed loop needs at least 1 client, got 0"):
        Loop(0, one, one)
    with pytest.raises(InputError, match=r"lists of the same length, got the shapes \(2,\) and \(1,\)"):
        Loop(1, np.array([1, 1]), one)
    with pytest.raises(InputError, match="isl must be at least 1 token, got 0"):
        Loop(1, one - 1, one)
    with pytest.raises(InputError, match="pause_seconds must be a number >= 0, got -1"):
        Loop(1, one, one, -1.0)


def test_nothing_to_measure() -> None:
    message = "warm_up 0.5 and cool_down 0.5 leave 0 of 10 requests to measure; at least 2 are needed"
    with pytest.raises(InputError, match=message):
        simulate(_server(), draw(10, 1.0, fixed(1), fixed(1)), warm_up=0.5, cool_down=0.5)


def test_impossible_tables() -> None:
    with pytest.raises(InputError, match="the table of step times is for batches from 1 to 2, got 3"):
        StepTable([1, 2], [0], [[1.0], [2.0]])(3, 0.0)


# Memory


def _remembering(**changes: object) -> Server:
    """Return a server with steps of 1 s, prompts of 1 s, and a cache with blocks of 4 tokens."""
    values: dict[str, object] = {"blocks": 6, "block_tokens": 4, **changes}
    return Server(StepTimes(always(1.0), always(1.0)), 4, policy="chunked", chunk=8, cache=KvCacheMemory(**values))  # type: ignore[arg-type]


def test_a_prompt_waits_until_its_blocks_are_free() -> None:
    # Two prompts of 8 tokens take 4 of 4 blocks; the third is admitted when they end, after one step.
    assert [times[0] for times in play(_remembering(blocks=4), *[(0.0, 8, 1)] * 3)] == [1.0, 2.0, 3.0]


def test_who_was_let_in_last_is_read_again_when_memory_runs_out() -> None:
    """Two prompts of 7 tokens take 4 of 5 blocks, and run one after the other in steps of 8 tokens.

    With its 9th token each needs a third block, and there is one. The second request is preempted, and recomputed when
    the first has ended.
    """
    server = _remembering(blocks=5)
    first, second = play(server, (0.0, 7, 6), (0.0, 7, 6))
    stream = Stream(np.zeros(2), np.array([7, 7]), np.array([6, 6]))
    trace = simulate(server, stream, warm_up=0.0, cool_down=0.0)
    assert trace.preemptions == 1
    assert first[1] < second[1]
    # Preemption only costs time: all tokens are written, and the first token does not move.
    assert trace.output_tokens.sum() == 12
    assert second[0] < first[1]


@pytest.mark.parametrize("evicted", ["last", "fewest_tokens"])
def test_whoever_goes_all_answers_end(evicted: Evicted) -> None:
    server = _remembering(blocks=12, evicted=evicted)
    stream = draw(300, 0.4, uniform(4, 16), uniform(1, 20), seed=1)
    trace = simulate(server, stream, warm_up=0.0, cool_down=0.0)
    assert trace.preemptions > 0
    assert np.isfinite(trace.e2e).all()
    assert (trace.e2e >= stream.osl * 1.0 - 1e-9).all()


def test_whole_answers_are_kept_free_where_nobody_goes() -> None:
    """Each request has 12 tokens at the end, 3 blocks, so 5 blocks hold one request at once."""
    server = _remembering(blocks=5, own_answer=1.0, other_answers=1.0, evicted="nobody")
    stream = Stream(np.zeros(3), np.full(3, 4), np.full(3, 8))
    trace = simulate(server, stream, warm_up=0.0, cool_down=0.0)
    assert trace.preemptions == 0
    assert trace.e2e.tolist() == [8.0, 16.0, 24.0]


def test_a_request_that_is_larger_than_the_memory_is_served_alone() -> None:
    assert play(_remembering(blocks=2), (0.0, 30, 5))[0][1] == pytest.approx(4.0 + 4.0)


def test_memory_that_never_runs_out_changes_nothing() -> None:
    stream = draw(500, 0.3, uniform(4, 16), uniform(1, 20), seed=2)
    without, roomy = replace(_remembering(), cache=None), _remembering(blocks=1000)
    assert simulate(without, stream).e2e.tolist() == simulate(roomy, stream).e2e.tolist()


@pytest.mark.rows
def test_impossible_memory(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        _remembering(**changes)


def test_a_prompt_that_may_join_a_later_step_is_read_when_none_is_left_to_take() -> None:
    """An idle server never waits: with steps prepared ahead, with polling, or with delayed prefill."""
    waits: dict[str, Any] = {"steps_ahead": 1, "look_steps": 4, "held_steps": 5}
    times = StepTimes(always(0.01), per_token(0.01))
    server = Server(times, 4, policy="chunked", chunk=8, cache=KvCacheMemory(blocks=26), **waits)
    loop = Loop(2, np.array([4, 2, 4, 18, 1, 17]), np.array([11, 11, 2, 10, 11, 7]))
    played = simulate(server, loop, warm_up=0.0, cool_down=0.0)
    assert played.wait.min() >= 0.0
    assert (played.e2e > played.ttft).all()
    assert played.tokens_read >= played.prompt_tokens.sum() == 46


def test_a_run_that_stops_counts_what_is_written_by_then() -> None:
    """Outputs of 3, 5 and 9 tokens, whose first token comes with the prompt: one step per second, all together."""
    loop = Loop(3, np.array([1, 1, 1]), np.array([3, 5, 9]))
    seen = simulate(decode_only(1.0, 3), loop, warm_up=0.0, cool_down=0.0, stop_after=2)
    assert seen.written.tolist() == [3, 5, 5]
    assert seen.output_tokens.tolist() == [3.0, 5.0, 9.0]
    assert seen.e2e.tolist() == [2.0, 4.0, 4.0]
    # With several servers, started steps are included; requests that were not admitted have written nothing.
    shared = simulate(
        decode_only(1.0, 1), loop, warm_up=0.0, cool_down=0.0, instances=2, router="round_robin", stop_after=1
    )
    assert shared.written.tolist() == [3, 3, 0]
    whole = simulate(decode_only(1.0, 3), loop, warm_up=0.0, cool_down=0.0)
    assert whole.written.tolist() == [3, 5, 9]


def test_a_loop_whose_prompts_begin_alike_reads_them_once() -> None:
    parts = [((0, 6),), ((0, 6),), ((1, 6),)]
    loop = Loop(1, np.array([100, 100, 100]), np.array([2, 2, 2]), parts=parts)
    server = replace(decode_only(1.0, 3), cache=KvCacheMemory(100, 16))
    seen = simulate(server, loop, warm_up=0.0, cool_down=0.0)
    assert seen.found_tokens["HBM"].tolist() == [0, 96, 0]
