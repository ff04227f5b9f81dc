"""Reference values for the tests, and which tests share results that take long.

A parameter ``<file>_row`` runs a test once per row of ``fixtures/<file>.csv``. With ``-n 2 --dist loadgroup`` the
tests of a file run in one process, and so do those of files that need the same predictions: they are computed once.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
#: Files by what they share.
_SHARED = {
    "frontiers of the published study": (
        "cli/test_paper_commands.py",
        "report/test_figures.py",
        "studies/test_frontiers.py",
        "studies/test_tables.py",
    ),
    "shipped measurements": ("calibration/validation/test_servers.py", "cli/test_validate.py"),
}
_GROUPS = {Path(__file__).parent / file: group for group, files in _SHARED.items() for file in files}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_GROUPS.get(item.path, f"{item.path.parent.name}/{item.path.stem}")))


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
