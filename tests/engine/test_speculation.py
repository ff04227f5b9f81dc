"""Speculative decoding in service: rounds, memory, steady states and gain, against limits and a second calculation."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers import speculate
from inference_econ.engine import (
    Pins,
    Plans,
    Setup,
    Speculation,
    WholeLayouts,
    needed_memory,
    prefill,
    read_prompt,
    rounds,
)
from inference_econ.engine import memory as capacity
from inference_econ.engine.speculation import SpeculationRounds
from inference_econ.engine.speculation import head as head_of
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests, catalog
from inference_econ.report.questions import speculate as report
from inference_econ.search.fastest import token_seconds
from inference_econ.serving import steady
from tests import asking

BATCHES = np.unique(np.rint(np.geomspace(1, 4096, 40)))


REQUESTS = Requests(2000, 500)


@functools.cache
def setup(
    model: str = "llama_3_70b",
    hardware: str = "h100_sxm",
    context: float = 2250.0,
    weights: str | None = "fp8",
    assumptions: str = "deployable",
) -> Setup:
    return asking.setup(model, hardware, context, assumptions=assumptions, weights=weights)


@functools.cache
def rich() -> Setup:
    """Return a mixture of experts with a multi-token-prediction layer."""
    return setup("deepseek_v3_nvfp4", "b200", 2048.0, None)


def layout(tp: int, batch: npt.ArrayLike = BATCHES, *, dp: int = 1, pp: int = 1, ep: int = 1) -> Plans:
    one = np.ones(1)
    batches = np.asarray(batch, dtype=float)
    return Plans(one * tp * dp * pp, batches, one * pp, one * tp, one * ep, whole=True)


def drafted_by(name: str, acceptance: float = 0.8, longest: int = 5) -> Speculation:
    return Speculation.of("draft", acceptance, longest, model=catalog.model(name))


PROPOSALS = {
    "draft": drafted_by("llama_3_8b"),
    "eagle": Speculation.of("eagle", 0.8, 5),
    "ngram": Speculation.of("ngram", 0.8, 5),
}


# SpeculationRounds


def test_a_round_without_proposals_is_a_step() -> None:
    plans = layout(8)
    found = rounds(setup(), plans, PROPOSALS["eagle"])
    np.testing.assert_allclose(found.verify_seconds[:, 0], prefill.fastest_cut(setup(), plans), rtol=1e-12)
    np.testing.assert_allclose(found.verify_seconds[:, 3], prefill.fastest_cut(setup(), plans.verifying(4)), rtol=1e-12)
    np.testing.assert_allclose(found.seconds[:, 2], found.verify_seconds[:, 2] + 2 * found.draft_seconds, rtol=1e-12)


def test_free_and_certain_proposals_give_one_token_more_than_there_are() -> None:
    found = rounds(setup(), layout(8), Speculation.of("ngram", 1.0, 7))
    assert found.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not found.draft_seconds.any()
    small = found.best().length[0]
    assert small == 7
    assert found.best().speedup[0] == pytest.approx(8 * found.verify_seconds[0, 0] / found.verify_seconds[0, 7])


@pytest.mark.parametrize("assumptions", ["deployable", "paper"])
@pytest.mark.parametrize("batch", [1.0, 16.0, 100.0])
def test_a_single_chip_agrees_with_the_search_of_the_published_study(assumptions: str, batch: float) -> None:
    """Compare both series of accepted tokens; on one chip each model has one layout."""
    target = setup("llama_3_8b", "h100_sxm", 1000.0, "fp8", assumptions)
    speculation, one = drafted_by("qwen3_0_6b", 0.7, 6), np.ones(1)
    expected = token_seconds(target, one, one * batch, WholeLayouts(pipeline=False), speculation=speculation)
    best = rounds(target, layout(1, [batch]), speculation).best()
    assert float(best.seconds[0]) == pytest.approx(float(expected.seconds[0]), rel=1e-9)
    assert int(best.length[0]) == int(expected.drafted[0])


def test_more_experts_are_touched_by_more_tokens() -> None:
    """With few touched experts verification costs more, and speculation gains less than at larger batches."""
    speculation = Speculation.of("mtp", 0.8, 4)
    found = rounds(rich(), layout(8), speculation)
    dense = rounds(setup(), layout(8), replace(speculation, proposer="eagle"))
    one, eight, fifty = (int(np.searchsorted(BATCHES, size)) for size in (1, 8, 50))

    def added(series: SpeculationRounds, at: int) -> float:
        return float(series.verify_seconds[at, 4] / series.verify_seconds[at, 0] - 1.0)

    assert added(found, one) > 2 * added(dense, one)
    assert added(found, eight) > added(found, fifty)
    speedup = found.best().speedup
    assert speedup[eight] < speedup[one]
    assert speedup[eight] < speedup[fifty]


def test_the_host_schedules_a_round_once() -> None:
    slow = replace(setup(), assumptions=setup().assumptions.changed({"host.step_overhead": 0.01}))
    plans = layout(8, [4.0])
    for speculation in PROPOSALS.values():
        quick, late = (rounds(one, plans, speculation).seconds for one in (setup(), slow))
        np.testing.assert_allclose(late - quick, 0.01, rtol=1e-9)


def test_chips_wait_for_the_host_of_rounds_that_nobody_prepares_ahead() -> None:
    """Each speculation round adds 1 ms and 8 x 0.1 ms; a plain step is unchanged (by hand)."""
    ahead, plans = PROPOSALS["eagle"], layout(8, [8.0])
    exposed = replace(ahead, host_seconds=(1e-3, 1e-4))
    late, quick = (rounds(setup(), plans, speculation).seconds for speculation in (exposed, ahead))
    np.testing.assert_allclose(late - quick, [[0.0, *[1.8e-3] * 5]], rtol=1e-9)


# Speculation methods


def test_a_head_is_a_layer_a_projection_and_the_output_embedding() -> None:
    target = setup().model
    head = head_of(target)
    layer = (target.total_parameters - target.embedding_parameters) / target.layers
    expected = layer + 2 * target.hidden_size**2 + target.embedding_parameters
    assert head.total_parameters == pytest.approx(expected, rel=1e-4)  # norms
    deepseek = head_of(rich().model)
    assert [block.feed_forward.kind for block in deepseek.blocks] == ["dense", "experts"]
    # README_WEIGHTS.md of DeepSeek-V3 states 11.5 billion for this layer.
    assert (deepseek.total_parameters - deepseek.embedding_parameters) / 1e9 == pytest.approx(11.5, rel=0.01)


@pytest.mark.parametrize("name", ["nemotron_3_nano_30b_a3b", "qwen3_5_27b", "deepseek_v4_flash", "gpt_oss_20b"])
def test_a_head_of_a_model_whose_layers_differ_attends(name: str) -> None:
    head = head_of(catalog.model(name))
    assert head.blocks[-1].attention.kind not in ("none", "recurrent")
    assert head.blocks[-1].feed_forward.kind != "none"
    assert head.blocks[-1].layers == 1


def test_a_draft_model_is_cut_as_far_as_its_heads_divide() -> None:
    """28 heads on 8 chips: two copies on 4 chips each, with half of the batch."""
    plans = layout(8, [2.0, 64.0])
    found = rounds(setup(), plans, drafted_by("qwen2_5_7b"))
    helper = asking.setup("qwen2_5_7b", "h100_sxm", 2250.0, assumptions="deployable")
    np.testing.assert_allclose(found.draft_seconds, prefill.fastest_cut(helper, layout(4, [1.0, 32.0])), rtol=1e-12)
    weights = needed_memory(setup(), plans, drafted_by("qwen2_5_7b")).weight_bytes
    alone = capacity.weight_bytes(helper.model, helper.precision)
    assert (weights - setup().memory(plans).weight_bytes).tolist() == [2 * alone]


def test_groups_of_data_parallel_attention_draft_for_themselves() -> None:
    plans = layout(1, [4.0, 64.0], dp=8, ep=8)
    found = rounds(rich(), plans, drafted_by("qwen3_0_6b"))
    helper = asking.setup("qwen3_0_6b", "b200", 2048.0, assumptions="deployable", kv="fp8")
    np.testing.assert_allclose(found.draft_seconds, prefill.fastest_cut(helper, layout(1, [1.0, 8.0])), rtol=1e-12)


def test_a_draft_model_may_have_a_layout_of_its_own() -> None:
    """As in the study, the draft model runs on all chips with all sequences, in its fastest layout that fits."""
    own = catalog.assumptions("deployable", changes=["serving.draft_placement=own_layout"])
    target, draft = replace(setup(), assumptions=own), drafted_by("qwen3_8b")
    plans = layout(2, [8.0, 64.0], dp=4)
    helper = asking.setup("qwen3_8b", "h100_sxm", 2250.0, assumptions="deployable")
    helper = replace(helper, assumptions=helper.assumptions.changed({"host.step_overhead": 0.0}))
    best = np.minimum.reduce([prefill.fastest_cut(helper, layout(tp, [8.0, 64.0], dp=8 // tp)) for tp in (1, 2, 4, 8)])
    np.testing.assert_allclose(rounds(target, plans, draft).draft_seconds, best, rtol=1e-12)
    # Steady states have fractions of sequences, and groups of the draft a part of them.
    between = rounds(target, layout(2, [63.5], dp=4), draft).draft_seconds
    assert best[0] < float(between[0]) < best[1]
    # Stored once, not once per group.
    more = needed_memory(target, plans, draft).weight_bytes - target.memory(plans).weight_bytes
    assert more.tolist() == [capacity.weight_bytes(helper.model, helper.precision)]


def test_a_draft_model_without_room_for_any_layout_is_left_out() -> None:
    own = catalog.assumptions("deployable", changes=["serving.draft_placement=own_layout"])
    found = rounds(replace(setup(), assumptions=own), layout(1, [1.0, 1000.0]), drafted_by("llama_3_8b"))
    assert np.isfinite(found.draft_seconds[0])
    assert np.isinf(found.draft_seconds[1])
    assert (found.best().length > 0).tolist() == [True, False]
    assert np.isfinite(found.best().seconds).all()


def test_a_head_runs_on_one_stage_of_a_pipeline() -> None:
    eagle = PROPOSALS["eagle"]
    staged = rounds(setup(), layout(4, [16.0], pp=2), eagle).draft_seconds
    np.testing.assert_allclose(staged, rounds(setup(), layout(4, [16.0]), eagle).draft_seconds)


def test_the_format_of_a_head_is_its_own() -> None:
    """NVIDIA's 4-bit checkpoint leaves the last layer in 16 bits."""
    own, wide = (Speculation.of("mtp", 0.8, 2, weights=weights) for weights in (None, "bf16"))
    extra = [
        float((needed_memory(rich(), layout(8), one).weight_bytes - rich().memory(layout(8)).weight_bytes)[0])
        for one in (own, wide)
    ]
    layer = head_of(rich().model).replace(vocab_size=0).total_parameters
    # Each of 8 ranks stores the shared projections of all heads, 7168 to 1536 + 512 + 64, and the full router of the
    # layer.
    assert extra[1] == pytest.approx(2 * (layer + 7 * 7168 * (1536 + 512 + 64 + 256)), rel=1e-9)
    assert extra[0] < 0.6 * extra[1]


