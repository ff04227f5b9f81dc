"""Scenarios as JSON, CSV and Markdown."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from inference_econ.errors import NothingFitsError, SpecError
from inference_econ.inputs import catalog
from inference_econ.records.plain import csv_text, json_text
from inference_econ.report.scenario import scenario_table
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests.reading import csv_rows, numbers


@pytest.mark.parametrize("name", ["paper/table_1", "paper/table_4", "paper/figure_1", "paper/figure_2"])
def test_scenarios_as_json_csv_and_markdown(name: str) -> None:
    result = run(name)
    record = json.loads(json_text(result.record()))
    assert record["scenario"] == result.scenario.name
    assert record["sources"]
    assert all(math.isfinite(number) for number in numbers(record))
    rows = csv_rows(csv_text(result.to_frame()))
    if result.scenario.figure is None:
        assert [row["series"] for row in rows] == [curve.label for curve in result.curves]
        assert [row["series"] for row in record["rows"]] == [curve.label for curve in result.curves]
        assert len(record["cells"]) == len(result.cells) > 0
        assert {"item", "row", "column", "printed", "ours", "match", "note"} == record["cells"][0].keys()
    elif result.comparison is not None:
        assert [float(row["measured_seconds"]) for row in rows] == pytest.approx(result.comparison.measured)
    else:
        # Ten digits are written; offers come after the curves.
        assert len(rows) == sum(len(curve.dollars) for curve in result.curves) + len(result.offers)
        for column, field in (("tokens_per_second_per_user", "tokens_per_second"), ("accelerators", "accelerators")):
            drawn = np.concatenate([getattr(curve, field) for curve in result.curves])
            assert [float(row[column]) for row in rows[: len(drawn)]] == pytest.approx(drawn, rel=1e-9)
        assert [curve["series"] for curve in record["curves"]] == [curve.label for curve in result.curves]
        assert record["curves"][0]["batch"] == result.curves[0].batch.tolist()
    lines = scenario_table(result).markdown().splitlines()
    assert len({line.count(" | ") for line in lines}) == 1


def test_panels_keep_series_of_the_same_name_apart() -> None:
    toy = catalog.scenario("paper/figure_1")
    panels = tuple(run(toy.replace(name=name)) for name in ("One", "Two"))
    result = Result(catalog.scenario("paper/figure_5"), panels)
    rows = csv_rows(csv_text(result.to_frame()))
    per_panel = sum(len(curve.dollars) for curve in panels[0].curves) + len(panels[0].offers)
    assert [row["panel"] for row in rows] == ["One"] * per_panel + ["Two"] * per_panel
    assert {row["series"] for row in rows} == {curve.label for curve in panels[0].curves}
    record = result.record()
    assert isinstance(record["panels"], list)
    assert len(record["panels"]) == 2
    # A picture of panels is not needed for their data.
    bare = Result(result.scenario.replace(figure=None), panels)
    assert csv_text(bare.to_frame()) == csv_text(result.to_frame())


def test_a_table_at_a_cost_shows_the_fastest_point_that_costs_no_more() -> None:
    result = run("paper/table_4")
    spec = result.scenario.table
    assert spec is not None

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
