"""Carbon intensities: a dated table, each with a source."""

from __future__ import annotations

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs import economic_defaults as grids


def test_every_grid_has_a_year_and_a_source() -> None:
    for name, grid in grids.grids().items():
        assert grid.name == name and grid.year in ("2023", "2024") and grid.source in catalog.references()
        assert 10 < grid.grams_per_kwh < 1000


def test_grids_by_name_and_by_number() -> None:
    assert grids.grid("Germany").text == "342 gCO2e/kWh, germany in 2024 (ember2024)"
    assert grids.grid(" 12.5 ").text == "12.5 gCO2e/kWh"


@pytest.mark.parametrize(
    ("asked", "message"),
    [("atlantis", r"unknown grid 'atlantis'; known: world, .*; or give gCO2e per kWh, for example 120"),
     ("-1", r"from 0 to 2000 gCO2e per kWh, got -1"), ("4e5", r"got 400000"), ("nan", r"got nan")],
)  # fmt: skip
def test_unknown_grids_are_refused(asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        grids.grid(asked)
