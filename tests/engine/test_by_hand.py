"""Steps of small plans by hand: a dense model, mixtures of experts, latent attention; routers are simulated."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from inference_econ.engine import Network, collective_seconds, evaluate, step_seconds
from tests.planned import plan_of, row_of, setup_of
from tests.reading import scalar

_LL = "{LL: {base: 7 us, per_rank: 1 us, per_domain_doubling: 5 us, bandwidth_factor: 0.5}}"
_ONE_SHOT = "one_shot: {shape: one_shot, base: 3.6 us, per_rank: 0.01 us, bandwidth_factor: 0.58}"
_TWO_SHOT = "two_shot: {shape: two_shot, base: 2.4 us, per_rank: 1.25 us, bandwidth_factor: 0.49}"
#: Changes that make presets simple enough for hand calculations.
PLAIN = (
    f"network.collectives={{kind: nccl_tree, version: '1', protocols: {_LL}}}",
    "network.collective_overhead=0 us",
    "network.two_batch_overlap=never",
    "experts.dispatch=activations",
    "experts.all_to_all_crossing=per_copy",
)
KERNELS = (
    f"network.collectives={{kind: nccl_tree, version: '1', protocols: {_LL}, kernels: {{{_ONE_SHOT}, {_TWO_SHOT}}}}}",
    "network.collective_overhead=0 us",
)


@pytest.mark.parametrize(("batch", "kernel"), [(1, "one_shot"), (64, "two_shot")])
def test_two_all_reduces_per_layer_of_a_dense_model(batch: int, kernel: str) -> None:
    # Llama 3 8B on eight chips: tokens of 4096 in two bytes, 32 x 2 all-reduces on the faster kernel.
    setup, plan = setup_of("llama_3_8b", "h100_sxm", 0.0, *KERNELS), plan_of(8, batch=batch)
    size = batch * 4096 * 2
    each = {
        "one_shot": 3.6e-6 + 7 * 0.01e-6 + 7 * size / (450e9 * 0.58),
        "two_shot": 2.4e-6 + 7 * 1.25e-6 + 2 * 7 / 8 * size / (450e9 * 0.49),
    }
    assert min(each, key=each.__getitem__) == kernel
    parts = evaluate(setup, plan, "1d").parts
    found = scalar(parts["all_reduce_latency"] + parts["all_reduce_bandwidth"])
    assert found == pytest.approx(32 * 2 * each[kernel], rel=1e-12)
    # Ranks that wait for each other do so before each of them.
    waiting = setup_of("llama_3_8b", "h100_sxm", 0.0, KERNELS[0], "network.collective_overhead=3 us")
    late = evaluate(waiting, plan, "1d").parts["all_reduce_latency"] - parts["all_reduce_latency"]
    assert scalar(late) == pytest.approx(32 * 2 * 3e-6, rel=1e-9)


def test_an_exchange_of_experts_by_hand() -> None:
    # DeepSeek-V3, 16 ranks in two nodes with separate attention: a rank sends 8 copies of its 16 tokens. Half of them
    # go to the other node at the protocol's share of the rank's 50 GB/s, twice per MoE layer.
    plan = plan_of(1, 16, ep=16, batch=256)
    latency = 7e-6 + (8 - 1) * 1e-6 + math.log2(2) * 5e-6

    def exchanged(*changes: str) -> float:
        fields = {change.partition("=")[0] for change in changes}
        plain = (change for change in PLAIN if change.partition("=")[0] not in fields)
        setup = setup_of("deepseek_v3", "h200_sxm", 0.0, *plain, *changes)
        parts = evaluate(setup, plan, "1d").parts
        return scalar(parts["all_to_all_latency"] + parts["all_to_all_bandwidth"]) / 58

    nic, link, token = 50e9 * 0.5, 450e9 * 0.5, 7168 * 2
    sent = 16 * 8 * token
    each = latency + max(sent / 2 / nic, sent * 7 / 16 / link)
    assert exchanged() == pytest.approx(2 * each, rel=1e-12)
    # Dispatched in 8 bits, returned in 16.
    half = latency + sent / 2 / 2 / nic
    assert exchanged("experts.dispatch=eight_bit") == pytest.approx(half + each, rel=1e-12)
    # The busiest rank has half as much again.
    more = latency + 1.5 * sent / 2 / nic
    assert exchanged("experts.imbalance=1.5") == pytest.approx(2 * more, rel=1e-12)
    # Copies made on arrival: two domains reached by 8 experts, 2 (1 - 2^-8), so that about one copy crosses.
    reached = 2 * (1 - 0.5**8)
    near = sent * (7 / 16 + 0.5 * (1 - reached / 8))
    crossed = latency + max(sent * 0.5 * reached / 8 / nic, near / link)
    assert exchanged("experts.all_to_all_crossing=per_domain") == pytest.approx(2 * crossed, rel=1e-12)


def test_two_batches_in_turns_by_hand() -> None:
    plan = plan_of(1, 16, ep=16, batch=4096)
    alone = setup_of("deepseek_v3", "h200_sxm", 0.0, "network.two_batch_overlap=never")
    whole, half = (evaluate(alone, replace(plan, batch=plan.batch * share), "1d") for share in (1.0, 0.5))
    exchanged = sum(scalar(part) for name, part in half.parts.items() if name.startswith("all_"))
    worked = scalar(half.seconds) - exchanged
    turns = 2 * max(exchanged, worked)
    setup = setup_of("deepseek_v3", "h200_sxm", 0.0, "network.two_batch_overlap=when_faster")
    assert scalar(step_seconds(setup, plan)[0]) == pytest.approx(min(turns, scalar(whole.seconds)), rel=1e-12)
    assert turns < scalar(whole.seconds)


@pytest.mark.rows
def test_what_a_cached_token_costs_in_each_variant_of_latent_attention(variant: str, elements: int, flop: int) -> None:
    plan, change = plan_of(batch=1), f"attention.latent={variant}"
    short, long = (setup_of("deepseek_v2", "h100_sxm", c, change).work(plan) for c in (1000.0, 1001.0))
    read = math.fsum(scalar(row.repeats * row.kv_bytes_per_sequence) for row in long.operators)
    read -= math.fsum(scalar(row.repeats * row.kv_bytes_per_sequence) for row in short.operators)
    assert read == pytest.approx(60 * 2 * elements, rel=1e-9)
    worked = math.fsum(scalar(row.repeats * (row.flop_per_token + row.flop_per_sequence)) for row in long.operators)
    worked -= math.fsum(scalar(row.repeats * (row.flop_per_token + row.flop_per_sequence)) for row in short.operators)
    assert worked == pytest.approx(60 * flop, rel=1e-9)


def test_the_latent_is_copied_by_every_rank_and_decompressed_heads_are_not() -> None:
    # 576 elements on each of tp ranks against 128 x 320 spread over them: from tp 72 on, copies are larger.
    def cache(variant: str, tp: float) -> float:
        setup = setup_of("deepseek_v2", "gb200_nvl72", 1024.0, f"attention.latent={variant}")
        return setup.memory(plan_of(tp, ep=tp)).of_one_plan()[1]

    layer = 60 * 1024 * 2
    for tp in (1, 8, 64, 128):
        assert cache("absorbed", tp) == tp * 576 * layer
        assert cache("decompressed_per_step", tp) == tp * 576 * layer
        assert cache("decompressed", tp) == 128 * 320 * layer
    assert cache("absorbed", 64) < cache("decompressed", 64)
    assert cache("absorbed", 128) > cache("decompressed", 128)
    # Each rank reads its stored weights.
    plan = plan_of(8, ep=8)
    for variant, share in (("absorbed", 576.0), ("decompressed", 128 * 320 / 8)):
        setup = setup_of("deepseek_v2", "gb200_nvl72", 1024.0, f"attention.latent={variant}")
        assert scalar(row_of(setup, plan, "attention").kv_bytes_per_sequence) == 2 * 1024 * share


def test_norms_activation_functions_and_sampling_by_hand() -> None:
    # Llama 3 8B on two chips, 16 tokens: both ranks norm all tokens, and share the feed-forward width.
    setup, plan = setup_of("llama_3_8b", "h100_sxm", 0.0), plan_of(2, batch=16)
    per_token = {
        "norms": 2 * 4 * 4096 * 2,  # two norms: read the stream and the addend, write their sum and its norm
        "activation function": 3 * 14336 / 2 * 2,  # read gate and up, write their product
        "sampling": 3 * 128_256 * 4,
    }
    for name, moved in per_token.items():
        assert scalar(row_of(setup, plan, name).activation_bytes_per_token) == moved
    # Groups with separate sequences process norms and sampling only for those.
    grouped = plan_of(1, 2, batch=16)
    assert scalar(row_of(setup, grouped, "norms").activation_bytes_per_token) == 4 * 4096 * 2
    assert scalar(row_of(setup, grouped, "sampling").activation_bytes_per_token) == 3 * 128_256 * 4 / 2


def test_norms_are_counted_once_where_attention_and_feed_forward_run_side_by_side() -> None:
    falcon, llama = (setup_of(model, "h100_sxm", 0.0) for model in ("falcon_180b", "llama_3_70b"))
    assert row_of(falcon, plan_of(), "norms").launches == 1
    assert row_of(llama, plan_of(), "norms").launches == 2


@pytest.mark.parametrize(("imbalance", "ep"), [(1.0, 8), (2.5, 8), (2.5, 1)])
def test_everybody_waits_for_the_busiest_expert_rank(imbalance: float, ep: int) -> None:
    plan = plan_of(8, ep=ep, batch=64)
    even, uneven = (
        setup_of("qwen3_30b_a3b", "h100_sxm", 0.0, f"experts.imbalance={value}") for value in (1, imbalance)
    )
    for name in ("experts in", "experts out"):
        before, after = row_of(even, plan, name), row_of(uneven, plan, name)
        # One rank has no imbalance.
        factor = imbalance if ep > 1 else 1.0
        assert scalar(after.flop_per_token) == pytest.approx(factor * scalar(before.flop_per_token))
        assert scalar(after.weight_bytes) == scalar(before.weight_bytes)


# Node-limited routing, against routers that are simulated.


def _domains(experts: int, active: int, groups: int | None, best: int | None, domains: int) -> float:
    """Draw the mean number of link domains that contain a token's experts."""
    draw = np.random.default_rng(1)
    reached = 0
    for _ in range(4000):
        scores = draw.random(experts)
        if groups is not None and best is not None:
            # DeepSeek-V3: groups by the sum of their two best experts.
            each = np.sort(scores.reshape(groups, -1))[:, -2:].sum(axis=1)
            left_out = np.argsort(each)[: groups - best]
            scores.reshape(groups, -1)[left_out] = -1.0
        chosen = np.argsort(scores)[-active:]
        reached += len(set((chosen // (experts // domains)).tolist()))
    return reached / 4000


@pytest.mark.parametrize("domains", [2, 4, 8, 16])
@pytest.mark.parametrize("model", ["qwen3_30b_a3b", "deepseek_v3"])
def test_domains_that_a_token_reaches(model: str, domains: int) -> None:
    setup = setup_of(model, "h200_sxm", 0.0, "experts.all_to_all_crossing=per_domain")
    ranks = 8 * domains
    row = row_of(setup, plan_of(1, ranks, ep=ranks, batch=ranks), "experts in")
    (exchange,) = (one for one in row.collectives["1d"] if one.kind == "all_to_all")
    spec = setup.model.blocks[-1].feed_forward
    assert spec.kind == "experts"
    found = scalar(exchange.crossing) * spec.active_experts
    drawn = _domains(spec.experts, spec.active_experts, spec.routing_groups, spec.active_groups, domains)
    if spec.routing_groups is None or spec.active_groups is None:
        # The engine draws experts with replacement: a little fewer domains.
        assert found == pytest.approx(drawn, rel=0.02)
        return
    # Node-limited routing only caps the reach of free routing: exact if a group is a domain, too high elsewhere.
    assert drawn * 0.99 <= found <= drawn * (1.02 if domains in (2, spec.routing_groups) else 1.16)
    if domains == spec.routing_groups:
        assert found == spec.active_groups


def test_a_domain_that_holds_a_part_of_a_group_does_not_lower_the_limit() -> None:
    # DeepSeek-V3's 8 groups over 16 domains: 4 groups lie in 8 of them.
    setup = setup_of("deepseek_v3", "h200_sxm", 0.0, "experts.all_to_all_crossing=per_domain")
    row = row_of(setup, plan_of(1, 128, ep=128, batch=128), "experts in")
    (exchange,) = (one for one in row.collectives["1d"] if one.kind == "all_to_all")
    reached = 16 * (1 - (15 / 16) ** 8)
    assert scalar(exchange.crossing) * 8 == pytest.approx(min(reached, 8.0))


def test_a_collective_of_the_table_is_timed_like_the_step() -> None:
    setup, plan = setup_of("deepseek_v3", "h200_sxm", 0.0), plan_of(1, 16, ep=16, batch=256)
    work, network = setup.work(plan), Network.of(setup.hardware, setup.assumptions.network)
    total = math.fsum(
        scalar(row.repeats) * scalar(collective_seconds(network, one, work.tokens))
        for row in work.operators
        for one in row.collectives.get("1d", ())
    )
    parts = evaluate(setup, plan, "1d").parts
    shown = math.fsum(scalar(part) for name, part in parts.items() if name.startswith("all_") or name == "pipeline")
    assert shown == pytest.approx(total, rel=1e-12)
