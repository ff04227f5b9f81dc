"""Comparison of measured collectives (all-reduce, all-to-all, ...) with the cost model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.compared_point import ComparedPoint
from benchmarks.components import nccl
from benchmarks.components.report import Compared, NumberedRow, preset
from inference_econ import inputs
from inference_econ.engine import Collective, Network, collective_seconds
from inference_econ.extras.servers.measurements import UnusableRowError, hardware_name
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.experts import touched_fraction

#: Largest rounding error of a measured value [1].
_ROUNDING = 0.25
_KERNELS = ("one_shot", "two_shot")
#: Minimum link domain of racks, in which nodes share links [chips].
_RACK = 16
#: Bytes per fp8 element with its share of a 32-bit scale per 128 elements, as DeepEP counts.
_SCALED_FP8 = 1.0 + 4.0 / 128.0


class MeasuredCollective(NamedTuple):
    """Measured collective with the inputs of its prediction."""

    line: NumberedRow
    """Row of the file."""
    chip: inputs.HardwareSpec
    """Chip."""
    collective: Collective
    """Collective, as in the operator table."""
    seconds: float
    """Measured time [s]."""


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Predictions of every row under each preset, with notes on the presets and on NCCL's tables."""
    assumed = {name: preset(name) for name in names}
    points: list[ComparedPoint] = []
    used: dict[str, inputs.HardwareSpec] = {}
    for line in lines:
        subject = f"{line.text('n_gpus')} x {line.text('hardware')}"
        series = _series(line, line.number("n_nodes") or 1.0)
        blank = ComparedPoint(id=line.id, series=series, subject=subject, assumptions="", unit="s")
        try:
            measured = _measured(line)
            used[measured.chip.family] = measured.chip
            points += [_point(blank, name, assumptions, measured) for name, assumptions in assumed.items()]
        except UnusableRowError as error:
            points += [replace(blank, assumptions=name, note=str(error)) for name in assumed]
    # Notes on the meaning of each name, by chip family.
    meanings = []
    for name, assumptions in assumed.items():
        versions: dict[str, list[str]] = {}
        for chip in used.values():
            model = assumptions.for_chip(chip).network.collectives
            version = model.version if isinstance(model, inputs.NcclTree) else model.kind
            versions.setdefault(version, []).append(chip.family)
        meanings += [f"Library of {name} on {', '.join(chips)}: {version}." for version, chips in versions.items()]
    return points, meanings, [nccl.verdict()]


def _point(blank: ComparedPoint, name: str, assumed: inputs.Assumptions, measured: MeasuredCollective) -> ComparedPoint:
    """Point of a row with its prediction, or the reason why it has none."""
    sent, chip = measured.collective, measured.chip
    ranks, domains, size = (float(values[0]) for values in (sent.ranks, sent.domains, sent.bytes_per_token))
    predicted, reason = _predicted(measured, name, assumed.for_chip(chip))
    return replace(
        blank, series=_series(measured.line, domains), assumptions=name, measured=measured.seconds,
        subject=f"{ranks:g} x {chip.name}, {domains:g} domains, {size:g} B", predicted=predicted,
        fitted=predicted is not None and _fitted(measured, assumed), note=reason,
    )  # fmt: skip


def _predicted(measured: MeasuredCollective, name: str, assumed: inputs.Assumptions) -> tuple[float | None, str]:
    """Predicted time of a row [s], or the reason why it has none."""
    network, model = Network.of(measured.chip, assumed.network), assumed.network.collectives
    if isinstance(model, inputs.Free):
        return None, f"{name} takes communication for free"
    if measured.collective.domains[0] > 1 and not np.isfinite(network.between):
        return None, f"{measured.chip.name} lists no network between link domains"
    if isinstance(model, inputs.NcclTree):
        kernels = _engine_kernel(measured.line)
        fitting = [protocol for protocol in network.protocols if (protocol.shape in _KERNELS) == kernels]
        if not fitting:
            return None, f"{name} has no engine kernels"
        exchange = [protocol for protocol in network.exchange_protocols if protocol.shape not in _KERNELS]
        network = replace(network, protocols=fitting, exchange_protocols=exchange)
    seconds = float(collective_seconds(network, measured.collective, np.ones(1))[0])
    return (seconds, "") if np.isfinite(seconds) else (None, f"{name} has no kernel for this size or these domains")


