"""Prefix caches on their tiers, as a table, as data and as a chart."""

from __future__ import annotations

import math

import numpy as np

from inference_econ.answers.prefix_cache import HBM, Offloading, Reading, curve
from inference_econ.report import caveats
from inference_econ.report.service import layout_of
from inference_econ.report.table import Table, dollars, layout_label
from inference_econ.studies.exhibits import Chart, Line

#: Columns that a computed prefix follows; what a tier takes was not measured.
_FOLLOWS: caveats.Follows = {
    "computing_seconds": ("ttft", 1),
    "computing_dollars_per_million_tokens": ("ttft", 1),
    "ttft_seconds": ("ttft", 1),
}
#: Lengths that a chart shows [tokens].
_LENGTHS = 2.0 ** np.arange(4.0, 17.5, 0.5)


def offload_table(found: Offloading) -> Table:
    """Computing a prefix again, then reading it from every tier."""
    columns: tuple[str, ...] = (
        "prefix from", "GB/s", "GB", "ms", "$/M tokens", "TTFT ms", "quicker from", "busy %"
    )  # fmt: skip
    held = found.conversation is not None
    if held:
        columns += ("needs GB", "kept s", "hit %")
    first = (
        "computing", "", "", _ms(found.computing_seconds), dollars(found.computing_dollars_per_million),
        _ms(found.ttft_seconds), "", "",
    )  # fmt: skip
    rows = [first + (("", "", "") if held else ())]
    rows += [_row(one) for one in found.readings]
    service = found.service
    notes = [
        f"{service.accelerators} x {service.setup.hardware.name}, {layout_label(layout_of(service))}, at "
        f"{found.requests_per_second:.3g} requests/s per instance. A prompt repeats {found.prefix_tokens:,.0f} tokens "
        f"({found.bytes_per_prefix / 1e6:,.0f} MB of cache) before {found.new_tokens:,.0f} new ones.",
        "$/M tokens of reading: at most, if its chips wait for it; GB of HBM: what weights and running requests "
        "leave. Quicker from: tokens of prefix from which reading takes less time than computing. Busy: share of "
        "what the tier delivers, if all requests read from it.",
        f"In HBM a million tokens cost ${dollars(found.holding_dollars_per_million_hour)} per hour of the room for "
        f"caches: after {_time(found.keeping_seconds)} it would have been cheaper to compute the prefix again. "
        f"Assumptions: {service.setup.assumptions.name}.",
    ]
    if found.conversation is not None:
        notes.append(_conversation(found))
    notes += caveats.remarks(_asked(found), ("ttft",))
    return Table(_title(found), columns, tuple(rows), tuple(notes))


def _asked(found: Offloading) -> caveats.Asked:
    """What computes a prefix again, to be told how far off that may be."""
    service = found.service
    lengths = service.requests.isl.mean, service.requests.osl.mean
    return caveats.Asked(service.setup, [float(service.accelerators)], (), *lengths)


def _row(one: Reading) -> tuple[str, ...]:
    row: tuple[str, ...] = (
        one.tier,
        "" if math.isinf(one.bytes_per_second) else _number(one.bytes_per_second / 1e9),
        _number(one.capacity_bytes / 1e9),
        _ms(one.seconds),
        dollars(one.dollars_per_million) if one.dollars_per_million else "0",
        _ms(one.ttft_seconds),
        "never" if math.isinf(one.break_even_tokens) else f"{one.break_even_tokens:,.0f}",
        f"{100 * one.utilization:.2g}",
    )
    if one.reuse is None:
        return row
    reuse = one.reuse
    return (*row, _number(reuse.needed_bytes / 1e9), f"{reuse.lifetime_seconds:.0f}", f"{100 * reuse.hit_rate:.1f}")


def _conversation(found: Offloading) -> str:
    said = found.conversation
    assert said is not None
    system = f" after a system prompt of {said.system_tokens:g}" if said.system_tokens else ""
    return (
        f"{said.turns:g} turns of {said.user_tokens:g} tokens and answers of {said.answer_tokens:g}{system}, "
        f"{said.think_seconds:g} s between them, kept for {said.lifetime_seconds:g} s where there is room. Needs GB: "
        "the room for that; kept: how long entries stay if the least recently used go first; hit: prompt tokens found."
    )


def _title(found: Offloading) -> str:
    asked = found.service.setup
    return (
        f"{asked.model.name} on {asked.hardware.name}: prefix cache, weights {asked.precision.weights}, "
        f"KV {asked.precision.kv}"
    )


def _ms(seconds: float) -> str:
    return _number(1e3 * seconds)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(seconds: float) -> str:
    for size, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} seconds"


def offload_chart(found: Offloading) -> Chart:
    """Seconds against the length of the prefix."""
    lines = curve(found, _LENGTHS)
    names = {"computed": "computed again"}
    return Chart(
        _title(found),
        f"tokens of the prefix, before {found.new_tokens:,.0f} new ones",
        "seconds until it is there",
        tuple(Line(names.get(name, f"read from {name}"), list(_LENGTHS), list(y)) for name, y in lines.items()),
    )


def offload_record(found: Offloading) -> dict[str, object]:
    """The same as plain data; what never happens is null."""
    service, asked, said = found.service, found.service.setup, found.conversation
    shown = _asked(found)
    record = {
        "model": asked.model.name,
        "hardware": asked.hardware.name,
        "assumptions": asked.assumptions.name,
        "calibration": caveats.calibration_record(shown, ("ttft",)),
        "weights": asked.precision.weights,
        "kv": asked.precision.kv,
        "layout": layout_of(service),
        "accelerators": service.accelerators,
        "requests_per_second": found.requests_per_second,
        "prefix_tokens": found.prefix_tokens,
        "new_tokens": found.new_tokens,
        "bytes_per_prefix": found.bytes_per_prefix,
        "computing_seconds": found.computing_seconds,
        "computing_dollars_per_million_tokens": found.computing_dollars_per_million,
        "ttft_seconds": found.ttft_seconds,
        "hbm_dollars_per_million_tokens_and_hour": found.holding_dollars_per_million_hour,
        "hbm_keeping_seconds": found.keeping_seconds,
        "conversation": None
        if said is None
        else {
            "turns": said.turns,
            "user_tokens": said.user_tokens,
            "answer_tokens": said.answer_tokens,
            "system_tokens": said.system_tokens,
            "think_seconds": said.think_seconds,
            "lifetime_seconds": said.lifetime_seconds,
        },
        "tiers": [
            {
                "tier": one.tier,
                "bytes_per_second": None if one.tier == HBM else one.bytes_per_second,
                "capacity_bytes": one.capacity_bytes,
                "seconds": one.seconds,
                "dollars_per_million_tokens": one.dollars_per_million,
                "ttft_seconds": one.ttft_seconds,
                "utilization": one.utilization,
                "break_even_tokens": None if math.isinf(one.break_even_tokens) else one.break_even_tokens,
                "needed_bytes": None if one.reuse is None else one.reuse.needed_bytes,
                "kept_seconds": None if one.reuse is None else one.reuse.lifetime_seconds,
                "returning_share": None if one.reuse is None else one.reuse.returning,
                "cached_tokens": None if one.reuse is None else one.reuse.cached_tokens,
                "hit_rate": None if one.reuse is None else one.reuse.hit_rate,
            }
            for one in found.readings
        ],
    }
    return caveats.bounded(record, caveats.ends(shown, _FOLLOWS))
