"""Plain pages, their tables and the labels in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from inference_econ.records.plain import csv_text, json_text
from inference_econ.records.texts import dollars, layout_label, per_hour
from inference_econ.report.page import Page, Table
from tests.reading import csv_rows


@dataclass(frozen=True)
class Pair(Page):
    """Represent two numbers."""

    first: float
    second: float

    def tables(self) -> Sequence[Table]:
        """Return one table per number."""
        values = (self.first, self.second)
        return [Table(name, ("value",), ((f"{value:g}",),)) for name, value in zip("ab", values, strict=True)]

    def record(self) -> object:
        """Return both numbers."""
        return {"first": self.first, "second": self.second}


def test_rows_are_those_of_the_first_table_and_a_terminal_shows_all() -> None:
    page = Pair(1.5, 2.0)
    assert csv_text(page.frame()) == "value\n1.5\n"
    assert page.markdown() == "| value |\n| --- |\n| 1.5 |\n\n| value |\n| --- |\n| 2 |\n"
    assert page.blocks() == page.tables()
    assert page.summary() == ()
    assert json_text(page.record()) == '{\n  "first": 1.5,\n  "second": 2.0\n}\n'


def test_an_answer_without_a_picture_cannot_be_drawn() -> None:
    with pytest.raises(NotImplementedError, match=r"Pair has no picture: a\.svg"):
        Pair(1.0, 2.0).draw("a.svg")


def test_json_has_neither_nan_nor_infinity() -> None:
    for bad in (float("nan"), float("inf")):
        with pytest.raises(OverflowError, match="a result is not finite"):
            json_text({"value": bad})
    assert json_text({"a": [1.5]}).endswith("}\n")


@pytest.mark.rows
def test_layouts_are_labelled_as_people_write_them(layout: dict[str, float | str], label: str) -> None:
    assert layout_label(layout) == label


@pytest.mark.rows
def test_dollars_have_three_digits_or_cents(amount: float, text: str) -> None:
    assert dollars(amount) == text
    assert per_hour(1234.5) == "1,234.50"


def test_markdown_and_csv_survive_odd_cells() -> None:
    table = Table("t", ("a", "b|c"), (('say "x", y', "p|q"), ("two\nlines", "")))
    assert table.markdown() == '| a | b\\|c |\n| --- | --- |\n| say "x", y | p\\|q |\n| two lines |  |\n'
    assert csv_rows(csv_text(table.frame())) == [{"a": 'say "x", y', "b|c": "p|q"}, {"a": "two\nlines", "b|c": ""}]