def _fitted(measured: MeasuredCollective, assumed: inputs.Assumptions) -> bool:
    """Check whether the sources of the constants name the file and the operation of a row."""
    key = assumed.exceptional(measured.chip)
    excepted = "network.collectives" in inputs.exceptions_of(assumed, key)
    place = f"per_family.{key}.network.collectives." if excepted else "network.collectives."
    derived = [
        source for field, source in assumed.sources.items() if field.startswith(place) and source.kind == "derived"
    ]
    texts = [source.where for source in derived if "all-reduce" in source.where]
    files = [file for text in texts for file in re.findall(r"\((\w+/comm/\w+|\w+_results)\)", text)]
    line = measured.line
    return line.text("op") == "all_reduce" and any(file in line.text("source") for file in files)


def _measured(line: NumberedRow) -> MeasuredCollective:
    """Convert a row.

    Raises
    ------
    UnusableRowError
        If it cannot be predicted.
    """
    chip = inputs.catalog.hardware(hardware_name(line.text("hardware")))
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
        crossing = _reached(line, domains) / line.needed("topk") if "normal" in line.text("op") and domains > 1 else 1.0
        size = line.number("message_bytes")
        if size is None:
            size = line.needed("tokens") * line.needed("topk") * line.needed("hidden") * _width(line)
        sent = Collective("all_to_all", ones * ranks, ones * domains, ones * size, own_link=True, crossing=crossing)
    elif operation in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        kind: Kind = "all_reduce" if operation == "all_reduce" else "all_to_all"
        sent = Collective(kind, ones * ranks, ones * domains, ones * _size(line), own_link=operation == "alltoall")
    else:
        raise UnusableRowError(f"unknown operation {operation!r}")
    return MeasuredCollective(line, chip, sent, _seconds(line, ranks, domains))


def _series(line: NumberedRow, domains: float) -> str:
    operation, low = line.text("op"), "low latency"
    parts = [operation.replace("_", "-").replace("alltoall", "all-to-all")]
    if operation.startswith("moe_"):
        parts = [operation.removeprefix("moe_").split(" ")[0], "normal" if "normal" in line.text("op") else low]
    if _pure_rdma(line):
        parts.append("network only")
    if _engine_kernel(line):
        parts.append("engine's kernel")
    if line.text("metric").startswith("busbw"):
        parts.append("bus bandwidth")
    if domains > 1 and not _pure_rdma(line):
        parts.append("between domains")
    return ", ".join(parts)


def _pure_rdma(line: NumberedRow) -> bool:
    """Check whether GPUs of the same node also communicate over the network."""
    return "pure rdma" in line.text("backend").lower()


def _engine_kernel(line: NumberedRow) -> bool:
    return line.text("op") == "all_reduce" and not line.text("backend").upper().startswith(("NCCL", "RCCL"))


def _size(line: NumberedRow) -> float:
    """Message size [B]."""
    size = line.number("message_bytes")
    if size is None:
        raise UnusableRowError("no size is recorded, so the bandwidth gives no time")
    return size


def _width(line: NumberedRow) -> float:
    """Element size [B]."""
    name = line.text("dtype")
    if name not in inputs.BYTES_PER_ELEMENT:
        raise UnusableRowError(f"unknown number format {name!r}")
    return inputs.BYTES_PER_ELEMENT[name]


def _reached(line: NumberedRow, parts: float) -> float:
    """Expected number of ``parts`` (equal domains or ranks) with experts of a token, limited by group routing [1]."""
    reached = parts * float(touched_fraction(parts, line.needed("topk")))
    groups = line.number("groups")
    return reached if groups is None or parts == line.number("n_gpus") else min(reached, groups)


def _seconds(line: NumberedRow, ranks: float, domains: float) -> float:
    """Measured time [s]."""
    metric = line.text("metric")
    if metric == "latency":
        return line.quantity(line.needed("value"), "s")
    rate = line.quantity(line.needed("value"), "B/s")
    decimals = len(line.text("value").partition(".")[2])
    if 0.5 * 10.0**-decimals > _ROUNDING * line.needed("value"):
        raise UnusableRowError(f"{line.text('value')} {line.text('unit')} is rounded too coarsely")
    if metric.startswith("busbw"):
        passes = 2.0 if line.text("op") == "all_reduce" else 1.0
        return passes * (ranks - 1.0) / ranks * _size(line) / rate
    if metric == "bottleneck_bandwidth" and "normal" in line.text("op"):
        copies = _reached(line, domains if domains > 1 else ranks)
        width = _width(line)
        counted = copies * (_SCALED_FP8 if width == 1.0 else width)
        return line.needed("tokens") * line.needed("hidden") * counted / rate
    raise UnusableRowError(f"unknown metric {metric!r}")
