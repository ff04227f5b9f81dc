"""The command as a process: fast start without heavy libraries, pipes, interrupts and progress."""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, python
from tests.reading import tables

TABLES: dict[str, str] = tables(Path(__file__))
#: Code of the installed script, and the same with a report of the loaded libraries and our modules at the end.
PLAIN, TELLING = (TABLES["SCRIPT"] + TABLES[name] for name in ("PLAIN", "TELLING"))
DRAWING = {"matplotlib", "altair", "vl_convert"}
HEAVY = {"numpy", "scipy", "pandas", "pydantic", "yaml", "rich", "plotext", "bibtexparser", *DRAWING}


def _process(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return python("-c", TELLING, *arguments, folder=folder, timeout=60)


@pytest.mark.rows
def test_help_and_wrong_names_load_nothing_heavy(arguments: list[str], code: int, answer: str, tmp_path: Path) -> None:
    process = _process(*arguments, folder=tmp_path)
    assert process.returncode == code
    assert answer in process.stdout + process.stderr
    loaded = set(process.stderr.splitlines()[-1].split()[1:])
    assert "click" in loaded
    # Conflicts of names and titles are found after the files are read.
    assert loaded & HEAVY <= ({"pydantic", "yaml"} if "unknown" in answer else set())


def test_an_answer_without_a_picture_loads_no_drawing(tmp_path: Path) -> None:
    process = _process("frontier", "llama_3_8b", "h100_sxm", "--instance-gpus", "1", "--decode-only", folder=tmp_path)
    assert process.returncode == 0
    assert "Traceback" not in process.stderr
    assert not DRAWING & set(process.stderr.splitlines()[-1].split())


def test_the_published_study_loads_no_services_and_no_tables_of_pandas(tmp_path: Path) -> None:
    process = _process("paper", "run", "paper/table_1", folder=tmp_path)
    assert process.returncode == 0, process.stderr
    loaded = set(process.stderr.splitlines()[-1].split()[1:])
    assert not loaded & {"scipy", "pandas", *DRAWING}
    assert "inference_econ.search.frontier" in loaded
    services = {"answers.assess", "answers.deployments.serving_frontier", "report.questions.frontier"}
    assert not loaded & {f"inference_econ.{name}" for name in services}


@pytest.mark.parametrize(
    "question",
    ["frontier meta-llama/Llama-3.1-8B-Instruct h100 --max-instance-gpus 1", "paper run paper/figure_2"],
)
def test_a_second_answer_reads_and_validates_no_file(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        process = _process(*question.split(), folder=tmp_path)
        assert process.returncode == 0, process.stderr
    assert not {"pydantic", "yaml"} & set(process.stderr.splitlines()[-1].split())


@pytest.mark.long
@pytest.mark.rows
def test_answers_load_no_library_that_takes_longer_than_they_do(question: str, tmp_path: Path) -> None:
    process = _process(*question.split(), "--quiet", folder=tmp_path)
    assert process.returncode == 0, process.stderr
    loaded = set(process.stderr.splitlines()[-1].split()[1:])
    assert "numpy" in loaded
    assert not loaded & {"scipy", "pandas", "pint", "bibtexparser", "ruamel", "jinja2", "http", "ssl", *DRAWING}
    # Modules for scenarios of other publications are not loaded: claims, closed models, KV-Runahead and similar ones.
    studies = {name for name in loaded if name.startswith("inference_econ.studies.")}
    assert not studies
    assert "inference_econ.extras.servers.measurements" not in loaded


def _python(code: str) -> list[str]:
    """Return the words that a program prints in its own process."""
    done = python("-c", code, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_package_itself_loads_nothing_heavy() -> None:
    assert not HEAVY & set(_python("import sys, inference_econ; print(*{it.partition('.')[0] for it in sys.modules})"))


def test_an_answer_that_becomes_data_needs_no_report() -> None:
    assert _python(TABLES["DATA_ALONE"]) == []


def test_a_real_process_has_the_exit_code_of_what_does_not_fit(tmp_path: Path) -> None:
    process = _process("explain", "llama_3_70b", "h100_sxm", "--tp", "1", folder=tmp_path)
    assert process.returncode == 1
    assert "Traceback" not in process.stderr and "Error: " in process.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PLAIN, "models", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert b"Traceback" not in process.stderr.read()
    assert process.wait(timeout=60) == 0


def test_characters_that_a_terminal_lacks_are_no_error(tmp_path: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    process = python("-c", PLAIN, "explain", "llama_3_8b", "h100_sxm", folder=tmp_path, env=ascii_only, timeout=60)
    assert process.returncode == 0, process.stderr
    assert "weight reads" in process.stdout


def test_an_interrupt_is_told_in_a_word(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from inference_econ.studies import scenario

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scenario, "run", interrupted)
    outcome = command("paper", "run", "paper/table_1", "-o", "a.txt")
    assert (outcome.code, outcome.out, outcome.err.strip()) == (130, "", "stopped")
    assert not Path("a.txt").exists()


class _Terminal(io.StringIO):
    """Represent an error stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """Replace the error stream by a terminal; call it in the test, since capturing restarts there."""
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def _lasting(monkeypatch: pytest.MonkeyPatch, terminal: _Terminal) -> None:
    """Delay scenarios until a progress bar is visible, at most some seconds."""
    from inference_econ.studies import scenario

    answer, show = scenario.run, importlib.import_module("inference_econ_cli.show")

    def lasting(name: str, **told: Any) -> Any:
        result, until = answer(name, **told), time.monotonic() + 20.0
        while not terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        return result

    monkeypatch.setattr(scenario, "run", lasting)
    monkeypatch.setattr(show, "_BAR_AFTER_SECONDS", 0.0)


def test_a_bar_shows_while_work_lasts(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    _lasting(monkeypatch, terminal)
    assert command("paper", "table", "paper/table_1").code == 0
    assert "GPT-4" in terminal.getvalue()  # the last series that was worked on


def test_a_bar_waits_for_a_second_and_is_absent_if_quiet(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    show = importlib.import_module("inference_econ_cli.show")
    for after, arguments in ((1e6, ()), (0.0, ("--quiet",))):
        monkeypatch.setattr(show, "_BAR_AFTER_SECONDS", after)
        assert command("paper", "table", "paper/table_1", *arguments).code == 0
        assert terminal.getvalue() == ""
