"""Frontiers as CSV, JSON and tables."""

from __future__ import annotations

import pytest

import inference_econ as ie
from inference_econ.report import frontier
from inference_econ.report.table import warnings
from tests import asking


@pytest.fixture(scope="module")
def front() -> ie.Frontier:
    """A small frontier."""
    return asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=500, osl=100), max_accelerators=4, weights="fp8")


def test_the_table_of_a_frontier_shows_both_ends_and_the_preferred_point(front: ie.Frontier) -> None:
    table = frontier.frontier_table(front)
    assert len(table.rows) <= 15
    speeds = [float(row[0].rstrip(" *")) for row in table.rows]
    assert speeds == sorted(speeds)
    assert speeds[0] == pytest.approx(front.tokens_per_second[0], abs=0.51)
    assert speeds[-1] == pytest.approx(front.tokens_per_second[-1], abs=0.51)
    (starred,) = (row for row in table.rows if row[0].endswith("*"))
    best = front.preferred(exponent=3)
    assert float(starred[0].rstrip(" *")) == pytest.approx(best.tokens_per_second_per_user, abs=0.51)
    assert f"{len(table.rows)} of {len(front)} points" in table.every_note[0]
    assert table.title.startswith("Decode steps alone, no prefill: Llama 3.1 8B on NVIDIA H100 SXM5 80GB at $2.95 per")
    assert "; weights fp8, embeddings bf16, activations bf16, KV bf16; context" in table.title


def test_one_point_is_a_table_too() -> None:
    front = asking.frontier(
        "llama_3_8b", "h100_sxm", ie.Traffic(context=0, max_tokens_per_second=200), max_accelerators=1
    )
    assert len(frontier.frontier_table(front).rows) == min(len(front), 14)


@pytest.mark.parametrize(("weights", "bits", "bare"), [("int4", "4.12", "int4_channel"), ("nvfp4", "4.5", "fp4")])
def test_four_bits_with_scales_are_not_those_of_the_published_study(weights: str, bits: str, bare: str) -> None:
    def notes(assumptions: str | None, weights: str) -> list[str]:
        setup = asking.setup("paper/llama_3_70b", "paper/h100", weights=weights, assumptions=assumptions)
        return [note for note in warnings(setup) if "published study" in note]

    # A 16-bit scale for every 128 weights, an 8-bit one for every 16.
    told = f"{weights} weights are {bits} bits with their scales; the 4 bits of the published study have none: "
    assert notes("paper", weights) == [f"{told}--weights {bare}."]
    assert notes("deployable", weights) == notes("paper", bare) == notes("paper", "int8") == []


def test_notes_say_on_which_unit_narrow_weights_run_and_what_is_a_rumour() -> None:
    front = asking.frontier("llama_3_8b", "a100_sxm_80", ie.Traffic(context=0), weights="fp8", max_accelerators=1)
    assert "fp8 weights run on the bf16 units of this chip." in frontier.frontier_table(front).every_note
    rumour = asking.frontier("gpt_4", "h200_sxm", ie.Traffic(context=0), weights="fp8", max_accelerators=32)
    assert "The architecture of this model is a rumour." in frontier.frontier_table(rumour).every_note
    experts = asking.frontier("gpt_oss_20b", "h100_sxm", ie.Traffic(context=0), max_accelerators=2)
    assert "experts mxfp4" in frontier.frontier_table(experts).title
