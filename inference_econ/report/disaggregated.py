"""Disaggregated serving beside aggregated, as tables and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.deployment import Deployment
from inference_econ.answers.disaggregate import Disaggregation
from inference_econ.answers.disaggregated.compare import Comparison
from inference_econ.answers.disaggregated.frontiers import PoolFrontier
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import NOTICED
from inference_econ.answers.fleet_record import pool_layout
from inference_econ.answers.heading import heading, lengths_label, subject_label
from inference_econ.answers.launching.plan import Start
from inference_econ.answers.power import fleet_power
from inference_econ.answers.promises import Targets
from inference_econ.answers.service_record import layout_of
from inference_econ.answers.startable import doubts, grounds
from inference_econ.inputs.percentiles import MEAN
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import assumptions_label, dollars, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, Series
from inference_econ.report.chosen import start_of_fleet
from inference_econ.report.page import AnswerPage, Pieces
from inference_econ.report.promises import kept_with
from inference_econ.report.service import milliseconds, power_notes, slots_notes, spread_label
from inference_econ.report.speed_cost import curve_line, speed_cost_chart
from inference_econ.report.startable import with_engines
from inference_econ.report.table import Table

#: Speeds of a table at most [1].
_SPEEDS = 10


class DisaggregatedPage(AnswerPage[Disaggregation]):
    """Both ways of serving, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """Both frontiers at common speeds."""
        return (comparison_table(self.answer.comparison, self.answer.fleet, self.answer.together),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """The frontiers of both ways."""
        return {"frontiers": charts.line_chart(comparison_chart(self.answer.comparison))}

    def question(self) -> str:
        """Question about whether pools of their own are cheaper."""
        subject = subject_label(self.answer.comparison.pools.prefill.setup)
        return f"Is {subject} cheaper with prompts and answers on instances of their own?"

    def conclusion(self) -> Pieces:
        """Sentence on the speeds at which disaggregated serving is cheaper."""
        return (verdict(self.answer.comparison),)

    def start(self) -> Start | None:
        """The best fleet, if a traffic or means were given."""
        fleet, targets = self.answer.fleet, self.answer.comparison.terms.targets
        # No engine that is known hands a prompt's cache on.
        chained = fleet is not None and fleet.pools.prefill.processes_of(fleet.prefill) > 1
        return None if fleet is None or chained else start_of_fleet(fleet, targets, "the fleet")


def comparison_table(compared: Comparison, fleet: Fleet | None = None, together: Deployment | None = None) -> Table:
    """Both frontiers at common speeds, the best fleet of pools, and the best aggregated one for the same traffic."""
    columns = (
        "tokens/s per user", "$/M aggregated", "layout", "its TTFT ms", "$/M disagg.", "factor", "prefill", "decode",
        "P : D", "busy %", "TTFT ms",
    )  # fmt: skip
    speeds = _common_speeds(compared)
    lines = tuple(_row(compared, speed) for speed in speeds)
    setups = [pool.setup for pool in (compared.pools.prefill, compared.pools.decode)]
    notes = (
        verdict(compared),
        *_promised_speed(compared),
        *_fleet_notes(fleet, together, compared.terms.targets),
        *_chain_notes(compared, fleet),
        *([] if fleet is None else kept_with(fleet.chances(compared.terms.targets), compared.terms.targets)),
        *doubts(setups, compared.subjects()),
    )
    why = (
        transfer_note(compared),
        _assumed(compared),
        *grounds(setups, compared.subjects(), SEEN),
    )
    least = ("engine", "its TTFT ms", "busy %", "P : D", "layout", "prefill", "decode")
    table = Table(_title(compared.pools), columns, lines, notes, why, least)
    return with_engines(table, [_engines(compared, speed) for speed in speeds], setups, "decode")


def _row(compared: Comparison, speed: float) -> tuple[str, ...]:
    """Pools and the best aggregated layout at a speed."""
    pools, apart = compared.pools, compared.disaggregated
    index, both = compared.at(speed)
    aggregated, cost = ("-", "", ""), math.inf
    if both is not None:
        kind, point = both
        front = compared.aggregated[kind]
        cost = float(front.dollars[point])
        label = _label(pools.aggregated[kind], int(front.layout[point]), kind=len(pools.aggregated) > 1)
        aggregated = dollars(cost), label, milliseconds(front.ttft_seconds[point])
    if index < 0:
        return (f"{speed:g}", *aggregated, "-", *[""] * 6)
    return (
        f"{speed:g}",
        *aggregated,
        dollars(float(apart.dollars[index])),
        f"{cost / apart.dollars[index]:.2f}" if both is not None else "",
        _label(pools.prefill, int(apart.prefill[index])),
        _label(pools.decode, int(apart.layout[index])),
        f"{apart.prefill_instances[index]} : {apart.decode_instances[index]}",
        f"{100 * apart.prefill_utilization[index]:.0f}, {100 * apart.utilization[index]:.0f}",
        milliseconds(apart.ttft_seconds[index]),
    )


def _engines(compared: Comparison, speed: float) -> dict[str, float | str]:
    """The engines that can start both pools of the cheapest disaggregated fleet at or above a speed."""
    pools, apart = compared.pools, compared.disaggregated
    index, _ = compared.at(speed)
    if index < 0 or not pools.decode.setup.engines:
        return {}
    return {"engine": ", ".join(pools.engines_of(int(apart.prefill[index]), int(apart.layout[index])))}


def _common_speeds(compared: Comparison) -> list[float]:
    """Round speeds over both frontiers, ascending [tokens/s]."""
    speeds = compared.speeds()
    step = (speeds[-1] - speeds[0]) / _SPEEDS
    unit = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    steps = (unit * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0))
    step = next(size for size in steps if size >= step * (1 - 1e-9)) if step > 0 else 1.0
    multiples = np.arange(math.ceil(speeds[0] / step), math.floor(speeds[-1] / step) + 1) * step
    return [float(f"{speed:.6g}") for speed in multiples] or [float(speeds[-1])]


