"""Each choice by itself: what it changes, in which direction, and that ``deployable`` without them is ``paper``."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import Plans, Setup, evaluate, step_seconds
from inference_econ.inputs import Assumptions, HardwareSpec, ModelSpec, Precision, catalog, value_of
from inference_econ.inputs.assumptions import field_names
from tests.reading import scalar

Array = npt.NDArray[np.float64]

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])

#: Dense, parallel, windowed, in chunks, experts with and without shared ones, latent attention, all of it or picked.
MODELS = (
    "llama_3_70b",
    "falcon_180b",
    "gpt_oss_120b",
    "llama_4_scout",
    "qwen3_30b_a3b",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v3_2",
)
CHIPS = ("h100_sxm", "a100_sxm_80", "b200", "tpu_v5p")
models, chips = st.sampled_from(MODELS), st.sampled_from(CHIPS)
presets = st.sampled_from(["paper", "deployable"])
contexts = st.sampled_from([0.0, 1.0, 777.0, 20_000.0])


@cache
def _served(model: str, chip: str) -> tuple[ModelSpec, HardwareSpec, Precision]:
    spec = catalog.model(model)
    return spec, catalog.hardware(chip), Precision.of(spec)


def _question(model: str, chip: str, context: float, assumptions: Assumptions) -> Setup:
    spec, hardware, precision = _served(model, chip)
    return Setup(spec, hardware, precision, context, assumptions)


@cache
def _preset(name: str, changes: tuple[str, ...] = ()) -> Assumptions:
    return catalog.assumptions(name, changes=changes)


def _asked(model: str, chip: str, context: float, preset: str, *changes: str) -> Setup:
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


# From ``deployable`` to ``paper``, one field at a time.

#: Parts of a step, and of its memory, that may change when a field of ``deployable`` takes the value it has in
#: ``paper``; and whether the step takes "more", "less" or as it comes ("") where its overlap is that of the field.
COMPUTE, WEIGHTS, ACTIVATIONS, CACHE = "compute", "weights", "activations", "kv_cache"
REDUCE = {"all_reduce_latency", "all_reduce_bandwidth"}
EXCHANGE = {"all_to_all_latency", "all_to_all_bandwidth"}
WORK = {COMPUTE, WEIGHTS, ACTIVATIONS, CACHE}
EFFECTS: dict[str, tuple[set[str], str]] = {
    "chip.overlap": (WORK, "less"),
    "chip.math_unit_follows": ({COMPUTE, WEIGHTS}, "less"),
    "per_family": ({*WORK, *REDUCE, *EXCHANGE, "pipeline"}, ""),
    "chip.widened_efficiency": ({WEIGHTS}, "less"),
    "host.step_overhead": ({"host"}, "less"),
    "host.launches": ({"launches", "host"}, ""),
    "host.cuda_graphs": ({"host"}, "more"),
    "host.graph_launch": ({"launches"}, ""),
    "network.collectives": ({*REDUCE, *EXCHANGE, "pipeline"}, ""),
    "network.collective_overhead": ({"all_reduce_latency", "all_to_all_latency", "pipeline"}, "less"),
    "network.mesh_links": ({*REDUCE, *EXCHANGE, "pipeline"}, "less"),
    "network.pipeline_hop": ({"pipeline"}, "more"),
    "layout.attention_groups": ({*WORK, *REDUCE, "weight_bytes", "available_bytes"}, ""),
    "layout.kv_placement": ({CACHE, "kv_bytes"}, "less"),
    # Fewer weights, but larger groups that sum: which is more depends on how fast weights are read.
    "layout.group_copies": ({COMPUTE, WEIGHTS, ACTIVATIONS, *REDUCE, "weight_bytes"}, ""),
    "layout.parallel_blocks": (REDUCE, "more"),
    "layout.pipeline_stages": (
        {*WORK, *REDUCE, *EXCHANGE, "launches", "host", "weight_bytes", "kv_bytes"},
        "less",
    ),
    "experts.kernels": ({COMPUTE, WEIGHTS, ACTIVATIONS}, ""),
    "attention.scores": ({COMPUTE, CACHE}, ""),
    "experts.sparsity": ({COMPUTE, WEIGHTS, ACTIVATIONS}, ""),
    "experts.shared": ({COMPUTE, WEIGHTS, ACTIVATIONS, *REDUCE, *EXCHANGE, "launches"}, ""),
    "experts.all_reduce": (REDUCE, "more"),
    "experts.all_to_all_ranks": (EXCHANGE, "less"),
    "experts.all_to_all_traffic": ({"all_to_all_bandwidth"}, "less"),
    "experts.activations": ({ACTIVATIONS}, "less"),
    # Tokens that are exchanged may have kernels of their own.
    "experts.replicated_tokens": ({*REDUCE, *EXCHANGE, COMPUTE, WEIGHTS, ACTIVATIONS}, ""),
    "experts.redundant": ({COMPUTE, WEIGHTS, ACTIVATIONS, *EXCHANGE, "weight_bytes"}, ""),
    "experts.dispatch": ({"all_to_all_bandwidth", "all_to_all_latency"}, "more"),
    "experts.balanced_from": ({COMPUTE, WEIGHTS, ACTIVATIONS, *EXCHANGE}, "more"),
    "experts.balanced_scv": ({COMPUTE, WEIGHTS, ACTIVATIONS, *EXCHANGE}, "less"),
    "network.link_domains": ({*REDUCE, *EXCHANGE}, ""),
    "network.two_batch_overlap": ({*WORK, *REDUCE, *EXCHANGE, "launches", "pipeline"}, "more"),
    "attention.latent_traffic": ({WEIGHTS, ACTIVATIONS}, "more"),
    "attention.latent_down": ({COMPUTE, WEIGHTS, ACTIVATIONS, "weight_bytes"}, "less"),
    "attention.indexer": ({COMPUTE, WEIGHTS, ACTIVATIONS, "launches", "weight_bytes"}, "less"),
    "attention.index_keys": ({COMPUTE, CACHE, "kv_bytes"}, "more"),
    "attention.chunk_position": ({COMPUTE, CACHE}, "less"),
    "chip.pointwise": ({ACTIVATIONS, "launches"}, "less"),
    "chip.embedding_flop": ({COMPUTE}, "more"),
    "layout.scale_down_repeats_embedding": ({COMPUTE}, "more"),
    "serving.verify_context": ({COMPUTE, CACHE}, "less"),
    "capacity.kv": ({"kv_bytes"}, ""),
    "capacity.vision_tower": ({"weight_bytes"}, ""),
    "capacity.kv_block": ({"kv_bytes"}, ""),
    "capacity.usable_memory": ({"available_bytes"}, ""),
    "capacity.workspace_tokens": ({"available_bytes"}, ""),
}
#: Fields that say nothing about a single step at a given layout.
ELSEWHERE = {
    "capacity.embedding_format",  # formats are resolved before: test_dtype
    "layout.tensor_layouts",
    "experts.all_to_all_copies",  # the same
    "experts.all_to_all_crossing",  # by phase: decode steps send as the study's do
    "network.exchange_processors",  # of steps that read prompts
    "capacity.draft",
    "serving.expected_tokens",
    "serving.draft_placement",
    "serving.acceptance",
    "serving.longest_draft",
    "serving.prefill_chunk",
    "host.request_overhead",
    "host.cached_token_overhead",
    # The host launches nothing here.
    "host.captured_tokens",
}
#: What a field needs beside it to matter.
WITH = {
    # A narrow unit may need a kernel that quantises.
    "chip.math_unit_follows": ("host.graph_launch=0 us",),
    "host.cuda_graphs": ("host.launch=100 us",),
    "host.graph_launch": ("host.graph_launch=2 us",),
    "experts.redundant": ("experts.redundant=32",),
    # Engines gather all tokens where experts are cut as well as spread.
    "network.link_domains": ("experts.replicated_tokens=exchanged",),
    **dict.fromkeys(
        ("experts.balanced_from", "experts.balanced_scv"), ("experts.spread=random", "experts.popularity_scv=2")
    ),
}
#: Where it matters, if not after a thousand tokens: between the middle and the end of the first chunk [tokens].
CONTEXTS = {"attention.chunk_position": 6000.0}
#: Chips on which a field matters, if not on the first ones.
WHERE = {"network.mesh_links": ("mi300x",)}
#: Deployments in which every field matters somewhere.
DEPLOYMENTS = (
    _plan(tp=8, ep=8, batch=64),
    _plan(tp=2, dp=8, ep=16, batch=64),
    _plan(tp=4, pp=2, batch=64, new_tokens=3),
    _plan(tp=8, pp=4, ep=8, batch=128),
    _plan(tp=2, dp=8, ep=4, batch=64),
    _plan(),
)


def _differing() -> list[str]:
    paper, deployable = _preset("paper"), _preset("deployable")
    return [name for name in (*field_names(), "per_family") if _value(paper, name) != _value(deployable, name)]


def _value(assumptions: Assumptions, field: str) -> object:
    return assumptions.per_family if field == "per_family" else value_of(assumptions, field)


def _like_paper(assumptions: Assumptions, field: str) -> Assumptions:
    """Assumptions with one field as the published study has it."""
    value = _value(_preset("paper"), field)
    if field == "per_family":
        return assumptions.model_copy(update={field: value})
    return assumptions.changed({field: value})


def _measures(setup: Setup, plan: Plans) -> dict[str, float]:
    costs, memory = evaluate(setup, plan, "1d"), setup.memory(plan)
    parts = {name: scalar(part) for name, part in costs.parts.items()}
    held = {name: scalar(getattr(memory, name)) for name in ("weight_bytes", "kv_bytes", "available_bytes")}
    return {**parts, **held, "seconds": scalar(costs.seconds)}


@cache
def _before(model: str, chip: str, context: float, changes: tuple[str, ...], deployment: int) -> dict[str, float]:
    """What most fields are held against, once for all of them."""
    return _measures(_asked(model, chip, context, "deployable", *changes), DEPLOYMENTS[deployment])


def test_every_choice_of_the_deployable_preset_is_looked_at() -> None:
    assert set(_differing()) <= set(EFFECTS) | ELSEWHERE, "say above what a choice changes"


@pytest.mark.long
@pytest.mark.parametrize("field", sorted(set(EFFECTS) & {*_differing(), *WITH}))
def test_a_choice_changes_what_it_is_about_and_nothing_else(field: str) -> None:
    allowed, direction = EFFECTS[field]
    # With all parts of a step shown, unless the field decides on that.
    shown: tuple[str, ...] = () if field == "chip.overlap" else ("chip.overlap=none",)
    # Halves of a batch that take turns touch everything.
    shown += () if field == "network.two_batch_overlap" else ("network.two_batch_overlap=never",)
    changes = (*shown, *WITH.get(field, ()))
    after = _like_paper(_preset("deployable", changes), field)
    context = CONTEXTS.get(field, 1000.0)
    changed = set()
    for model in MODELS:
        for chip in WHERE.get(field, CHIPS[:3]):
            for deployment, plan in enumerate(DEPLOYMENTS):
                first = _before(model, chip, context, changes, deployment)
                second = _measures(_question(model, chip, context, after), plan)
                changed |= {
                    name for name, value in first.items() if not math.isclose(value, second[name], rel_tol=ROUNDING)
                } - {"seconds"}
                if direction == "more":
                    assert second["seconds"] >= first["seconds"] * (1 - ROUNDING), (model, chip)
                if direction == "less":
                    assert second["seconds"] <= first["seconds"] * (1 + ROUNDING), (model, chip)
    assert changed, "it has an effect"
    assert changed <= allowed


@pytest.mark.parametrize("field", sorted(ELSEWHERE & set(_differing())))
def test_other_choices_leave_a_step_alone(field: str) -> None:
    before = _preset("deployable")
    after = _like_paper(before, field)
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
        mended = _like_paper(mended, field)
    one, other = _question(model, chip, context, paper), _question(model, chip, context, mended)
    # Bit for bit, in every cut.
    for first, second in zip(step_seconds(one, at), step_seconds(other, at), strict=True):
        assert np.array_equal(first, second)
    assert np.array_equal(one.memory(at).fits, other.memory(at).fits)


def test_what_makes_the_difference_between_the_presets_is_listed_in_seconds() -> None:
    """The way from one preset to the other for a large mixture of experts: every step of it, and its end."""
    paper, walked = _preset("paper"), _preset("deployable")
    plan, seconds = _plan(tp=2, dp=8, ep=16, batch=4096), {}
    for field in _differing():
        walked = _like_paper(walked, field)
        setup = _question("deepseek_v3", "h200_sxm", 2000.0, walked)
        seconds[field] = scalar(step_seconds(setup, plan)[-1])
    end = scalar(step_seconds(_question("deepseek_v3", "h200_sxm", 2000.0, paper), plan)[-1])
    assert list(seconds.values())[-1] == end
    start = scalar(step_seconds(_question("deepseek_v3", "h200_sxm", 2000.0, _preset("deployable")), plan)[-1])
    moves = dict(zip(seconds, np.diff([start, *seconds.values()]), strict=True))
    assert sum(moves.values()) == pytest.approx(end - start, rel=1e-9)
    moved = {field for field, change in moves.items() if change != 0.0}
    assert {
        "host.launches",
        "chip.overlap",
        "layout.attention_groups",
        "layout.kv_placement",
        "experts.all_to_all_traffic",
    } <= moved
    assert moved <= set(EFFECTS)


# Directions, whatever the model, chip, preset and plan.

#: Choices of which the second is never slower, in every preset.
QUICKER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "operators overlap": (("chip.overlap=none",), ("chip.overlap=operator",)),
    "the step overlaps": (("chip.overlap=operator",), ("chip.overlap=step",)),
    "graphs": (
        ("host.launches=per_operator", "host.cuda_graphs=false"),
        ("host.launches=per_operator", "host.cuda_graphs=true"),
    ),
    "less time per kernel": (
        ("host.launches=per_operator", "host.graph_launch=5 us"),
        ("host.launches=per_operator", "host.graph_launch=1 us"),
    ),
    "less time per launch": (
        ("host.launches=per_operator", "host.cuda_graphs=false", "host.launch=50 us"),
        ("host.launches=per_operator", "host.cuda_graphs=false", "host.launch=5 us"),
    ),
    "launches per layer": (
        ("host.launches=per_layer", "host.launches_per_layer=4"),
        ("host.launches=per_layer", "host.launches_per_layer=1"),
    ),
    "no host": (("host.step_overhead=1 ms",), ("host.step_overhead=0 us",)),
    "even experts": (("experts.imbalance=2",), ("experts.imbalance=1",)),
    "nearly even experts": (("experts.imbalance=3",), ("experts.imbalance=1.5",)),
    "ranks alike": (("experts.spread=random",), ("experts.spread=even",)),
    "no tiles of experts": (("experts.kernels={}", "experts.tile=128"), ("experts.kernels={}", "experts.tile=0")),
    "experts overlap": (
        ("experts.kernels={}", "experts.overlap=0", "chip.overlap=operator"),
        ("experts.kernels={}", "experts.overlap=1", "chip.overlap=operator"),
    ),
    "kernels of experts": (("experts.kernel_efficiency=0.5",), ("experts.kernel_efficiency=0.9",)),
    "popular experts": (("experts.popularity_scv=0",), ("experts.popularity_scv=2",)),
    "no host per sequence": (("host.sequence_overhead=100 us",), ("host.sequence_overhead=0 us",)),
    "arithmetic of experts": (
        ("experts.kernels={}", "experts.math_efficiency=0.1"),
        ("experts.kernels={}", "experts.math_efficiency=0.6"),
    ),
    "kernels of attention": (("attention.score_efficiency=0.5",), ("attention.score_efficiency=0.9",)),
    "kernels of dense products": (("chip.product_efficiency=0.5",), ("chip.product_efficiency=0.9",)),
    "narrow arithmetic": (
        ("chip.narrow_math_efficiency=0.5", "per_family={}"),
        ("chip.narrow_math_efficiency=1", "per_family={}"),
    ),
    "two batches": (("network.two_batch_overlap=never",), ("network.two_batch_overlap=when_faster",)),
    "copies on arrival": (("experts.all_to_all_crossing=per_copy",), ("experts.all_to_all_crossing=per_domain",)),
    "dispatch as experts multiply": (("experts.dispatch=activations",), ("experts.dispatch=weights",)),
    "two batches between domains": (
        ("network.two_batch_overlap=never",),
        ("network.two_batch_overlap=with_exchanges",),
    ),
    "a balancer": (
        ("experts.spread=random", "experts.balanced_from=0"),
        ("experts.spread=random", "experts.balanced_from=2"),
    ),
    "8-bit dispatch": (("experts.dispatch=activations",), ("experts.dispatch=eight_bit",)),
    "arithmetic": (("chip.math_efficiency=0.5", "per_family={}"), ("chip.math_efficiency=0.9", "per_family={}")),
    "memory": (("chip.hbm_efficiency=0.5", "per_family={}"), ("chip.hbm_efficiency=0.9", "per_family={}")),
    "attention": (("attention.math_efficiency=0.1",), ("attention.math_efficiency=0.6",)),
    "expert weights": (
        ("experts.kernels={}", "experts.hbm_efficiency=0.3"),
        ("experts.kernels={}", "experts.hbm_efficiency=0.7"),
    ),
    "cache reads": (("attention.kv_hbm_efficiency=0.3",), ("attention.kv_hbm_efficiency=0.7",)),
    "links": (("network.link_efficiency=0.5",), ("network.link_efficiency=1",)),
    "nobody waits": (("network.collective_overhead=10 us",), ("network.collective_overhead=0 us",)),
    "free widening": (("chip.widened_efficiency=0.5",), ("chip.widened_efficiency=1",)),
    "network": (
        ("network.collectives=engines_hopper", "network.collectives.network_factor=0.5", "per_family={}"),
        ("network.collectives=engines_hopper", "network.collectives.network_factor=0.9", "per_family={}"),
    ),
    "exchanges between domains": (
        (
            "network.collectives=engines_hopper",
            "network.collectives.exchange_per_domain_doubling=20 us",
            "per_family={}",
        ),
        (
            "network.collectives=engines_hopper",
            "network.collectives.exchange_per_domain_doubling=2 us",
            "per_family={}",
        ),
    ),
    "free norms": (("chip.pointwise=counted",), ("chip.pointwise=free",)),
    "nearest hand-off": (("network.pipeline_hop=between_domains",), ("network.pipeline_hop=nearest",)),
    "kernels beside NCCL": (
        ("network.collectives=engines_hopper", "network.collectives.kernels={}", "per_family={}"),
        ("network.collectives=engines_hopper", "per_family={}"),
    ),
    "rings beside trees": (
        ("network.collectives=engines_ampere", "network.collectives.ring={}", "per_family={}"),
        ("network.collectives=engines_ampere", "per_family={}"),
    ),
    "traffic at the same time": (
        ("network.collectives.domains_overlap=false",),
        ("network.collectives.domains_overlap=true",),
    ),
}


@settings(few, max_examples=8)
@pytest.mark.parametrize("choice", list(QUICKER))
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
def test_never_slower(choice: str, model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    slow, quick = (_asked(model, chip, context, preset, *changes) for changes in QUICKER[choice])
    for before, after in zip(step_seconds(slow, at), step_seconds(quick, at), strict=True):
        assert (after <= before * (1 + ROUNDING)).all()


#: Choices of which the second never leaves more memory.
FULLER: dict[str, tuple[str, str]] = {
    # Multiples of a block: others may divide a context better.
    "larger blocks": ("capacity.kv_block=16", "capacity.kv_block=128"),
    "blocks at all": ("capacity.kv_block=1", "capacity.kv_block=16"),
    "a workspace": ("capacity.workspace_tokens=0", "capacity.workspace_tokens=1000"),
    "a larger workspace": ("capacity.workspace_tokens=1000", "capacity.workspace_tokens=8192"),
    "head-room": ("capacity.usable_memory=1", "capacity.usable_memory=0.9"),
    "the whole batch": ("capacity.kv=micro_batch", "capacity.kv=batch"),
    "both embeddings": ("capacity.embeddings=output", "capacity.embeddings=both"),
}


def _left(setup: Setup, at: Plans) -> Array:
    memory = setup.memory(at)
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
    free, paid = (_asked(model, "h100_sxm", context, preset, f"host.step_overhead={one}") for one in ("0 us", host))
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
            ("network.two_batch_overlap=when_faster",),
            ("network.two_batch_overlap=when_faster", "chip.overlap=none"),
            ("host.cuda_graphs=false", "host.launch=20 us"),
            (
                "host.cuda_graphs=false",
                "host.launch=20 us",
                "network.two_batch_overlap=when_faster",
                "host.step_overhead=100 us",
            ),
            ("attention.math_efficiency=0.2", "experts.hbm_efficiency=0.4", "attention.kv_hbm_efficiency=0.3"),
            ("attention.latent=decompressed",),
            ("attention.latent=decompressed_per_step",),
            ("experts.imbalance=2", "experts.dispatch=eight_bit", "experts.all_to_all_crossing=per_domain"),
        ]
    ),
)
def test_parts_add_up_under_every_choice(model: str, context: float, at: Plans, changes: tuple[str, ...]) -> None:
    setup = _asked(model, "h100_sxm", context, "deployable", *changes)
    costs = evaluate(setup, at, "1d")
    assert costs.seconds == pytest.approx(step_seconds(setup, at)[0], rel=ROUNDING)
    assert sum(costs.parts.values()) == pytest.approx(costs.seconds, rel=ROUNDING)
    assert all((part >= 0).all() for part in costs.parts.values())


def test_labels_of_the_choices_are_fields() -> None:
    changes = [change for pair in QUICKER.values() for one in pair for change in one]
    changes += [change for pair in FULLER.values() for change in pair]
    named = {".".join(change.partition("=")[0].split(".")[:2]) for change in changes}
    assert named | set(EFFECTS) | ELSEWHERE <= {*field_names(), "per_family"}
    assert ie.assumptions("deployable") == _preset("deployable")
