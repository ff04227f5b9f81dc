"""Tables of the tests, and fixtures that run commands.

A parameter ``<file>_row`` runs a test once per row of ``fixtures/<file>.csv``. The mark ``rows`` runs a test once per
row of its table in the YAML file next to its module. The first row of the table names the parameters.
"""

from __future__ import annotations

import gc
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from inference_econ.extras.agents import simulation as agents
from inference_econ.inputs import catalog
from inference_econ.inputs.engine_specs import EngineSpec, EngineVersion
from inference_econ.serving.simulation import simulator
from tests import shared_runs
from tests.commands import Command, Outcome
from tests.reading import fixture_rows, tables

# Machines may be busy, so the duration of an example is no property of the code. Tests draw fixed examples, so that
# their result is reproducible; --hypothesis-profile random draws others.
settings.register_profile("random", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("same")


# Tests may replace parts of the package, so their catalog entries must not reach the user's cache.
os.environ["XDG_CACHE_HOME"] = os.devnull

#: Values that are computed once for all tests that use them, in one process.
_SHARED = "shipped_servers"


@cache
def _shares(path: Path) -> bool:
    return _SHARED in path.read_text(encoding="utf-8")


class _Together(LoadFileScheduling):  # type: ignore[misc]
    """Run the tests of a file in one process.

    Files that share predictions of all servers run in one process, and so do the files about the published study, which
    share its frontiers. Each golden page runs in any free process.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        if file.startswith("tests/golden/"):
            return nodeid
        if file.startswith("tests/studies/"):
            return "tests/studies"
        return _SHARED if _shares(self.config.rootpath / file) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Together | None:
    """Set which tests run in one process; ``--dist loadfile`` keeps the tests of a file together."""
    return _Together(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest processes first; golden pages, which any process may run, come last."""

    def place(item: pytest.Item) -> int:
        if item.nodeid.startswith("tests/golden/"):
            return 2
        return int(not (item.nodeid.startswith("tests/studies/") or _shares(item.path)))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, which saves a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(100_000)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in metafunc.fixturenames:
        if name.endswith("_row"):
            rows = fixture_rows(name.removesuffix("_row"))
            # Line 1 of the file is its header.
            ids = ["-".join([f"line{line}", *list(row.values())[:2]]) for line, row in enumerate(rows, start=2)]
            metafunc.parametrize(name, rows, ids=ids)
    if metafunc.definition.get_closest_marker("rows"):
        names, *table = tables(Path(metafunc.module.__file__))[metafunc.function.__name__]
        metafunc.parametrize(names, table)


@pytest.fixture(autouse=True, scope="session")
def _shared_catalog() -> Iterator[None]:
    """Share catalog entries between tests, which do not change them; copies take a third of the time."""
    with catalog.uncopied():
        yield


@pytest.fixture(autouse=True, scope="session")
def _facts_once() -> Iterator[None]:
    """Validate facts of shared engines once per version, like catalog entries."""
    at, known = EngineSpec.at, dict[tuple[int, str | None], tuple[EngineSpec, EngineVersion]]()

    def once(engine: EngineSpec, version: str | None = None) -> EngineVersion:
        if (id(engine), version) not in known:
            known[id(engine), version] = engine, at(engine, version)
        return known[id(engine), version][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineSpec, "at", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share simulations between tests, except in tests of the event loop; a fifth of them is used several times."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "simulations"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((simulator, "simulate"), (agents, "simulate_apart")):
            patch.setattr(module, name, shared_runs.shared(getattr(module, name), folder))
        yield


#: Folders with tests of options, formats and files, which do not depend on the number of simulated requests.
_SHORT_RUNS = (
    "tests/answers",
    "tests/cli",
    "tests/extras/fleets",
    "tests/extras/web",
    "tests/report",
    "tests/package/test_python.py",
)


@contextmanager
def _shortened() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, number in {"_LEAST": 1_200, "_PER_SLOT": 2, "_MOST": 4_000}.items():
            patch.setattr(simulator, name, number)
        yield


@pytest.fixture
def short_runs() -> Iterator[None]:
    """Simulate fewer requests."""
    with _shortened():
        yield


@pytest.fixture(autouse=True, scope="module")
def _short_runs_in_some_folders(request: pytest.FixtureRequest) -> Iterator[None]:
    """Shorten simulations for results that the tests of a file share."""
    short = request.node.nodeid.startswith(_SHORT_RUNS) and "test_bounded" not in request.node.nodeid
    with _shortened() if short else nullcontext():
        yield


@cache
def _start() -> Callable[[], None]:
    """Return the function of the entry point; a look-up of all installed packages takes a tenth of a command."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="inference-econ")
    start: Callable[[], None] = entry.load()
    return start


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run ``inference-econ`` with arguments in an empty folder."""
    start = _start()
    # A command's process ends with its garbage. The test process continues and would accumulate it.
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "118")
    monkeypatch.setenv("LINES", "40")

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["inference-econ", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            start()
        code = exit_info.value.code
        assert isinstance(code, int)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture
def refused(command: Command) -> Command:
    """Run a command that must fail: no output, one message, no traceback."""

    def run(*arguments: object, code: int = 2) -> Outcome:
        outcome = command(*arguments)
        assert outcome.code == code, outcome
        assert outcome.out == ""
        assert "Error: " in outcome.err
        assert "Traceback" not in outcome.err
        return outcome

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Write a scenario and return its path."""

    def writing(text: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return writing
