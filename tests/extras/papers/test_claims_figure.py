"""The chart of claims: a mark per number, at the end of the axis if it lies outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference_econ.extras.papers import claims_figure
from inference_econ.extras.papers.claim_kinds import Claim
from inference_econ.extras.papers.claims import Finding, Ledger
from tests.reading import tables


def _finding(name: str, published: dict[str, str], ours: dict[str, float], seed: str = "A paper") -> Finding:
    claim = {**tables(Path(__file__))["CLAIM"], "id": name, "published": published}
    return Finding(seed, Claim.build(claim, origin="claim"), ours, {})  # type: ignore[arg-type]


def _marks(ledger: Ledger) -> list[tuple[float, str]]:
    figure = claims_figure.draw(ledger)
    return [
        (float(np.asarray(line.get_xdata())[0]), str(line.get_markerfacecolor()))
        for axes in figure.axes
        for line in axes.lines
        if line.get_marker() != "None"
    ]


@pytest.mark.rows
def test_a_mark_lies_where_the_number_is(published: dict[str, str], ours: float, place: float, holds: bool) -> None:
    ((x, face),) = _marks(Ledger((_finding("one", published, {"paper": ours}),)))
    assert x == pytest.approx(place)
    assert (face != "white") is holds


def test_publications_stand_apart_and_what_lies_beyond_says_its_number() -> None:
    first = _finding("one", {"value": "1"}, {"paper": 100.0, "today": 300.0})
    figure = claims_figure.draw(Ledger((first, _finding("two", {"value": "1"}, {"today": 1.0}, "Another"))))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A paper", "Another"]
    assert [text.get_text() for text in figure.axes[0].texts if text.get_text()] == ["100, 300"]
