"""The wheel: built from the source archive of a copy of the tree, complete, and working alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml

from tests.commands import process

ROOT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv*", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "figures", "tests")
)


def _run(*command: str | Path, folder: Path, **environment: str) -> str:
    hidden = ("PYTHON", "COV_", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    clean["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = process(*command, folder=folder, env=clean | environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _builds_without_download() -> bool:
    """Return whether this environment has the build tool of pyproject.toml."""
    try:
        return int(version("setuptools").partition(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from the source archive of the current tree, without files that git ignores."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT, folder / "tree", ignore=NOT_COPIED)
    isolation = ["--no-isolation"] if _builds_without_download() else []
    _run(sys.executable, "-m", "build", *isolation, "--outdir", folder, folder / "tree", folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts of a fresh environment with the wheel, and all else from this one."""
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "env", with_pip=False, symlinks=True)
    scripts = home / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, folder=home)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(_run(python, "-c", asked, folder=home).strip())
    # A path that is only named there, so that the editable installation of this environment stays unknown.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return scripts


def test_the_wheel_holds_everything(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"inference_econ/{name}" for name in ("py.typed", "references.bib")}
    for folder in ("hardware", "models", "scenarios"):
        found = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.yaml")}
        assert len(found) > 10
        expected |= {f"inference_econ/_catalog/{name}" for name in found}
    measured = [path for suffix in ("csv", "md") for path in (ROOT / "scenarios" / "measured").rglob(f"*.{suffix}")]
    assert len(measured) >= 20
    measured.append(ROOT / "scenarios" / "assumptions" / "priors" / "frontiers.csv")
    expected |= {f"inference_econ/_catalog/{path.relative_to(ROOT).as_posix()}" for path in measured}
    endings = ("py", "pyi", "j2", "css", "js", "csv", "toml", "yaml", "json")
    code = (path for ending in endings for path in (ROOT / "inference_econ").rglob(f"*.{ending}"))
    expected |= {path.relative_to(ROOT).as_posix() for path in code}
    expected |= {f"inference_econ_cli/{path.name}" for path in (ROOT / "cli").glob("*.[pct]*") if path.is_file()}
    assert files == expected


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    assert wheel.name == f"inference_econ-{PROJECT['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        (entry,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        assert "inference-econ = inference_econ_cli.start:run" in archive.read(entry).decode()
        assert any(name.endswith("/LICENSE") for name in archive.namelist())
    assert "Requires-Python: >=3.11" in text
    assert "License-Expression: Apache-2.0" in text
    required = [line.removeprefix("Requires-Dist: ") for line in text.splitlines() if line.startswith("Requires-Dist")]
    assert len([one for one in required if "extra ==" not in one]) == len(PROJECT["dependencies"])


def test_who_cites_it_names_the_version_that_is_built() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    (published,) = citation["references"]
    assert published["url"] in (ROOT / "inference_econ" / "references.bib").read_text(encoding="utf-8")


def test_the_installed_command_runs_from_the_root_folder(installed: Path) -> None:
    root = Path(installed.anchor)
    where = "import inference_econ, inference_econ_cli; print(inference_econ.__file__, inference_econ_cli.__file__)"
    for module in _run(installed / "python", "-c", where, folder=root).split():
        assert Path(module).is_relative_to(installed.parent)
    command = installed / "inference-econ"
    asked = ("frontier", "llama_3_8b", "h100_sxm", "--weights", "fp8", "--format", "json")
    record = json.loads(_run(command, *asked, folder=root))
    assert record["model"] == "Llama 3.1 8B"
    assert len(record["points"]) > 10
    assert all(source["ref"] for source in record["sources"])
    listed = _run(command, "hardware", folder=root)
    assert "h100_sxm" in listed
    assert "paper/h100" in listed
    assert "printed cells match" in _run(command, "table", "paper/table_1", folder=root)
    assert _run(command, "--version", folder=root).strip() == PROJECT["version"]


def test_every_subpackage_is_listed() -> None:
    listed = CONFIGURATION["tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "inference_econ").rglob("__init__.py")}
    catalogue = {f"inference_econ._catalog.{kind}" for kind in ("hardware", "models", "scenarios")}
    assert set(listed) == found | catalogue | {"inference_econ_cli"}
