"""Examples in docstrings print the shown output."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).parents[2]
#: Modules whose docstrings have examples; pytest's own ``--doctest-modules`` imports every module of the tests twice.
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "inference_econ").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def _tests(module: ModuleType) -> Iterator[doctest.DocTest]:
    """Return the examples of a module: public functions by their name in ``inference_econ``, and the module by its
    code.
    """
    finder = doctest.DocTestFinder(exclude_empty=True)
    public = {
        f"{module.__name__}.{name}": value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == "inference_econ"
    }
    # Other tests may have loaded names into the root; its examples come from the root module alone.
    yield from (test for test in finder.find(module) if test.name not in public)
    for value in public.values():
        code = unwrap(value)
        if isinstance(code, FunctionType) and code.__code__.co_filename == module.__file__:
            yield from finder.find(value, module=False, globs={**vars(module)})


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    for test in _tests(import_module(name)):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0