def verdict(compared: Comparison) -> str:
    """Sentence on the speeds at which disaggregated serving is cheaper, by how much, and at which promise and load."""
    ranges = compared.cheaper()
    apart = compared.disaggregated.tokens_per_second.max()
    reach = max((float(front.tokens_per_second.max()) for front in compared.aggregated if len(front)), default=0.0)
    if not reach:
        alone = f"only disaggregated serving meets the SLO, up to {apart:.3g} tokens/s per user"
        return f"{_conditions(compared)}: {alone}."
    if not ranges:
        text = f"Disaggregated serving is nowhere more than {100 * NOTICED:.0f} % cheaper"
    else:
        spans = ", ".join(f"up to {high:.3g}" if low == 0 else f"from {low:.3g} to {high:.3g}" for low, high in ranges)
        factor, speed = compared.best()
        text = f"Disaggregated serving is more than {100 * NOTICED:.0f} % cheaper {spans} tokens/s per user"
        text += (
            f", {factor:.2f} times at most at usual speeds (at {speed:.3g}{_ttfts(compared, speed)})"
            if factor > 0
            else ""
        )
    if apart > reach * (1 + 1e-9):
        text += f"; beyond {reach:.3g} it alone serves, up to {apart:.3g} (lighter loads are left out)"
    return f"{_conditions(compared)}: {text[0].lower()}{text[1:]}."


def _conditions(compared: Comparison) -> str:
    """The promise and the loads of both."""
    terms = compared.terms
    limit, which = terms.targets.ttft_seconds, terms.targets.percentile_of("ttft")
    promise = "Without a TTFT SLO" if math.isinf(limit) else f"With a TTFT of at most {1e3 * limit:g} ms ({which})"
    arrivals = "Poisson arrivals" if terms.arrival_scv == 1.0 else f"arrivals of variation {terms.arrival_scv:g}"
    return f"{promise}, {arrivals}, and nothing filled beyond {100 * terms.fullest:g} %"


def _ttfts(compared: Comparison, speed: float) -> str:
    """TTFTs of both at a speed at which both are there."""
    index, both = compared.at(speed)
    if index < 0 or both is None:
        return ""
    together = compared.aggregated[both[0]].ttft_seconds[both[1]]
    apart = compared.disaggregated.ttft_seconds[index]
    return f", where the TTFT is {milliseconds(apart)} ms against {milliseconds(together)} ms"


