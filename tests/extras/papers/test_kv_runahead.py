"""The scenario of KV-Runahead: published and predicted times, and mistakes in such a scenario."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.extras.papers import kv_runahead
from inference_econ.inputs import catalog
from inference_econ.report.questions.scenario import scenario_tables
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests.reading import tables

Write = Callable[[str], str]

SCENARIO: str = tables(Path(__file__))["SCENARIO"]


@cache
def published() -> Result:
    return run("seeds/kv_runahead")


def ours(label: str, context: int) -> dict[str, float]:
    """Return the times of one row of the chain table."""
    (table,) = [table for table in published().tables if table.subject == label]
    (row,) = [row for row in table.rows if row.names == (context,)]
    return {head: value for head, value in zip(table.columns, row.values, strict=True) if not isinstance(value, str)}


def test_every_published_cell_is_compared() -> None:
    compared = published().cells
    assert len(compared) == 41
    shown = scenario_tables(published())
    assert shown[0].columns == ("prompt", "one process s", "one process s, printed", "off by")
    assert shown[1].columns == (
        *("prompt", "all-gather s", "all-gather s, printed", "off by", "searched parts s", "searched parts s, printed"),
        *("off by", "speed-up", "speed-up, printed", "off by", "even parts s", "interpolated parts s", "one process s"),
        "searched parts %",
    )
    # One table for each chain, with a row for each prompt.
    assert [len(table.rows) for table in shown] == [5] * 7
    errors = [text for table in shown for row in table.rows for text in row if text.endswith(" %")]
    assert len(errors) == 41
    assert ("16384", "6.49", "3.95", "+64.3 %") in shown[0].rows


def errors(*labels: str, least: int = 0) -> list[float]:
    """Return relative errors of the published cells of some chains, from a minimum prompt length."""
    return [
        cell.ours / float(cell.printed) - 1.0
        for cell in published().cells
        if any(cell.row.startswith(label) for label in labels) and int(cell.row.split(", ")[-1]) >= least
    ]


def test_the_three_cells_that_fix_the_rates() -> None:
    found = errors("Llama 7B, 1 GPU")[:3]
    assert found == pytest.approx([0.0, 0.0, 0.0], abs=0.01)


def test_section_5_1_from_8192_tokens_on() -> None:
    found = errors("Llama 7B, 4 GPUs at 300", "Falcon 7B, 8 GPUs at 300", least=8192)
    assert len(found) == 12
    assert max(map(abs, found)) < 0.06


def test_section_5_1_below_lies_within_20_milliseconds() -> None:
    for cell in published().cells:
        if "300 GB/s" in cell.row and cell.column.endswith(" s") and int(cell.row.split(", ")[-1]) < 8192:
            assert -0.001 < float(cell.printed) - cell.ours < 0.02


def test_section_4_2_is_met_as_the_notes_say() -> None:
    assert max(map(abs, errors("Llama 7B, 2 GPUs at 10", "Llama 7B, 4 GPUs at 10"))) < 0.55
    assert ours("Llama 7B, 2 GPUs at 10 GB/s", 4096)["even parts s"] == pytest.approx(0.33, abs=0.005)
    assert ours("Llama 7B, 2 GPUs at 10 GB/s", 8192)["even parts s"] == pytest.approx(0.98, abs=0.005)
    # Without overlap: the computation of four over a free link, and the last link after it.
    for context, expected, tokens in ((4096, 0.30, 3265), (8192, 0.72, 6650)):
        hidden = ours("Llama 7B, 4 GPUs at 300 GB/s", context)["searched parts s"]
        assert hidden + 32 * 16384 * tokens / 10e9 == pytest.approx(expected, abs=0.006)
    for context, printed in ((4096, 0.93), (8192, 2.06)):
        found = ours("Llama 7B, 4 GPUs at 1 GB/s", context)
        assert found["searched parts s"] < printed < found["even parts s"]


def test_more_kv_heads_of_falcon_change_next_to_nothing(write: Write) -> None:
    text = (catalog.folder("scenarios") / "seeds" / "kv_runahead.yaml").read_text(encoding="utf-8")
    model = (catalog.folder("models") / "falcon_7b.yaml").read_text(encoding="utf-8")
    changed = Path(write("x")).parent / "falcon_8.yaml"
    # The number of KV heads must divide the number of query heads, which is 71.
    heads = model.replace("query_heads: 71", "query_heads: 72").replace("kv_heads: 1", "kv_heads: 8")
    changed.write_text(heads, encoding="utf-8")
    result = run(write(text.replace("model: falcon_7b", f"model: {changed}")))
    mine = [cell.ours for cell in result.cells if "Falcon" in cell.row]
    theirs = [cell.ours for cell in published().cells if "Falcon" in cell.row]
    assert mine == pytest.approx(theirs, rel=0.03)


def test_notes_say_how_far_and_why() -> None:
    shown, *others = scenario_tables(published())
    assert any(note.startswith("Predictions are -1 to +64 % off ") for note in shown.notes)
    assert all(table.notes[0].startswith("Predictions are ") for table in others)
    near, far = "predictions are within 10 % of the published values, and", "are off by more than 25 %."
    assert f"In section 4.2, 8 of 20 {near} 10 {far} The median error is 29 %." in shown.notes
    assert f"In all sections, 26 of 41 {near} 10 {far} The median error is 6 %." in shown.notes
    assert any("Section 4.2 contradicts section 5.1" in note for note in shown.notes)


def test_searched_parts_are_best_and_later_ones_are_smaller() -> None:
    found = ours("Llama 7B, 4 GPUs at 300 GB/s", 12288)
    assert found["searched parts s"] < found["interpolated parts s"] * 1.001
    assert found["interpolated parts s"] < found["even parts s"] < found["all-gather s"] < found["one process s"]
    (row,) = [row for row in published().tables[1].rows if row.names == (12288,)]
    shares = [int(share) for share in str(row.values[-1]).split()]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=2)


def test_a_scenario_of_ones_own(write: Write) -> None:
    result = run(write(SCENARIO))
    alone, two = scenario_tables(result)
    assert [row[0] for row in (*alone.rows, *two.rows)] == ["100", "200"] * 2
    assert two.rows[1][two.columns.index("speed-up, printed")] == "1.2"
    assert [cell.row for cell in result.cells] == ["alone, 100", "two, 200"]
    # The chart draws the speedup with the published ones.
    (chart,) = result.charts
    line, points = chart.lines
    assert (points.beside, list(points.x), list(points.y)) == ("two", [200.0], [1.2])
    assert line.y[-1] == pytest.approx(result.tables[1].rows[1].values[2])
    work = kv_runahead.layer_work(catalog.model("llama_3_8b"), 2.0)
    model = catalog.model("llama_3_8b")
    per_layer = model.blocks[0].layers
    assert work.kv_bytes * per_layer == model.kv_elements_per_token * 2.0
    matrices = (work.projection_flop + work.other_flop) / 2
    norms = 2 * model.hidden_size
    everything = model.total_parameters - model.embedding_parameters - model.hidden_size
    assert matrices + norms == pytest.approx(everything / per_layer, rel=1e-12)


@pytest.mark.rows
def test_mistakes_in_a_scenario(write: Write, old: str, new: str, message: str) -> None:
    assert SCENARIO.count(old) == 1, old
    with pytest.raises(SpecError, match=message):
        run(write(SCENARIO.replace(old, new)))


@pytest.mark.parametrize("model", ["deepseek_v3", "mixtral_8x7b"])
def test_models_with_other_layers(write: Write, model: str) -> None:
    message = "a kv_runahead needs a model whose layers all are grouped_query attention with a dense feed-forward block"
    with pytest.raises(InputError, match=message):
        run(write(SCENARIO.replace("llama_3_8b", model)))


def test_shares_of_the_search_add_up() -> None:
    for table in published().tables[1:]:
        for row in table.rows:
            assert np.sum([int(share) for share in str(row.values[-1]).split()]) == pytest.approx(100, abs=4)
