"""Readers and writers of test data: rows of CSV text and of fixtures, numbers in plain data, and values of a type."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import yaml

from inference_econ.inputs import catalog

FIXTURES = Path(__file__).parent / "fixtures"
T = TypeVar("T")


def present(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value


def of(kind: type[T], value: object) -> T:
    """Return a value that must have a type."""
    assert isinstance(value, kind), value
    return value


def only(kind: type[T], values: Iterable[object]) -> T:
    """Return the only one of some values, which must have a type."""
    (value,) = values
    return of(kind, value)


def has_fields(value: object, expected: Mapping[str, Any], digits: int = 12) -> bool:
    """Return whether attributes of a value are as expected, fractions to some digits and tuples as lists."""
    for name, wanted in expected.items():
        found = getattr(value, name)
        found = list(found) if isinstance(found, tuple) else found
        assert found == (pytest.approx(wanted, rel=10**-digits) if isinstance(wanted, float) else wanted), name
    return True


def write_csv(path: Path, rows: Sequence[Mapping[str, object]], columns: Iterable[str] = ()) -> Path:
    """Write rows below a header, blank where a row has no cell, and return the path of the file."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(columns) or list(rows[0]), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


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
