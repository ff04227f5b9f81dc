"""One decode step of one deployment, split into its parts."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.engine.step import PARTS
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.report.questions import explain
from tests import asking
from tests.reading import present


@pytest.mark.rows
def test_parts_add_up_and_the_speed_follows(model: str, hardware: str, degrees: dict[str, object]) -> None:
    found = asking.explain(model, hardware, **{"batch": 16, "context": 1000.0, **degrees})
    assert set(found.costs.parts) == set(PARTS)
    assert sum(float(part[0]) for part in found.costs.parts.values()) == pytest.approx(found.seconds, rel=1e-12)
    assert found.tokens_per_second == pytest.approx(1 / found.seconds)
    assert found.limited_by == max(found.costs.parts, key=lambda name: found.costs.parts[name][0])
    assert 0 < found.mfu < 1
    assert found.accelerators == float(found.layout["tp"]) * float(found.layout["dp"]) * float(found.layout["pp"])


def test_dollars_are_chips_times_time_times_price_over_tokens() -> None:
    found = asking.explain("llama_3_70b", "h100_sxm", tp=4, pp=2, batch=32, context=500, price=3.6)
    assert found.dollars == pytest.approx(8 * found.seconds / 32 * (3.6 / 3600) * 1e6, rel=1e-12)
    by_default = asking.explain("llama_3_70b", "h100_sxm", tp=4, pp=2, batch=32, context=500)
    assert by_default.dollars == pytest.approx(present(found.dollars) * 3.99 / 3.6, rel=1e-12)


def test_without_a_price_there_are_no_dollars() -> None:
    found = asking.explain("llama_3_70b", "trainium3", tp=4, batch=8)
    assert found.dollars is None
    assert found.record()["dollars_per_million_output_tokens"] is None
    priced = asking.explain("llama_3_70b", "trainium3", tp=4, batch=8, price=1.0)
    assert priced.dollars is not None


def test_memory_is_weights_and_cache_of_what_there_is() -> None:
    found = asking.explain("paper/llama_3_70b", "paper/h100", tp=8, batch=10, context=1000, assumptions="paper")
    model = ie.model("paper/llama_3_70b")
    assert found.memory.weight_bytes == pytest.approx(2 * model.total_parameters, rel=1e-9)
    # 80 layers, 8 KV heads of 128, keys and values in 2 bytes each: 320 KiB per token.
    assert np.ravel(found.memory.kv_bytes).tolist() == [10 * 1000 * 80 * 8 * 128 * 2 * 2]
    assert np.ravel(found.memory.available_bytes).tolist() == [8 * 80e9]
    narrow = asking.explain(
        "paper/llama_3_70b", "paper/h100", tp=8, batch=10, context=1000, weights="int8", kv="fp8", assumptions="paper"
    )
    assert narrow.memory.weight_bytes == pytest.approx(found.memory.weight_bytes / 2, rel=1e-9)
    assert narrow.memory.kv_bytes == pytest.approx(found.memory.kv_bytes / 2, rel=1e-9)


def test_experts_are_spread_as_is_fastest_of_what_can_be_started() -> None:
    for tp, batch in ((16, 1), (4, 1), (8, 512)):
        best = asking.explain("mixtral_8x22b", "h100_sxm", tp=tp, batch=batch)
        assert "engine" in best.layout
        for ep in (1, 2, 4, 8):
            try:
                other = asking.explain("mixtral_8x22b", "h100_sxm", tp=tp, ep=ep, batch=batch)
            except (InputError, NothingFitsError):
                continue
            assert best.seconds <= other.seconds
    assert asking.explain("mixtral_8x22b", "h100_sxm", tp=8, ep=2).layout["ep"] == 2
    assert asking.explain("llama_3_70b", "h100_sxm", tp=8).layout["ep"] == 1
    assert asking.explain("llama_3_70b", "h100_sxm", tp=8, ep=1).layout["ep"] == 1


@pytest.mark.rows
def test_explain_refuses(changes: dict[str, object], message: str) -> None:
    given = {"model": "llama_3_70b", "hardware": "h100_sxm", "tp": 8, "batch": 16}
    with pytest.raises(InputError, match=message):
        asking.explain(**{**given, **changes})


def test_the_table_shows_every_part_and_their_sum() -> None:
    found = asking.explain("llama_3_70b", "h100_sxm", tp=8, batch=32, context=2000, weights="nvfp4")
    table = explain.explain_table(found)
    *parts, total = table.rows
    assert total == ("step", f"{1e3 * found.seconds:.3f}", "100.0")
    milliseconds = [float(row[1]) for row in parts]
    assert milliseconds == sorted(milliseconds, reverse=True)
    # Three decimals each.
    assert sum(milliseconds) == pytest.approx(1e3 * found.seconds, abs=0.0005 * len(parts) + 1e-9)
    assert sum(float(row[2]) for row in parts) == pytest.approx(100, abs=0.05 * len(parts) + 1e-9)


def test_what_takes_the_memory_of_an_accelerator() -> None:
    found = asking.explain("deepseek_v3", "gb200_nvl72", tp=2, dp=16, ep=32, batch=320, context=4000)
    held, model = found.held, ie.model("deepseek_v3")
    assert sum(held.values()) == pytest.approx(found.setup.hardware.hbm_bytes)
    block = 1 + 4 / 128**2
    # Attention is cut over two ranks, and every pair has all of it; of 256 experts there are eight; a shared one is cut
    # like attention. A latent is copied by both ranks of a pair, which has 20 sequences.
    attention = model.parameter_parts()["attention"]
    # Both ranks store the shared projections: from 7168 to 1536 + 512 + 64 in each of 61 layers.
    down = 61 * 7168 * (1536 + 512 + 64)
    one_expert = 3 * 7168 * 2048
    assert held["attention"] == pytest.approx((down + (attention - down) / 2) * block, rel=1e-12)
    assert held["experts"] == pytest.approx(58 * 8 * one_expert * block, rel=1e-12)
    assert held["shared_experts"] == pytest.approx(58 * one_expert * block / 2, rel=1e-12)
    assert held["embeddings"] == pytest.approx(2 * 129280 * 7168 * 2 / 2, rel=1e-12)
    # So are embeddings, by the pair, and the three dense layers; a router is whole on every chip.
    dense, router = 3 * 3 * 7168 * 18432, 58 * 256 * 7168
    vectors = held["feed_forward"] - (dense / 2 + router) * block
    assert 0 < vectors < 1e-3 * held["feed_forward"]
    assert held["kv_cache"] == 20 * 4000 * 61 * 576 * 2
    assert held["state"] == 0
    assert held["head_room"] == pytest.approx(0.1 * found.setup.hardware.hbm_bytes)
    weights = sum(held[name] for name in ("attention", "experts", "shared_experts", "embeddings", "feed_forward"))
    assert 32 * weights == pytest.approx(np.ravel(found.memory.weight_bytes)[0])
    assert 32 * held["workspace"] == pytest.approx(np.ravel(found.memory.workspace_bytes)[0])
    table = explain.memory_table(found)
    assert table.rows[-1] == ("all", f"{found.setup.hardware.hbm_bytes / 1e9:.3f}", "100.0")
    assert ("KV cache", "5.622", "2.8") in table.rows
    assert "states of recurrent layers" not in [row[0] for row in table.rows]


def test_states_of_recurrent_layers_stand_apart_from_the_cache() -> None:
    found = asking.explain("qwen3_next_80b_a3b", "h100_sxm", tp=4, batch=32, context=32000)
    # Two KV heads on four ranks: every one is stored twice.
    assert found.held["kv_cache"] == pytest.approx(32 * 32000 * 12288 * 2 * 2 / 4)
    assert 32 * 20_054_016 * 2 / 4 < found.held["state"] <= 32 * 20_054_016 * 4 / 4
    prompt = asking.explain("qwen3_next_80b_a3b", "h100_sxm", tp=4, batch=1, prompt=4096)
    assert prompt.held["kv_cache"] == pytest.approx(4096 * 12288 * 2 * 2 / 4)


def test_too_many_copies_of_experts_are_refused_with_how_many_fit() -> None:
    # On 32 chips, 256 experts need 657 GB, and every 32 copies, one per chip, need 82 GB more.
    def asked(copies: int, chips: int = 32) -> ie.Explanation:
        changes = [f"assumptions.experts.redundant={copies}"]
        return asking.explain("deepseek_v3", "h800_sxm", tp=1, dp=chips, ep=chips, batch=256, changes=changes)

    with pytest.raises(NothingFitsError, match=r"weights exceed .*, or at most \d+ redundant experts$") as refused:
        asked(3200)
    most = int(str(refused.value).rsplit("at most ", 1)[1].split()[0])
    assert most % 32 == 0
    assert asked(most).seconds > 0
    with pytest.raises(NothingFitsError, match=f"at most {most} redundant experts"):
        asked(most + 1)
    with pytest.raises(NothingFitsError, match=r"accelerators would do$"):
        asked(3200, chips=8)


def test_a_rack_says_what_its_fast_domain_is_worth() -> None:
    wide = {"tp": 1, "dp": 64, "ep": 64, "batch": 4096, "context": 2250}
    rack = asking.explain("deepseek_v3", "gb200_nvl72", **wide)
    boxes = asking.explain("deepseek_v3", "gb200_nvl72", **wide, changes=["hardware.link_domain=8"])
    assert rack.in_machines_seconds == pytest.approx(boxes.seconds, rel=1e-12)
    assert boxes.in_machines_seconds is None
    assert boxes.seconds > 1.1 * rack.seconds
    assert asking.explain("deepseek_v3", "h200_sxm", **wide).in_machines_seconds is None


def test_what_collectives_carry_is_two_vectors_of_every_layer_and_token() -> None:
    asked = {"weights": "fp8", "batch": 64, "context": 1000.0}
    one, eight = (asking.explain("llama_3_8b", "h100_sxm", tp=tp, **asked) for tp in (1, 8))
    assert all(row.collective_bytes == 0.0 for row in one.operators)
    carried = {row.name: row.collective_bytes for row in eight.operators if row.collective_bytes}
    # Hidden size 4096 in 16 bits, 32 layers, 64 tokens; behind attention and behind the feed-forward block.
    assert carried == pytest.approx(dict.fromkeys(("attention output", "ff out"), 32 * 64 * 4096 * 2.0))
