"""Carbon intensity of grids: published numbers of a year, by name."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs.places import folder

#: More than any power station emits is a slip of the unit [g/kWh].
_MOST = 2000.0


class Grid(NamedTuple):
    """Electricity of a country, or with an intensity of one's own."""

    name: str
    """Of the country; ``given`` if a number was."""
    grams_per_kwh: float
    """Life-cycle emissions of its generation, CO2 equivalents [g/kWh]."""
    year: str = ""
    """Of which the intensity is the mean."""
    source: str = ""
    """Reference: a key of ``references.bib``."""

    @property
    def text(self) -> str:
        """The grid in words."""
        place = f", {self.name} in {self.year} ({self.source})" if self.year else ""
        return f"{self.grams_per_kwh:g} gCO2e/kWh{place}"


@cache
def grids() -> dict[str, Grid]:
    """Every grid that is known, by name."""
    import csv

    with (folder("scenarios") / "measured" / "grids.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["name"]: Grid(row["name"], float(row["grams_per_kwh"]), row["year"], row["source"])
            for row in csv.DictReader(file)
        }


def grid(text: str) -> Grid:
    """A grid by name, or by its carbon intensity.

    Parameters
    ----------
    text : str
        ``france``, or grams of CO2 equivalents per kWh, ``44``.

    Raises
    ------
    InputError
        If there is no such grid, or no electricity emits so much.

    Examples
    --------
    >>> grid("france").grams_per_kwh, grid("120.5").grams_per_kwh
    (44.0, 120.5)
    """
    name = text.strip().lower().replace(" ", "_")
    if name in grids():
        return grids()[name]
    try:
        grams = float(name)
    except ValueError:
        raise InputError(
            f"unknown grid {text!r}; known: {', '.join(grids())}; or give gCO2e per kWh, for example 120",
            option="carbon",
        ) from None
    if not 0.0 <= grams <= _MOST:
        raise InputError(f"carbon: a grid emits from 0 to {_MOST:g} gCO2e per kWh, got {grams:g}", option="carbon")
    return Grid("given", grams)
