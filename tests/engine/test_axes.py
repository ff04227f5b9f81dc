"""Each choice by itself: what it changes, in which direction, and that ``deployable`` without them is ``paper``."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.setup import Question
from inference_econ.engine.step import evaluate, step_seconds
from inference_econ.inputs import catalog
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.precision import Precision

Array = npt.NDArray[np.float64]

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

#: Dense, parallel, windowed, experts with and without shared ones, latent attention.
MODELS = ("llama_3_70b", "falcon_180b", "gpt_oss_120b", "qwen3_30b_a3b", "deepseek_v2", "deepseek_v3")
CHIPS = ("h100_sxm", "a100_sxm_80", "b200", "tpu_v5p")
models, chips = st.sampled_from(MODELS), st.sampled_from(CHIPS)
presets = st.sampled_from(["paper", "deployable"])
contexts = st.sampled_from([0.0, 1.0, 777.0, 20_000.0])


def _question(model: str, chip: str, context: float, assumptions: Assumptions) -> Question:
    spec = catalog.model(model)
    return Question.of(spec, catalog.hardware(chip), Precision.of(spec), context, assumptions)


@cache
def _preset(name: str, changes: tuple[str, ...] = ()) -> Assumptions:
    return catalog.assumptions(name, changes=changes)


def _asked(model: str, chip: str, context: float, preset: str, *changes: str) -> Question:
    return _question(model, chip, context, _preset(preset, changes))


def _plan(tp: float = 1, dp: float = 1, pp: float = 1, ep: float = 1, batch: float = 1, new_tokens: float = 1) -> Plans:
    one = np.ones(1)
    return Plans(one * tp * dp * pp, one * batch, one * pp, one * tp, one * ep, new_tokens=new_tokens, whole=True)


@st.composite
def plans(draw: st.DrawFn) -> Plans:
    """A few plans in whole numbers, of decode, verification or prefill."""
    powers = st.integers(0, 3)
    drawn = draw(st.lists(st.tuples(powers, powers, st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=4))
    tp, dp, pp, batch = 2.0 ** np.array(drawn, dtype=float).T
    ep = np.minimum(tp * dp, 16.0)
    prefill = draw(st.booleans())
    new_tokens = draw(st.sampled_from([100, 3000]) if prefill else st.integers(1, 5))
    return Plans(tp * dp * pp, batch * dp * pp, pp, tp, ep, new_tokens=new_tokens, prefill=prefill)


def _number(value: object) -> float:
    return float(np.ravel(np.asarray(value, dtype=float))[0])


# From ``deployable`` to ``paper``, one field at a time.

#: Parts of a step, and of its memory, that may change when a field of ``deployable`` takes the value it has in
#: ``paper``; and whether the step takes "more", "less" or as it comes ("") where its overlap is that of the field.
COMPUTE, WEIGHTS, ACTIVATIONS, CACHE = "compute", "weights", "activations", "kv_cache"
REDUCE = {"all_reduce_latency", "all_reduce_bandwidth"}
EXCHANGE = {"all_to_all_latency", "all_to_all_bandwidth"}
WORK = {COMPUTE, WEIGHTS, ACTIVATIONS, CACHE}
EFFECTS: dict[str, tuple[set[str], str]] = {
    "overlap": (WORK, "less"),
    "math_unit_follows": ({COMPUTE, WEIGHTS}, "less"),
    "per_family": ({COMPUTE, *REDUCE, *EXCHANGE, "pipeline"}, ""),
    "widened_efficiency": ({WEIGHTS}, "less"),
    "step_overhead": ({"host"}, "less"),
    "launches": ({"launches", "host"}, ""),
    "cuda_graphs": ({"host"}, "more"),
    "graph_launch": ({"launches"}, ""),
    "collectives": ({*REDUCE, *EXCHANGE, "pipeline"}, ""),
    "collective_overhead": ({"all_reduce_latency", "all_to_all_latency", "pipeline"}, "less"),
    "pipeline_hop": ({"pipeline"}, "more"),
    "attention_groups": ({*WORK, *REDUCE, "weight_bytes", "available_bytes"}, ""),
    "kv_placement": ({CACHE, "kv_bytes"}, "less"),
    "parallel_blocks": (REDUCE, "more"),
    "expert_sparsity": ({COMPUTE, WEIGHTS, ACTIVATIONS}, ""),
    "shared_experts": ({COMPUTE, WEIGHTS, ACTIVATIONS, *REDUCE, *EXCHANGE, "launches"}, ""),
    "expert_all_reduce": (REDUCE, "more"),
    "all_to_all_ranks": (EXCHANGE, "less"),
    "all_to_all_traffic": ({"all_to_all_bandwidth"}, "less"),
    "expert_activations": ({ACTIVATIONS}, "less"),
    "replicated_tokens": ({*REDUCE, *EXCHANGE}, ""),
    "latent_traffic": ({WEIGHTS, ACTIVATIONS}, "more"),
    "pointwise": ({ACTIVATIONS, "launches"}, "less"),
    "embedding_flop": ({COMPUTE}, "more"),
    "scale_down_repeats_embedding": ({COMPUTE}, "more"),
    "verify_context": ({COMPUTE, CACHE}, "less"),
    "kv_capacity": ({"kv_bytes"}, ""),
    "kv_block": ({"kv_bytes"}, ""),
    "usable_memory": ({"available_bytes"}, ""),
    "workspace_tokens": ({"available_bytes"}, ""),
}
#: Fields that say nothing about a single step at a given layout.
ELSEWHERE = {"tensor_layouts", "draft_in_capacity", "expected_tokens", "prefill_chunk", "request_overhead"}
#: What a field needs beside it to matter.
WITH = {
    # A narrow unit may need a kernel that quantises.
    "math_unit_follows": ("graph_launch=0 us",),
    "cuda_graphs": ("launch=100 us",),
    "graph_launch": ("graph_launch=2 us",),
}
#: Deployments in which every field matters somewhere.
DEPLOYMENTS = (
    _plan(tp=8, ep=8, batch=64),
    _plan(tp=2, dp=8, ep=16, batch=64),
    _plan(tp=4, pp=2, batch=64, new_tokens=3),
    _plan(tp=8, pp=4, ep=8, batch=128),
    _plan(),
)


def _differing() -> list[str]:
    paper, deployable = _preset("paper"), _preset("deployable")
    prose = {"name", "description", "extends", "sources"}
    fields = (name for name in Assumptions.model_fields if name not in prose)
    return [name for name in fields if getattr(paper, name) != getattr(deployable, name)]


def _measures(question: Question, plan: Plans) -> dict[str, float]:
    costs, memory = evaluate(question, plan, "1d"), question.memory(plan)
    parts = {name: _number(part) for name, part in costs.parts.items()}
    held = {name: _number(getattr(memory, name)) for name in ("weight_bytes", "kv_bytes", "available_bytes")}
    return {**parts, **held, "seconds": _number(costs.seconds)}


def test_every_choice_of_the_deployable_preset_is_looked_at() -> None:
    assert set(_differing()) <= set(EFFECTS) | ELSEWHERE, "say above what a choice changes"


@pytest.mark.parametrize("field", sorted(set(EFFECTS) & {*_differing(), *WITH}))
def test_a_choice_changes_what_it_is_about_and_nothing_else(field: str) -> None:
    allowed, direction = EFFECTS[field]
    # With all parts of a step shown, unless the field decides on that.
    shown = () if field == "overlap" else ("overlap=none",)
    before = _preset("deployable", (*shown, *WITH.get(field, ())))
    after = before.model_copy(update={field: getattr(_preset("paper"), field)})
    changed = set()
    for model in MODELS:
        for chip in CHIPS[:3]:
            for plan in DEPLOYMENTS:
                first, second = (_measures(_question(model, chip, 1000.0, one), plan) for one in (before, after))
                changed |= {name for name, value in first.items() if value != second[name]} - {"seconds"}
                if direction == "more":
                    assert second["seconds"] >= first["seconds"] * (1 - ROUNDING), (model, chip)
                if direction == "less":
                    assert second["seconds"] <= first["seconds"] * (1 + ROUNDING), (model, chip)
    assert changed, "it has an effect"
    assert changed <= allowed


@pytest.mark.parametrize("field", sorted(ELSEWHERE & set(_differing())))
def test_other_choices_leave_a_step_alone(field: str) -> None:
    before = _preset("deployable")
    after = before.model_copy(update={field: getattr(_preset("paper"), field)})
    for model in MODELS:
        first, second = (
            _measures(_question(model, "h100_sxm", 1000.0, one), DEPLOYMENTS[2]) for one in (before, after)
        )
        assert first == second


@few
@given(model=models, chip=chips, context=contexts, at=plans())
def test_deployable_without_its_choices_is_the_published_study(
    model: str, chip: str, context: float, at: Plans
) -> None:
    paper, mended = _preset("paper"), _preset("deployable")
    for field in _differing():
        mended = mended.model_copy(update={field: getattr(paper, field)})
    one, other = _question(model, chip, context, paper), _question(model, chip, context, mended)
    # Bit for bit, in every cut.
    for first, second in zip(step_seconds(one, at), step_seconds(other, at), strict=True):
        assert np.array_equal(first, second)
    assert np.array_equal(one.memory(at).fits, other.memory(at).fits)


def test_what_makes_the_difference_between_the_presets_is_listed_in_seconds() -> None:
    """The way from one preset to the other for a large mixture of experts: every step of it, and its end."""
    paper, walked = _preset("paper"), _preset("deployable")
    plan, seconds = _plan(tp=2, dp=8, ep=16, batch=4096), {}
    for field in sorted(_differing(), key=list(Assumptions.model_fields).index):
        walked = walked.model_copy(update={field: getattr(paper, field)})
        question = _question("deepseek_v3", "h200_sxm", 2000.0, walked)
        seconds[field] = _number(step_seconds(question, plan)[-1])
    end = _number(step_seconds(_question("deepseek_v3", "h200_sxm", 2000.0, paper), plan)[-1])
    assert list(seconds.values())[-1] == end
    start = _number(step_seconds(_question("deepseek_v3", "h200_sxm", 2000.0, _preset("deployable")), plan)[-1])
    moves = dict(zip(seconds, np.diff([start, *seconds.values()]), strict=True))
    assert sum(moves.values()) == pytest.approx(end - start, rel=1e-9)
    moved = {field for field, change in moves.items() if change != 0.0}
    assert {"launches", "overlap", "attention_groups", "kv_placement", "all_to_all_traffic"} <= moved
    assert moved <= set(EFFECTS)


# Directions, whatever the model, chip, preset and plan.

#: Choices of which the second is never slower, in every preset.
QUICKER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "operators overlap": (("overlap=none",), ("overlap=operator",)),
    "the step overlaps": (("overlap=operator",), ("overlap=step",)),
    "graphs": (("launches=per_operator", "cuda_graphs=false"), ("launches=per_operator", "cuda_graphs=true")),
    "less time per kernel": (
        ("launches=per_operator", "graph_launch=5 us"),
        ("launches=per_operator", "graph_launch=1 us"),
    ),
    "less time per launch": (
        ("launches=per_operator", "cuda_graphs=false", "launch=50 us"),
        ("launches=per_operator", "cuda_graphs=false", "launch=5 us"),
    ),
    "launches per layer": (
        ("launches=per_layer", "launches_per_layer=4"),
        ("launches=per_layer", "launches_per_layer=1"),
    ),
    "no host": (("step_overhead=1 ms",), ("step_overhead=0 us",)),
    "even experts": (("expert_imbalance=2",), ("expert_imbalance=1",)),
    "nearly even experts": (("expert_imbalance=3",), ("expert_imbalance=1.5",)),
    "ranks alike": (("expert_spread=random",), ("expert_spread=even",)),
    "no tiles of experts": (("expert_tile=128",), ("expert_tile=0",)),
    "experts overlap": (("expert_overlap=0", "overlap=operator"), ("expert_overlap=1", "overlap=operator")),
    "popular experts": (("expert_popularity_scv=0",), ("expert_popularity_scv=2",)),
    "no host per sequence": (("sequence_overhead=100 us",), ("sequence_overhead=0 us",)),
    "arithmetic of experts": (("expert_math_efficiency=0.1",), ("expert_math_efficiency=0.6",)),
    "scaled blocks": (("block_math_efficiency=0.5",), ("block_math_efficiency=1",)),
    "narrow arithmetic": (("narrow_math_efficiency=0.5",), ("narrow_math_efficiency=1",)),
    "two batches": (("two_batch_overlap=never",), ("two_batch_overlap=when_faster",)),
    "copies on arrival": (("all_to_all_crossing=per_copy",), ("all_to_all_crossing=per_domain",)),
    "8-bit dispatch": (("expert_dispatch=activations",), ("expert_dispatch=eight_bit",)),
    "arithmetic": (("math_efficiency=0.5", "per_family={}"), ("math_efficiency=0.9", "per_family={}")),
    "memory": (("hbm_efficiency=0.5", "per_family={}"), ("hbm_efficiency=0.9", "per_family={}")),
    "attention": (("attention_math_efficiency=0.1",), ("attention_math_efficiency=0.6",)),
    "expert weights": (("expert_hbm_efficiency=0.3",), ("expert_hbm_efficiency=0.7",)),
    "cache reads": (("kv_hbm_efficiency=0.3",), ("kv_hbm_efficiency=0.7",)),
    "links": (("link_efficiency=0.5",), ("link_efficiency=1",)),
    "nobody waits": (("collective_overhead=10 us",), ("collective_overhead=0 us",)),
    "free widening": (("widened_efficiency=0.5",), ("widened_efficiency=1",)),
    "network": (
        ("collectives=engines_hopper", "collectives.network_factor=0.5", "per_family={}"),
        ("collectives=engines_hopper", "collectives.network_factor=0.9", "per_family={}"),
    ),
    "exchanges between domains": (
        ("collectives=engines_hopper", "collectives.exchange_per_domain_doubling=20 us", "per_family={}"),
        ("collectives=engines_hopper", "collectives.exchange_per_domain_doubling=2 us", "per_family={}"),
    ),
    "free norms": (("pointwise=counted",), ("pointwise=free",)),
    "nearest hand-off": (("pipeline_hop=between_domains",), ("pipeline_hop=nearest",)),
    "kernels beside NCCL": (
        ("collectives=engines_hopper", "collectives.kernels={}", "per_family={}"),
        ("collectives=engines_hopper", "per_family={}"),
    ),
    "rings beside trees": (
        ("collectives=engines_ampere", "collectives.ring={}", "per_family={}"),
        ("collectives=engines_ampere", "per_family={}"),
    ),
    "traffic at the same time": (("collectives.domains_overlap=false",), ("collectives.domains_overlap=true",)),
}


@settings(few, max_examples=20)
@pytest.mark.parametrize("choice", list(QUICKER))
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
def test_never_slower(choice: str, model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    slow, quick = (_asked(model, chip, context, preset, *changes) for changes in QUICKER[choice])
    for before, after in zip(step_seconds(slow, at), step_seconds(quick, at), strict=True):
        assert (after <= before * (1 + ROUNDING)).all()


#: Choices of which the second never leaves more memory.
FULLER: dict[str, tuple[str, str]] = {
    # Multiples of a block: others may divide a context better.
    "larger blocks": ("kv_block=16", "kv_block=128"),
    "blocks at all": ("kv_block=1", "kv_block=16"),
    "a workspace": ("workspace_tokens=0", "workspace_tokens=1000"),
    "a larger workspace": ("workspace_tokens=1000", "workspace_tokens=8192"),
    "head-room": ("usable_memory=1", "usable_memory=0.9"),
    "the whole batch": ("kv_capacity=micro_batch", "kv_capacity=batch"),
    "both embeddings": ("embedding_capacity=output", "embedding_capacity=both"),
}


def _left(question: Question, at: Plans) -> Array:
    memory = question.memory(at)
    return np.asarray(memory.available_bytes - memory.kv_bytes - memory.weight_bytes)


@few
@pytest.mark.parametrize("choice", list(FULLER))
@given(model=models, chip=chips, preset=presets, context=st.floats(0.0, 1e5), at=plans())
def test_never_leaves_more_memory(choice: str, model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    before, after = (_left(_asked(model, chip, context, preset, change), at) for change in FULLER[choice])
    assert (after <= before + 1e-9 * np.abs(before)).all()


@few
@given(model=models, preset=presets, context=contexts, at=plans(), host=st.sampled_from(["1 ms", "30 us"]))
def test_the_host_adds_its_time_to_every_step(model: str, preset: str, context: float, at: Plans, host: str) -> None:
    free, paid = (_asked(model, "h100_sxm", context, preset, f"step_overhead={one}") for one in ("0 us", host))
    added = 1e-3 if host == "1 ms" else 30e-6
    for before, after in zip(step_seconds(free, at), step_seconds(paid, at), strict=True):
        assert after - before == pytest.approx(np.full(at.shape, added), rel=1e-6)


@few
@given(
    model=models,
    context=contexts,
    at=plans(),
    changes=st.sampled_from(
        [
            ("two_batch_overlap=when_faster",),
            ("two_batch_overlap=when_faster", "overlap=none"),
            ("cuda_graphs=false", "launch=20 us"),
            ("cuda_graphs=false", "launch=20 us", "two_batch_overlap=when_faster", "step_overhead=100 us"),
            ("attention_math_efficiency=0.2", "expert_hbm_efficiency=0.4", "kv_hbm_efficiency=0.3"),
            ("latent_attention=decompressed",),
            ("latent_attention=decompressed_per_step",),
            ("expert_imbalance=2", "expert_dispatch=eight_bit", "all_to_all_crossing=per_domain"),
        ]
    ),
)
def test_parts_add_up_under_every_choice(model: str, context: float, at: Plans, changes: tuple[str, ...]) -> None:
    question = _asked(model, "h100_sxm", context, "deployable", *changes)
    costs = evaluate(question, at, "1d")
    assert costs.seconds == pytest.approx(step_seconds(question, at)[0], rel=ROUNDING)
    assert sum(costs.parts.values()) == pytest.approx(costs.seconds, rel=ROUNDING)
    assert all((part >= 0).all() for part in costs.parts.values())


def test_labels_of_the_choices_are_fields() -> None:
    named = {change.partition("=")[0].partition(".")[0] for pair in QUICKER.values() for one in pair for change in one}
    named |= {change.partition("=")[0] for pair in FULLER.values() for change in pair}
    assert named | set(EFFECTS) | ELSEWHERE <= set(Assumptions.model_fields)
    assert ie.assumptions("deployable") == _preset("deployable")


def test_blocks_of_scales_slow_down_chips_that_scale_other_blocks() -> None:
    model, assumed = (
        catalog.model("deepseek_v3"),
        catalog.assumptions("deployable", changes=["block_math_efficiency=0.5"]),
    )
    slower = {}
    for chip in ("h200_sxm", "b200"):
        plain, halved = (
            Question.of(model, catalog.hardware(chip), Precision.of(model), 1000.0, each)
            for each in (catalog.assumptions("deployable"), assumed)
        )
        for dtype in ("fp8_block", "fp8"):
            slower[chip, dtype] = plain.flops_per_second(dtype) / halved.flops_per_second(dtype)
    assert slower == {
        ("h200_sxm", "fp8_block"): 1.0,
        ("h200_sxm", "fp8"): 1.0,
        ("b200", "fp8_block"): 2.0,
        ("b200", "fp8"): 1.0,
    }
