"""Reads what tests compare: rows of CSV text and of fixtures, and the numbers in plain data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

FIXTURES = Path(__file__).parent / "fixtures"


def csv_rows(text: str) -> list[dict[str, str]]:
    """Rows of CSV text, by column."""
    return list(csv.DictReader(io.StringIO(text)))


@cache
def fixture_rows(file: str) -> list[dict[str, str]]:
    """Rows of ``fixtures/<file>.csv``, by column."""
    return csv_rows((FIXTURES / f"{file}.csv").read_text(encoding="utf-8"))


@cache
def fixture_table(file: str, key: str) -> dict[str, dict[str, str]]:
    """The same by the value of a column, which tells them apart."""
    return {row[key]: row for row in fixture_rows(file)}


@cache
def tables(module: Path) -> Any:
    """Data in the YAML file beside a module, by name; tables of tests marked ``rows`` begin with their parameters."""
    text = module.with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def numbers(value: object) -> Iterator[float]:
    """All fractions in plain data, however deep."""
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def scalar(value: object) -> float:
    """The first element of an array, or the number itself."""
    return float(np.ravel(np.asarray(value, dtype=float))[0])
