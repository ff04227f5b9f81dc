"""Docstrings of formulas state the meaning, unit and publication of each argument."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from types import ModuleType

import pytest

from inference_econ import formulas

UNITS = {
    *("1", "s", "1/s", "B", "B/s", "s/B", "FLOP", "FLOP/s", "FLOP/B", "tokens", "tokens/s"),
    *("USD", "USD/h", "USD/s", "USD per 1e6 tokens", "USD per kWh", "tokens/h", "W", "J", "years", "g", "g/kWh"),
}
#: Parameters without a unit: choices, switches, and combinations of values with separate units.
UNITLESS = re.compile(r"\{.*\}|bool|str|Generator|(sequence|tuple|list|mapping) of .*")
#: An equation, a publication, code, or the function of the same package that has them.
REFERENCE = re.compile(r"[Ee]qs?\. \(|arXiv|Erdil|Leviathan|Pope|NCCL|DOI|:func:|Table \d|\(\d{4}\)")


def _modules() -> list[ModuleType]:
    names = [found.name for found in pkgutil.iter_modules(formulas.__path__)]
    return [importlib.import_module(f"{formulas.__name__}.{name}") for name in names]


def _functions() -> list[Callable[..., object]]:
    return [
        member
        for module in _modules()
        for name, member in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and member.__module__ == module.__name__
    ]


def _sections(text: str) -> dict[str, list[str]]:
    """Return lines of a numpy-style docstring by section title; lines before the first title have the key ''."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line in inspect.cleandoc(text).splitlines():
        if line and set(line) == {"-"} and found[title]:
            title = found[title].pop()
            found[title] = []
        else:
            found[title].append(line)
    return found


def _parameters(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Return the declared type and description of each parameter; entries may share both."""
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            listed, _, declared = line.partition(" : ")
            names = [name.strip() for name in listed.split(",")]
            found.update(dict.fromkeys(names, (declared, "")))
        else:
            for name in names:
                declared, description = found[name]
                found[name] = (declared, f"{description} {line.strip()}")
    return found


def _units(text: str) -> set[str]:
    return {unit for unit in re.findall(r"\[([^\[\]]+)\]", text) if unit in UNITS}


def test_the_formulas_are_found() -> None:
    names = {function.__name__ for function in _functions()}
    assert len(names) > 20
    assert {"nccl_seconds", "touched_fraction", "dollars_per_million_tokens", "undominated"} <= names


@pytest.mark.parametrize("function", _functions(), ids=lambda function: function.__name__)
def test_a_formula_is_documented(function: Callable[..., object]) -> None:
    assert function.__doc__ is not None
    sections = _sections(function.__doc__)
    assert sections[""], "a summary"
    assert sections[""][0].endswith((".", ":")), "the summary is one line"
    parameters = _parameters(sections.get("Parameters", []))
    assert set(parameters) == set(inspect.signature(function).parameters)
    for name, (declared, description) in parameters.items():
        assert description.strip(), name
        if not UNITLESS.fullmatch(declared):
            assert _units(description), f"{name} has no unit"
    returned = " ".join(sections.get("Returns", []))
    assert returned, "what it returns"
    assert _units(returned) or "ndices" in returned or "ndex" in returned or not _numeric(returned), (
        "unit of the result"
    )


def _numeric(returned: str) -> bool:
    """Return whether a function returns values, and not positions or copies of an argument's shape."""
    return not re.match(r"\(ndarray, ndarray\).*Ones\.|ndarray, shape \(m,\) +Ascending", returned)


@pytest.mark.parametrize("function", _functions(), ids=lambda function: function.__name__)
def test_a_formula_names_its_reference(function: Callable[..., object]) -> None:
    assert function.__doc__ is not None
    sections = _sections(function.__doc__)
    if function.__module__.endswith(".pareto"):
        # Algorithms of this project: their docstrings describe the method instead.
        assert sections.get("Notes")
    else:
        assert REFERENCE.search(function.__doc__), "a published equation, or the function that has it"


@pytest.mark.parametrize("module", _modules(), ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_formulas_know_numbers_and_errors_only(module: ModuleType) -> None:
    assert module.__doc__
    imported = {
        name
        for member in vars(module).values()
        for name in [getattr(member, "__module__", None) or getattr(member, "__name__", "")]
        if isinstance(name, str) and name.startswith("inference_econ")
    }
    # Errors have the public name after its first use.
    known = ("inference_econ.formulas", "inference_econ.errors")
    assert all(name.startswith(known) or name == "inference_econ" for name in imported)
