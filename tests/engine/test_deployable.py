"""Additions of the ``deployable`` preset: caches with heads, data-parallel attention, merged all-reduces, units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.explain import ridge
from inference_econ.errors import InputError
from inference_econ.records.texts import layout_label
from inference_econ.report.questions.explain import operator_table
from tests import asking

FIXTURES = Path(__file__).parents[1] / "fixtures"


def explain(*subject: object, **asked: object) -> ie.Explanation:
    return asking.explain(*subject, **{"assumptions": "deployable", **asked})


def _part(explained: ie.Explanation, name: str) -> float:
    return float(explained.costs.parts[name][0])


def test_chips_beyond_the_kv_heads_hold_copies() -> None:
    # Llama 3 70B has 8 KV heads: from 4 to 8 chips the reads halve, from 8 to 16 they are constant.
    four, eight, sixteen = (
        _part(explain("llama_3_70b", "gb200_nvl72", tp=tp, batch=128, context=8000), "kv_cache") for tp in (4, 8, 16)
    )
    assert four == pytest.approx(2 * eight)
    assert sixteen == pytest.approx(eight)


def test_the_published_study_spreads_the_cache_over_all_chips() -> None:
    asked = {"batch": 256, "context": 8000, "assumptions": "paper", "model": "llama_3_70b", "hardware": "gb200_nvl72"}
    eight, sixteen = (explain(tp=tp, **asked).costs.busy["kv_cache"][0] for tp in (8, 16))
    assert eight == pytest.approx(2 * sixteen)


def test_a_latent_cache_is_copied_by_tensor_parallelism_and_split_by_data_parallelism() -> None:
    asked = {"model": "deepseek_v3", "hardware": "h200_sxm", "batch": 64, "context": 8000}
    tensor, data = explain(tp=8, **asked), explain(tp=1, dp=8, **asked)
    assert tensor.costs.busy["kv_cache"][0] == pytest.approx(8 * data.costs.busy["kv_cache"][0])
    # Data parallelism costs eight copies of the weights of attention and of the shared expert.
    spec = ie.model("deepseek_v3")
    attention, shared = spec.parameter_parts()["attention"], 58 * 3 * 7168 * 2048
    # But of the down-projections, 7168 to 1536 + 512 + 64 in each of 61 layers, every rank has a copy either way.
    down = 61 * 7168 * (1536 + 512 + 64)
    weights = [one.memory.of_one_plan()[0] for one in (tensor, data)]
    # Embeddings in 16 bits and the three dense layers as well; routers every chip has whole in both.
    dense, embeddings = 3 * 3 * 7168 * 18432, 2 * 2 * 129280 * 7168
    copied = (attention - down + shared + dense) * (1 + 4 / 128**2) + embeddings
    assert weights[1] - weights[0] == pytest.approx(7 * copied, rel=1e-4)
    caches = [one.memory.of_one_plan()[1] for one in (tensor, data)]
    assert caches[0] == pytest.approx(8 * caches[1])


def test_a_batch_splits_into_micro_batches_without_rest_and_over_groups_with_one() -> None:
    nine, ten = (explain("llama_3_8b", "h100_sxm", tp=1, dp=2, batch=batch, engine="any") for batch in (9, 10))
    # The fuller group has five in both.
    assert nine.memory.of_one_plan()[1] == ten.memory.of_one_plan()[1]
    assert nine.costs.busy["kv_cache"][0] == pytest.approx(ten.costs.busy["kv_cache"][0])
    with pytest.raises(InputError, match=r"the batch does not split into micro-batches .*pp=2, batch=9"):
        explain("llama_3_8b", "h100_sxm", tp=1, pp=2, batch=9)


def test_labels_say_how_attention_is_laid_out() -> None:
    explained = explain("deepseek_v3", "h200_sxm", tp=1, dp=16, batch=64)
    assert layout_label(explained.layout) == "dp16ep16"
    assert explained.accelerators == 16


def test_side_by_side_blocks_need_one_sum() -> None:
    # Falcon's layers are parallel: merged, each waits for one all-reduce instead of two.
    merged, apart = (
        explain("falcon_180b", "h200_sxm", tp=8, batch=8, assumptions=_without_norms(change))
        for change in ("layout.parallel_blocks=merged", "layout.parallel_blocks=apart")
    )
    assert _part(apart, "all_reduce_latency") == pytest.approx(2 * _part(merged, "all_reduce_latency"))
    plain = ie.model("falcon_180b").blocks[0].replace(parallel=False)
    sequential = ie.model("falcon_180b").replace(blocks=(plain,))
    one_after_the_other = explain(sequential, "h200_sxm", tp=8, batch=8, assumptions=_without_norms())
    assert one_after_the_other.seconds == pytest.approx(apart.seconds)


def _without_norms(*changes: str) -> ie.Assumptions:
    """A sequential layer has one more norm."""
    return ie.assumptions("deployable", changes=["chip.pointwise=free", *changes])


@pytest.mark.parametrize("chip", ["b200", "h100_sxm", "mi355x"])
def test_utilisation_never_exceeds_what_the_arithmetic_sustains(chip: str) -> None:
    # Experts in 4 bits and the rest in 16 run on different units, each with its own peak.
    explained = explain("gpt_oss_120b", chip, tp=2, batch=8192, context=0, price=1)
    sustained = explained.setup.assumptions.chip.math_efficiency
    assert 0.01 < explained.mfu <= sustained


@pytest.mark.rows
def test_units_as_engines_use_them(weights: str, chip: str, unit: str) -> None:
    setup = explain("llama_3_8b", chip, tp=1, weights=weights, price=1).setup
    assert setup.rates.unit(setup.precision.weights) == unit


def test_memory_keeps_head_room() -> None:
    needed = explain("llama_3_8b", "h100_sxm", tp=2, batch=4).memory
    workspace = float(np.ravel(needed.workspace_bytes)[0])
    assert needed.of_one_plan()[2] + workspace == pytest.approx(2 * 0.9 * ie.hardware("h100_sxm").hbm_bytes)
    # 8192 tokens: 4 x 4096 elements and a half of 2 x 14336 in 2 bytes, and 4 rows of logits in 4; on both chips.
    assert workspace == pytest.approx(2 * (8192 * (4 * 4096 + 14336) * 2 + 4 * 128256 * 4))


def _config(tmp_path: Path, name: str) -> ie.ModelSpec:
    found = next((FIXTURES / "hf_configs").glob(f"*{name}*.json"))
    target = tmp_path / "config.json"
    target.write_text(json.dumps(json.loads(found.read_text())))
    return ie.model(str(target))


def test_a_recurrent_state_costs_the_same_at_any_context(tmp_path: Path) -> None:
    model = _config(tmp_path, "Qwen3-Next-80B-A3B")
    plain = ie.assumptions("deployable", changes=["attention.scores={}"])
    short, long = (explain(model, "h200_sxm", tp=2, batch=32, context=c, assumptions=plain) for c in (0.0, 100_000.0))
    # 36 recurrent layers store 20 million elements, most of them in 4 bytes, read and written once per step.
    state = _part(short, "kv_cache") * short.setup.rates.bytes_per_second * 2 / 32
    assert state == pytest.approx(2 * 4 * model.state_elements_per_sequence, rel=0.05)
    # The cache of the 12 attention layers grows (2 KV heads, separate on 2 chips).
    grown = (_part(long, "kv_cache") - _part(short, "kv_cache")) * short.setup.rates.bytes_per_second * 2 / 32
    assert grown == pytest.approx(model.kv_elements_per_token * 2 * 100_000)


def test_an_indexer_bounds_what_is_read_but_scans_every_key(tmp_path: Path) -> None:
    model = _config(tmp_path, "DeepSeek-V3.2")
    plain = ie.model("deepseek_v3")
    assumed = ie.assumptions("deployable", changes=["per_family.blackwell.attention.scores={}"])
    sparse, full = (
        explain(spec, "gb300_nvl72", tp=1, dp=8, batch=8, context=120_000, price=1, assumptions=assumed)
        for spec in (model, plain)
    )
    read = [np.ravel(one.costs.busy["kv_cache"])[0] * one.setup.rates.bytes_per_second for one in (sparse, full)]
    # One sequence per group: 2048 latents of 576 in 2 bytes and 120,000 index keys of 128 + 4 bytes, against 120,000
    # latents.
    assert read[0] == pytest.approx(61 * (2 * 2048 * 576 + 120_000 * 132))
    assert read[1] == pytest.approx(61 * 2 * 120_000 * 576)


def test_each_rank_of_an_exchange_sends_over_its_own_link() -> None:
    # 16 ranks in two nodes: half of the copies cross, over one 50 GB/s NIC per rank. In an all-reduce, the node's eight
    # NICs would share them, and the 15/16 that pass each chip's 450 GB/s link would take longest: 1 / 100 against 1 /
    # 480.
    asked = {"model": "deepseek_v3", "hardware": "h200_sxm", "tp": 1, "dp": 16, "ep": 16, "batch": 4096, "context": 0}
    own, shared = (
        explain(assumptions=_published_nccl(f"experts.all_to_all_traffic={traffic}"), **asked)
        for traffic in ("own_link", "as_all_reduce")
    )
    ratio = _part(own, "all_to_all_bandwidth") / _part(shared, "all_to_all_bandwidth")
    assert ratio == pytest.approx(480 / 100)
    copies, tokens_per_rank = 8, 4096 / 16
    wire = copies * tokens_per_rank * 7168 * 2 / 2 / 50e9
    assert _part(own, "all_to_all_bandwidth") >= 58 * 2 * wire


def _published_nccl(*changes: str) -> ie.Assumptions:
    """Use one share of payload for links and network."""
    alone = ["network.two_batch_overlap=never", "experts.dispatch=activations"]
    return ie.assumptions("deployable", changes=["network.collectives=nccl_2_23", *alone, *changes])


@pytest.mark.rows
def test_further_choices_of_the_study_can_be_set(change: str, slower: bool | None) -> None:
    asked = {"model": "paper/mixtral_8x22b", "hardware": "paper/h100", "context": 0, "new_tokens": 4, "weights": "bf16"}
    sizes, batches = [20.0, 45.0], [3.0, 200.0]
    preset = asking.best_step_seconds(accelerators=sizes, batch=batches, assumptions="paper", **asked)
    changed = asking.best_step_seconds(
        accelerators=sizes, batch=batches, assumptions=ie.assumptions("paper", changes=[change]), **asked
    )
    assert (preset != changed).any()
    if slower is False:
        assert (changed <= preset).all()


def test_an_input_embedding_can_be_left_out_of_what_must_fit() -> None:
    model = ie.model("llama_3_8b")
    assumed = [ie.assumptions("deployable", changes=[f"capacity.embeddings={which}"]) for which in ("both", "output")]
    steps = (explain(model, "h100_sxm", tp=1, assumptions=each) for each in assumed)
    both, output = (step.memory.of_one_plan()[0] for step in steps)
    assert both - output == pytest.approx(model.vocab_size * model.hidden_size * 2)


def test_sixteen_bit_activations_are_of_the_kind_of_the_weights() -> None:
    # A V100 has no bf16 unit, so that fp16 weights must bring fp16 activations along.
    assert explain("llama_3_8b", "v100_sxm2_32", tp=1, weights="fp16").setup.precision.activations == "fp16"
    narrow = ie.Setup.of("llama_3_8b", "v100_sxm2_32", weights="int8").precision
    assert (narrow.activations, narrow.kv, narrow.embeddings) == ("fp16", "fp16", "fp16")


@pytest.mark.parametrize(("chip", "weights"), [("h100_sxm", "bf16"), ("t4", "fp16")])
def test_weights_that_are_published_in_32_bits_are_loaded_in_16(chip: str, weights: str) -> None:
    assert ie.Setup.of("gemma_2_9b", chip).precision.weights == weights
    assert ie.Setup.of("gemma_2_9b", chip, weights="fp32").precision.weights == "fp32"


@pytest.mark.parametrize("model", ["llama_3_70b", "deepseek_v3", "gpt_oss_120b"])
def test_the_operator_table_adds_up_to_the_step(model: str) -> None:
    explained = explain(model, "gb200_nvl72", tp=8, batch=64)
    rows = explained.operators
    launches = _part(explained, "launches")
    # Each operator has its own roofline here, so a step is the sum of the operators' limits.
    total = sum(one.together_seconds + one.network_seconds for one in rows) + launches
    for one in rows:
        longer, shorter = sorted((one.compute_seconds, one.memory_seconds), reverse=True)
        # Part of the shorter time of a product is not hidden: on Blackwell at most half of it for dense products.
        hidden = 0.0 if one.name in ("experts in", "experts out") else 0.5
        assert longer * (1 - 1e-12) <= one.together_seconds <= longer + (1 - hidden) * shorter * (1 + 1e-9)
        if not one.flop:
            assert one.together_seconds == pytest.approx(longer)
    assert total == pytest.approx(explained.seconds)
    assert sum(one.launch_seconds for one in rows) == pytest.approx(launches)
    assert {one.bound for one in rows} == {"memory", "network", "launch"}
    assert all(0 < one.achieved <= 0.95 for one in rows)  # expert kernels read at up to 0.95
    for one in rows:
        rate = explained.setup.hardware.dense_flops_per_second[one.unit]  # type: ignore[index]
        assert one.flop <= one.compute_seconds * rate * (1 + 1e-12)
    shown = operator_table(explained)
    assert [row[0] for row in shown.rows] == [one.name for one in rows]
    assert shown.rows[0][5] == f"{ridge(explained.setup, rows[0].unit):.0f} {rows[0].unit}"
    assert len(shown.every_note) == 5  # no time is hidden
    record = explained.record()
    assert len(json.loads(json.dumps(record))["operators"]) == len(rows)


def test_experts_are_not_cut_inside_a_quantisation_block() -> None:
    # 768 / 8 = 96 elements would share a scale of 128 with a neighbor; expert parallelism does not cut them.
    asked = {"model": "qwen3_30b_a3b", "hardware": "h100_sxm", "tp": 8, "weights": "fp8_block"}
    message = "width of 768 does not split over the ranks in whole quantisation blocks of 128"
    with pytest.raises(InputError, match=message):
        explain(ep=1, **asked)
    assert explain(ep=8, **asked).layout["ep"] == 8
    assert explain(ep=1, **{**asked, "weights": "fp8"}).layout["tp"] == 8


@pytest.mark.parametrize(("chip", "kernels"), [("h100_sxm", 3), ("mi300x", 2), ("tpu_v5p", 0)])
def test_each_family_has_collectives_of_its_own(chip: str, kernels: int) -> None:
    assumed = ie.assumptions("deployable").for_chip(ie.hardware(chip))
    assert len(getattr(assumed.network.collectives, "kernels", {})) == kernels
