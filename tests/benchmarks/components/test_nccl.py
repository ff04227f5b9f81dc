"""Constants of the collective models compared with NCCL's own tables, by version."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.components import nccl
from benchmarks.components.report import preset, read_rows
from inference_econ.inputs import catalog

LINES = read_rows(catalog.measured_files()["nccl_constants"], nccl.COLUMNS)


@pytest.mark.parametrize("constant", nccl.constants(), ids=lambda one: f"{one.field} {one.version}")
def test_a_constant_is_that_of_the_table(constant: nccl.NcclConstant) -> None:
    assert constant.equal, constant


@pytest.mark.rows
def test_all_of_them_are_looked_up(name: str, versions: list[str], constants: int) -> None:
    found = Counter(one.version for one in nccl.constants() if one.field.startswith(f"{name}: "))
    assert found == dict.fromkeys(versions, constants)


def test_what_is_fitted_is_not_held_against_tables() -> None:
    fields = {one.field for one in nccl.constants() if one.field.startswith("engines_hopper")}
    assert fields == {"engines_hopper: protocols.Simple.per_domain_doubling"}
    assert list(nccl.compared("mesh", preset("mesh"), LINES)) == []


def test_a_changed_constant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "equal its tuning tables" in nccl.verdict()
    source = preset("nccl_2_23").sources["network.collectives.protocols"]
    changed = preset("nccl_2_19")  # its Simple differs from that of later versions
    changed = changed.replace(sources={**changed.sources, "network.collectives.protocols": source.model_dump()})
    monkeypatch.setattr(catalog, "part_names", lambda _: ("wrong",))
    monkeypatch.setattr(nccl, "preset", lambda _: changed)
    assert {one.field for one in nccl.constants() if not one.equal} == {
        f"wrong: protocols.Simple.{field}" for field in ("base", "per_rank", "per_domain_doubling")
    }
    assert "protocols.Simple.per_rank is 2.8e-05 s, 4e-06 s in 2.23.4" in nccl.verdict()
