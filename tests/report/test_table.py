"""Tables and the labels in them."""

from __future__ import annotations

import pytest

from inference_econ.report.page import csv_text
from inference_econ.report.table import Table, dollars, layout_label
from tests.reading import csv_rows


@pytest.mark.rows
def test_layouts_are_labelled_as_people_write_them(layout: dict[str, float | str], label: str) -> None:
    assert layout_label(layout) == label


@pytest.mark.rows
def test_dollars_have_three_digits_or_cents(amount: float, text: str) -> None:
    assert dollars(amount) == text


def test_markdown_and_csv_survive_odd_cells() -> None:
    table = Table("t", ("a", "b|c"), (('say "x", y', "p|q"), ("two\nlines", "")))
    assert table.markdown() == '| a | b\\|c |\n| --- | --- |\n| say "x", y | p\\|q |\n| two lines |  |\n'
    assert csv_rows(csv_text(table.frame())) == [{"a": 'say "x", y', "b|c": "p|q"}, {"a": "two\nlines", "b|c": ""}]