# Memory


def test_memory_of_the_proposer_is_counted() -> None:
    plans = layout(8, [10.0])
    own = setup().memory(plans)
    both = needed_memory(setup(), plans, PROPOSALS["draft"])
    alone = asking.setup("llama_3_8b", "h100_sxm", 2250.0, assumptions="deployable").memory(plans)
    np.testing.assert_allclose(both.weight_bytes, own.weight_bytes + alone.weight_bytes, rtol=1e-12)
    np.testing.assert_allclose(both.kv_bytes, own.kv_bytes + alone.kv_bytes, rtol=1e-12)
    head = needed_memory(setup(), plans, PROPOSALS["eagle"])
    assert float(head.kv_bytes[0] / own.kv_bytes[0]) == pytest.approx(81 / 80, rel=1e-12)
    nothing = needed_memory(setup(), plans, PROPOSALS["ngram"])
    assert float(nothing.weight_bytes[0]) == float(own.weight_bytes[0])


def test_the_assumptions_say_whether_it_counts() -> None:
    lenient = catalog.assumptions("deployable", changes=["capacity.draft=false"])
    free = replace(setup(), assumptions=lenient)
    plans = layout(8, [10.0])
    counted, not_counted = (needed_memory(one, plans, PROPOSALS["draft"]) for one in (setup(), free))
    assert float(counted.weight_bytes[0]) > float(not_counted.weight_bytes[0])
    assert float(not_counted.weight_bytes[0]) == float(free.memory(plans).weight_bytes[0])


