"""Reference values for the tests: a parameter ``<file>_row`` runs a test once per row of ``fixtures/<file>.csv``."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.reading import fixture_rows
from tests.shipped import shipped_servers

# Machines may be busy: how long an example takes is no property of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that share what takes long run in one process: those of a file, and those of all shipped servers."""
    for item in items:
        shares = hasattr(getattr(item, "module", None), shipped_servers.__name__)
        item.add_marker(pytest.mark.xdist_group("shipped servers" if shares else item.path.as_posix()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in metafunc.fixturenames:
        if name.endswith("_row"):
            rows = fixture_rows(name.removesuffix("_row"))
            # Line 1 of the file is its header.
            ids = ["-".join([f"line{line}", *list(row.values())[:2]]) for line, row in enumerate(rows, start=2)]
            metafunc.parametrize(name, rows, ids=ids)