def _promised_speed(compared: Comparison) -> tuple[str, ...]:
    """Costs at the promised TPOT, if there is one."""
    limit = compared.terms.targets.tpot_seconds
    if math.isinf(limit):
        return ()
    speed = 1.0 / limit
    index, both = compared.at(speed)
    apart = float(compared.disaggregated.dollars[index])
    which = compared.terms.targets.percentile_of("tpot")
    text = f"At the TPOT SLO of {1e3 * limit:g} ms ({which}) disaggregated serving costs "
    text += f"${dollars(apart)} per million output tokens"
    if both is None:
        return (f"{text}; no aggregated layout meets the SLOs.",)
    together = float(compared.aggregated[both[0]].dollars[both[1]])
    return (f"{text}, aggregated ${dollars(together)}: a factor of {together / apart:.2f}.",)


def transfer_note(compared: Comparison) -> str:
    """Sentence on how the cache of a prompt moves, over the pairs of the frontier."""
    pools, apart = compared.pools, compared.disaggregated
    moved, pairs = pools.transfer, (apart.prefill, apart.layout)
    size = f"The cache of a prompt is {pools.bytes_per_prompt / 1e6:,.0f} MB"
    if not np.any(moved.seconds[pairs] > 0.0):
        return f"{size}, its transfer free."
    parts = []
    for fast, name in ((True, "the fast link"), (False, "the network")):
        chosen = moved.fast[pairs] == fast
        if chosen.any():
            parts.append(f"{name} ({_span(moved.seconds[pairs][chosen])} ms)")
    when = "while the prompt is read, layer by layer" if pools.layer_by_layer else "when the prompt has been read"
    left = _span(moved.exposed_seconds[pairs])
    return f"{size}; it moves over {' or '.join(parts)} {when}: {left} ms of the TTFT."


def _span(seconds: Array) -> str:
    low, high = f"{1e3 * seconds.min():.2g}", f"{1e3 * seconds.max():.2g}"
    return low if low == high else f"{low} to {high}"


def _assumed(compared: Comparison) -> str:
    pools = compared.pools
    terms = compared.terms
    return (
        "$/M output tokens carry the whole bill, idle time included. "
        f"{_seen(terms.targets)}, queues included; P : D are whole numbers of instances from {terms.ratios}, busy "
        f"their shares. Assumptions: {assumptions_label(pool.setup for pool in pools.aggregated)}."
    )


def _seen(targets: Targets) -> str:
    """Words for the requests that see the speeds and the TTFTs that are shown."""
    ttft, tpot = (targets.percentile_of(name) for name in ("ttft", "tpot"))
    if ttft == tpot:
        return f"Speeds and TTFTs are those that {_requests(tpot)}"
    return f"Speeds are those that {_requests(tpot)}, TTFTs those that {_requests(ttft)}"


def _requests(percentile: str) -> str:
    return "requests see on average" if percentile == MEAN else f"{percentile[1:]} % of the requests keep"


def _fleet_notes(fleet: Fleet | None, together: Deployment | None, targets: Targets) -> tuple[str, ...]:
    if fleet is None:
        return ()
    pools = fleet.pools
    sides = (
        ("prompts", pools.prefill, fleet.prefill, fleet.prefill_instances, fleet.prefill_utilization),
        ("answers", pools.decode, fleet.decode, fleet.decode_instances, fleet.decode_utilization),
    )
    parts = [
        f"{count} x {pool.accelerators[index]:.0f} {pool.setup.hardware.name} ({_label(pool, index)}) for {what}, "
        f"{100 * busy:.0f} % busy"
        for what, pool, index, count, busy in sides
    ]
    notes = [
        f"Best pools, {fleet.prefill_instances}P{fleet.decode_instances}D: {'; '.join(parts)}. "
        f"{_rule(fleet, together)} {_rented(fleet)}${fleet.dollars_per_hour:,.2f} per hour, "
        f"${dollars(fleet.dollars_per_million_output_tokens)} per million output tokens.",
        _load_note(fleet, targets),
        *slots_notes(fleet),
        *power_notes(pools.decode.setup, fleet_power(fleet)),
    ]
    if together is not None:
        service = together.service
        cheaper = together.dollars_per_hour < (1.0 + NOTICED) * fleet.dollars_per_hour
        notes.append(
            f"Aggregated, the same traffic takes {together.replicas} x {service.accelerators} "
            f"{service.setup.hardware.name} ({layout_label(layout_of(service))}"
            f"{'' if together.rented == together.accelerators else f', {together.rented} rented'}): "
            f"${together.dollars_per_hour:,.2f} per hour{', so that pools are not worth it here' if cheaper else ''}."
        )
    return tuple(notes)


