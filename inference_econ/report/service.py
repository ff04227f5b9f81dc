"""Services under load, as answers about them show them: titles, labels, notes on load, power and energy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference_econ.answers.deployments.recommend import POISSON, Burstiness
from inference_econ.answers.deployments.service_record import SelectionRule, layout_of, statistics
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import NAMES, Chances, Targets
from inference_econ.engine import Setup, chip_power
from inference_econ.inputs import BYTES_PER_ELEMENT, catalog
from inference_econ.inputs.workload.percentiles import MEAN
from inference_econ.records.texts import amount, chance_percent, layout_label, prefixed
from inference_econ.report.fields import Column
from inference_econ.report.headings import heading, lengths_label
from inference_econ.report.page import Table
from inference_econ.serving import Loaded, Service

_COLUMN = "P(SLO) %"


def chances_column(targets: Targets, shown: Sequence[Chances]) -> list[Column]:
    """A column of the probabilities of what is promised; none where nothing is promised, or nobody knows."""
    if not _is_predicted(targets, shown):
        return []
    return [
        (_COLUMN, ["/".join(chance_percent(getattr(chances, name)) for name in targets.given) for chances in shown])
    ]


def planned_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column where deployments are chosen, and on how probable promises were made."""
    if targets.confidence is not None:
        return [f"{_meaning(targets, shown)} Planned so that each is at least {100 * targets.confidence:g} %."]
    named = _is_predicted(targets, shown)
    return [f"{note} --confidence 80 plans with a margin." if named else note for note in chances_notes(targets, shown)]


