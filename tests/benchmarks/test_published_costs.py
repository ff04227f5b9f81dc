"""Errors of predicted costs against InferenceX's published costs: the table and the scores page."""

from __future__ import annotations

import itertools
import math

from benchmarks.validation.published_costs import PAGE, TABLE, Score, page
from inference_econ.inputs import catalog
from tests.reading import csv_rows


def _rows() -> list[dict[str, str]]:
    return csv_rows(TABLE.read_text(encoding="utf-8"))


def test_costs_have_known_names_and_a_place() -> None:
    rows = _rows()
    for row in rows:
        assert row["model"] in catalog.names("models") and row["hardware"] in catalog.names("hardware")
        assert row["where"].startswith("packages/app/content/blog/") and "@" in row["where"]
        assert row["layouts_where"].startswith(".github/configs/") and "@" in row["layouts_where"]
    assert sum(row["model"].startswith("kimi_k2") for row in rows) == 28
    assert f"has {len(rows)} such costs" in PAGE.read_text(encoding="utf-8")


def test_costs_rise_with_the_speed_of_a_series() -> None:
    rows = _rows()
    for before, after in itertools.pairwise(rows):
        same = all(before[name] == after[name] for name in ("model", "hardware", "weights", "speculation", "where"))
        if same and float(before["tokens_per_second"]) < float(after["tokens_per_second"]):
            assert float(before["dollars_per_million_tokens"]) < float(after["dollars_per_million_tokens"])


def test_a_speed_out_of_reach_has_no_error() -> None:
    series = ("kimi_k2_thinking", "b200", "", "vllm", "0.21.0", "none", "8192", "1024", "post")
    text = page([Score(series, [1.0, 2.0], [1.1, math.inf], [0.9, math.inf], [1.0, 2.0], ["tp4"], 3)])
    assert "| kimi_k2_thinking on b200, vllm 0.21.0, 8192/1024 | 1 | 1 | 3 | 9.5%, 9.5%, +9.5% | 10.5%" in text
    assert "| all | 1 | 1 |" in text
