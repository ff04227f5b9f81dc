"""Headings of tables: requests, speculation methods and bounds."""

from __future__ import annotations

import pytest

from inference_econ.engine import Setup, Speculation
from inference_econ.inputs import Requests
from inference_econ.report.headings import BOUND, heading, lengths_label, speculation_label


@pytest.mark.parametrize("length", ["2000", "uniform:800:1000", "lognormal:2000:0.8", "500@0.25,2000@0.75"])
def test_lengths_are_said_as_they_are_typed(length: str) -> None:
    requests = Requests(isl=length, osl=500)
    assert lengths_label(requests) == f"ISL {length}, OSL 500"


def test_a_heading_names_who_proposes_tokens_only_where_all_rows_have_the_same() -> None:
    setup, proposer = Setup.of("llama_3_8b", "h100_sxm"), Speculation.of("ngram", 0.5)
    assert heading("Rows", [setup], [], speculations=[proposer, proposer]).endswith(f"; {speculation_label(proposer)}")
    assert heading("Rows", [setup], [], speculations=[None, proposer]) == heading("Rows", [setup], [])


def test_a_draft_of_one_length_is_named_with_its_tokens_per_round() -> None:
    label = speculation_label(Speculation.fixed("eagle", 3, 2.4))
    assert label == "EAGLE 3 (2.4 tokens/step)"


@pytest.mark.rows
def test_chips_without_a_profile_are_called_a_bound(chip: str, preset: str | None, bound: bool) -> None:
    setup = Setup.of("llama_3_8b", chip, assumptions=preset, price=1.0)
    title = heading("Decode steps", [setup], [])
    assert (f"{setup.hardware.name} ({BOUND}) at $1/GPU-h" in title) is bound
    assert (BOUND in title) is bound
