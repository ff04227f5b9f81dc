"""Frontiers as CSV, JSON and tables."""

from __future__ import annotations

import pytest

from inference_econ.report.notes import setup_warnings
from tests import asking


@pytest.mark.parametrize(("weights", "bits", "bare"), [("int4", "4.12", "int4_channel"), ("nvfp4", "4.5", "fp4")])
def test_four_bits_with_scales_are_not_those_of_the_published_study(weights: str, bits: str, bare: str) -> None:
    def notes(assumptions: str | None, weights: str) -> list[str]:
        setup = asking.setup("paper/llama_3_70b", "paper/h100", weights=weights, assumptions=assumptions)
        return [note for note in setup_warnings(setup) if "published study" in note]

    # A 16-bit scale for every 128 weights, an 8-bit one for every 16.
    told = f"{weights} weights are {bits} bits with their scales; the 4 bits of the published study have none: "
    assert notes("paper", weights) == [f"{told}--weights {bare}."]
    assert notes("deployable", weights) == notes("paper", bare) == notes("paper", "int8") == []
