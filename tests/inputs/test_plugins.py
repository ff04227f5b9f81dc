"""Plug-ins: content of another installed package is equal to shipped content, and a broken one is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from inference_econ import InputError
from inference_econ.extras.servers import measurements
from inference_econ.inputs import places, plugins
from tests.reading import tables

PLUGIN = Path(__file__).parents[1] / "fixtures" / "plugin"

_ASKED: str = tables(Path(__file__))["_ASKED"]


def test_chips_models_engines_and_readers_of_a_plug_in_are_as_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("acme-load 1\nacme_8b acme_one bf16 1 1024 256 8 60 5.0\n")
    path = os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _ASKED],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Acme 8B 7200000000000.0 150754820096.0 4.2",
        "True",
        "[1, 1]",
        "acme-1 acme_8b acme_one 0.06",
    ]


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that sets one entry point, by its value and group."""

    def have(value: str, group: str) -> None:
        monkeypatch.setattr(plugins, "_entries", lambda _: [EntryPoint("acme", value, group)])

    return have


@pytest.mark.rows
def test_a_broken_plug_in_is_named(entry: Callable[[str, str], None], value: str, message: str) -> None:
    readers = ":" in value
    entry(value, plugins.READERS if readers else plugins.CATALOG)
    with pytest.raises(InputError, match=f"the plug-in acme is broken: {message}.*uninstall it"):
        (plugins.readers if readers else plugins.folders).__wrapped__()


def test_two_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "h100_sxm.yaml").write_text("name: another\n")
    monkeypatch.setattr(plugins, "folders", lambda: (plugins.Folder("acme 1.0", tmp_path),))
    message = r"h100_sxm.yaml: inference-econ has hardware/h100_sxm, too; give the file of acme 1.0 another name"
    with pytest.raises(InputError, match=message):
        places.files.__wrapped__("hardware")


def test_a_reader_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.log").write_text("3 tokens\n")
    monkeypatch.setattr(
        plugins, "readers", lambda: (plugins.MeasurementReader("acme 1.0", lambda text: [{"tokens": str(int(text))}]),)
    )
    with pytest.raises(InputError, match=r"run.log: the reader of the plug-in acme 1.0 fails \(ValueError"):
        measurements.read_measurements(tmp_path / "run.log")
