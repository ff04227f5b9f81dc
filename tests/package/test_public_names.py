"""Public imports: each name once, callable at run time and for type checkers."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie
from tests.commands import python
from tests.reading import tables

STUB = Path(ie.__file__).with_suffix(".pyi")
#: A user's program: every public name in its intended use.
PROGRAM: str = tables(Path(__file__))["PROGRAM"]


def _public() -> set[str]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}


@pytest.mark.long  # Type checks take a minute.
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="types are checked against NumPy's newest")
def test_a_users_program_of_every_public_name_is_typed(tmp_path: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(PROGRAM))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ie"
    }
    assert used == _public()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    # Uses the cache of the check of all files, which has just read the imports.
    checked = python("-m", "mypy", "--strict", program, folder=Path(__file__).parents[2])
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", sorted(_public()))
def test_every_public_name_is_there_and_is_no_module(name: str) -> None:
    assert name in dir(ie)
    assert name in vars(ie)["__all__"]
    assert type(getattr(ie, name)).__name__ != "module"


def test_functions_stay_functions_when_modules_of_their_names_are_imported() -> None:
    modules = "answers.load search.frontier report.questions.frontier answers.explain answers.price"
    for module in modules.split():
        importlib.import_module(f"inference_econ.{module}")
    assert callable(ie.frontier)
    assert callable(ie.explain)
    assert callable(ie.price)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="No inference_econ attribute nonsense"):
        getattr(ie, "nonsense")  # noqa: B009
