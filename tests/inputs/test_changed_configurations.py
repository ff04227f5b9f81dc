"""Configurations changed one key at a time: the count equals that of the published class, or they are rejected.

The totals are those of transformers' classes on the meta device; ``sh run.sh refit published-counts`` writes them.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from data.published_counts import FOLDER, changed, changes, configurations
from inference_econ.errors import SpecError
from inference_econ.inputs.huggingface import import_config

CONFIGURATIONS = dict(configurations())
CHANGES: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
with (FOLDER / "changed.csv").open(encoding="utf-8", newline="") as _stream:
    for _row in csv.DictReader(_stream):
        CHANGES[_row["configuration"]].append((_row["key"], _row["value"], int(_row["total_parameters"])))
#: A rejection is never wrong, but an importer must not reject everything: the share of changes that it accepts.
LEAST_COUNTED = 0.5


def total(config: dict[str, Any], path: Path) -> int | None:
    """Return the importer's count, or None if it rejects the configuration."""
    path.write_text(json.dumps(config), encoding="utf-8")
    try:
        return import_config(path).total_parameters
    except SpecError:
        return None


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_changed_configuration_is_counted_as_its_class_counts_it_or_refused(name: str, tmp_path: Path) -> None:
    wrong = {
        f"{key} = {value}": (counted, published)
        for key, value, published in CHANGES[name]
        if (counted := total(changed(CONFIGURATIONS[name], key, value), tmp_path / "config.json"))
        not in (None, published)
    }
    assert not wrong


def test_most_changes_are_counted(tmp_path: Path) -> None:
    names = sorted(CHANGES)[::10]
    counted = [
        total(changed(CONFIGURATIONS[name], key, value), tmp_path / "config.json") is not None
        for name in names
        for key, value, _ in CHANGES[name]
    ]
    assert sum(counted) > LEAST_COUNTED * len(counted)


def test_a_changed_configuration_that_its_class_rejects_is_rejected(tmp_path: Path) -> None:
    """Try missing, doubled, zero and null values."""
    counted = {
        name: [
            f"{key} = {value}"
            for key, value in sorted(set(changes(CONFIGURATIONS[name])) - {row[:2] for row in CHANGES[name]})
            if total(changed(CONFIGURATIONS[name], key, value), tmp_path / "config.json")
        ]
        for name in sorted(CHANGES)[::2]
    }
    assert not {name: keys for name, keys in counted.items() if keys}
