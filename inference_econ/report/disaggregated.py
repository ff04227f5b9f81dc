"""Disaggregated serving beside aggregated, as tables and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ.answers.disaggregated.compare import NOTICED, Comparison, PoolFrontier
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pools import Pool, Pools
from inference_econ.answers.recommend import Choice
from inference_econ.report import caveats
from inference_econ.report.page import Page
from inference_econ.report.record import facts
from inference_econ.report.service import SEEN, bounded_load, cached_label, layout_of, load_record
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label
from inference_econ.studies.results import Curve

Array = npt.NDArray[np.float64]

#: Of the columns of a point, its speed alone comes from one pool.
_POINT = {"tokens_per_second_per_user": caveats.FULL["tokens_per_second_per_user"]}


@dataclass(frozen=True)
class DisaggregatedPage(Page):
    """Both ways of serving, ready to be shown.

    Attributes
    ----------
    compared : Comparison
        The frontiers.
    fleet : Fleet or None
        Whole numbers of prefill and decode instances for a traffic, or for a number of chips.
    together : Choice or None
        The best aggregated fleet for the same traffic.
    """

    compared: Comparison
    fleet: Fleet | None = None
    together: Choice | None = None

    def tables(self) -> Sequence[Table]:
        """Both frontiers at common speeds."""
        return (comparison_table(self.compared, self.fleet, self.together),)

    def record(self) -> object:
        """Every point of both frontiers, and the fleets."""
        return comparison_record(self.compared, self.fleet, self.together)

    def draw(self, path: str) -> None:
        """Draw the frontiers."""
        from inference_econ.report import figures

        figures.draw_curves(curves(self.compared), path, _title(self.compared.pools))


def comparison_table(
    compared: Comparison, fleet: Fleet | None = None, together: Choice | None = None, rows: int = 10
) -> Table:
    """Both frontiers at common speeds, and the best fleet.

    Parameters
    ----------
    compared : Comparison
        The frontiers.
    fleet : Fleet, optional
        Whole numbers of prefill and decode instances.
    together : Choice, optional
        The best aggregated fleet for the same traffic.
    rows : int
        Speeds to show at most [1].
    """
    columns = (
        "tokens/s per user", "$/M aggregated", "layout", "$/M disagg.", "factor", "prefill", "decode", "P : D",
        "TTFT ms",
    )  # fmt: skip
    lines = tuple(_row(compared, speed) for speed in common_speeds(compared, rows))
    notes = (
        verdict(compared),
        transfer_note(compared),
        _assumed(compared),
        *_fleet_notes(fleet, together),
        *caveats.remarks(compared.subjects(), SEEN),
    )
    return Table(_title(compared.pools), columns, lines, notes)


def _row(compared: Comparison, speed: float) -> tuple[str, ...]:
    """The cheapest of both ways at or above a speed."""
    pools, apart = compared.pools, compared.disaggregated
    together, index = _cheapest(compared, speed), int(apart.cheapest(speed))
    cost, apart_cost = float(compared.aggregated_dollars(speed)), float(apart.dollars_at(speed))
    aggregated = ("-", "")
    if together is not None:
        aggregated = dollars(cost), _label(*together, kind=len(pools.aggregated) > 1)
    if index < 0:
        return (f"{speed:g}", *aggregated, "-", "", "", "", "", "")
    return (
        f"{speed:g}",
        *aggregated,
        dollars(apart_cost),
        f"{cost / apart_cost:.2f}" if together is not None else "",
        _label(pools.prefill, int(apart.prefill[index])),
        _label(pools.decode, int(apart.layout[index])),
        _ratio(float(apart.ratio[index])),
        f"{1e3 * apart.ttft_seconds[index]:.0f}",
    )


def common_speeds(compared: Comparison, most: int) -> list[float]:
    """Round speeds over both frontiers, ascending [tokens/s]."""
    speeds = compared.speeds()
    step = (speeds[-1] - speeds[0]) / most
    unit = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    steps = (unit * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0))
    step = next(size for size in steps if size >= step * (1 - 1e-9)) if step > 0 else 1.0
    multiples = np.arange(math.ceil(speeds[0] / step), math.floor(speeds[-1] / step) + 1) * step
    return [float(f"{speed:.6g}") for speed in multiples] or [float(speeds[-1])]


def verdict(compared: Comparison) -> str:
    """Where disaggregated serving is cheaper, and by how much."""
    ranges = compared.cheaper()
    apart = compared.disaggregated.tokens_per_second.max()
    reach = max((float(front.tokens_per_second.max()) for front in compared.aggregated if len(front)), default=0.0)
    if not ranges:
        text = f"Disaggregated serving is nowhere more than {100 * NOTICED:.0f} % cheaper"
    else:
        spans = ", ".join(f"up to {high:.3g}" if low == 0 else f"from {low:.3g} to {high:.3g}" for low, high in ranges)
        factor, speed = compared.best()
        text = f"Disaggregated serving is more than {100 * NOTICED:.0f} % cheaper {spans} tokens/s per user"
        text += f", {factor:.2f} times at most (at {speed:.3g})" if factor > 0 else ""
    if not reach:
        text += "; no aggregated layout keeps the TTFT"
    elif apart > reach * (1 + 1e-9):
        text += f"; beyond {reach:.3g} it alone reaches {apart:.3g}"
    return f"{text}."


def transfer_note(compared: Comparison) -> str:
    """How the cache of a prompt moves, over the pairs of the frontier."""
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
    prices = " and ".join(
        f"{pool.setup.hardware.name} at ${pool.setup.dollars_per_accelerator_hour:g} per GPU-hour"
        for pool in pools.aggregated
    )
    promised = "" if math.isinf(compared.ttft_seconds) else f" TTFT at most {1e3 * compared.ttft_seconds:g} ms."
    return (
        f"$/M output tokens carry the whole bill; instances are full, P : D their ratio as a real number. {prices}."
        f"{promised} Assumptions: {assumptions_label(pool.setup for pool in pools.aggregated)}."
    )


def _fleet_notes(fleet: Fleet | None, together: Choice | None) -> tuple[str, ...]:
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
        f"Best fleet, {fleet.prefill_instances}P{fleet.decode_instances}D: {'; '.join(parts)}. "
        f"${fleet.dollars_per_hour:,.2f} per hour, ${dollars(fleet.dollars_per_million_output_tokens)} per million "
        "output tokens.",
        _load_note(fleet),
    ]
    if together is not None:
        service = together.service
        notes.append(
            f"Aggregated, the same traffic takes {together.replicas} x {service.accelerators} "
            f"{service.setup.hardware.name} ({layout_label(layout_of(service))}): "
            f"${together.dollars_per_hour:,.2f} per hour."
        )
    return tuple(notes)


def _load_note(fleet: Fleet) -> str:
    load = fleet.load
    rate = f"{load.requests_per_second:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes"
    if load.saturated:
        return f"SATURATED: {rate}; queues grow without end."
    ttft, tpot = (
        ", ".join(f"{name} {1e3 * times[name]:.4g}" for name in ("p50", "p90", "p99"))
        for times in (load.ttft_seconds, load.tpot_seconds)
    )
    return f"{rate}; {load.in_flight:.0f} in flight. TTFT {ttft}; TPOT {tpot} ms."


def _cheapest(compared: Comparison, speed: float) -> tuple[Pool, int] | None:
    """The aggregated layout that is the cheapest at a speed."""
    best: tuple[float, Pool, int] | None = None
    for pool, front in zip(compared.pools.aggregated, compared.aggregated, strict=True):
        index = int(front.cheapest(speed))
        if index >= 0 and (best is None or front.dollars[index] < best[0]):
            best = float(front.dollars[index]), pool, int(front.layout[index])
    return None if best is None else best[1:]


def _label(pool: Pool, index: int, *, kind: bool = False) -> str:
    label = layout_label(layout_of(pool.services.service(index)))
    return f"{pool.setup.hardware.name.split()[1]} {label}" if kind else label


def _ratio(value: float) -> str:
    if value <= 0:
        return "0 : 1"
    larger = max(value, 1.0 / value)
    text = f"{larger:,.0f}" if larger >= 10 else f"{larger:.1f}"
    return f"{text} : 1" if value >= 1 else f"1 : {text}"


def _title(pools: Pools) -> str:
    requests, precision = pools.requests, pools.decode.setup.precision
    cached = cached_label(requests)
    chips = " and ".join(pool.setup.hardware.name for pool in pools.aggregated)
    return (
        f"{pools.decode.setup.model.name} on {chips}: {requests.isl.mean:g} input tokens{cached}, "
        f"{requests.osl.mean:g} output tokens, weights {precision.weights}, KV {precision.kv}"
    )


def curves(compared: Comparison) -> list[Curve]:
    """Both kinds of frontiers for one picture, slowest point first."""
    return [
        _curve("disaggregated", compared.pools.decode, compared.disaggregated),
        *(
            _curve(f"aggregated, {pool.setup.hardware.name}", pool, front)
            for pool, front in zip(compared.pools.aggregated, compared.aggregated, strict=True)
            if len(front)
        ),
    ]


def _curve(label: str, pool: Pool, front: PoolFrontier) -> Curve:
    sizes = pool.accelerators[front.layout]
    return Curve(label, front.tokens_per_second[::-1], front.dollars[::-1], sizes[::-1], front.batch[::-1])


def comparison_record(
    compared: Comparison, fleet: Fleet | None = None, together: Choice | None = None
) -> dict[str, object]:
    """The frontiers and the fleets as plain data."""
    pools, apart = compared.pools, compared.disaggregated
    reading, decoding = pools.prefill.setup, pools.decode.setup
    factor, speed = compared.best()
    return {
        "model": decoding.model.name,
        "prefill_hardware": reading.hardware.name,
        "decode_hardware": decoding.hardware.name,
        "assumptions": decoding.assumptions.name,
        "prefill_assumptions": reading.assumptions.name,
        "calibration": {
            instances.setup.hardware.name: caveats.calibration_record(instances, SEEN)
            for instances in compared.subjects()
        },
        **facts(decoding, "weights", "kv", "isl", "osl", "cached", "shared_prefix", requests=pools.requests),
        "ttft_seconds_promised": None if math.isinf(compared.ttft_seconds) else compared.ttft_seconds,
        "bytes_per_prompt": pools.bytes_per_prompt,
        "layer_by_layer": pools.layer_by_layer,
        "disaggregated": [_apart(pools, apart, index) for index in range(len(apart) - 1, -1, -1)],
        "aggregated": [
            {
                "hardware": pool.setup.hardware.name,
                "dollars_per_accelerator_hour": pool.setup.dollars_per_accelerator_hour,
                "points": [_point(pool, front, index) for index in range(len(front) - 1, -1, -1)],
            }
            for pool, front in zip(pools.aggregated, compared.aggregated, strict=True)
        ],
        "cheaper_from_to_tokens_per_second": [list(span) for span in compared.cheaper()],
        "largest_factor": factor,
        "largest_factor_at_tokens_per_second": speed,
        "fleet": None if fleet is None else fleet_record(fleet),
        "aggregated_fleet": None if together is None else _together_record(together),
    }


def _together_record(together: Choice) -> dict[str, object]:
    return {
        "hardware": together.service.setup.hardware.name,
        "layout": layout_of(together.service),
        "replicas": together.replicas,
        "accelerators": together.accelerators,
        "dollars_per_hour": together.dollars_per_hour,
        **bounded_load(together.service, together.load, together.replicas),
    }


def _point(pool: Pool, front: PoolFrontier, index: int) -> dict[str, object]:
    layout = int(front.layout[index])
    point = {
        "tokens_per_second_per_user": float(front.tokens_per_second[index]),
        "dollars_per_million_output_tokens": float(front.dollars[index]),
        "ttft_seconds": float(front.ttft_seconds[index]),
        "accelerators": int(pool.accelerators[layout]),
        "layout": layout_of(pool.services.service(layout)),
        "batch": float(front.batch[index]),
    }
    instances = pool.instances([float(pool.accelerators[layout])], [float(front.batch[index])])
    return caveats.bounded(point, caveats.ends(instances, _POINT))


def _apart(pools: Pools, front: PoolFrontier, index: int) -> dict[str, object]:
    pair = int(front.prefill[index]), int(front.layout[index])
    return {
        **_point(pools.decode, front, index),
        "prefill_accelerators": int(pools.prefill.accelerators[pair[0]]),
        "prefill_layout": layout_of(pools.prefill.services.service(pair[0])),
        "prefill_instances_per_decode_instance": float(front.ratio[index]),
        **_transfer(pools, *pair),
    }


def _transfer(pools: Pools, prefill: int, decode: int) -> dict[str, object]:
    moved = pools.transfer
    return {
        "link": "fast link" if moved.fast[prefill, decode] else "network",
        "transfer_seconds": float(moved.seconds[prefill, decode]),
        "transfer_exposed_seconds": float(moved.exposed_seconds[prefill, decode]),
    }


def fleet_record(fleet: Fleet) -> dict[str, object]:
    """A fleet as plain data."""
    pools = fleet.pools
    return {
        "prefill_instances": fleet.prefill_instances,
        "prefill_accelerators_per_instance": int(pools.prefill.accelerators[fleet.prefill]),
        "prefill_layout": layout_of(pools.prefill.services.service(fleet.prefill)),
        "prefill_utilization": fleet.prefill_utilization,
        "decode_instances": fleet.decode_instances,
        "decode_accelerators_per_instance": int(pools.decode.accelerators[fleet.decode]),
        "decode_layout": layout_of(pools.decode.services.service(fleet.decode)),
        "decode_utilization": fleet.decode_utilization,
        "accelerators": sum(fleet.accelerators),
        "dollars_per_hour": fleet.dollars_per_hour,
        "dollars_per_million_output_tokens": fleet.dollars_per_million_output_tokens,
        **_transfer(pools, fleet.prefill, fleet.decode),
        **{name.removesuffix("_per_instance"): value for name, value in _bounded_load(fleet).items()},
    }


def _bounded_load(fleet: Fleet) -> dict[str, object]:
    """Where each latency comes from, there its errors do."""
    answers = fleet.pools.requests.osl.mean
    factors = {
        name: caveats.ends(pool.instances()._replace(osl=answers), {name: caveats.LOAD[name]})[name]
        for name, pool in (("ttft_seconds", fleet.pools.prefill), ("tpot_seconds", fleet.pools.decode))
    }
    return caveats.bounded(load_record(fleet.load, 1), factors)
