"""Kinds of attention and feed-forward blocks: all kinds of the schema, and one of each that only this file defines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args, get_type_hints

import numpy as np
import pytest

from inference_econ.engine import Operator, OperatorTable, Plans, Setup, step_seconds
from inference_econ.engine.layouts.startable import attention_degrees, indivisible
from inference_econ.engine.operators.work import FEED_FORWARDS, MIXERS
from inference_econ.errors import InputError
from inference_econ.inputs import Attention, FeedForward, ModelSpec, catalog
from inference_econ.inputs.layers import (
    Cache,
    FeedForwardParameters,
    FeedForwardPart,
    Mixer,
    MixerKind,
    MixerParameters,
)
from inference_econ.inputs.models.sizes import resized
from inference_econ.report.questions.import_model import model_table


def _kinds(part: object) -> set[str]:
    classes = get_args(get_args(part)[0])
    return {kind for spec in classes for kind in get_args(get_type_hints(spec)["kind"])}


def test_every_kind_of_the_schema_has_rows() -> None:
    assert _kinds(Attention) == set(get_args(MixerKind)) == set(MIXERS)
    assert _kinds(FeedForward) == set(FEED_FORWARDS)


class _Averages(Mixer):
    """Cache three numbers per token for each of its heads, in 4 groups."""

    kind: Literal["averages"] = "averages"
    query_heads: int = 8

    @property
    def summary(self) -> str:
        return "averages"

    @property
    def cache(self) -> Cache:
        return Cache(3.0 * self.query_heads, heads=4.0)

    def parameters(self, hidden: float) -> MixerParameters:
        return MixerParameters(self.query_heads * hidden)


class _Lookup(FeedForwardPart):
    """Read a row of a table with the width of the residual stream."""

    kind: Literal["lookup"] = "lookup"
    rows: int = 1024
    widths = ("rows",)

    @property
    def summary(self) -> str:
        return "a table"

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        return {"activation function": (8.0, 1)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        return FeedForwardParameters(self.rows * hidden)


def _averaged(table: OperatorTable, spec: _Averages, summed: float) -> Iterator[Operator]:
    yield table.projection("averages", [(spec.query_heads, table.hidden)], reduced=summed)
    read = spec.cache.elements * table.read() * table.kv_width
    yield Operator(
        "reading", table.precision.kv, "scores", kv_bytes_per_sequence=read * table.cache_share(spec.cache.heads)
    )


def _looked_up(table: OperatorTable, _: _Lookup) -> Iterator[Operator]:
    yield Operator("lookup", table.precision.weights, activation_bytes_per_token=table.hidden * table.activation_width)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """Return Llama 3 8B with layers of these new kinds."""
    monkeypatch.setitem(MIXERS, "averages", _averaged)
    monkeypatch.setitem(FEED_FORWARDS, "lookup", _looked_up)
    llama = catalog.model("llama_3_8b")
    block = llama.blocks[0].model_copy(update={"attention": _Averages(), "feed_forward": _Lookup()})
    return llama.model_copy(update={"blocks": (block,)})


def _plans(tp: float) -> Plans:
    return Plans(np.array([tp]), np.array([16.0]), np.ones(1), np.array([tp]), None, whole=True)


def test_a_kind_that_only_this_file_knows_is_counted(model: ModelSpec) -> None:
    llama, layer = catalog.model("llama_3_8b"), 8 * 4096 + 1024 * 4096
    parts = llama.parameter_parts()
    assert model.total_parameters == parts["embeddings"] + parts["norms"] + 32 * layer
    assert model.active_parameters == model.total_parameters
    assert model.kv_elements_per_token == 32 * 3 * 8
    assert (model.window_elements_per_token, model.state_elements_per_sequence) == (0, 0)
    assert ("32 layers", "averages + a table") in model_table(model).rows


def test_a_kind_that_only_this_file_knows_is_held_and_read(model: ModelSpec) -> None:
    setup = Setup.of(model, "h100_sxm", context=1024.0)
    memory = setup.memory(_plans(2.0))
    # 16 bits each, of 16 sequences; ranks above the four heads store copies.
    assert memory.kv_bytes == 16 * 1024 * 32 * 3 * 8 * 2
    assert setup.memory(_plans(8.0)).kv_bytes == 2 * memory.kv_bytes
    rows = {row.name: row for row in setup.work(_plans(2.0)).operators}
    assert {"averages", "reading", "lookup", "norms", "activation function"} <= set(rows)
    assert [rows[name].repeats for name in ("averages", "reading", "lookup")] == [32.0, 32.0, 32.0]
    assert rows["reading"].kv_bytes_per_sequence == 1024 * 3 * 8 * 2 / 2
    longer = Setup.of(model, "h100_sxm", context=2048.0)
    few, many = (float(step_seconds(one, _plans(2.0))[0][0]) for one in (setup, longer))
    assert 0.0 < few < many < np.inf


def test_a_kind_that_only_this_file_knows_is_cut_and_scaled(model: ModelSpec) -> None:
    assert attention_degrees(model).tolist() == [1.0, 2.0, 4.0, 8.0]
    setup = Setup.of(model, "h100_sxm")
    problems = indivisible(model, _plans(3.0), "1d", setup.assumptions)
    assert {"query_heads", "kv_heads", "width"} == {problem.code for problem in problems if np.any(problem.where)}
    (larger,) = resized(model.blocks, 1.5, 1.5)
    assert (larger.layers, larger.attention.model_dump()) == (48, {"kind": "averages", "query_heads": 8})
    assert larger.feed_forward.model_dump() == {"kind": "lookup", "rows": 1536}
    with pytest.raises(InputError, match="layers of the kind 'averages' have no rule to be scaled by"):
        model.blocks[0].attention.scaled(2.0)
