"""In every shipped model, a step reads the stored weights and multiplies by a token's active weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inference_econ.engine import Operator, Plans, Setup, has_experts, memory
from inference_econ.inputs import BYTES_PER_ELEMENT, Attention, Block, ModelSpec, Precision, catalog
from inference_econ.inputs.huggingface import document_of
from tests.planned import plan_of

MODELS = sorted(
    path.relative_to(catalog.folder("models")).with_suffix("").as_posix()
    for path in catalog.folder("models").rglob("*.yaml")
)
#: Enough tokens to touch every expert.
TOKENS = 2.0**30


def _setup(model: ModelSpec, preset: str = "deployable", *changes: str) -> Setup:
    assumptions = catalog.assumptions(preset, changes=changes)
    return Setup(model, catalog.hardware("b200"), Precision.of(model), 1000.0, assumptions)


def _plan(tp: float = 1, dp: float = 1, pp: float = 1) -> Plans:
    return plan_of(tp, dp, pp, tp * dp, TOKENS, whole=False)


def _total(rows: list[Operator], attribute: str) -> float:
    return sum(float(np.ravel(getattr(row, attribute) * row.repeats)[0]) for row in rows)


def _attention_vectors(spec: Attention, hidden: float) -> float:
    """Return the norms, biases and sinks of one layer that no row reads, a few thousand numbers."""
    if spec.kind == "latent":
        norms = spec.kv_rank + (spec.query_rank or 0) if spec.latent_norms else 0
        return norms + 2 * (spec.index_head_dim or 0)
    if spec.kind != "grouped_query":
        # Rows read and multiply all of a mixer, and all of compressed attention.
        return 0.0
    value = spec.head_dim if spec.value_head_dim is None else spec.value_head_dim
    queries, keys, values = spec.query_heads * spec.head_dim, spec.kv_heads * spec.head_dim, spec.kv_heads * value
    norms = {"none": 0, "per_head": 2 * spec.head_dim, "full": queries + keys}[spec.qk_norm]
    norms += 2 * (spec.index_head_dim or 0)
    biases = spec.qkv_bias * (queries * (1 + spec.output_gate) + keys + values) + hidden * spec.output_bias
    return biases + norms + spec.query_heads * spec.sinks


def _feed_forward_vectors(block: Block, hidden: float) -> tuple[float, float, float]:
    """Return biases of routed experts, of one of them, and biases and gates of all else in one layer."""
    spec = block.feed_forward
    if spec.kind == "none":
        return 0.0, 0.0, 0.0
    biases = spec.bias * (spec.input_matrices * spec.intermediate_size + spec.output_matrices * hidden)
    if spec.kind == "dense":
        return 0.0, 0.0, biases
    norm = (spec.latent_size or 0.0) * spec.latent_norm
    return spec.experts * biases, biases, spec.experts * spec.router_bias + norm


def _shared_gate(block: Block, hidden: float) -> float:
    spec = block.feed_forward
    return hidden * spec.shared_gate if spec.kind == "experts" and spec.shared_intermediate_size else 0.0


def _residual_vectors(model: ModelSpec) -> float:
    """Return biases and scales of residual-stream mixing, or norms and scores of earlier entries."""
    if model.residual_span is not None:
        return model.parameter_parts()["residual_attention"]
    streams = model.residual_streams
    return model.layers * 2 * (streams * (streams + 2) + 3) + streams + 1 if streams > 1 else 0.0


def _vectors(model: ModelSpec) -> dict[str, float]:
    """Return the parameters that no row of the table has, by storage format: all except matrices."""
    hidden = float(model.hidden_size)
    parts = {"embeddings": float(model.vocab_size * model.output_bias), "attention": 0.0, "experts": 0.0}
    parts |= {"shared_experts": 0.0, "weights": model.parameter_parts()["norms"] + _residual_vectors(model)}
    for block in model.blocks:
        experts, _, other = _feed_forward_vectors(block, hidden)
        parts["attention"] += block.layers * _attention_vectors(block.attention, hidden)
        parts["experts"] += block.layers * experts
        parts["weights"] += block.layers * other
        parts["shared_experts"] += block.layers * _shared_gate(block, hidden)
    return parts


def _looked_up(model: ModelSpec) -> float:
    """Return embeddings of which a token reads one row: positions, and an untied input embedding."""
    tables = model.learned_positions + (0 if model.tied_embeddings else model.vocab_size)
    return tables * float(model.hidden_size)


def _unread(model: ModelSpec, precision: Precision) -> float:
    """Return the bytes that are stored and that no row reads [B]."""
    width = BYTES_PER_ELEMENT
    vectors = sum(count * width[getattr(precision, name)] for name, count in _vectors(model).items())
    return vectors + _looked_up(model) * width[precision.embeddings]


@pytest.mark.parametrize("name", MODELS)
def test_a_step_reads_every_matrix_that_is_held(name: str) -> None:
    model = catalog.model(name)
    setup = _setup(model)
    held = memory.weight_bytes(model, setup.precision)
    read = _total(list(setup.work(_plan()).operators), "weight_bytes")
    assert read + _unread(model, setup.precision) == pytest.approx(held, rel=1e-12)
    # Vectors outside the rows, except the input embedding, are less than 0.1% of a model.
    assert held - read - _looked_up(model) * BYTES_PER_ELEMENT[setup.precision.embeddings] < 1e-3 * held


@pytest.mark.parametrize("name", MODELS)
def test_a_token_is_multiplied_by_every_active_matrix(name: str) -> None:
    """The arithmetic is 2 x active matrix parameters, without attention scores."""
    model = catalog.model(name)
    rows = [row for row in _setup(model).work(_plan()).operators if row.kind != "scores"]
    idle = 0.0
    for block in model.blocks:
        experts, each, _ = _feed_forward_vectors(block, float(model.hidden_size))
        active = getattr(block.feed_forward, "active_experts", 0)
        idle += block.layers * (experts - active * each)
    active = model.active_parameters - (sum(_vectors(model).values()) - idle) - _looked_up(model)
    assert _total(rows, "flop_per_token") == pytest.approx(2 * active, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("tp", "dp", "pp"), [(8, 1, 1), (2, 4, 1), (1, 8, 1), (4, 2, 2)])
def test_each_chip_reads_what_it_holds(name: str, tp: int, dp: int, pp: int) -> None:
    """Over all chips of an instance, the stored matrices, copies included, equal the matrices that are read."""
    model, plan = catalog.model(name), _plan(tp, dp, pp)
    setup = _setup(model)
    held, _, _ = setup.memory(plan).of_one_plan()
    read = tp * dp * _total(list(setup.work(plan).operators), "weight_bytes")
    width = BYTES_PER_ELEMENT
    vectors = {part: count * width[getattr(setup.precision, part)] for part, count in _vectors(model).items()}
    # Each group also has a copy of the vectors of attention and shared experts. In an MoE model it copies all vectors
    # except routed ones, the input embedding included.
    copied = vectors["attention"] + vectors["shared_experts"]
    if has_experts(model):
        copied += vectors["weights"] + vectors["embeddings"] + _looked_up(model) * width[setup.precision.embeddings]
    copied *= dp - 1
    # Each group stores a vision tower, which processes images and not the text of these steps.
    tower = 0.0 if model.vision is None else dp * model.vision.parameters * width["bf16"]
    assert read + _unread(model, setup.precision) + copied + tower == pytest.approx(held, rel=1e-12)


def test_the_study_holds_a_matrix_that_it_does_not_read() -> None:
    """The study counts the compression of DeepSeek-V3's keys and of its values separately, and reads one of them."""
    model = catalog.model("paper/deepseek_v3")
    setup = _setup(model, "deployable", "attention.latent_down=cut")
    missing = memory.weight_bytes(model, setup.precision) - _total(list(setup.work(_plan()).operators), "weight_bytes")
    width = BYTES_PER_ELEMENT[setup.precision.attention]
    assert missing - _unread(model, setup.precision) == pytest.approx(58 * 512 * 7168 * width, rel=1e-9)


