"""Every command says how far off its numbers are: low and high in data, misfits, unlike layouts, unfitted chips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, record, rows
from tests.reading import tables

#: Commands that predict, and what of their rows is uncertain.
COMMANDS: dict[str, list[Any]] = tables(Path(__file__))["COMMANDS"]


def _names(record: Any) -> Iterator[str]:
    if isinstance(record, dict):
        yield from record
    for part in record.values() if isinstance(record, dict) else record if isinstance(record, list) else ():
        yield from _names(part)


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_data_have_low_and_high(command: Command, name: str) -> None:
    words, column = COMMANDS[name]
    lines = rows(command, *words)
    base, _, which = column.partition(":")
    heads = [f"{base}{end}{which and f'_{which}'}" for end in ("_low", "", "_high")]
    known = [tuple(float(row[head]) for head in heads) for row in lines if all(row[head] for head in heads)]
    assert any(low < value < high for low, value, high in known)
    assert all(low <= value <= high for low, value, high in known)
    names = set(_names(record(command, *words)))
    assert any(each.endswith("_low") for each in names)
    assert {each.removesuffix("_low") for each in names if each.endswith("_low")} <= names


@pytest.mark.rows
def test_every_row_is_a_bound(command: Command, asked: list[object]) -> None:
    tpu, gpu = ([chip if part == "{}" else part for part in asked] for chip in ("tpu_v5e", "h100_sxm"))
    assert {row["bound"] for row in rows(command, *tpu)} == {"True"}
    assert not any("bound" in row for row in rows(command, *gpu))
    if asked[0] != "recommend":
        assert record(command, *tpu)["bound"] is True
        assert "bound" not in record(command, *gpu)


def test_of_several_chips_each_has_its_own(command: Command) -> None:
    compared = rows(command, "compare", "llama_3_8b", "--hardware", "tpu_v5e", "--hardware", "h100_sxm")
    assert {(row["series"], row["bound"]) for row in compared} == {("tpu_v5e", "True"), ("h100_sxm", "")}
    lots = rows(command, "buy", "llama_3_8b", "tpu_v5e", "h100_sxm")
    assert {(row["hardware"], row["bound"]) for row in lots if row["hardware"]} == {
        ("Google TPU v5e", "True"),
        ("NVIDIA H100 SXM5 80GB", ""),
    }


@pytest.mark.parametrize("chips", [("tpu_v5e", "h100_sxm"), ("h100_sxm", "tpu_v5e")])
def test_a_pool_of_such_chips_makes_the_pair_a_bound(command: Command, chips: tuple[str, str]) -> None:
    asked = ("recommend", "llama_3_8b", chips[0], "--decode-on", chips[1], "--apart", "--request-rate", 1)
    assert record(command, *asked)["choices"][0]["bound"] is True
    assert {row["bound"] for row in rows(command, *asked)} == {"True"}
    assert record(command, "frontier", *asked[1:-2])["bound"] is True
