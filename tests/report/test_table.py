"""Tables and the labels in them."""

from __future__ import annotations

import pytest

from inference_econ.report.page import csv_text
from inference_econ.report.table import Table, dollars, layout_label
from tests.reading import csv_rows


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
    assert layout_label(layout) == label


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
    assert dollars(amount) == text


def test_markdown_and_csv_survive_odd_cells() -> None:
    table = Table("t", ("a", "b|c"), (('say "x", y', "p|q"), ("two\nlines", "")))
    assert table.markdown() == '| a | b\\|c |\n| --- | --- |\n| say "x", y | p\\|q |\n| two lines |  |\n'
    assert csv_rows(csv_text(table.frame())) == [{"a": 'say "x", y', "b|c": "p|q"}, {"a": "two\nlines", "b|c": ""}]