# The indexer of DeepSeek-V3.2, by hand.

#: Queries 1536 -> 64 x 128, key 7168 -> 128, weights of heads 7168 -> 64: 12,582,912 + 917,504 + 458,752.
INDEXER = 1536 * 64 * 128 + 7168 * 128 + 7168 * 64


def _rows(name: str, *, preset: str = "deployable", changes: tuple[str, ...] = (), plan: Plans) -> list[Operator]:
    setup = _setup(catalog.model("deepseek_v3_2"), preset, *changes)
    return [row for row in setup.work(plan).operators if row.name == name]


def test_the_indexer_of_deepseek_v3_2_by_hand() -> None:
    assert INDEXER == 13_959_168
    # 61 layers of it, and a norm of the key with a bias: 852 million parameters.
    assert 61 * (INDEXER + 2 * 128) == 851_524_864
    rows = _rows("indexer", plan=_plan())
    assert _total(rows, "weight_bytes") == pytest.approx(61 * INDEXER * (1 + 4 / 128**2))
    assert _total(rows, "flop_per_token") == 61 * 2 * INDEXER
    # Without the indexer's queries, rows read 13 of 16 bytes of the products of the compressed query and the latent:
    # 1536 x 24,576 + 512 x 32,768 = 54,525,952 and 1536 x 8,192 = 12,582,912.
    assert 54_525_952 / (54_525_952 + 12_582_912) == 0.8125


