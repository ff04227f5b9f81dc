"""Mixtures of experts over many chips: placement of ranks, traffic, expert copies, two-batch overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference_econ.engine import Plans, Setup, evaluate, memory, step_seconds
from inference_econ.engine.layouts.startable import any_takes_turns
from inference_econ.inputs import Precision, ServingEngine, catalog
from tests.planned import plan_of, row_of, setup_of
from tests.reading import present, scalar

LAYERS, HIDDEN, ACTIVE = 58, 7168, 8


def _setup(model: str, chip: str, *changes: str, preset: str = "deployable") -> Setup:
    return setup_of(model, chip, 2000.0, *changes, preset=preset)


def _exchange(setup: Setup, plans: Plans, name: str = "experts in") -> tuple[float, float, float]:
    """Return ranks and domains of the all-to-all [1], and the bytes that each chip sends per token of the batch [B]."""
    (found,) = (each for each in row_of(setup, plans, name).collectives["1d"] if each.kind == "all_to_all")
    return scalar(found.ranks), scalar(found.domains), scalar(found.bytes_per_token)


def _slow(setup: Setup, share: float) -> Setup:
    nic = present(setup.hardware.nic_bytes_per_second_one_way)
    return replace(setup, hardware=setup.hardware.model_copy(update={"nic_bytes_per_second_one_way": nic * share}))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(
        ["deepseek_v3", "qwen3_235b_a22b", "gpt_oss_120b", "mixtral_8x7b", "llama_3_70b", "qwen3_32b"]
    ),
    chip=st.sampled_from(["h100_sxm", "h200_sxm", "h800_sxm", "b200", "mi300x", "gb200_nvl72", "l40s"]),
    tp=st.sampled_from([1, 2, 3, 4, 8, 16]),
    dp=st.sampled_from([1, 2, 3, 4, 8, 16, 32]),
    share=st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
    inner=st.sampled_from(["tensor", "experts"]),
    preset=st.sampled_from(["deployable", "profiles/hopper", "profiles/sglang", "profiles/blackwell"]),
)
def test_a_stage_over_several_domains_hangs_on_the_network(
    model: str, chip: str, tp: int, dp: int, share: int, inner: str, preset: str
) -> None:
    setup = _setup(model, chip, f"network.inner_group={inner}", preset=preset)
    stage = tp * dp
    ep = share if stage % share == 0 and not model.startswith(("llama", "qwen3_32b")) else 1
    plans = plan_of(tp, dp, ep=ep, batch=8.0 * stage)
    usual, slow = (float(step_seconds(each, plans)[0][0]) for each in (setup, _slow(setup, 1e-9)))
    if stage > setup.hardware.link_domain:
        assert slow > 1e3 * usual
    else:
        assert slow == usual


def test_groups_that_cut_a_stage_both_ways_do_not_both_lie_inside_a_node() -> None:
    # 32 chips in nodes of 8: chips 0 to 7 store parts of the same experts, and chips with other experts are 8 apart.
    plans = plan_of(4, 8, ep=4, batch=1024)
    setup = _setup("qwen3_235b_a22b", "h200_sxm", "experts.replicated_tokens=exchanged")
    assert _exchange(setup, plans)[:2] == (4.0, 4.0)
    (summed,) = (each for each in row_of(setup, plans, "experts out").collectives["1d"] if each.kind == "all_reduce")
    assert (scalar(summed.ranks), scalar(summed.domains)) == (8.0, 1.0)
    # The other way about the exchange of 4 is inside, and the sum over 8 has two chips of each node.
    inside = _setup("qwen3_235b_a22b", "h200_sxm", "experts.replicated_tokens=exchanged", "network.inner_group=experts")
    assert _exchange(inside, plans)[:2] == (4.0, 1.0)
    (summed,) = (each for each in row_of(inside, plans, "experts out").collectives["1d"] if each.kind == "all_reduce")
    assert (scalar(summed.ranks), scalar(summed.domains)) == (8.0, 4.0)


def test_chips_that_share_an_expert_sum_what_it_gave_for_every_copy_of_a_token() -> None:
    # Each of 4 expert-parallel ranks gets a copy of nearly every token. The 4 copies of 2 B x hidden are reduced over 8
    # chips, whose group has 8 of the 32 chips' parts.
    setup = _setup("qwen3_235b_a22b", "h200_sxm", "experts.replicated_tokens=exchanged")
    plans = plan_of(4, 8, ep=4, batch=1024)
    (summed,) = (each for each in row_of(setup, plans, "experts out").collectives["1d"] if each.kind == "all_reduce")
    assert scalar(summed.bytes_per_token) == pytest.approx(4 * 2 * 4096 * 8 / 32)


def test_engines_gather_all_tokens_where_experts_are_cut_as_well_as_spread() -> None:
    # 32 chips gather 2 B x hidden for every token, and scatter the sums: one all-reduce over four nodes.
    setup, plans = _setup("qwen3_235b_a22b", "h200_sxm"), plan_of(4, 8, ep=4, batch=1024)
    assert _exchange(setup, plans)[0] == 1.0
    (summed,) = (each for each in row_of(setup, plans, "experts out").collectives["1d"] if each.kind == "all_reduce")
    assert (scalar(summed.ranks), scalar(summed.domains)) == (32.0, 4.0)
    assert scalar(summed.bytes_per_token) == pytest.approx(2 * 4096)


@pytest.mark.rows
def test_copies_of_experts_are_held(ranks: int, redundant: int, held: int) -> None:
    setup = _setup("deepseek_v3", "h800_sxm", f"experts.redundant={redundant}")
    plans = plan_of(1, ranks, ep=ranks, batch=float(ranks))
    each = 3 * HIDDEN * 2048 * 1.0
    groups = setup.memory_of_one_accelerator(plans)
    scale = 1.0 + 4.0 / 128**2  # of a block of 128 x 128
    assert groups["experts"] == pytest.approx(LAYERS * held / ranks * each * scale, rel=1e-3)
    assert setup.reasons(plans, "1d").item() in (memory.FITS, memory.WEIGHTS, memory.CACHE)


def test_ranks_with_copies_read_what_they_hold() -> None:
    # Enough tokens to touch every expert: 288 / 72 = 4 experts on a chip.
    setup = _setup("deepseek_v3", "h100_sxm")
    plans = plan_of(1, 72, ep=72, batch=72.0 * 256)
    rows = [row_of(setup, plans, f"experts {side}") for side in ("in", "out")]
    read = sum(scalar(row.weight_bytes) for row in rows)
    assert read == pytest.approx(4 * 3 * HIDDEN * 2048 * (1.0 + 4.0 / 128**2), rel=1e-2)


@pytest.mark.parametrize(
    ("model", "weights", "element"),
    [("deepseek_v3", None, 1.0 + 4.0 / 128), ("deepseek_v3", "bf16", 2.0), ("gpt_oss_120b", None, 2.0)],
)
def test_tokens_travel_as_they_are_multiplied(model: str, weights: str | None, element: float) -> None:
    # One copy for each of 8 (4 of gpt-oss) active experts from each of 16 chips: 1/16 of the tokens.
    setup = _setup(model, "h100_sxm")
    setup = replace(setup, precision=Precision.of(setup.model, weights))
    hidden, active = float(setup.model.hidden_size), 4 if model.startswith("gpt") else ACTIVE
    plans = plan_of(1, 16, ep=16, batch=4096)
    even = replace(setup, assumptions=setup.assumptions.changed({"experts.spread": "even"}))
    assert _exchange(even, plans)[2] == pytest.approx(active * hidden * element / 16, rel=2e-2)
    assert _exchange(even, plans, "experts out")[2] == pytest.approx(active * hidden * 2.0 / 16)


def test_prompts_cross_once_per_domain_and_decode_steps_once_per_copy() -> None:
    # Routing of DeepSeek-V3 reaches at most 4 of 8 groups, on 4 nodes at most 4 domains: of 8 copies 4 would cross.
    setup, plans = _setup("deepseek_v3", "h800_sxm"), plan_of(1, 32, ep=32, batch=4096)
    crossings = []
    for phase in (plans, replace(plans, prefill=True, new_tokens=64)):
        row = row_of(setup, phase, "experts in")
        (found,) = (each for each in row.collectives["1d"] if each.kind == "all_to_all")
        crossings.append(scalar(found.crossing))
    # To 32 ranks a token of a prompt sends 32 (1 - (31/32)^8) = 7.2 copies, since some of its experts share a rank.
    reached, copies = 4 * (1 - (3 / 4) ** ACTIVE), 32 * (1 - (31 / 32) ** ACTIVE)
    assert crossings == pytest.approx([1.0, reached / copies])


@pytest.mark.parametrize(("ranks", "prompts"), [(2, 1.992), (8, 5.251), (16, 6.453), (32, 7.177), (128, 7.785)])
def test_prompts_send_a_copy_per_rank_and_decode_steps_one_per_expert(ranks: int, prompts: float) -> None:
    # R (1 - (1 - 1/R)^8) ranks contain 8 uniformly drawn experts; 2 B per element return.
    setup, plans = _setup("deepseek_v3", "b200"), plan_of(1, ranks, ep=ranks, batch=64.0 * ranks)
    even = replace(setup, assumptions=setup.assumptions.changed({"experts.spread": "even"}))
    sent = [
        _exchange(even, phase, "experts out")[2] * ranks / (HIDDEN * 2)
        for phase in (plans, replace(plans, prefill=True, new_tokens=64))
    ]
    assert sent == pytest.approx([ACTIVE, prompts], rel=1e-3)


def test_two_halves_take_turns_where_groups_exchange_tokens_whatever_the_domain() -> None:
    def steps(plans: Plans, domain: int) -> list[float]:
        """Return step times without and with two-batch overlap [s]."""
        setups = [
            _setup("deepseek_v3", "h800_sxm", f"network.two_batch_overlap={kind}")
            for kind in ("never", "with_exchanges")
        ]
        chip = setups[0].hardware.model_copy(update={"link_domain": domain})
        return [scalar(step_seconds(replace(setup, hardware=chip), plans)[0]) for setup in setups]

    wide, prompts = (
        plan_of(1, 32, ep=32, batch=4096.0),
        replace(plan_of(1, 32, ep=32, batch=128.0), prefill=True, new_tokens=1024),
    )
    for plans, domain in ((wide, 8), (prompts, 8), (prompts, 72)):
        never, turns = steps(plans, domain)
        assert turns < never
    # Experts that are cut as well, or on the ranks of one group, are reached by no exchange; a sequence has no halves.
    for plans in (
        plan_of(1, 32, ep=8, batch=4096.0),
        plan_of(32, 1, ep=32, batch=4096.0),
        plan_of(1, 32, ep=32, batch=1.0),
    ):
        never, turns = steps(plans, 8)
        assert turns == never
    setup = _setup("deepseek_v3", "h800_sxm", "network.two_batch_overlap=with_exchanges")
    assert scalar(evaluate(setup, wide, "1d").seconds) == pytest.approx(steps(wide, 8)[1])


@pytest.mark.rows
def test_engines_that_take_turns(engine: str, model: str, generation: str, ep: int, able: bool) -> None:
    engines = [ServingEngine(engine, catalog.engine(engine).at())]
    for step in (
        plan_of(1, 32, ep=ep, batch=4096.0),
        replace(plan_of(1, 32, ep=ep, batch=32.0), prefill=True, new_tokens=1024),
    ):
        assert bool(np.all(any_takes_turns(engines, catalog.model(model), generation, step))) is able


def test_exchanges_of_prompts_take_processors_from_the_other_half() -> None:
    # 4 prompts of 1,024 tokens on each of 32 chips: each half has work W and all-to-all time X, in parallel with the
    # other.
    plans = replace(plan_of(1, 32, ep=32, batch=128.0), prefill=True, new_tokens=1024)
    never = _setup("deepseek_v3", "h800_sxm", "network.two_batch_overlap=never")
    half = evaluate(never, replace(plans, batch=plans.batch / 2.0), "1d")
    exchanged = sum(scalar(part) for name, part in half.parts.items() if name.startswith(("all_", "pipeline")))
    worked = scalar(half.seconds) - exchanged - scalar(half.parts["host"])
    for share in (0.0, 0.15):
        turns = _setup("deepseek_v3", "h800_sxm", f"network.exchange_processors={share}")
        expected = 2.0 * max(worked + share * exchanged, exchanged)
        assert scalar(step_seconds(turns, plans)[0]) == pytest.approx(expected, rel=1e-3)
        assert scalar(evaluate(turns, plans, "1d").seconds) == pytest.approx(
            scalar(step_seconds(turns, plans)[0]), rel=1e-12
        )


@pytest.mark.parametrize("engine", ["sglang", "vllm", "deepseek"])
def test_defaults_are_what_engines_do_with_wide_groups(engine: str) -> None:
    facts, experts = catalog.engine(engine).at(), catalog.assumptions("deployable").experts
    prompts, decoding = (
        next(it for it in facts.exchanges if it.wide and it.phase in (phase, "both") and not it.within_domain)
        for phase in ("prefill", "decode")
    )
    assert (prompts.copies, decoding.copies) == ("per_domain", "per_expert")
    assert experts.all_to_all_crossing == "by_phase"
    assert {each.dispatch["fp8_block"] for each in (prompts, decoding)} == {"fp8_g128"}
    assert experts.dispatch == "weights"
    assert {overlap.kind for overlap in facts.overlap if overlap.phase in ("prefill", "decode", "both")} >= {
        "two_batch"
    }
    assert catalog.assumptions("deployable").network.two_batch_overlap == "with_exchanges"
    assert facts.redundant_experts.supported
    assert experts.redundant is not None
    assert experts.balanced_from


def test_groups_lie_as_the_engine_that_cuts_and_spreads_lays_them() -> None:
    assert catalog.engine("sglang").at().inside == catalog.assumptions("deployable").network.inner_group
