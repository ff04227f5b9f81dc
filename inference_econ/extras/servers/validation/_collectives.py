"""Measured all-reduces, all-to-alls and their like beside the engine's model of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from inference_econ.engine import Collective, Network, collective_seconds
from inference_econ.errors import UnitError
from inference_econ.extras.servers.measurements import UnusableRowError, hardware_name
from inference_econ.extras.servers.validation import _nccl
from inference_econ.extras.servers.validation._files import NumberedRow, preset, read
from inference_econ.extras.servers.validation._report import ComparedPoint, Dataset, Report
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.experts import touched_fraction
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Assumptions,
    Free,
    HardwareSpec,
    NcclTree,
    catalog,
    exceptions_of,
    units,
)

#: What a rounded value may be off by at most [1].
_ROUNDING = 0.25
_KERNELS = ("one_shot", "two_shot")
#: More chips than share a node: the nodes of a rack share its links [1].
_RACK = 16
#: Bytes of an fp8 element with its part of the 32-bit scale that 128 elements share, as DeepEP counts them.
_SCALED_FP8 = 1.0 + 4.0 / 128.0


@dataclass(frozen=True, slots=True)
class MeasuredCollective:
    """One row, ready to be predicted.

    Attributes
    ----------
    line : NumberedRow
        Where it stands.
    series : str
        What kind of row it is.
    chip : HardwareSpec
        What it ran on.
    collective : Collective
        What was sent, as the operator table writes it.
    seconds : float
        How long it took [s].
    kernels : bool
        A kernel of an engine did it, not NCCL.
    """

    line: NumberedRow
    series: str
    chip: HardwareSpec
    collective: Collective
    seconds: float
    kernels: bool

    @property
    def ranks(self) -> float:
        """Participants [1]."""
        return float(self.collective.ranks[0])

    @property
    def domains(self) -> float:
        """Link domains that they are spread over [1]."""
        return float(self.collective.domains[0])


def report(dataset: Dataset, path: Path, names: Sequence[str]) -> Report:
    """Every row of a file, predicted under each of some assumptions."""
    assumed = {name: preset(name) for name in names}
    points: list[ComparedPoint] = []
    used: dict[str, HardwareSpec] = {}
    for line in read(path, dataset.columns):
        try:
            measured, reason = _measured(line), ""
            used[measured.chip.family] = measured.chip
        except UnusableRowError as error:
            measured, reason = None, str(error)
        points += [_point(line, name, assumptions, measured, reason) for name, assumptions in assumed.items()]
    # What each name means, by family of chips.
    meanings = []
    for name, assumptions in assumed.items():
        versions: dict[str, list[str]] = {}
        for chip in used.values():
            model = assumptions.for_chip(chip).network.collectives
            versions.setdefault(model.version if isinstance(model, NcclTree) else model.kind, []).append(chip.family)
        names_of = "; ".join(f"{version} ({', '.join(families)})" for version, families in versions.items())
        meanings.append(f"{name}: {names_of}.")
    return dataset.report(path, points, (*meanings, *dataset.notes, _nccl.verdict()))


def _point(
    line: NumberedRow, name: str, assumed: Assumptions, measured: MeasuredCollective | None, reason: str
) -> ComparedPoint:
    """A row and its prediction, or why there is none."""
    blank = ComparedPoint(
        id=line.id,
        series=_series(line, line.number("n_nodes") or 1.0) if measured is None else measured.series,
        subject=f"{line.text('n_gpus')} x {line.text('hardware')}",
        assumptions=name,
        unit="s",
        note=reason,
    )
    if measured is None:
        return blank
    size = float(measured.collective.bytes_per_token[0])
    predicted, reason = _predicted(measured, name, assumed.for_chip(measured.chip))
    return replace(
        blank,
        subject=f"{measured.ranks:g} x {measured.chip.name}, {measured.domains:g} domains, {size:g} B",
        measured=measured.seconds,
        predicted=predicted,
        fitted=predicted is not None and _fitted(measured, assumed),
        note=reason,
    )


def _predicted(measured: MeasuredCollective, name: str, assumed: Assumptions) -> tuple[float | None, str]:
    """Time of a row [s], or why there is none."""
    network, model = Network.of(measured.chip, assumed.network), assumed.network.collectives
    if isinstance(model, Free):
        return None, f"{name} takes communication for free"
    if measured.domains > 1 and not np.isfinite(network.between):
        return None, f"{measured.chip.name} lists no network between link domains"
    if isinstance(model, NcclTree):
        fitting = [protocol for protocol in network.protocols if (protocol.shape in _KERNELS) == measured.kernels]
        if not fitting:
            return None, f"{name} has no kernels of engines"
        network = replace(
            network,
            protocols=fitting,
            exchange_protocols=[protocol for protocol in network.exchange_protocols if protocol.shape not in _KERNELS],
        )
    seconds = float(collective_seconds(network, measured.collective, np.ones(1))[0])
    return (seconds, "") if np.isfinite(seconds) else (None, f"{name} has no kernel for this size or these domains")


def _fitted(measured: MeasuredCollective, assumed: Assumptions) -> bool:
    """Whether a source of the constants says that they were fitted to the file and operation that a row is from."""
    key = assumed.exceptional(measured.chip)
    excepted = "network.collectives" in exceptions_of(assumed, key)
    place = f"per_family.{key}.network.collectives." if excepted else "network.collectives."
    for field, source in assumed.sources.items():
        if field.startswith(place) and source.kind == "derived" and "all-reduce" in source.where:
            files = re.findall(r"\((\w+/comm/\w+|\w+_results)\)", source.where)
            if measured.line.text("op") == "all_reduce" and any(file in measured.line.text("source") for file in files):
                return True
    return False


def _measured(line: NumberedRow) -> MeasuredCollective:
    """Measurement of a row.

    Raises
    ------
    UnusableRowError
        If it cannot be compared.
    """
    chip = catalog.hardware(hardware_name(line.text("hardware")))
    ranks, nodes = line.needed("n_gpus"), line.needed("n_nodes")
    if ranks < 2:
        raise UnusableRowError("a single rank sends nothing")
    domains = nodes if chip.link_domain <= _RACK else np.ceil(ranks / chip.link_domain)
    if _pure_rdma(line):
        domains = ranks
    if not domains <= ranks <= domains * chip.link_domain:
        raise UnusableRowError(
            f"{ranks:g} ranks on {nodes:g} nodes do not fit link domains of {chip.link_domain} ({chip.name})"
        )
    operation = line.text("op")
    ones = np.ones(1)
    if operation.startswith("moe_"):
        crossing = _reached(line, domains) / line.needed("topk") if _normal(line) and domains > 1 else 1.0
        size = line.number("message_bytes")
        if size is None:
            size = line.needed("tokens") * line.needed("topk") * line.needed("hidden") * _width(line)
        sent = Collective("all_to_all", ones * ranks, ones * domains, ones * size, own_link=True, crossing=crossing)
    elif operation in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        kind: Kind = "all_reduce" if operation == "all_reduce" else "all_to_all"
        sent = Collective(kind, ones * ranks, ones * domains, ones * _size(line), own_link=operation == "alltoall")
    else:
        raise UnusableRowError(f"unknown operation {operation!r}")
    return MeasuredCollective(
        line, _series(line, domains), chip, sent, _seconds(line, ranks, domains), _engine_kernel(line)
    )


def _series(line: NumberedRow, domains: float) -> str:
    operation, low = line.text("op"), "low latency"
    parts = [operation.replace("_", "-").replace("alltoall", "all-to-all")]
    if operation.startswith("moe_"):
        parts = [operation.removeprefix("moe_").split(" ")[0], "normal" if _normal(line) else low]
    if _pure_rdma(line):
        parts.append("network only")
    if _engine_kernel(line):
        parts.append("engine's kernel")
    if line.text("metric").startswith("busbw"):
        parts.append("bus bandwidth")
    if domains > 1 and not _pure_rdma(line):
        parts.append("between domains")
    return ", ".join(parts)


def _normal(line: NumberedRow) -> bool:
    return "normal" in line.text("op")


def _pure_rdma(line: NumberedRow) -> bool:
    """Whether even neighbours in a box talk over the network."""
    return "pure rdma" in line.text("backend").lower()


def _engine_kernel(line: NumberedRow) -> bool:
    return line.text("op") == "all_reduce" and not line.text("backend").upper().startswith(("NCCL", "RCCL"))


def _size(line: NumberedRow) -> float:
    """Bytes of the message [B]."""
    size = line.number("message_bytes")
    if size is None:
        raise UnusableRowError("no size is recorded, so that no time follows from the bandwidth")
    return size


def _width(line: NumberedRow) -> float:
    """Bytes of an element [B]."""
    name = line.text("dtype")
    if name not in BYTES_PER_ELEMENT:
        raise UnusableRowError(f"unknown number format {name!r}")
    return BYTES_PER_ELEMENT[name]


def _reached(line: NumberedRow, parts: float) -> float:
    """Of ``parts`` equal domains or ranks, those with experts of a token, as far as its routing allows [1]."""
    reached = parts * float(touched_fraction(parts, line.needed("topk")))
    groups = line.number("groups")
    return reached if groups is None or parts == line.number("n_gpus") else min(reached, groups)


def _seconds(line: NumberedRow, ranks: float, domains: float) -> float:
    """Measured time [s]."""
    metric, text = line.text("metric"), f"{line.needed('value'):.17g} {line.text('unit')}"
    if metric == "latency":
        return _quantity(line, text, "s")
    rate = _quantity(line, text, "B/s")
    decimals = len(line.text("value").partition(".")[2])
    if 0.5 * 10.0**-decimals > _ROUNDING * line.needed("value"):
        raise UnusableRowError(f"{line.text('value')} {line.text('unit')} is rounded too coarsely")
    if metric.startswith("busbw"):
        passes = 2.0 if line.text("op") == "all_reduce" else 1.0
        return passes * (ranks - 1.0) / ranks * _size(line) / rate
    if metric == "bottleneck_bandwidth" and _normal(line):
        copies = _reached(line, domains if domains > 1 else ranks)
        width = _width(line)
        counted = copies * (_SCALED_FP8 if width == 1.0 else width)
        return line.needed("tokens") * line.needed("hidden") * counted / rate
    raise UnusableRowError(f"unknown metric {metric!r}")


def _quantity(line: NumberedRow, text: str, unit: str) -> float:
    try:
        return units.parse_quantity(text, unit)
    except UnitError as error:
        raise UnitError(f"{line.where}: {error}") from None
