"""The best member of a family of chips or architectures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.extras.papers.comparisons import compare_families
from inference_econ.extras.papers.study_kinds import FamilyAsk
from inference_econ.inputs import Settings, catalog
from inference_econ.studies.layout_curves import LayoutCurves
from inference_econ.studies.settings import frontier_of
from tests.reading import of, tables

TABLES: dict[str, Any] = tables(Path(__file__))
COMMON, HEADS, LAYERS, MEMORY = TABLES["COMMON"], TABLES["HEADS"], TABLES["LAYERS"], TABLES["MEMORY"]


def _ask(**changes: object) -> FamilyAsk:
    data: dict[str, Any] = {"kind": "architecture", "common": COMMON, "axes": [HEADS, LAYERS], "speeds": [60, 120]}
    return FamilyAsk.build({**data, **changes}, origin="test")


def _rows(ask: FamilyAsk) -> Mapping[tuple[str | int, ...], tuple[float | str, ...]]:
    (table,) = compare_families(ask).tables
    return {row.names: row.values for row in table.rows}


def test_architectures_have_equal_parameters_and_are_ranked() -> None:
    rows = _rows(_ask())
    assert len(rows) == 4
    # Embeddings grow with the hidden size: the layers are equal.
    sizes = [float(values[0]) for values in rows.values()]
    assert max(sizes) / min(sizes) < 1.06
    costs = [float(values[2]) for values in rows.values()]
    assert costs == sorted(costs)
    assert next(iter(rows)) == ("8 heads", "24 layers")
    assert rows["8 heads", "32 layers"][-1] == "the base"
    assert str(rows["16 heads", "32 layers"][-1]).startswith("kv cache +")


def test_members_are_what_a_frontier_says_of_them() -> None:
    rows = _rows(_ask(equal_parameters=False))
    settings = Settings(**COMMON, changes=("model.kv_heads=16", "model.layers=24"))
    front = of(ServiceFrontier, frontier_of(settings))
    values = rows["16 heads", "24 layers"]
    assert values[0] == front.setup.model.total_parameters / 1e9
    assert values[2] == pytest.approx(LayoutCurves(front).cheapest(60).dollars)
    assert values[4] == pytest.approx(front.tokens_per_second[-1])


def test_chips_within_a_budget() -> None:
    answer = compare_families(_ask(kind="chip", axes=[MEMORY], budget=5.0))
    (table,) = answer.tables
    rows = {row.names: row.values for row in table.rows}
    assert {names[0]: values[0] for names, values in rows.items()} == {"3.35 TB/s": 3.99, "4.8 TB/s": 4.99}
    assert any("exceed the budget of $5/h: 6.7 TB/s at $6.99/h." in note for note in table.notes)
    assert str(rows["4.8 TB/s",][-1]).startswith("kv cache -")
    (chart,) = answer.charts
    assert [line.label for line in chart.lines] == [
        f"{row.names[0]}{' (base)' if row.names[0] == '3.35 TB/s' else ''}" for row in table.rows
    ]


def test_equal_chips_at_equal_prices_cost_the_same() -> None:
    same = {"name": "memory", "choices": [{"label": "a"}, {"label": "b"}]}
    rows = _rows(_ask(kind="chip", axes=[same]))
    assert rows["a",][:-1] == rows["b",][:-1]
    assert rows["b",][-1] == "nothing"


def test_all_members_are_served_as_the_base_is() -> None:
    """The base's selected deployment sets engine, recipe and arrangement; speculation rounds have no parts."""
    market = {"model": "llama_3_8b", "hardware": "h100_sxm", "max_instance_gpus": 2}
    front = frontier_of(Settings(**market))
    assert isinstance(front, ServiceFrontier)
    cheapest = front.candidate(front.place(60.0))
    assert cheapest.speculation is not None
    answer = compare_families(_ask(common=market, axes=[LAYERS]))
    rows = {row.names: row.values for row in answer.tables[0].rows}
    own = frontier_of(Settings(**market), (cheapest.label,))
    assert isinstance(own, ServiceFrontier)
    assert rows["32 layers",][2] == pytest.approx(LayoutCurves(own).cheapest(60).dollars)
    assert rows["24 layers",][-1] == "its tokens come in rounds"
    assert any(cheapest.label in note for note in answer.tables[0].notes)


def test_members_that_fit_nowhere_or_are_too_slow_come_last() -> None:
    small = {"name": "size", "choices": [{"label": "80 GB"}, {"label": "4 GB", "changes": ["hardware.hbm_bytes=4 GB"]}]}
    rows = _rows(_ask(kind="chip", axes=[small], speeds=[60, 5000]))
    assert list(rows) == [("80 GB",), ("4 GB",)]
    assert rows["4 GB",][1:3] == ("nothing fits", "nothing fits")
    assert rows["80 GB",][2] == "too fast"


@pytest.mark.rows
def test_families_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ie.InputError, match=message):
        _ask(**changes)


def test_a_base_beyond_the_budget_or_a_wrong_what_if_is_said() -> None:
    with pytest.raises(ie.InputError, match=r"the first choices cost more than the budget of \$2/h"):
        compare_families(_ask(kind="chip", axes=[MEMORY], budget=2))
    odd = {"name": "heads", "choices": [{"label": "8"}, {"label": "5", "changes": ["model.kv_head=5"]}]}
    with pytest.raises(ie.InputError, match=r"5: --set model.kv_head=5: unknown key 'kv_head'"):
        compare_families(_ask(axes=[odd], equal_parameters=False))
    deep = ["model.attention=latent", "model.layers=4000"]
    tiny = {"name": "heads", "choices": [{"label": "32"}, {"label": "x", "changes": deep}]}
    with pytest.raises(ie.InputError, match=r"x: .* parameters are fewer than these layers have"):
        compare_families(_ask(axes=[tiny]))


@pytest.mark.parametrize("name", [name for name in catalog.names("scenarios") if name.startswith("studies/")])
def test_shipped_families_name_their_axes(name: str) -> None:
    ask = catalog.scenario(name).ask
    if isinstance(ask, FamilyAsk):
        assert len({axis.name for axis in ask.axes}) == len(ask.axes)
        assert all(not choice.changes for choice in (axis.choices[0] for axis in ask.axes))
        assert math.prod(len(axis.choices) for axis in ask.axes) > 4


def test_a_shipped_study_is_a_scenario(tmp_path: Any) -> None:
    result = ie.run("studies/chip_within_a_price")
    assert "arithmetic" in result.tables[0].names
    assert {source.source.ref for source in result.sources} >= {"user", "nvidia2024h100ds"}
    result.plot(tmp_path / "chip.svg")
    assert (tmp_path / "chip.svg").stat().st_size > 10_000
