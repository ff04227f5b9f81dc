from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from inference_econ.extras.sweeps.page import SweepPage
from inference_econ.extras.sweeps.stored import CheapestDeployment, FailureReason, Swept
from tests.reading import tables

#: As the cheapest point of a row has it.
POINT: dict[str, Any] = tables(Path(__file__))["POINT"]
UNMEASURED = {**POINT, "dollars_per_million_output_tokens_low": None}
SWEPT = Swept(
    title="Sweep",
    combinations=5,
    frontiers=3,
    points=120,
    missing=0,
    reasons=(FailureReason("refused", "no price", 1), FailureReason("nothing_fits", "nothing fits: model on chip", 1)),
    rows="model",
    among="hardware",
    names=("big", "small", "none"),
    speeds=(50, 100),
    where={"traffic": "chat"},
    best=(
        CheapestDeployment("small", "tpu", 50.0, UNMEASURED),
        CheapestDeployment("big", "gpu", 50.0, POINT),
        CheapestDeployment("small", "gpu", 100.0, POINT),
    ),
    price="on_demand:neocloud",
)


def test_rows_are_in_the_order_of_their_axis_and_what_is_not_reached_is_empty() -> None:
    page = SweepPage(SWEPT)
    assert page.tables()[0].rows == (("big", "gpu 1.50", "-"), ("small", "tpu 1.50*", "gpu 1.50"), ("none", "-", "-"))
    assert list(page.frame()["rows"]) == ["big", "small", "small"]


def test_a_picture_is_the_same_in_whichever_order_rows_end() -> None:
    turned = replace(SWEPT, best=SWEPT.best[::-1])
    assert SweepPage(turned).charts()["cheapest"].to_json() == SweepPage(SWEPT).charts()["cheapest"].to_json()


def test_what_no_measurement_stands_behind_is_marked() -> None:
    def said(swept: Swept) -> tuple[bool, bool]:
        page = SweepPage(swept)
        below = any(note.startswith("* has assumptions that were fitted to no") for note in page.tables()[0].notes)
        return below, "fitted to no measured server" in page.charts()["cheapest"].to_json()

    assert said(SWEPT) == (True, True)
    assert said(replace(SWEPT, best=SWEPT.best[1:])) == (False, False)


def test_only_the_most_frequent_names_have_a_colour_of_their_own() -> None:
    best = tuple(CheapestDeployment("big", f"chip {index // 2}", float(index), POINT) for index in range(16))
    chart = SweepPage(replace(SWEPT, best=best, speeds=tuple(map(float, range(16))))).charts()["cheapest"]
    scale = chart.to_dict()["layer"][0]["encoding"]["color"]["scale"]
    assert scale["domain"] == [*(f"chip {index}" for index in range(6)), "others"]
    assert len(set(scale["range"])) == 7
