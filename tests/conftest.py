"""Reference values for the tests: a parameter ``<file>_row`` runs a test once per row of ``fixtures/<file>.csv``."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

FIXTURES = Path(__file__).parent / "fixtures"


@cache
def _rows(file: str) -> list[dict[str, str]]:
    with (FIXTURES / f"{file}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in metafunc.fixturenames:
        if name.endswith("_row"):
            rows = _rows(name.removesuffix("_row"))
            # Line 1 of the file is its header.
            ids = ["-".join([f"line{line}", *list(row.values())[:2]]) for line, row in enumerate(rows, start=2)]
            metafunc.parametrize(name, rows, ids=ids)
