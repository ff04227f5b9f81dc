"""Steady states: identities for every model, limits known by hand, and monotonicity."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference_econ.engine import Plans, Setup, fastest_cut, prompts_together, saved_seconds, shared_steps
from inference_econ.engine.prefill import prefill
from inference_econ.inputs import Precision, Requests, catalog
from inference_econ.serving import Steady
from inference_econ.serving.steady import steady

WHOLE, CHUNKS = "serving.prefill_chunk=0", "serving.prefill_chunk=2048"
MODELS = ("llama_3_8b", "qwen3_30b_a3b", "deepseek_v2")
#: Accelerators, attention ranks, stages and expert-parallel ranks that the models above divide into.
LAYOUTS = ((8, 8, 1, 1), (8, 4, 1, 8), (8, 2, 2, 4), (1, 1, 1, 1))

models, layouts = st.sampled_from(MODELS), st.sampled_from(LAYOUTS)
prompts, answers = st.integers(1, 40_000), st.integers(2, 4_000)
batches = st.floats(1.0, 2_000.0)
chunks = st.sampled_from((WHOLE, CHUNKS, "serving.prefill_chunk=8192"))


@cache
def setup(model: str = "llama_3_8b", context: float = 2_000.0, *changes: str) -> Setup:
    spec, assumed = catalog.model(model), catalog.assumptions("deployable", changes=list(changes))
    return Setup(spec, catalog.hardware("h100_sxm"), Precision.of(spec), context, assumed)


def plans(layout: tuple[int, int, int, int] = (1, 1, 1, 1), batch: object = 1.0) -> Plans:
    size, ranks, depth, ep = (np.full(1, float(degree)) for degree in layout)
    return Plans(size, np.atleast_1d(np.asarray(batch, dtype=float)), depth, ranks, ep, whole=True)


def state(
    model: str, layout: tuple[int, int, int, int], batch: object, asked: Requests, *changes: str
) -> tuple[Steady, Plans]:
    some = plans(layout, batch)
    return steady(setup(model, asked.mean_context, *changes), some, asked), some


@settings(max_examples=30, deadline=None)
@given(models, layouts, batches, prompts, answers, chunks)
def test_littles_law_and_a_busy_machine(
    model: str, layout: tuple[int, int, int, int], batch: float, isl: int, osl: int, chunk: str
) -> None:
    asked = Requests(isl, osl)
    found, _ = state(model, layout, batch, asked, chunk)
    cycle = found.ttft_seconds + asked.decode_steps * found.tpot_seconds
    np.testing.assert_allclose(found.concurrency, found.requests_per_second * cycle, rtol=1e-9)
    # Prefill and decode steps together need at most all of the time.
    decoding = found.requests_per_second * asked.decode_steps * found.decode_seconds / found.batch
    assert (found.prefill_share + decoding <= 1.0 + 1e-9).all()
    # Prompts that share steps take less time than one alone.
    assert (found.prefill_share <= found.requests_per_second * found.prefill.busy_seconds * (1.0 + 1e-9)).all()
    assert (found.concurrency >= found.batch * (1.0 - 1e-9)).all() or asked.decode_steps < 10
    parts = found.prefill.seconds + found.queue_seconds + found.running_seconds
    assert (found.ttft_seconds >= parts * (1.0 - 1e-12)).all()


@settings(max_examples=20, deadline=None)
@given(models, layouts, st.integers(64, 40_000), st.integers(20, 4_000), chunks)
def test_more_in_flight_is_slower_for_each_and_quicker_for_all(
    model: str, layout: tuple[int, int, int, int], isl: int, osl: int, chunk: str
) -> None:
    batches = np.geomspace(1.0, 4096.0, 25)
    found, _ = state(model, layout, batches, Requests(isl, osl), chunk)
    # Groups that start to delay prefill may have a shorter queue than before.
    free, _ = state(model, layout, batches, Requests(isl, osl), chunk, "serving.held_steps=0")
    # The saving of mixed steps jumps with the batch where messages or bounds change. The work of short prompts in one
    # step is interpolated between counts.
    slack = 0.05 if chunk == WHOLE and layout[0] == layout[1] else 0.1
    for ascending in (found.tpot_seconds, found.requests_per_second, free.tpot_seconds, free.ttft_seconds):
        assert (np.diff(ascending) >= -slack * ascending[:-1]).all()
    # States are interpolated by concurrency, also where groups start to delay prefill.
    for some in (found, free):
        assert (np.diff(some.concurrency) >= -0.15 * some.concurrency[..., :-1]).all()


@settings(max_examples=20, deadline=None)
@example("deepseek_v2", (8, 4, 1, 8), [8_193, 9_517], 259.0, "serving.prefill_chunk=8192")
@given(models, layouts, st.lists(prompts, min_size=2, max_size=2), batches, chunks)
def test_longer_prompts_take_longer(
    model: str, layout: tuple[int, int, int, int], lengths: list[int], batch: float, chunk: str
) -> None:
    # The cache reads of decode steps are fixed, so only the cost of prompts changes.
    short, long = (
        steady(setup(model, 2_000.0, chunk), plans(layout, batch), Requests(isl, 200)) for isl in sorted(lengths)
    )
    assert (short.ttft_seconds <= long.ttft_seconds * (1.0 + 1e-9)).all()
    assert (short.tpot_seconds <= long.tpot_seconds * (1.0 + 1e-9)).all()
    assert (short.requests_per_second >= long.requests_per_second * (1.0 - 1e-9)).all()


@settings(max_examples=30, deadline=None)
@given(models, layouts, prompts, st.floats(0.0, 1.0), chunks)
def test_a_cached_prefix_never_slows_prefill(
    model: str, layout: tuple[int, int, int, int], isl: int, share: float, chunk: str
) -> None:
    cached = float(int(share * (isl - 1)))
    asked, some = setup(model, 2_000.0, chunk), plans(layout)
    whole, rest = prefill(asked, some, isl), prefill(asked, some, isl - cached, cached)
    assert (rest.busy_seconds <= whole.busy_seconds * (1.0 + 1e-9)).all()
    # Two chunks follow each other through the stages of a pipeline; one chunk of fewer tokens cannot.
    if layout[2] == 1:
        assert (rest.seconds <= whole.seconds * (1.0 + 1e-9)).all()


@settings(max_examples=30, deadline=None)
@given(models, prompts)
def test_chunks_read_weights_and_cache_again(model: str, isl: int) -> None:
    whole, parts = (prefill(setup(model, 2_000.0, change), plans(), isl) for change in (WHOLE, CHUNKS))
    assert whole.chunks == 1
    assert parts.chunks == -(-isl // 2048)
    assert (parts.seconds >= whole.seconds * (1.0 - 1e-9)).all()
    # The difference is small if arithmetic is the limit; with many experts, chunks of this size are too short for that.
    if model == "llama_3_8b" and isl > 8192:
        assert (parts.seconds <= 1.3 * whole.seconds).all()


def test_prompts_in_chunks_attend_to_all_before() -> None:
    """Attention of a causal prompt is that of its halves, the second after the first."""
    asked = setup("llama_3_8b", 0.0, WHOLE)
    first, second = prefill(asked, plans(), 8_000), prefill(asked, plans(), 8_000, 8_000)
    together = prefill(setup("llama_3_8b", 0.0, "serving.prefill_chunk=8000"), plans(), 16_000)
    assert first.seconds + second.seconds == pytest.approx(together.seconds, rel=1e-3)


def test_groups_and_stages_work_on_prompts_of_their_own() -> None:
    asked = setup("llama_3_8b", 2_000.0, WHOLE)
    alone, groups = prefill(asked, plans((2, 2, 1, 1)), 4_000), prefill(asked, plans((4, 2, 1, 1)), 4_000)
    # Two groups of two: a prompt is as long as on two chips but for the feed-forward part, which all four share.
    assert groups.busy_seconds == groups.seconds
    assert groups.seconds < alone.seconds
    # With a prompt for each group there is no wait.
    assert groups.seconds / 2 < groups.full_seconds < groups.seconds
    assert alone.full_seconds == alone.busy_seconds == alone.seconds
    staged = prefill(asked, plans((4, 2, 2, 1)), 4_000)
    assert staged.busy_seconds == pytest.approx(staged.seconds / 2)
    assert staged.full_seconds == pytest.approx(staged.busy_seconds)


@pytest.mark.parametrize("chunk", [WHOLE, CHUNKS])
def test_a_single_request_waits_for_nobody(chunk: str) -> None:
    asked = Requests(1_000, 200)
    found, some = state("llama_3_8b", (1, 1, 1, 1), 1.0, asked, chunk)
    step = fastest_cut(setup("llama_3_8b", asked.mean_context, chunk), some)
    assert found.ttft_seconds == pytest.approx(found.prefill.seconds)
    assert found.tpot_seconds == pytest.approx(step)
    assert found.concurrency == pytest.approx(1.0)
    assert found.requests_per_second == pytest.approx(1.0 / (found.prefill.seconds + 199 * step))
    assert found.queue_seconds == found.running_seconds == 0.0


def test_a_step_with_prefill_between_others() -> None:
    """The mean is T(B) + (B - 1) / steps x P (by hand)."""
    asked = Requests(1_000, 201)
    found, some = state("llama_3_8b", (1, 1, 1, 1), 41.0, asked, WHOLE)
    step = fastest_cut(setup("llama_3_8b", asked.mean_context, WHOLE), some)
    assert found.tpot_seconds == pytest.approx(step + 40 / 200 * found.prefill.busy_seconds)
    assert found.decode_seconds == pytest.approx(step)


@pytest.mark.parametrize("scv", [0.0, 1.0])
def test_prompts_that_pause_decoding_wait_as_in_m_g_1(scv: float) -> None:
    asked = Requests(f"lognormal:1000:{scv**0.5}", 500)
    found, _ = state("llama_3_8b", (1, 1, 1, 1), 60.0, asked, WHOLE)
    alone = found.prefill.busy_seconds
    busy = 59 * alone / (499 * found.tpot_seconds)  # as one that decodes sees it
    assert found.queue_seconds == pytest.approx(alone * (1.0 + scv) / 2.0 * busy / (1.0 - busy))
    assert found.running_seconds == pytest.approx(found.decode_seconds / 2.0)


def test_prompts_that_ride_along_are_served_through_gates() -> None:
    """Compare with steps simulated one by one: each serves the requests that arrived during the previous one."""
    asked = Requests(1_000, 500)
    found, _ = state("llama_3_8b", (1, 1, 1, 1), 100.0, asked, "serving.prefill_chunk=8192")
    decode = float(found.decode_seconds[0])
    # Additional time of a prompt in a decode step: less than alone, as both share the read of the weights.
    alone = (float(found.tpot_seconds[0]) - decode) * 499 / 99
    assert alone < float(found.prefill.busy_seconds[0])
    share = 99 * alone / (499 * float(found.tpot_seconds[0]))
    rate, random = share / alone, np.random.default_rng(3)
    lengths, came = np.empty(200_000), 0
    for index in range(lengths.size):
        lengths[index] = decode + came * alone
        came = random.poisson(rate * lengths[index])
    met = (lengths**2).mean() / lengths.mean()
    assert float(found.tpot_seconds[0]) == pytest.approx(lengths.mean(), rel=0.02)
    assert 2.0 * float(found.running_seconds[0]) == pytest.approx(met, rel=0.03)
    # The rest of that step; then one with decoding, its own prompt, and all that came during that step.
    first = met / 2.0 + decode + alone + rate * met * alone
    assert float(found.ttft_seconds[0]) == pytest.approx(first, rel=0.03)


def test_answers_of_one_token_need_prefill_only() -> None:
    asked = Requests(4_000, 1)
    # No two prompts fit a step.
    found, _ = state("llama_3_8b", (1, 1, 1, 1), np.array([1.0, 2.0, 50.0]), asked, "serving.prefill_chunk=4096")
    assert (found.tpot_seconds == 0.0).all()
    np.testing.assert_allclose(found.requests_per_second, np.full(3, 1.0 / found.prefill.busy_seconds), rtol=1e-9)
    # Without a limit, all waiting prompts are processed together.
    together, _ = state("llama_3_8b", (1, 1, 1, 1), np.array([1.0, 2.0, 50.0]), asked, WHOLE)
    assert (np.diff(together.requests_per_second) >= 0.0).all()
    assert together.requests_per_second[-1] > found.requests_per_second[-1]


def test_the_overhead_of_a_request_is_in_its_first_token_only() -> None:
    asked = Requests(1_000, 200)
    plain, _ = state("llama_3_8b", (1, 1, 1, 1), 20.0, asked, WHOLE)
    more, _ = state("llama_3_8b", (1, 1, 1, 1), 20.0, asked, WHOLE, "host.request_overhead=20 ms")
    assert more.ttft_seconds - plain.ttft_seconds == pytest.approx(0.020)
    assert more.tpot_seconds == pytest.approx(plain.tpot_seconds)


def test_the_host_makes_tokens_of_what_is_cached_too() -> None:
    asked = ("llama_3_8b", (1, 1, 1, 1), 20.0, Requests(3_000, 200, cached=2_000), WHOLE)
    plain, more = (state(*asked, f"host.cached_token_overhead={each}")[0] for each in ("0 us", "2 us"))
    assert more.ttft_seconds - plain.ttft_seconds == pytest.approx(2_000 * 2e-6)
    assert more.tpot_seconds == pytest.approx(plain.tpot_seconds)


def test_decoding_goes_on_while_the_host_launches_a_prompt() -> None:
    """80 us per kernel: a short prompt alone waits for the CPU, and during decode only for the remainder.

    Outputs are so long that no two prompts start in one step.
    """
    asked = Requests(600, 2_000)
    slow, _ = state("llama_3_8b", (1, 1, 1, 1), 4.0, asked, "host.launch=80 us")
    fast, _ = state("llama_3_8b", (1, 1, 1, 1), 4.0, asked, "host.launch=0 us")
    assert float(slow.prefill.chip_share[0]) < 0.7
    np.testing.assert_allclose(slow.prefill.chip_share * slow.prefill.seconds, fast.prefill.seconds)
    # The launch of a prompt takes longer than its work on the chips.
    hidden = slow.prefill.busy_seconds - slow.decode_seconds
    assert hidden > fast.prefill.busy_seconds
    answer = slow.decode_seconds * asked.decode_steps + 3.0 * hidden
    np.testing.assert_allclose(slow.tpot_seconds, answer / asked.decode_steps, rtol=1e-4)
    assert slow.tpot_seconds > fast.tpot_seconds
    # Prompts that pause decode hide no time.
    alone, _ = state("llama_3_8b", (1, 1, 1, 1), 4.0, asked, WHOLE, "host.launch=80 us")
    assert alone.tpot_seconds > slow.tpot_seconds


@pytest.mark.parametrize("batch", [40.0, 300.0, 2000.0])
def test_prompts_that_begin_in_the_same_step_are_launched_once(batch: float) -> None:
    """Average over all numbers of prompts in a step: the maximum of one launch and the work of all.

    Chips process all prompts of a step together, which takes less time than one after the other.
    """
    asked = Requests(100, 200)
    slow, _ = state("llama_3_8b", (1, 1, 1, 1), batch, asked, "host.launch=80 us")
    mean = (batch - 1.0) / asked.decode_steps
    working = float((slow.prefill.chip_share * slow.prefill.busy_seconds)[0])
    waiting = float((slow.prefill.busy_seconds - slow.decode_seconds)[0])
    chances = [math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) for count in range(1, 100)]
    free = setup("llama_3_8b", asked.mean_context, "host.launch=0 us")
    counts = np.arange(1.0, 100.0)
    shares = shared_steps(free, plans(), 100.0, 0.0, counts)
    assert shares[-1] < 0.9
    # Decode and prompts share the read of the weights in every step with a prompt.
    some = plans((1, 1, 1, 1), batch)
    usual = np.full(1, max(mean / -math.expm1(-mean), 1.0))
    saved = float(saved_seconds(free, some, 100.0, 0.0, usual)[0])
    works = working * counts * shares - saved
    assert 0.0 < saved < working
    added = sum(chance * max(waiting, work) for chance, work in zip(chances, works, strict=True))
    # The work of 6, 8, 9, 11 .. prompts is interpolated.
    rel = 1e-6 if batch < 100.0 else 2e-3
    assert float(slow.tpot_seconds[0]) == pytest.approx(float(slow.decode_seconds[0]) + added, rel=rel)


@settings(max_examples=15, deadline=None)
@given(models, layouts, batches, prompts, answers, chunks)
def test_a_slower_host_makes_nothing_quicker(
    model: str, layout: tuple[int, int, int, int], batch: float, isl: int, osl: int, chunk: str
) -> None:
    asked = Requests(isl, osl)
    fast, slow = (state(model, layout, batch, asked, chunk, f"host.launch={us} us")[0] for us in (2, 60))
    assert (slow.tpot_seconds >= fast.tpot_seconds * (1.0 - 1e-9)).all()
    # Prompts that take nearly as long as a step wait in bunches of other sizes. With outputs of a few steps, the
    # analytical wait may be off by some percent.
    slack = 1e-9 if osl > 16 else 0.03
    assert (slow.ttft_seconds >= fast.ttft_seconds * (1.0 - slack)).all()
    assert (slow.requests_per_second <= fast.requests_per_second * (1.0 + 1e-9)).all()
    assert ((slow.prefill.chip_share > 0.0) & (slow.prefill.chip_share <= 1.0 + 1e-9)).all()


def test_batches_below_one_per_group_leave_groups_without_work() -> None:
    """With two groups of four, a step for one sequence is as long as one for two, except for shared work."""
    one, two, three, four = (
        steady(setup(), plans((8, 4, 1, 1), batch), Requests(1_000, 200)).decode_seconds
        for batch in (1.0, 2.0, 3.0, 4.0)
    )
    assert one == pytest.approx(two, rel=5e-3)
    assert two < three
    assert three == pytest.approx(four, rel=5e-3)
    idle = replace(plans((8, 4, 1, 1)), batch=np.ones(1))
    assert prompts_together(setup(), idle) == pytest.approx(2.0)
