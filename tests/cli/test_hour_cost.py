"""The command that builds up the cost of an hour."""

from __future__ import annotations

from inference_econ.inputs import catalog
from tests.commands import Command


def test_the_help_names_the_usual_terms(command: Command) -> None:
    text, terms = command("hour-cost", "--help").out, catalog.ownership()
    for value in (
        terms.lifetime_years,
        terms.utilisation,
        terms.host_watts,
        terms.pue,
        terms.dollars_per_kwh,
        terms.yearly_operations,
        terms.cost_of_capital,
    ):
        assert f"[{value:g}]" in text
