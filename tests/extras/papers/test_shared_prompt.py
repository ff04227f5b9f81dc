"""Parts of a prompt on separate processes, and the residual stream on tensor-parallel ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference_econ.engine import Setup
from inference_econ.engine.prefill import prefill
from inference_econ.extras.papers.shared_prompt import (
    gathering_seconds,
    hand_over_seconds,
    layer_cache_bytes,
    moved_bytes,
    part_of_prompt,
)
from tests.planned import plan_of
from tests.reading import scalar

MODELS = ("llama_3_8b", "deepseek_v3", "gpt_oss_120b", "deepseek_v4_flash", "nemotron_h_56b", "falcon_7b")


def _setup(model: str, *changes: str, chip: str = "h100_sxm", assumptions: str = "deployable") -> Setup:
    whole = ("assumptions.serving.prefill_chunk=0", *changes)
    return Setup.of(model, chip, assumptions=assumptions, changes=whole)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cached", [0.0, 30000.0])
def test_the_pieces_of_a_part_are_its_prefill(model: str, cached: float) -> None:
    setup = _setup(model)
    part = part_of_prompt(setup, plan_of(2), 5000.0, cached)
    whole = (part.before + part.after) * setup.model.layers + part.end
    assert whole == pytest.approx(scalar(prefill(setup, plan_of(2), 5000.0, cached).seconds), rel=1e-12)
    assert min(part.before, part.end) > 0.0
    assert 0.0 < part.attention < part.after


def test_what_comes_before_the_cache_is_queries_keys_and_values() -> None:
    """An ideal preset has only arithmetic time: projections from 4,096 to 6,144 in all layers, and the embedding."""
    part = part_of_prompt(_setup("llama_3_8b", assumptions="ideal"), plan_of(1), 4096.0, 0.0)
    qkv, matrices = 6144 * 4096, 6144 * 4096 + 4096 * 4096 + 3 * 4096 * 14336
    scores = 4096 * (4095 / 2) * 2.0
    assert part.before / (part.before + part.after) == pytest.approx(qkv / (matrices + scores), rel=0.02)


# Bytes of one layer's cache on each chip of a process of tp chips, for 1,000 tokens.
HELD = [
    ("llama_3_8b", 1, 2 * 8 * 128 * 2 * 1000.0),
    ("llama_3_8b", 4, 2 * 2 * 128 * 2 * 1000.0),
    ("llama_3_8b", 16, 2 * 1 * 128 * 2 * 1000.0),  # 8 heads on 16 chips: everything twice
    ("deepseek_v3", 8, 576 * 2 * 1000.0),  # every chip has the whole latent
    ("gpt_oss_120b", 1, 2 * 8 * 64 * 2 * (1000.0 + 128.0) / 2.0),  # every second layer stores 128 tokens
]


@pytest.mark.parametrize(("model", "tp", "size"), HELD)
def test_what_is_handed_on(model: str, tp: float, size: float) -> None:
    assert layer_cache_bytes(_setup(model), plan_of(tp), 1000.0) == pytest.approx(size, rel=1e-12)


def test_a_ring_of_hand_overs_is_a_gather() -> None:
    """P - 1 hops of a part move the data of an all-gather of P parts, at sizes where only bandwidth matters."""
    setup = _setup("llama_3_8b")
    size = 4e9
    hops = 3.0 * scalar(hand_over_seconds(setup, size / 4.0, 1.0))
    assert hops == pytest.approx(gathering_seconds(setup, 4, size, 1.0), rel=0.01)
    near, far = hand_over_seconds(setup, 1e9, [1.0, 2.0])
    assert near < far
    assert gathering_seconds(setup, 1, size, 1.0) == 0.0


def test_sums_move_as_much_scattered_as_reduced() -> None:
    """Two all-reduces per layer of tokens x 4,096 in two bytes: 2 (P - 1) times each, over all chips."""
    by_hand = 32 * 2 * 2 * 7 * 1000 * 4096 * 2.0
    for stream in ("whole", "by_tokens"):
        setup = _setup("llama_3_8b", f"assumptions.layout.residual_stream={stream}")
        assert moved_bytes(setup, plan_of(8), 1000.0, 0.0) == pytest.approx(by_hand, rel=1e-12)
    assert moved_bytes(setup, plan_of(1), 1000.0, 0.0) == 0.0


def test_ranks_that_keep_their_tokens_have_norms_of_those_only() -> None:
    whole, part = (
        _setup("llama_3_8b", f"assumptions.layout.residual_stream={stream}") for stream in ("whole", "by_tokens")
    )
    reading = replace(plan_of(8), new_tokens=4096.0, prefill=True)
    rows = [{row.name: row for row in setup.work(reading).operators} for setup in (whole, part)]
    norms = [scalar(np.asarray(each["norms"].activation_bytes_per_token)) for each in rows]
    assert norms[1] == norms[0] / 8.0
    kinds = [sent.kind for sent in rows[1]["attention output"].collectives["1d"]]
    assert kinds == ["all_to_all"]
    # It has no effect on one chip.
    alone = [scalar(prefill(setup, plan_of(1), 4096.0).seconds) for setup in (whole, part)]
    assert alone[0] == alone[1]


@pytest.mark.parametrize(("masked", "attended"), [("skipped", 3000 + 999 / 2), ("computed", 4000)])
def test_masked_scores_are_skipped_or_computed(masked: str, attended: float) -> None:
    setup = _setup("llama_3_8b", f"assumptions.attention.masked_scores={masked}")
    work = replace(setup, context=3000.0).work(replace(plan_of(1), new_tokens=1000.0, prefill=True))
    row = next(row for row in work.operators if row.name == "attention")
    assert scalar(np.asarray(row.flop_per_token)) == pytest.approx(4.0 * 4096 * attended, rel=1e-12)
    decode = replace(setup, context=3000.0).work(plan_of(1))
    assert scalar(np.asarray(next(row for row in decode.operators if row.name == "attention").flop_per_token)) == (
        4.0 * 4096 * 3000
    )