def test_several_published_layers_all_take_memory() -> None:
    target = asking.setup("minimax_m2_5", "h200_sxm", 2250.0, assumptions="deployable")
    plans = layout(8, [1.0])
    extra = [
        float((needed_memory(target, plans, Speculation.of(kind, 0.8)).weight_bytes)[0])
        - float(target.memory(plans).weight_bytes[0])
        for kind in ("mtp", "eagle")
    ]
    assert extra[0] == pytest.approx(3 * extra[1], rel=1e-9)


# Gain and loss

chances = st.floats(0.0, 1.0)


@given(chance=chances, more=chances, kind=st.sampled_from(sorted(PROPOSALS)))
@settings(max_examples=25, deadline=None)
def test_more_acceptance_is_never_slower(chance: float, more: float, kind: str) -> None:
    low, high = sorted((chance, more))
    plans = layout(8, [1.0, 16.0, 200.0])
    slow, quick = (
        steady.steady(setup(), plans, REQUESTS, replace(PROPOSALS[kind], acceptance=(rate,) * 5))
        for rate in (low, high)
    )
    assert (quick.tpot_seconds <= slow.tpot_seconds * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", sorted(PROPOSALS))
def test_proposals_that_are_never_accepted_never_help(kind: str) -> None:
    speculation = replace(PROPOSALS[kind], acceptance=(0.0,) * 5)
    assert not rounds(setup(), layout(8), speculation).best().length.any()
    plain = steady.steady(setup(), layout(8), REQUESTS)
    found = steady.steady(setup(), layout(8), REQUESTS, speculation)
    assert (found.tpot_seconds >= plain.tpot_seconds).all()
    if kind == "ngram":
        np.testing.assert_allclose(found.tpot_seconds, plain.tpot_seconds, rtol=1e-12)
        np.testing.assert_allclose(found.ttft_seconds, plain.ttft_seconds, rtol=1e-12)


@given(tokens=st.floats(0.0, 20_000.0), chance=st.floats(0.05, 0.95), tp=st.sampled_from([1, 4, 8]))
@settings(max_examples=20, deadline=None)
def test_the_best_draft_gets_shorter_as_batches_grow(tokens: float, chance: float, tp: int) -> None:
    """A dense model with free draft tokens and one roofline per step; see :meth:`SpeculationRounds.best` for others."""
    bound = setup("llama_3_70b", "h100_sxm", round(tokens), "fp8", "ideal")
    lengths = rounds(bound, layout(tp), Speculation.of("ngram", chance, 6)).best().length
    assert (np.diff(lengths) <= 0).all()


@pytest.mark.parametrize("assumptions", ["ideal", "deployable"])
def test_speculation_ends_where_arithmetic_bounds_a_step(assumptions: str) -> None:
    short = setup("llama_3_70b", "h100_sxm", 100.0, "fp8", assumptions)
    lengths = rounds(short, layout(8), PROPOSALS["eagle"]).best().length
    assert lengths[0] == 5
    assert lengths[-1] == 0
    # The tokens of a sequence share the reads of its cache, so long contexts have room for some.
    long = setup("llama_3_70b", "h100_sxm", 30_000.0, "fp8", assumptions)
    assert rounds(long, layout(8), PROPOSALS["eagle"]).best().length[-1] >= 3


# Steady states


def test_a_steady_state_has_rounds_in_the_place_of_steps() -> None:
    plans, eagle = layout(8, [1.0, 10.0, 100.0]), PROPOSALS["eagle"]
    # No two prompts of 2000 tokens fit a step.
    narrow = setup()
    narrow = replace(narrow, assumptions=narrow.assumptions.changed({"serving.prefill_chunk": 2048}))
    found = steady.steady(narrow, plans, REQUESTS, eagle)
    series = rounds(narrow, plans, eagle)
    best = series.best()
    read = read_prompt(narrow, plans, 2000.0, 0.0, eagle)
    waiting = (plans.batch - 1.0) * read.busy_seconds / 499.0
    # A prompt in a round shares the read of the weights.
    assert (found.tpot_seconds[1:] < (best.seconds + waiting)[1:]).all()
    assert (found.tpot_seconds[1:] > (best.seconds + 0.5 * waiting)[1:]).all()
    np.testing.assert_allclose(found.decode_seconds, best.seconds, rtol=1e-12)
    own = prefill.prefill(narrow, plans, 2000.0).busy_seconds
    assert (read.busy_seconds > own).all()
    assert (read.busy_seconds < 1.05 * own).all()  # one layer and a bit of 80
    # A new prompt waits for the rest of a whole round.
    plain = steady.steady(narrow, plans, REQUESTS)
    step = np.take_along_axis(series.seconds, best.length[:, None], axis=-1)[:, 0]
    assert (step[1:] > plain.decode_seconds[1:]).all()
    assert (found.running_seconds[1:] > plain.running_seconds[1:]).all()


def test_rounds_of_one_length_are_the_longest_whether_they_pay_or_not() -> None:
    """With three draft tokens that give 2.4 tokens, the time per token is a round over 2.4 (by hand)."""
    plans, mtp = layout(8, [1.0, 64.0]), Speculation.fixed("mtp", 3, 2.4, weights="bf16")
    series = rounds(rich(), plans, mtp)
    seconds = series.verify_seconds[:, 3] + 3.0 * series.draft_seconds
    found = steady.steady(rich(), plans, Requests(1024, 1024), mtp)
    np.testing.assert_allclose(found.decode_seconds, seconds / 2.4, rtol=1e-12)
    # A single request meets no other prompt.
    assert found.tpot_seconds[0] == pytest.approx(seconds[0] / 2.4)
    # Draft tokens that are never accepted only cost.
    vain = Speculation.fixed("mtp", 3, 1.0, weights="bf16")
    slow = steady.steady(rich(), plans, Requests(1024, 1024), vain)
    np.testing.assert_allclose(slow.decode_seconds, seconds, rtol=1e-12)
    assert (slow.decode_seconds > steady.steady(rich(), plans, Requests(1024, 1024)).decode_seconds).all()


def test_acceptance_of_one_length_has_its_mean_and_the_least_variance() -> None:
    serving = setup().assumptions.serving
    for tokens, chances in ((1.0, (0.0, 0.0, 0.0)), (2.4, (1.0, 0.4, 0.0)), (4.0, (1.0, 1.0, 1.0))):
        fixed = Speculation.fixed("eagle", 3, tokens)
        assert fixed.acceptance == pytest.approx(chances)
        assert fixed.tokens(serving)[-1] == pytest.approx(tokens)
    assert Speculation.fixed("eagle", 3, 2.4).record()["shortest_draft"] == 3
    assert Speculation.of("eagle", 0.8, 3).record()["shortest_draft"] == 0


@pytest.mark.parametrize(
    "fixed", [Speculation.fixed("eagle", 2, 1.2), Speculation.fixed("draft", 2, 1.2, model=catalog.model("llama_3_8b"))]
)
def test_a_search_keeps_to_one_length_even_where_it_does_not_pay(fixed: Speculation) -> None:
    one, batches = np.array([8.0]), np.array([1.0, 128.0])
    found = token_seconds(setup(), one, batches, WholeLayouts(pipeline=False), speculation=fixed)
    assert (found.drafted == 2).all()
    free = token_seconds(setup(), one, batches, WholeLayouts(pipeline=False), speculation=replace(fixed, shortest=0))
    assert (free.seconds < found.seconds).all()
    assert (free.drafted < 2).all()
    by_hand = rounds(setup(), layout(8, batches), fixed).seconds[:, 2] / 1.2
    assert found.seconds[0] == pytest.approx(by_hand[0])
    # Other layouts may be faster.
    assert found.seconds[1] <= by_hand[1]


def test_copies_of_a_draft_read_prompts_side_by_side() -> None:
    plans = layout(8, [1.0])
    helper = asking.setup("qwen2_5_7b", "h100_sxm", 2250.0, assumptions="deployable")
    own, alone = (prefill.prefill(one, two, 2000.0) for one, two in ((setup(), plans), (helper, layout(4, [1.0]))))
    both = read_prompt(setup(), plans, 2000.0, 0.0, drafted_by("qwen2_5_7b"))
    assert float(both.seconds[0]) == pytest.approx(float(own.seconds[0] + alone.seconds[0]))
    assert float(both.busy_seconds[0]) == pytest.approx(float(own.busy_seconds[0] + alone.busy_seconds[0]))
    assert float(both.full_seconds[0]) == pytest.approx(float(own.full_seconds[0] + alone.full_seconds[0] / 2))


# Offers


def test_speculation_takes_slots() -> None:
    settings = {"weights": "fp8", "pins": Pins(tp=8, dp=1, pp=1), "assumptions": "deployable"}
    plain, drafted, looked_up = (
        asking.offer("llama_3_70b", "h100_sxm", REQUESTS, speculation=speculation, **settings)
        for speculation in (None, PROPOSALS["draft"], PROPOSALS["ngram"])
    )
    assert drafted.slots[0] < plain.slots[0]
    assert looked_up.slots[0] == plain.slots[0]


# Range in which speculation pays


def _pay(speculation: Speculation, asked: Requests = REQUESTS) -> speculate.Speculated:
    return asking.speculate(
        "llama_3_70b", "h100_sxm", asked, speculation, tp=8, weights="fp8", assumptions="deployable"
    )


def test_where_a_draft_model_stops_paying() -> None:
    found = _pay(PROPOSALS["draft"])
    assert found.concurrency[0] == 1
    assert found.concurrency[-1] == found.speculating.slots < found.plain.slots
    assert found.pays[0] and not found.pays[-1]
    last = found.concurrency[np.flatnonzero(found.pays)[-1]]
    assert 80 <= last <= 140
    assert found.drafted[0] > found.drafted[-1]
    some = found.at([1, 64, 1e9])
    assert some.concurrency.tolist() == [1.0, 64.0, found.concurrency[-1]]
    assert some.speedup[0] == pytest.approx(
        float(steady.steady(setup(), layout(8, [1.0]), REQUESTS).tpot_seconds[0])
        / float(steady.steady(setup(), layout(8, [1.0]), REQUESTS, PROPOSALS["draft"]).tpot_seconds[0])
    )
    dollars = found.dollars(found.plain_state)
    expected = 8 * found.dollars_per_accelerator_hour / 3600 / (found.plain_state.requests_per_second * 500) * 1e6
    np.testing.assert_allclose(dollars, expected, rtol=1e-12)
    charts = report.speculation_charts(found)
    assert charts[0].marks == {"not faster from": float(found.concurrency[np.flatnonzero(found.pays)[-1] + 1])}
    assert [len(chart.lines) for chart in charts] == [2, 1]
    assert len(charts[0].lines[0].x) == found.concurrency.size


def test_free_proposals_that_are_accepted_always_pay() -> None:
    found = _pay(Speculation.of("ngram", 0.9, 4), Requests(500, 100))
    assert found.pays.all()
    assert report.speculation_charts(found)[0].marks == {}
    without, full = found.full_dollars()
    assert full < without


def test_acceptance_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("target_logprob,draft_logprob\n-1.0,-0.3068528194400547\n-0.1,-0.5\n", encoding="utf-8")
    assert speculate.measured_acceptance(path, None) == pytest.approx(0.75)
    path.write_text(
        "target_logprob,draft_logprob,position\n-1.0,-0.3068528194400547,1\n-0.1,-0.5,2\n", encoding="utf-8"
    )
    assert speculate.measured_acceptance(path, None) == pytest.approx([0.5, 1.0])
    assert speculate.measured_acceptance(path, 1) == pytest.approx([0.5])
    with pytest.raises(InputError, match="acceptance of positions 1 to 2 is known, a draft of 3 needs more"):
        speculate.measured_acceptance(path, 3)


# Bad input


@pytest.mark.rows
def test_impossible_speculation_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Speculation.of(*arguments)  # type: ignore[arg-type]


def test_impossible_rounds_of_one_length_are_refused() -> None:
    for length in (0, 65):
        with pytest.raises(InputError, match=f"the draft length must be from 1 to 64 tokens, got {length}"):
            Speculation.fixed("ngram", length, 1.0)
    for tokens in (0.9, 4.1):
        with pytest.raises(InputError, match=f"3 draft tokens gives from 1 to 4 tokens, got {tokens}"):
            Speculation.fixed("ngram", 3, tokens)
    for shortest in (-1, 4):
        with pytest.raises(InputError, match=f"from 0 to the 3 tokens of the longest, got {shortest}"):
            replace(Speculation.of("ngram", 0.8, 3), shortest=shortest)


def test_speculation_that_does_not_go_with_a_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"only the speculation method 'draft' takes a draft model, got Llama 3\.1 8B"):
        Speculation.of("mtp", 0.8, model=catalog.model("llama_3_8b"))
    with pytest.raises(InputError, match="n-grams have no weights, got the format fp8"):
        Speculation.of("ngram", 0.8, weights="fp8")
    with pytest.raises(InputError, match=r"Llama 3.1 70B has no multi-token-prediction layers \(mtp_layers: 0\)"):
        rounds(setup(), layout(8), Speculation.of("mtp", 0.8))
    for name in ("llama_3_70b", "llama_3_405b"):
        with pytest.raises(InputError, match=r"a draft model must be smaller than its target: Llama 3\.1 .* billion"):
            rounds(setup(), layout(8), drafted_by(name))
    with pytest.raises(InputError, match="unknown number format 'nvfp4x'"):
        rounds(setup(), layout(8), Speculation.of("eagle", 0.8, weights="nvfp4x"))
    with pytest.raises(InputError, match="answers of 1 token need no decode step"):
        _pay(PROPOSALS["ngram"], Requests(100, 1))


def test_what_does_not_fit_beside_the_proposer_is_told() -> None:
    with pytest.raises(NothingFitsError, match=r"70B with its draft model on 2 x .*: 157.2 GB of weights and"):
        asking.speculate("llama_3_70b", "h100_sxm", REQUESTS, PROPOSALS["draft"], tp=2)
    with pytest.raises(NothingFitsError, match="GB, those of the draft model included"):
        asking.offer("llama_3_70b", "h100_sxm", REQUESTS, pins=Pins(tp=2, dp=1, pp=1), speculation=PROPOSALS["draft"])