def chances_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column, or that nobody knows; none where nothing is promised."""
    if not targets.given:
        return []
    if _is_predicted(targets, shown):
        return [_meaning(targets, shown)]
    names = " or ".join(name.upper() for name in targets.given)
    return [
        f"Nobody knows how probable it is that the SLO of {names} is met: these assumptions were fitted to no such "
        "measurement. Take a fitted profile, or fit one: inference-econ calibrate."
    ]


def _is_predicted(targets: Targets, shown: Sequence[Chances]) -> bool:
    return any(getattr(chances, name) is not None for chances in shown for name in targets.given)


def _meaning(targets: Targets, shown: Sequence[Chances]) -> str:
    names = " / ".join(f"{targets.percentile_of(name)} {name.upper()}" for name in targets.given)
    carried = [chances.capacity for chances in shown if chances.capacity is not None]
    worst = " in the worst row" if len(carried) > 1 else ""
    traffic = f"; it carries the traffic with {chance_percent(min(carried))} %{worst}" if carried else ""
    unknown = any(getattr(chances, name) is None for chances in shown for name in targets.given)
    mark = "; ?: nobody knows" if unknown else ""
    return f"P(SLO) %: probability that a measured server meets the SLO of {names}, each by itself{mark}{traffic}."


def kept_with(chances: Chances, targets: Targets) -> list[str]:
    """Line on the promises and how probably one deployment keeps them; none without promises."""
    if not targets.given:
        return []
    if all(getattr(chances, name) is None for name in targets.given):
        return chances_notes(targets, [chances])
    kept = [f"{name.upper()} kept with {chance_percent(getattr(chances, name))} %" for name in targets.given]
    planned = "" if targets.confidence is None else f"; planned for {100 * targets.confidence:g} % each"
    if chances.capacity is not None:
        kept.append(f"the traffic carried with {chance_percent(chances.capacity)} %")
    return [f"{', '.join(kept)}{planned}."]


#: What a TPOT has to be shorter by under bursts that it is said why [1].
_LESS = 0.02


def burstiness_note(compared: Burstiness, targets: Targets, *, promised: bool = False) -> str:
    """Sentence on the arrivals that are assumed, and on latencies under others at the same load.

    With ``promised`` it says whether a fleet meets its SLOs under these.
    """
    assumed = f"assumed {arrivals_label(compared.assumed_scv)}"
    if compared.traffic:
        assumed = f"those of {compared.traffic}"
    verdict = f"at {100 * compared.assumed.utilization:.0f} % load it would see "
    if promised and targets.given:
        broken = targets.first_violated(compared.other)
        kept = "meets its SLOs" if broken is None else f"breaks its SLO of the {broken.upper()}"
        verdict = f"the first fleet {kept}: "
    instead = _instead(compared.assumed, compared.other, targets)
    return f"Arrivals are {assumed}; with {arrivals_label(compared.other_scv)} {verdict}{instead}."


def arrivals_label(scv: float) -> str:
    """Arrivals in words, with the option that asks for them.

    Examples
    --------
    >>> arrivals_label(1.0), arrivals_label(10.0)
    ('Poisson (--arrival-scv 1)', 'bursty (--arrival-scv 10)')
    """
    kind = "Poisson" if scv == POISSON else "bursty" if scv > POISSON else "more regular than Poisson"
    return f"{kind} (--arrival-scv {scv:g})"


def _instead(load: Loaded, other: Loaded, targets: Targets) -> str:
    """Both latencies under other arrivals, and as they are."""
    if other.saturated:
        waited = _rounded(targets.statistic("ttft", load))
        return f"queues that grow without end (TTFT {targets.percentile_of('ttft')} now {waited})"
    texts = (
        f"{name.upper()} {targets.percentile_of(name)} {_rounded(targets.statistic(name, other))}, not {_rounded(now)}"
        for name in ("ttft", "tpot")
        if (now := targets.statistic(name, load))  # a request of one token has no time between tokens
    )
    quicker = targets.statistic("tpot", other) < (1.0 - _LESS) * targets.statistic("tpot", load)
    burstier = other.arrivals.scv > load.arrivals.scv
    return "; ".join(texts) + (", as prompts that come together share steps" if quicker and burstier else "")


def _rounded(seconds: float) -> str:
    """A time with two digits, as random numbers decide on the third."""
    if math.isinf(seconds):
        return "without end"
    if seconds >= 1.0:
        return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds:,.0f} s"
    return f"{float(f'{1e3 * seconds:.2g}'):g} ms"


def started(layout: Mapping[str, float | str]) -> str:
    """Engines behind a layout in a sentence; empty where any layout is offered."""
    return f" ({layout['engine']})" if "engine" in layout else ""


def with_engines(
    table: Table, layouts: Iterable[Mapping[str, float | str]], setups: Iterable[Setup], after: str = "layout"
) -> Table:
    """A table with a column of engines behind that of layouts; as it is where any layout is offered.

    Parameters
    ----------
    table : Table
        With one row per layout.
    layouts : iterable of mapping
        What is shown, with the engines that can start it.
    setups : iterable of Setup
        Whose engines are asked: what all of them can start is short, ``all``, if they are the same for all.
    after : str
        The column that the engines stand behind.
    """
    cells = [str(layout.get("engine", "-")) for layout in layouts]
    if all(cell == "-" for cell in cells):
        return table
    engines = {", ".join(engine.name for engine in setup.engines) for setup in setups}
    everyone = engines.pop() if len(engines) == 1 else ""
    cells = ["all" if cell == everyone and ", " in cell else cell for cell in cells]
    return _with_column(table, after, "engine", cells)


def _with_column(table: Table, after: str, head: str, cells: Sequence[str]) -> Table:
    place = table.columns.index(after) + 1
    rows = tuple((*row[:place], cell, *row[place:]) for row, cell in zip(table.rows, cells, strict=True))
    return replace(table, columns=(*table.columns[:place], head, *table.columns[place:]), rows=rows)


def with_recipes(table: Table, practices: Sequence[str]) -> Table:
    """A table with a column of recipes behind that of engines; as it is where all rows have the same.

    It is the first to go where the table is too wide, but the last one where an engine has several.
    """
    if len(set(practices)) == 1 or "engine" not in table.columns:
        return table
    engines = [row[table.columns.index("engine")] for row in table.rows]
    alike = len(set(zip(engines, practices, strict=True))) == len(set(engines))
    least = ("recipe", *table.least) if alike else (*table.least, "recipe")
    return replace(_with_column(table, "engine", "recipe", practices), least=least)


def with_notes(table: Table, notes: Sequence[str]) -> Table:
    """A table with further remarks before its own."""
    return replace(table, notes=(*notes, *table.notes))


#: A TTFT at p90 that hardly a provider sells [s].
_LONG_WAIT = 10.0


def wait_notes(loads: Sequence[Loaded]) -> list[str]:
    """Sentence on deployments whose users wait longer for the first token than providers sell; none without any."""
    waits = [load.ttft_seconds["p90"] for load in loads]
    rows = [str(row) for row, wait in enumerate(waits, 1) if _LONG_WAIT < wait < math.inf]
    if not rows:
        return []
    which = "" if len(loads) == 1 else f" in row{'s' if len(rows) > 1 else ''} {', '.join(rows)}"
    longest = max(wait for wait in waits if wait < math.inf)
    return [f"The first token takes up to {longest:.0f} s (p90){which}; hardly a provider sells that: add --ttft."]


def load_notes(load: Loaded, replicas: int, targets: Targets) -> list[str]:
    """Sentences on latencies at a load."""
    rate, played = load.requests_per_second * replicas, ", played" if load.played else ""
    if load.saturated:
        return [
            f"SATURATED: {rate:g} requests/s are {100 * load.utilization:.0f} % of what it completes "
            f"({load.completed_per_second * replicas:.3g}/s{played}): queues grow without end, and the rest is not "
            "served."
        ]
    latencies = []
    for name in NAMES:
        # Percentiles in words, and the mean where that is promised.
        seen, promised = statistics(load, name, targets), name in targets.given and targets.percentile_of(name) == MEAN
        shown = [which for which in seen if which != MEAN or promised] or list(seen)
        spread = ", ".join(f"{which} {milliseconds(seen[which])}" for which in shown)
        latencies.append(f"{name.upper()} {spread}")
    per_instance = " per instance" if replicas > 1 else ""
    return [
        f"{rate:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes at most, SLOs aside; "
        f"{load.in_flight:.1f} in flight{per_instance}. {'; '.join(latencies)} ms{played}."
    ]


def fleet_label(service: Service, replicas: int) -> str:
    """Instances, chips, layout and who can start it in words."""
    return f"{fleet_name(service, replicas)}{started(layout_of(service))}"


def fleet_name(service: Service, replicas: int) -> str:
    """Instances, chips and layout in words."""
    instances = f"{replicas} instance{'s' if replicas > 1 else ''} of " if replicas > 1 else ""
    used, rented = replicas * service.accelerators, int(service.setup.rented(replicas, service.accelerators))
    paid = "" if rented == used else f" ({rented} rented)"
    return (
        f"{instances}{service.accelerators} x {service.setup.hardware.name}{paid}, {layout_label(layout_of(service))}"
    )


def picked(service: Service, pick: SelectionRule | None) -> list[str]:
    """Sentence on the layout that was taken, the rule, and how to take another."""
    if pick is None:
        return []
    label = layout_label(layout_of(service))
    if pick.layouts == 1:
        return [f"{label}: the only layout that is left open and fits."]
    return [f"{label}: {pick.rule}, of {pick.layouts} layouts; --tp, --pp, --dp and --ep take another."]


def service_title(
    counted: str,
    services: Sequence[Service],
    setups: Sequence[Setup] = (),
    *,
    rate: float | None = None,
    promises: Targets | None = None,
) -> str:
    """The heading of what is said of some services for the same requests; see :func:`.heading.heading`.

    ``setups`` are those of the services and of what serves beside them, where that is on other chips.
    """
    return heading(
        counted,
        setups or [service.setup for service in services],
        [lengths_label(services[0].requests)],
        rate=rate,
        promises=() if promises is None else (promises,),
        speculations=[service.speculation for service in services],
    )


def milliseconds(seconds: float) -> str:
    """A time with three digits, whole from a hundred on, without a unit [ms]."""
    return amount(1e3 * seconds)


def slots_notes(fleet: PooledFleet) -> tuple[str, ...]:
    """Sentence on decode instances of pools with fewer requests in flight than their memory holds, and why."""
    room = int(fleet.pools.decode.services.slots[fleet.decode])
    if fleet.slots >= room:
        return ()
    return (
        f"For the TPOT SLO a decode instance has at most {fleet.slots:,} requests in flight (launch writes it: "
        f"--max-num-seqs of vLLM), where its memory holds {room:,}; the wait of others counts in TTFT.",
    )


#: Maths units that multiply formats of less than a byte.
_NARROW = ("fp4", "int4")


def power_basis(setup: Setup) -> str:
    """Words for the basis of the power of a chip; empty where its file has no watts."""
    power, chip = chip_power(setup.hardware), setup.hardware
    if power is None:
        return ""
    shares = power.shares
    error = f"median error {100 * shares.median_error:.0f} %"
    if any(
        BYTES_PER_ELEMENT[dtype] < 1 and setup.rates.unit(dtype) not in _NARROW for dtype in setup.precision.of_weights
    ):
        error += ", but 40 % more where the chip only stores the format of its weights (mxfp4 on H100)"
    if chip.generation not in catalog.power().generations:
        return f"no server of its generation was measured: by shares of board power of {shares.chip}, {error} of others"
    if chip.name != catalog.title("hardware", shares.chip):
        return f"not measured itself: by the shares of board power of {shares.chip}, {error} there"
    return f"fitted to {shares.rows} measured rows, {error}"


def power_notes(setup: Setup, record: Mapping[str, Any]) -> list[str]:
    """Notes on the power of boards, servers and the facility; none where the file of the chip has no watts."""
    if record["board_watts"] is None:
        return []
    grams = record.get("grams_co2e_per_million_output_tokens")
    carbon = "" if grams is None or setup.grid is None else f", {amount(grams)} gCO2e per million at {setup.grid.text}"
    watts = ("board_watts", "server_watts", "facility_watts", "provisioned_watts")
    drawn = {name: f"{prefixed(record[name], 'Mk', ',.3g')}W" for name in watts}
    return [
        f"Power: boards {drawn['board_watts']}, with host and network {drawn['server_watts']}, "
        f"facility {drawn['facility_watts']} of {drawn['provisioned_watts']} provisioned; "
        f"{amount(record['joules_per_output_token'])} J per output token of the boards, "
        f"{amount(record['facility_joules_per_output_token'])} J of the facility{carbon} ({power_basis(setup)})."
    ]


def power_columns(setups: Iterable[Setup]) -> Sequence[str]:
    """The columns of power and energy of a table; none where no chip of it has watts in its file."""
    measurable = [setup for setup in setups if setup.hardware.watts is not None]
    grams = ("grams_co2e_per_million_output_tokens",) if any(setup.grid for setup in measurable) else ()
    return ("board_watts", "joules_per_output_token", *grams) if measurable else ()
