"""Comparison of the constants of collective models with NCCL's tuning tables, by version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchmarks.components.report import NumberedRow, preset, read_rows
from inference_econ.inputs import Assumptions, NcclTree, Source, catalog
from inference_econ.inputs.units import integer

COLUMNS = ("nccl_version", "group", "link_or_arch", "algorithm", "LL", "LL128", "Simple", "unit")
#: Group and link type of each constant in the tables.
_PLACES = {"base": ("baseLat", "all"), "per_rank": ("hwLat", "NVLINK"), "per_domain_doubling": ("hwLat", "NET")}
_TAGS = re.compile(r"tags v(\d+)\.(\d+)[\d.-]* to v(\d+)\.(\d+)")


class NcclConstant(NamedTuple):
    """Constant of a collective model, with the table value of one NCCL version."""

    field: str
    """File and field."""
    version: str
    """NCCL version."""
    ours: float
    """Value of the model [s]."""
    table: float
    """Value of the table [s]."""

    @property
    def equal(self) -> bool:
        """True if both values are equal."""
        return abs(self.ours - self.table) <= 1e-9 * max(self.ours, self.table)


def constants() -> list[NcclConstant]:
    """Constants of the shipped collective models whose source is NCCL's tables."""
    lines = read_rows(catalog.measured_files()["nccl_constants"], COLUMNS)
    return [found for name in catalog.part_names("collectives") for found in compared(name, preset(name), lines)]


def compared(name: str, assumed: Assumptions, lines: list[NumberedRow]) -> Iterator[NcclConstant]:
    """Constants of the collectives of a preset, with the tables of the NCCL versions in their source."""
    model = assumed.network.collectives
    if not isinstance(model, NcclTree):
        return
    for kind, protocols in (("protocols", model.protocols), ("ring", model.ring)):
        for protocol, protocol_constants in protocols.items():
            for field in _PLACES:
                path = f"network.collectives.{kind}.{protocol}.{field}"
                source = _source(path, assumed.sources)
                if source is not None and source.ref == "nccl" and source.kind == "published":
                    for version, table in _tables(lines, source.where, kind, protocol, field):
                        yield NcclConstant(
                            f"{name}: {kind}.{protocol}.{field}", version, getattr(protocol_constants, field), table
                        )


def verdict() -> str:
    """Sentence on the agreement of all constants."""
    listed = constants()
    versions = ", ".join(dict.fromkeys(constant.version for constant in listed))
    fields = len({constant.field for constant in listed})
    sentence = f"{fields} constants are stated to be NCCL's"
    wrong = [
        f"{constant.field} is {constant.ours:g} s, {constant.table:g} s in {constant.version}"
        for constant in listed
        if not constant.equal
    ]
    if wrong:
        return f"{sentence}. These differ from its tuning tables: {'; '.join(wrong)}."
    return f"{sentence}, and equal its tuning tables in every available version ({versions})."


def _source(path: str, sources: Mapping[str, Source]) -> Source | None:
    """Source of a field, or of the nearest enclosing field."""
    while path not in sources:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return None
    return sources[path]


def _tables(lines: list[NumberedRow], where: str, kind: str, protocol: str, field: str) -> Iterator[tuple[str, float]]:
    """Version and value [s] of a constant in every table of the named range."""
    tags = _TAGS.search(where)
    if tags is None:
        return
    first, last = (integer(tags[1]), integer(tags[2])), (integer(tags[3]), integer(tags[4]))
    algorithm = "Tree" if kind == "protocols" else "Ring"
    for line in lines:
        place = (line.text("group"), line.text("link_or_arch"))
        version = line.text("nccl_version").split(" ")[0]
        major, minor = (integer(part) for part in version.split(".")[:2])
        if place == _PLACES[field] and line.text("algorithm") == algorithm and first <= (major, minor) <= last:
            yield version, float(line.text(protocol)) * 1e-6
