"""Attention to blocks of tokens that an indexer selects per KV head, as in MiniMax-M3."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.engine import Setup
from inference_econ.engine.cache import held_cache
from inference_econ.errors import SpecError
from inference_econ.inputs import Precision, catalog
from inference_econ.inputs.layers import GroupedQueryAttention
from tests.planned import plan_of

#: 64 query heads, 4 KV heads of 128, 4 index heads of 128, 16 blocks of 128 tokens.
SPARSE = GroupedQueryAttention(
    kind="grouped_query", query_heads=64, kv_heads=4, head_dim=128, index_heads=4, index_head_dim=128, index_top_k=2048
)


def _setup(context: float) -> Setup:
    model = catalog.model("llama_3_8b")
    blocks = [block.model_copy(update={"attention": SPARSE}) for block in model.blocks]
    model = model.model_copy(update={"blocks": blocks})
    assumptions = catalog.assumptions("deployable")
    return Setup(model, catalog.hardware("h200_sxm"), Precision.of(model), context, assumptions)


@pytest.mark.parametrize(("context", "attended"), [(1000.0, 1000.0), (2048.0, 2048.0), (100_000.0, 2048.0)])
def test_a_step_scans_all_index_keys_and_reads_what_is_picked(context: float, attended: float) -> None:
    rows = {row.name: row for row in _setup(context).work(plan_of(whole=False)).operators}
    scan, scores = rows["index scan"], rows["attention"]
    assert scan.kv_bytes_per_sequence == pytest.approx(128 * 2 * context)
    assert scan.flop_per_token == pytest.approx(2 * 4 * 128 * context)
    assert scores.kv_bytes_per_sequence == pytest.approx(2 * 4 * 128 * 2 * attended)
    assert scores.flop_per_token == pytest.approx(4 * 64 * 128 * attended)
    projected = (64 + 2 * 4 + 4 + 1) * 128 * 4096
    assert rows["qkv"].flop_per_token == pytest.approx(2 * projected)


def test_index_keys_are_cached_in_the_format_of_keys_and_values() -> None:
    """The format is independent of that of DeepSeek's indexer keys, which have 8 bits and a scale."""
    setup = _setup(10_000.0)
    assert setup.assumptions.attention.index_keys == "eight_bit"
    held = held_cache(setup.model, setup.precision, plan_of(whole=False), 16_000.0, setup.assumptions)
    assert held["kv_cache"] == pytest.approx(32 * (2 * 4 * 128 + 128) * 2 * 16_000, rel=1e-3)


@pytest.mark.rows
def test_parts_that_do_not_fit(change: dict[str, int | None], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        GroupedQueryAttention(**{**SPARSE.model_dump(), **change})


def test_every_rank_stores_the_index_keys_by_hand() -> None:
    """The four KV heads of MiniMax-M3 are split over ranks, or copied; the one index key of a token is not split."""
    setup = Setup.of("minimax_m3", "h200_sxm", context=16_000.0)
    for tp, heads in ((1, 4), (4, 1), (8, 1)):
        plan = plan_of(tp)
        (held,) = np.ravel(held_cache(setup.model, setup.precision, plan, 16_000.0, setup.assumptions)["kv_cache"])
        of_rank = 60 * 2 * heads * 128 * 2 + 57 * 128 * 2
        assert held == pytest.approx(tp * of_rank * 16_000)
