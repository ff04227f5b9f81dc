"""The container, conda recipe, workflows and pull-request action agree with the package."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from benchmarks import transcripts
from tests.commands import parsers, python
from tests.reading import present, tables

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPT = ROOT / "action" / "compare_costs.py"


def test_the_container_listens_where_it_says_as_nobody() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    serve = parsers()["serve"]
    (port,) = (parameter.default for parameter in serve.params if parameter.name == "port")
    assert f"EXPOSE {port}" in lines
    assert f'CMD ["serve", "--host", "0.0.0.0", "--port", "{port}"]' in lines
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert compose["services"]["explorer"]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_the_container_is_built_from_what_the_wheel_needs() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line.startswith("!")}
    folders = set(PROJECT["tool"]["setuptools"]["package-dir"].values()) | {"inference_econ"}
    assert kept == folders | {"pyproject.toml", "MANIFEST.in", PROJECT["project"]["readme"], "LICENSE"}


def test_conda_installs_what_pip_does() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    python, *needed = (requirement.replace(" ", "") for requirement in recipe["requirements"]["run"])
    assert python == f"python{PROJECT['project']['requires-python']}"
    # conda's matplotlib adds Qt to pip's version; matplotlib-base does not.
    named = [name.replace("matplotlib-base", "matplotlib") for name in needed]
    assert named == [requirement.lower() for requirement in PROJECT["project"]["dependencies"]]
    assert recipe["context"]["version"] == PROJECT["project"]["version"]
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == "inference-econ = " + PROJECT["project"]["scripts"]["inference-econ"]


@pytest.mark.long
def test_the_skill_of_assistants_shows_what_is_printed_now(tmp_path: Path) -> None:
    text = (ROOT / "skills" / "inference-econ" / "SKILL.md").read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["name"] == "inference-econ"
    assert len(head["description"]) < 1024
    assert len(list(transcripts.transcripts(text))) == 5
    with contextlib.chdir(tmp_path):
        assert transcripts.again(text, transcripts.Session()) == text


def test_workflows_call_what_is_there() -> None:
    folder = ROOT / ".github" / "workflows"
    assert "bash .ci/run" in (folder / "ci.yaml").read_text(encoding="utf-8")
    for path in folder.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
        assert not re.search(r"secrets\.", text)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the script of the action."""
    spec = present(importlib.util.spec_from_file_location("compare_costs", SCRIPT))
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compared(folder: Path, before: str, after: str) -> subprocess.CompletedProcess[str]:
    """Return the script's output for two files."""
    (folder / "before.yaml").write_text(before)
    (folder / "after.yaml").write_text(after)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return python(SCRIPT, "before.yaml", "after.yaml", folder=folder, env={**os.environ, "PATH": path})


def test_a_change_is_shown_before_and_after(tmp_path: Path) -> None:
    line = "price llama_3_8b h100_sxm --tp 1 --price"
    after = f"chat: {line} 3\nsame: price x y\nnew: price no|model <chip>\n"
    done = _compared(tmp_path, f"chat: {line} 2\nsame: price x y\n", after)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| chat")]
    assert [row[1] for row in rows] == ["before", "after", "change"]
    assert float(rows[1][3]) == pytest.approx(1.5 * float(rows[0][3]), rel=2e-3)
    assert rows[2][2:5] == ["**+50.0%**", "**+50.0%**", "-"]
    assert "| new | after | unknown model 'no\\|model'" in done.stdout
    assert "1 of 3 deployments as before" in done.stdout
    assert f"    inference-econ {line} 3" in done.stdout


def test_nothing_changed_asks_nothing(script: ModuleType) -> None:
    assert script.comment({"a": "price no such"}, {"a": "price no such"}).endswith("No deployment changed.\n")


@pytest.mark.rows
def test_what_is_no_deployment_is_refused(tmp_path: Path, text: str, message: str) -> None:
    done = _compared(tmp_path, "", text)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_every_table_of_the_tests_is_run() -> None:
    for path in (ROOT / "tests").rglob("test_*.yaml"):
        if isinstance(found := tables(path), dict):
            source = path.with_suffix(".py").read_text(encoding="utf-8")
            assert source.count("@pytest.mark.rows\n") == sum(name.startswith("test_") for name in found), path
            assert [name for name in found if f"\ndef {name}(" not in source and f'"{name}"' not in source] == [], path
