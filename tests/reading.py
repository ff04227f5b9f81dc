"""Readers of test data: rows of CSV text and of fixtures, and the numbers in plain data."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from inference_econ.inputs import catalog

FIXTURES = Path(__file__).parent / "fixtures"
T = TypeVar("T")


def csv_rows(text: str) -> list[dict[str, str]]:
    """Return rows of CSV text, by column."""
    return list(csv.DictReader(io.StringIO(text)))


@cache
def fixture_rows(file: str) -> list[dict[str, str]]:
    """Return rows of ``fixtures/<file>.csv``, by column."""
    return csv_rows((FIXTURES / f"{file}.csv").read_text(encoding="utf-8"))


@cache
def fixture_table(file: str, key: str) -> dict[str, dict[str, str]]:
    """Return the same rows by the value of a unique column."""
    return {row[key]: row for row in fixture_rows(file)}


@cache
def tables(module: Path) -> Any:
    """Return data in the YAML file next to a module, by name; tables of tests marked ``rows`` start with their
    parameters.
    """
    text = module.with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def numbers(value: object) -> Iterator[float]:
    """Yield all fractions in plain data, at any depth."""
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def scalar(value: object) -> float:
    """Return the first element of an array, or the number itself."""
    return float(np.ravel(np.asarray(value, dtype=float))[0])


def reader(kind: str) -> Callable[..., Any]:
    """Return the function of the catalog that reads a file of a kind."""
    read: Callable[..., Any] = getattr(catalog, kind.removesuffix("s") if kind != "assumptions" else kind)
    return read


def present(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value