@pytest.mark.parametrize(("tp", "dp"), [(8, 1), (2, 4), (1, 8)])
def test_every_rank_does_all_of_the_indexers_work_for_its_group(tp: int, dp: int) -> None:
    for name in ("indexer", "index scan", "latent down"):
        alone = _total(_rows(name, plan=_plan()), "flop_per_token")
        assert _total(_rows(name, plan=_plan(tp, dp)), "flop_per_token") == pytest.approx(alone / dp), name
    for name in ("indexer", "latent down"):
        alone = _total(_rows(name, plan=_plan()), "weight_bytes")
        assert _total(_rows(name, plan=_plan(tp, dp)), "weight_bytes") == pytest.approx(alone), name
    keys = _total(_rows("index scan", plan=_plan()), "kv_bytes_per_sequence")
    assert keys == pytest.approx(61 * 132 * 1000.0)
    assert _total(_rows("index scan", plan=_plan(tp, dp)), "kv_bytes_per_sequence") == pytest.approx(keys / dp)


def test_copies_of_the_indexer_take_memory() -> None:
    model, eight = catalog.model("deepseek_v3_2"), _plan(tp=8)
    held = {
        choice: _setup(model, "deployable", f"attention.indexer={choice}").memory(eight).of_one_plan()[0]
        for choice in ("scan", "cut", "replicated")
    }
    assert held["scan"] == held["cut"]
    # Seven more copies on eight ranks: 61 x 13.96 MB each.
    assert held["replicated"] - held["cut"] == pytest.approx(7 * 61 * INDEXER * (1 + 4 / 128**2))


def test_the_study_scans_and_cuts() -> None:
    assert not _rows("indexer", preset="paper", plan=_plan())
    alone = _total(_rows("index scan", preset="paper", plan=_plan()), "flop_per_token")
    assert _total(_rows("index scan", preset="paper", plan=_plan(tp=8)), "flop_per_token") == pytest.approx(alone / 8)


def test_a_layer_that_reuses_a_pick_has_no_indexer() -> None:
    model = catalog.model("deepseek_v3_2")
    first, second = model.blocks
    assert second.attention.kind == "latent"
    reusing = second.replace(attention=second.attention.replace(index_heads=None, index_head_dim=None))
    changed = model.replace(blocks=(first, reusing))
    rows = list(_setup(changed).work(_plan()).operators)
    assert sum(float(np.ravel(row.repeats)[0]) for row in rows if row.name == "indexer") == 3
    assert sum(float(np.ravel(row.repeats)[0]) for row in rows if row.name == "index scan") == 3
    held = memory.weight_bytes(changed, Precision.of(changed))
    assert _total(rows, "weight_bytes") + _unread(changed, Precision.of(changed)) == pytest.approx(held, rel=1e-12)


def test_the_indexer_of_compressed_attention_by_hand() -> None:
    """In DeepSeek-V4-Flash, 21 of 43 layers select blocks, 41 pool, and all compress queries."""
    model = catalog.model("deepseek_v4_flash")
    work = _setup(model).work(_plan(tp=8)).operators
    index = [row for row in work if row.name == "indexer"]
    # Queries 1024 -> 64 x 128; 4096 to two strides of values and gates of 128, and to 64 weights.
    each = 1024 * 64 * 128 + 4096 * (2 * 2 * 128 + 64)
    assert _total(index, "flop_per_token") == 21 * 2 * each
    down = [row for row in work if row.name == "latent down"]
    # 4096 to 1024 + 512 everywhere, to two strides of values and gates of 512 in 21 layers and to one in 20.
    shared = 4096 * (43 * (1024 + 512) + 21 * 2 * 2 * 512 + 20 * 2 * 512)
    assert _total(down, "flop_per_token") == 2 * shared
    assert model.blocks[0].attention.parameters(4096.0).indexer == ()


def test_shared_entries_and_picks_of_deepseek_v4_1_by_hand() -> None:
    """Eight of 40 layers select, 38 gather, and four selectors search the entries of an earlier one."""
    folder = Path(__file__).parents[1] / "fixtures" / "hf_configs"
    config = json.loads((folder / "siblings.json").read_text(encoding="utf-8"))["deepseek-v4.1-flash"]["config"]
    model = ModelSpec.from_document(document_of(json.dumps(config), "config.json"))
    work = replace(_setup(model), context=100_000.0).work(_plan()).operators
    scanned = 3 * 50_000 + 100_000 + 4 * 2048 * 8
    scan = [row for row in work if row.name == "index scan"]
    assert _total(scan, "flop_per_token") == pytest.approx(2 * 32 * 128 * scanned, rel=1e-3)
    index = [row for row in work if row.name == "indexer"]
    # Queries of 32 heads out of 1,280, a weight for each, and in four layers a key out of an entry.
    assert _total(index, "flop_per_token") == 2 * (8 * 32 * (1280 * 128 + 5120) + 4 * 128 * 512)
    attention = [row for row in work if row.name == "attention"]
    assert _total(attention, "flop_per_token") == pytest.approx(4 * 64 * 512 * (40 * 128 + 38 * 512), rel=1e-3)
