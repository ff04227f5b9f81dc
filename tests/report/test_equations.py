"""The table of equations is complete, and its functions, parts and fields are right."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from functools import reduce
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.records.texts import PART_NAMES
from inference_econ.report import pages
from inference_econ.report.equations import EquationsPage, equations

DOCUMENTS = Path(__file__).parents[2] / "docs"


def _object(name: str) -> object:
    """Return an object of the package by its dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(["inference_econ", *parts[:end]]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[end:], module)
    raise AssertionError(name)


def test_all_46_equations_are_in_the_table_in_order() -> None:
    assert [int(row["equation"]) for row in equations()] == list(range(1, 47))
    assert all(row["formula"] and row["functions"] for row in equations())


@pytest.mark.parametrize("row", equations(), ids=lambda row: row["equation"])
def test_functions_parts_and_fields_exist(row: dict[str, str]) -> None:
    assert all(callable(found) or isinstance(found, property) for found in map(_object, row["functions"].split()))
    assert set(row["parts"].split()) <= set(PART_NAMES)
    for field in re.findall(
        r"\b(?:layout|chip|capacity|experts|network|host|attention|serving)\.\w[\w.]*\w", row["code"]
    ):
        reduce(getattr, field.split("."), ie.assumptions("paper"))


def test_the_page_about_step_time_agrees() -> None:
    """Functions next to the number of an equation in the explanation include one of the table."""
    named: dict[str, set[str]] = defaultdict(set)
    for line in (DOCUMENTS / "model/token.md").read_text(encoding="utf-8").splitlines():
        if source := re.search(r"\| (?:text below )?eqs?\. ((?:\(\d+\)(?:, | and )?)+)[^|]*\|([^|]*)\|$", line):
            for number in re.findall(r"\d+", source[1]):
                named[number] |= set(re.findall(r"inference_econ\.([\w.]+)`", source[2]))
    functions = {row["equation"]: set(row["functions"].split()) for row in equations()}
    assert len(named) > 20
    assert [number for number, found in named.items() if not found & functions[number]] == []


def test_a_step_names_the_equations_of_its_parts() -> None:
    step = ie.explain(
        "paper/llama_3_70b", "paper/h100", assumptions="paper", weights="int8", batch=16, tp=8, context=100
    )
    (line,) = [line for table in pages.page(step).tables() for line in table.why if line.startswith("Equations of")]
    assert "kernel launches (30), (44)" in line
    assert "all-reduce bandwidth (24) to (28), (39), (41) to (43)" in line
    assert "pipeline" not in line


def test_the_page_of_the_documents_is_the_generated_one() -> None:
    written = (DOCUMENTS / "reference/equations.md").read_text(encoding="utf-8")
    assert written == EquationsPage().markdown(), (
        "inference-econ list equations --format markdown -o docs/reference/equations.md"
    )
