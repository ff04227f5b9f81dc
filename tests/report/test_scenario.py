"""Scenarios as JSON, CSV and Markdown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference_econ.errors import NothingFitsError, SpecError
from inference_econ.inputs import catalog
from inference_econ.records.plain import csv_text
from inference_econ.report.questions.scenario import scenario_table
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests.reading import csv_rows, present


def test_panels_keep_series_of_the_same_name_apart() -> None:
    toy = catalog.scenario("paper/figure_1")
    panels = tuple(run(toy.replace(name=name)) for name in ("One", "Two"))
    result = Result(catalog.scenario("paper/figure_5"), panels=panels)
    rows = csv_rows(csv_text(result.to_frame()))
    per_panel = sum(len(curve.dollars) for curve in panels[0].curves) + len(panels[0].offers)
    assert [row["panel"] for row in rows] == ["One"] * per_panel + ["Two"] * per_panel
    assert {row["series"] for row in rows} == {curve.label for curve in panels[0].curves}
    record = result.record()
    assert isinstance(record["panels"], list)
    assert len(record["panels"]) == 2
    # A picture of panels is not needed for their data.
    bare = Result(result.scenario.replace(figure=None), panels=panels)
    assert csv_text(bare.to_frame()) == csv_text(result.to_frame())


def test_a_table_at_a_cost_shows_the_fastest_point_that_costs_no_more() -> None:
    result = run("paper/table_4")
    spec = present(result.scenario.table)

    def at(cost: float) -> Result:
        table = spec.replace(cost=cost, printed={})
        sources = {name.replace("printed", "cost"): source for name, source in result.scenario.sources.items()}
        return replace(result, scenario=result.scenario.replace(table=table, sources=sources))

    table = scenario_table(at(1.0))
    assert table.title == "Table 4: the fastest point at $1 per million tokens of each series"
    for row, curve in zip(table.rows, result.curves, strict=True):
        assert float(row[1]) == pytest.approx(curve.tokens_per_second[curve.dollars <= 1.0].max(), abs=0.6)
    with pytest.raises(NothingFitsError, match=r"H100 SXM: nothing costs \$0.01 or less per million tokens; the least"):
        scenario_table(at(0.01))
    with pytest.raises(SpecError, match="a cost is that of the fastest point; leave it out, or write point: fastest"):
        spec.replace(cost=1.0, point="preferred")