def _chain_notes(compared: Comparison, fleet: Fleet | None) -> tuple[str, ...]:
    """Note on chains of processes, where one is chosen."""
    pool, chosen = compared.pools.prefill, compared.disaggregated.prefill.tolist()
    if not any(pool.processes_of(index) > 1 for index in [*chosen, *([] if fleet is None else [fleet.prefill])]):
        return ()
    note = "A chain reads each prompt in parts, whose cache is handed on (KV-Runahead); no engine that is known does."
    return (note,)


def _rule(fleet: Fleet, together: Deployment | None) -> str:
    """Sentence on why this fleet was chosen, and from how many."""
    best = "serves the most requests" if together is None else "is the cheapest at this rate"
    pools = fleet.pools
    pairs = len(pools.prefill.accelerators) * len(pools.decode.accelerators)
    return f"It {best} within the SLOs, of {pairs} pair{'' if pairs == 1 else 's'} of layouts in all ratios."


def _rented(fleet: Fleet) -> str:
    """Chips in use and rented, in words; nothing where they are the same."""
    used, rented = sum(fleet.accelerators), sum(fleet.rented)
    return "" if used == rented else f"{used} GPUs in use, {rented} rented. "


def _load_note(fleet: Fleet, targets: Targets) -> str:
    load = fleet.load
    rate = f"{load.requests_per_second:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes at most"
    if load.saturated:
        return f"SATURATED: {rate}; queues grow without end."
    rate += ", SLOs aside"
    ttft, tpot = (spread_label(load, name, targets) for name in ("ttft", "tpot"))
    return f"{rate}; {load.in_flight:.0f} in flight. TTFT {ttft}; TPOT {tpot} ms."


def _label(pool: Pool, index: int, *, kind: bool = False) -> str:
    label = layout_label(pool_layout(pool, index))
    return f"{pool.setup.hardware.name.split()[1]} {label}" if kind else label


def _title(pools: Pools) -> str:
    setups = [pool.setup for pool in pools.aggregated]
    counted, lengths = "Prefill and decoding apart or together", [lengths_label(pools.requests)]
    return heading(counted, setups, lengths, speculations=[pools.speculation])


def comparison_chart(compared: Comparison) -> Plot:
    """Both kinds of frontiers to be drawn."""
    setups = (compared.pools.prefill.setup, compared.pools.decode.setup)
    title = f"Prompts and answers on the same chips, or on pools of their own?\n{_title(compared.pools)}"
    pools = compared.pools
    together = [
        _line(f"aggregated, {pool.setup.hardware.name}", pool, pool, front)
        for pool, front in zip(pools.aggregated, compared.aggregated, strict=True)
        if len(front)
    ]
    apart = _line("disaggregated", pools.prefill, pools.decode, compared.disaggregated)
    return speed_cost_chart(title, [apart, *together], setups)


def _line(label: str, prefill: Pool, decode: Pool, front: PoolFrontier) -> Series:
    """A frontier of pools, or of instances that do both, slowest point first."""
    details: dict[str, list[float | str]] = (
        {"layout": [_label(decode, index) for index in front.layout.tolist()]}
        if prefill is decode
        else {
            "prefill": [_label(prefill, index) for index in front.prefill.tolist()],
            "decode": [_label(decode, index) for index in front.layout.tolist()],
            "P : D": [f"{p} : {d}" for p, d in zip(front.prefill_instances, front.decode_instances, strict=True)],
        }
    )
    details |= {
        "in flight": front.batch.tolist(),
        "TTFT ms": [milliseconds(seconds) for seconds in front.ttft_seconds],
        "TPOT ms": [milliseconds(seconds) for seconds in front.seconds],
    }
    axes = front.tokens_per_second[::-1], front.dollars[::-1]
    return curve_line(label, axes, None, {name: values[::-1] for name, values in details.items()})
