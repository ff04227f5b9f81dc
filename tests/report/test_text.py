"""Results as CSV, Markdown and JSON: what a spreadsheet, a page and a program read back."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator

import pytest

import inference_econ as ie
from inference_econ.inputs import catalog
from inference_econ.report import catalog as listings
from inference_econ.report import frontier
from inference_econ.report import scenario as scenario_tables
from inference_econ.report import table as tables
from inference_econ.report.table import Table
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests import asking


@pytest.fixture(scope="module")
def front() -> ie.Frontier:
    """A small frontier with a draft model, of a model whose architecture is a rumour."""
    return asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=500, osl=100), max_accelerators=4, weights="fp8")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, float):
        yield value


def test_the_csv_of_a_frontier_is_every_point(front: ie.Frontier) -> None:
    text = frontier.frontier_csv(front)
    assert "nan" not in text.lower()
    assert "inf" not in text.lower().replace("inference", "")
    rows = _rows(text)
    assert [float(row["tokens_per_second_per_user"]) for row in rows] == front.tokens_per_second.tolist()
    assert [float(row["dollars_per_million_output_tokens"]) for row in rows] == front.dollars.tolist()
    assert all(value != "" for row in rows for value in row.values())


def test_the_json_of_a_frontier_has_the_names_of_python(front: ie.Frontier) -> None:
    record = json.loads(tables.to_json(frontier.frontier_record(front)))
    assert {"model", "hardware", "assumptions", "points", "sources"} <= record.keys()
    assert (record["model"], record["hardware"]) == ("Llama 3.1 8B", "NVIDIA H100 SXM5 80GB")
    assert (record["weights"], record["math_unit"], record["context"]) == ("fp8", "fp8", 550.0)
    points = record["points"]
    assert [point["tokens_per_second_per_user"] for point in points] == front.tokens_per_second.tolist()
    wanted = {
        *("tokens_per_second_per_user", "dollars_per_million_output_tokens", "accelerators", "batch"),
        *("layout", "mfu", "limited_by"),
    }
    assert all(wanted <= point.keys() for point in points)
    assert {"tp", "pp"} <= points[-1]["layout"].keys()
    assert all(math.isfinite(number) for number in _numbers(record))
    assert {"file", "field", "ref", "where", "kind"} <= record["sources"][0].keys()


def test_json_has_neither_nan_nor_infinity() -> None:
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            tables.to_json({"value": bad})
    assert tables.to_json({"a": [1.5]}).endswith("}\n")


def test_the_table_of_a_frontier_shows_both_ends_and_the_preferred_point(front: ie.Frontier) -> None:
    table = frontier.frontier_table(front, rows=6)
    assert 6 <= len(table.rows) <= 7
    speeds = [float(row[0].rstrip(" *")) for row in table.rows]
    assert speeds == sorted(speeds)
    assert speeds[0] == pytest.approx(front.tokens_per_second[0], abs=0.051)
    assert speeds[-1] == pytest.approx(front.tokens_per_second[-1], abs=0.051)
    (starred,) = (row for row in table.rows if row[0].endswith("*"))
    best = front.preferred(exponent=3)
    assert float(starred[0].rstrip(" *")) == pytest.approx(best.tokens_per_second_per_user, abs=0.051)
    assert f"{len(table.rows)} of {len(front)} points" in table.notes[0]
    assert "Llama 3.1 8B on NVIDIA H100 SXM5 80GB: weights fp8, activations bf16, KV bf16" in table.title


def test_one_point_is_a_table_too() -> None:
    front = asking.frontier(
        "llama_3_8b", "h100_sxm", ie.Traffic(context=0, max_tokens_per_second=200), max_accelerators=1
    )
    assert len(frontier.frontier_table(front).rows) == min(len(front), 14)


def test_notes_say_on_which_unit_narrow_weights_run_and_what_is_a_rumour() -> None:
    front = asking.frontier("llama_3_8b", "a100_sxm_80", ie.Traffic(context=0), weights="fp8", max_accelerators=1)
    assert "fp8 weights run on the bf16 units of this chip." in frontier.frontier_table(front).notes
    rumour = asking.frontier("gpt_4", "h200_sxm", ie.Traffic(context=0), weights="fp8", max_accelerators=32)
    assert "The architecture of this model is a rumour." in frontier.frontier_table(rumour).notes
    experts = asking.frontier("gpt_oss_20b", "h100_sxm", ie.Traffic(context=0), max_accelerators=2)
    assert "experts mxfp4" in frontier.frontier_table(experts).title


@pytest.mark.parametrize(
    ("layout", "label"),
    [
        ({"tp": 8.0, "dp": 1.0, "pp": 1.0, "stage": 8.0, "cut": "1d"}, "tp8"),
        ({"tp": 4.0, "dp": 1.0, "pp": 2.0, "ep": 1.0, "moe_tp": 4.0, "stage": 4.0, "cut": "1d"}, "tp4pp2"),
        ({"tp": 1.0, "dp": 32.0, "pp": 1.0, "ep": 32.0, "moe_tp": 1.0, "stage": 32.0, "cut": "1d"}, "dp32ep32"),
        ({"tp": 4.0, "dp": 1.0, "pp": 1.0, "ep": 16.0, "moe_tp": 1.0, "stage": 16.0, "cut": "2d"}, "tp16ep16 attn4 2d"),
        ({"tp": 1.0, "dp": 1.0, "pp": 1.0, "stage": 4.0, "cut": "1d"}, "tp4 attn1"),
        ({"tp": 7.123, "dp": 1.0, "pp": 1.04, "stage": 7.123, "cut": "1d"}, "tp7.12pp1.04"),
        ({"tp": 2.0, "dp": 1.0, "pp": 1.0, "stage": 2.0, "cut": "1d", "draft_tokens": 3}, "tp2 +3 drafted"),
    ],
)
def test_layouts_are_labelled_as_people_write_them(layout: dict[str, float | str], label: str) -> None:
    assert tables.layout_label(layout) == label


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.00012345, "0.000123"),
        (0.0123, "0.0123"),
        (0.5, "0.500"),
        (1.5, "1.50"),
        (9.876, "9.88"),
        (12.345, "12.35"),
        (1e4, "10000.00"),
    ],
)
def test_dollars_have_three_digits_or_cents(amount: float, text: str) -> None:
    assert tables.dollars(amount) == text


def test_markdown_and_csv_survive_odd_cells() -> None:
    table = Table("t", ("a", "b|c"), (('say "x", y', "p|q"), ("two\nlines", "")))
    assert table.text("markdown") == '| a | b\\|c |\n| --- | --- |\n| say "x", y | p\\|q |\n| two lines |  |\n'
    assert _rows(table.text("csv")) == [{"a": 'say "x", y', "b|c": "p|q"}, {"a": "two\nlines", "b|c": ""}]


@pytest.mark.parametrize("name", ["paper/table_1", "paper/table_4", "paper/figure_1", "paper/figure_2"])
def test_scenarios_as_json_csv_and_markdown(name: str) -> None:
    result = run(name)
    record = json.loads(tables.to_json(scenario_tables.result_record(result)))
    assert record["scenario"] == result.scenario.name
    assert record["sources"]
    assert all(math.isfinite(number) for number in _numbers(record))
    rows = _rows(scenario_tables.result_csv(result))
    if result.scenario.figure is None:
        assert [row["series"] for row in rows] == [curve.label for curve in result.curves]
        assert [row["series"] for row in record["rows"]] == [curve.label for curve in result.curves]
        assert len(record["cells"]) == len(scenario_tables.cells(result)) > 0
        assert {"item", "row", "column", "printed", "ours", "match", "note"} == record["cells"][0].keys()
    elif result.comparison is not None:
        assert [float(row["measured_seconds"]) for row in rows] == pytest.approx(result.comparison.measured)
    else:
        assert len(rows) == sum(len(curve.dollars) for curve in result.curves)
        assert [curve["series"] for curve in record["curves"]] == [curve.label for curve in result.curves]
        assert record["curves"][0]["batch"] == result.curves[0].batch.tolist()
    lines = scenario_tables.scenario_table(result).text("markdown").splitlines()
    assert len({line.count(" | ") for line in lines}) == 1


def test_panels_keep_series_of_the_same_name_apart() -> None:
    toy = catalog.scenario("paper/figure_1")
    panels = tuple(run(toy.replace(name=name)) for name in ("One", "Two"))
    result = Result(catalog.scenario("paper/figure_5"), panels)
    rows = _rows(scenario_tables.result_csv(result))
    per_panel = sum(len(curve.dollars) for curve in panels[0].curves)
    assert [row["panel"] for row in rows] == ["One"] * per_panel + ["Two"] * per_panel
    assert {row["series"] for row in rows} == {curve.label for curve in panels[0].curves}
    record = scenario_tables.result_record(result)
    assert isinstance(record["panels"], list)
    assert len(record["panels"]) == 2
    # A picture of panels is not needed for their data.
    bare = Result(result.scenario.replace(figure=None), panels)
    assert scenario_tables.result_csv(bare) == scenario_tables.result_csv(result)


KINDS: tuple[catalog.Kind, ...] = ("hardware", "models", "scenarios", "assumptions")


@pytest.mark.parametrize("kind", KINDS)
def test_the_catalogue_as_a_table(kind: catalog.Kind) -> None:
    records = listings.listing(kind)
    assert [record["name"] for record in records] == list(catalog.names(kind))
    json.loads(tables.to_json(records))
    table = listings.listing_table(kind, records)
    assert len(table.rows) == len(records)
    assert table.title == f"{len(records)} {kind}"
    assert len(_rows(table.text("csv"))) == len(records)


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_the_catalogue_can_be_shown(kind: catalog.Kind) -> None:
    for name in catalog.names(kind):
        record = listings.detail(kind, name)
        json.loads(tables.to_json(record))
        table = listings.detail_table(kind, name, record)
        assert table.columns == ("field", "value", "source")
        assert all(len(row) == 3 for row in table.rows)
        fields = [row[0] for row in table.rows]
        assert len(set(fields)) == len(fields)


def test_details_show_values_with_their_sources() -> None:
    record = listings.detail("hardware", "h100_sxm")
    rows = {row[0]: row for row in listings.detail_table("hardware", "h100_sxm", record).rows}
    assert rows["hbm_bytes_per_second"][1] == "3.35e+12"
    assert rows["hbm_bytes_per_second"][2].startswith("published: nvidia2024h100ds, ")
    assert rows["dense_flops_per_second.fp8"][2].startswith("published: ")
    model = listings.detail("models", "llama_3_8b")
    assert model["total_parameters"] == 8_030_261_248
    assert isinstance(model["parameter_parts"], dict)
    assert sum(model["parameter_parts"].values()) == 8_030_261_248
