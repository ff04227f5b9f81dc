"""Measured all-reduces, all-to-alls and their like beside the engine's model of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inference_econ import inputs
from inference_econ.engine import Collective, Network, collective_seconds
from inference_econ.extras.servers.measurements import UnusableRowError, hardware_name
from inference_econ.extras.servers.validation import _nccl
from inference_econ.extras.servers.validation._report import Compared, ComparedPoint, NumberedRow, preset
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.experts import touched_fraction

#: What a rounded value may be off by at most [1].
_ROUNDING = 0.25
_KERNELS = ("one_shot", "two_shot")
#: More chips than share a node: the nodes of a rack share its links [1].
_RACK = 16
#: Bytes of an fp8 element with its part of the 32-bit scale that 128 elements share, as DeepEP counts them.
_SCALED_FP8 = 1.0 + 4.0 / 128.0


class MeasuredCollective(NamedTuple):
    """One row, ready to be predicted."""

    line: NumberedRow
    """Where it stands."""
    chip: inputs.HardwareSpec
    """What it ran on."""
    collective: Collective
    """What was sent, as the operator table writes it."""
    seconds: float
    """How long it took [s]."""


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Every row of a file, predicted under each of some assumptions; what each of these means; and NCCL's tables."""
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
    # What each name means, by family of chips.
    meanings = []
    for name, assumptions in assumed.items():
        versions: dict[str, list[str]] = {}
        for chip in used.values():
            model = assumptions.for_chip(chip).network.collectives
            version = model.version if isinstance(model, inputs.NcclTree) else model.kind
            versions.setdefault(version, []).append(chip.family)
        names_of = "; ".join(f"{version} ({', '.join(families)})" for version, families in versions.items())
        meanings.append(f"{name}: {names_of}.")
    return points, meanings, [_nccl.verdict()]


def _point(blank: ComparedPoint, name: str, assumed: inputs.Assumptions, measured: MeasuredCollective) -> ComparedPoint:
    """A row and its prediction, or why there is none."""
    sent, chip = measured.collective, measured.chip
    ranks, domains, size = (float(values[0]) for values in (sent.ranks, sent.domains, sent.bytes_per_token))
    predicted, reason = _predicted(measured, name, assumed.for_chip(chip))
    return replace(
        blank, series=_series(measured.line, domains), assumptions=name, measured=measured.seconds,
        subject=f"{ranks:g} x {chip.name}, {domains:g} domains, {size:g} B", predicted=predicted,
        fitted=predicted is not None and _fitted(measured, assumed), note=reason,
    )  # fmt: skip


def _predicted(measured: MeasuredCollective, name: str, assumed: inputs.Assumptions) -> tuple[float | None, str]:
    """Time of a row [s], or why there is none."""
    network, model = Network.of(measured.chip, assumed.network), assumed.network.collectives
    if isinstance(model, inputs.Free):
        return None, f"{name} takes communication for free"
    if measured.collective.domains[0] > 1 and not np.isfinite(network.between):
        return None, f"{measured.chip.name} lists no network between link domains"
    if isinstance(model, inputs.NcclTree):
        kernels = _engine_kernel(measured.line)
        fitting = [protocol for protocol in network.protocols if (protocol.shape in _KERNELS) == kernels]
        if not fitting:
            return None, f"{name} has no kernels of engines"
        exchange = [protocol for protocol in network.exchange_protocols if protocol.shape not in _KERNELS]
        network = replace(network, protocols=fitting, exchange_protocols=exchange)
    seconds = float(collective_seconds(network, measured.collective, np.ones(1))[0])
    return (seconds, "") if np.isfinite(seconds) else (None, f"{name} has no kernel for this size or these domains")


def _fitted(measured: MeasuredCollective, assumed: inputs.Assumptions) -> bool:
    """Whether a source of the constants says that they were fitted to the file and operation that a row is from."""
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
    """Measurement of a row.

    Raises
    ------
    UnusableRowError
        If it cannot be compared.
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
    if name not in inputs.BYTES_PER_ELEMENT:
        raise UnusableRowError(f"unknown number format {name!r}")
    return inputs.BYTES_PER_ELEMENT[name]


def _reached(line: NumberedRow, parts: float) -> float:
    """Of ``parts`` equal domains or ranks, those with experts of a token, as far as its routing allows [1]."""
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
