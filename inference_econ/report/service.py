"""Text of results about services under load: titles, labels, and notes on load, power and energy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inference_econ.answers.deployments.deployment import layout_of, statistics
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import FILLED, NAMES, Chances, Targets
from inference_econ.engine import Setup, chip_power
from inference_econ.inputs import BYTES_PER_ELEMENT, catalog
from inference_econ.inputs.workload.percentiles import MEAN
from inference_econ.records.texts import amount, chance_percent, layout_label, prefixed
from inference_econ.report.fields import Column
from inference_econ.report.headings import enumerated, heading, lengths_label
from inference_econ.report.page import Table
from inference_econ.serving import Loaded, Service

if TYPE_CHECKING:
    from inference_econ.answers.deployments.default_slo import UsualSpeed
    from inference_econ.answers.deployments.deployment import SelectionRule
    from inference_econ.answers.deployments.recommend import Burstiness

_COLUMN = "P(SLO) %"


def chances_column(targets: Targets, shown: Sequence[Chances]) -> list[Column]:
    """Column of P(SLO met); empty without SLOs or without an error estimate."""
    if not _is_predicted(targets, shown):
        return []
    return [
        (_COLUMN, ["/".join(chance_percent(getattr(chances, name)) for name in targets.given) for chances in shown])
    ]


def planned_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Note on P(capacity sufficient) and on the required confidence of recommended deployments."""
    if targets.confidence is not None:
        return [f"{_sufficient(shown)}{_planned(targets.confidence)}"]
    if not _is_predicted(targets, shown):
        return chances_notes(targets, shown)
    return [f"{_sufficient(shown)}Add a margin with --confidence 80."]


def chances_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Note on P(capacity sufficient), or on the reason why P(SLO met) is unknown; empty without SLOs."""
    if not targets.given:
        return []
    if _is_predicted(targets, shown):
        return [_sufficient(shown).strip()] if _sufficient(shown) else []
    names = " or ".join(name.upper() for name in targets.given)
    return [
        f"P({names} SLO met) is unknown, because the assumptions have no error estimate. Use a fitted profile, or fit "
        "one with inference-econ calibrate."
    ]


def _is_predicted(targets: Targets, shown: Sequence[Chances]) -> bool:
    return any(getattr(chances, name) is not None for chances in shown for name in targets.given)


def chances_meaning(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Sentence with the meaning of the P(SLO met) column; empty without this column."""
    if not _is_predicted(targets, shown):
        return []
    names = " / ".join(f"{targets.percentile_of(name)} {name.upper()}" for name in targets.given)
    unknown = any(getattr(chances, name) is None for chances in shown for name in targets.given)
    mark = " ? means unknown." if unknown else ""
    return [f"'P(SLO) %': probability that a real server meets the SLO of {names}, for each SLO separately.{mark}"]


def unknown_chances(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Note on latencies without an error estimate in the P(SLO met) column; empty if all probabilities are known."""
    names = [name for name in targets.given if any(getattr(chances, name) is None for chances in shown)]
    if not _is_predicted(targets, shown) or not names:
        return []
    latencies = enumerated(name.upper() for name in names)
    return [f"P(SLO) is ? if the {latencies} error is unknown."]


def pools_meaning(disaggregated: bool) -> list[str]:
    """Meaning of the layouts of disaggregated deployments; empty without such deployments."""
    if not disaggregated:
        return []
    return [
        "Layout '2P1D tp1 + tp4' has 2 prefill instances with tensor parallelism 1 and 1 decode instance with 4. "
        f"Prefill instances are planned for at most {100 * FILLED:g}% load, so prompts rarely queue."
    ]


def _sufficient(shown: Sequence[Chances]) -> str:
    """Sentence on P(capacity sufficient); empty if it is unknown."""
    known = [chances.capacity for chances in shown if chances.capacity is not None]
    if not known:
        return ""
    return f"P(capacity sufficient) {probability(min(known))}{' in the worst row' if len(known) > 1 else ''}. "


def _planned(confidence: float) -> str:
    return f"The plan meets each SLO with a probability of at least {100 * confidence:g}%."


def probability(chance: float | None) -> str:
    """Format a probability as a percentage with a verb: ``is 85%``, or ``is above 95%``."""
    text = chance_percent(chance)
    if chance is None:
        return "is unknown"
    return f"is {text}%".replace(">", "above ").replace("<", "below ")


def kept_with(chances: Chances, targets: Targets) -> list[str]:
    """Line with the SLOs and the probability that a deployment meets them; empty without SLOs."""
    if not targets.given:
        return []
    if all(getattr(chances, name) is None for name in targets.given):
        return chances_notes(targets, [chances])
    kept = [f"P({name.upper()} SLO met) {probability(getattr(chances, name))}" for name in targets.given]
    if chances.capacity is not None:
        kept.append(f"P(capacity sufficient) {probability(chances.capacity)}")
    margin = "Add a margin with --confidence 80."
    if targets.confidence is not None:
        margin = _planned(targets.confidence)
    return [f"{', '.join(kept)}. {margin}"]


def burstiness_note(compared: Burstiness, targets: Targets, *, promised: bool = False) -> str:
    """Note on latencies at the same load under arrivals that differ from the assumed arrivals.

    With ``promised``, the note names an SLO that the fleet violates under the other arrivals. Simulated latencies are
    marked, because the latencies of a table may come from the analytical model.
    """
    load, other = compared.assumed, compared.other
    method = " (simulated)" if other.played else ""
    arrivals = arrivals_label(compared.other_scv).replace(" (", " arrivals (")
    where = f"At {100 * load.utilization:.0f}% load, {arrivals} "
    if other.saturated:
        waited = _rounded(targets.statistic("ttft", load))
        return (
            f"{where}overload the fleet, and queues grow without bound. With the assumed arrivals, TTFT "
            f"{targets.percentile_of('ttft')} is {waited}."
        )
    if promised and targets.given and (broken := targets.first_violated(other)) is not None:
        now, then = (_rounded(targets.statistic(broken, seen)) for seen in (load, other))
        return (
            f"{arrivals[0].upper()}{arrivals[1:]} violate the {broken.upper()} SLO of row 1: "
            f"{targets.percentile_of(broken)} is {then} instead of {now}{method}."
        )
    ends = {name: [targets.statistic(name, seen) for seen in (load, other)] for name in ("ttft", "tpot")}
    verb = "raise" if all(now <= then for now, then in ends.values()) else "change"
    # Outputs of one token have no TPOT.
    changes = [
        f"{name.upper()} {targets.percentile_of(name)} from {_rounded(now)} to {_rounded(then)}"
        for name, (now, then) in ends.items()
        if now
    ]
    return f"{where}{verb} {' and '.join(changes)}{method}."


def arrivals_label(scv: float) -> str:
    """Describe arrivals as text, with the option that selects them.

    Examples
    --------
    >>> arrivals_label(1.0), arrivals_label(10.0)
    ('Poisson (--arrival-scv 1)', 'bursty (--arrival-scv 10)')
    """
    from inference_econ.answers.deployments.recommend import POISSON  # loads the simulator

    kind = "Poisson" if scv == POISSON else "bursty" if scv > POISSON else "more regular than Poisson"
    return f"{kind} (--arrival-scv {scv:g})"


def _rounded(seconds: float) -> str:
    """Format a time with three digits, as in tables."""
    if math.isinf(seconds):
        return "unbounded"
    if seconds >= 1.0:
        return f"{seconds:.3g} s" if seconds < 100.0 else f"{seconds:,.0f} s"
    return f"{1e3 * seconds:.3g} ms"


def started(layout: Mapping[str, float | str]) -> str:
    """Engines that support a layout, in parentheses; empty if layouts need no engine."""
    return f" ({layout['engine']})" if "engine" in layout else ""


def with_engines(table: Table, layouts: Iterable[Mapping[str, float | str]], setups: Iterable[Setup]) -> Table:
    """Add a column of engines after the layouts; the table is unchanged if layouts need no engine.

    Parameters
    ----------
    table : Table
        Table with one row per layout.
    layouts : iterable of mapping
        Layouts with the engines that support them.
    setups : iterable of Setup
        Setups with the requested engines. If all setups have the same engines, ``all`` represents a layout that all
        engines support.
    """
    cells = [str(layout.get("engine", "-")) for layout in layouts]
    if all(cell == "-" for cell in cells):
        return table
    engines = {", ".join(engine.name for engine in setup.engines) for setup in setups}
    everyone = engines.pop() if len(engines) == 1 else ""
    cells = ["all" if cell == everyone and ", " in cell else cell for cell in cells]
    return _with_column(table, "layout", "engine", cells)


def _with_column(table: Table, after: str, head: str, cells: Sequence[str]) -> Table:
    place = table.columns.index(after) + 1
    rows = tuple((*row[:place], cell, *row[place:]) for row, cell in zip(table.rows, cells, strict=True))
    return replace(table, columns=(*table.columns[:place], head, *table.columns[place:]), rows=rows)


#: Columns that describe a fleet, without its recipe.
_FLEET = ("hardware", "GPUs", "replicas", "layout", "engine")


def with_recipes(table: Table, practices: Sequence[str]) -> Table:
    """Add a column of recipes after the engines; the table is unchanged if all rows have the same recipe.

    A narrow terminal leaves out this column first, or last if an engine has several recipes. It keeps the column if
    two fleets differ only in their recipes.
    """
    if len(set(practices)) == 1 or "engine" not in table.columns:
        return table
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    engines = [row["engine"] for row in rows]
    alike = len(set(zip(engines, practices, strict=True))) == len(set(engines))
    least = ("recipe", *table.least) if alike else (*table.least, "recipe")
    fleets = {tuple(row.get(head, "") for head in _FLEET) for row in rows}
    if "replicas" in table.columns and len(fleets) < len(rows):
        least = table.least
    return replace(_with_column(table, "engine", "recipe", practices), least=least)


def with_notes(table: Table, notes: Sequence[str], why: Sequence[str] = ()) -> Table:
    """Add notes before the notes of a table, and lines before the basis of its numbers. A note appears once."""
    return replace(table, notes=tuple(dict.fromkeys((*notes, *table.notes))), why=(*why, *table.why))


#: API providers hardly ever offer a longer p90 TTFT than this [s].
_LONG_WAIT = 10.0


def wait_notes(loads: Sequence[Loaded]) -> list[str]:
    """Note on deployments with a longer TTFT than API providers offer; empty if there are none."""
    waits = [load.ttft_seconds["p90"] for load in loads]
    rows = [str(row) for row, wait in enumerate(waits, 1) if _LONG_WAIT < wait < math.inf]
    if not rows:
        return []
    which = "" if len(loads) == 1 else f" in row{'s' if len(rows) > 1 else ''} {', '.join(rows)}"
    longest = max(wait for wait in waits if wait < math.inf)
    return [f"TTFT p90 is up to {longest:.0f} s{which}, longer than most APIs. Limit it with --ttft."]


def load_notes(load: Loaded, replicas: int, targets: Targets) -> list[str]:
    """Sentences on the latencies of a fleet at a load."""
    rate, simulated = load.requests_per_second * replicas, " (simulated)" if load.played else ""
    if load.saturated:
        return [
            f"OVERLOADED: {rate:g} requests/s is {100 * load.utilization:.0f}% of the capacity of "
            f"{load.completed_per_second * replicas:.3g} requests/s{simulated}. Queues grow without bound."
        ]
    latencies = []
    for name in NAMES:
        # Percentiles of the latency, and the mean if an SLO applies to the mean.
        seen, promised = statistics(load, name, targets), name in targets.given and targets.percentile_of(name) == MEAN
        shown = [which for which in seen if which != MEAN or promised] or list(seen)
        times = "/".join(milliseconds(seen[which]) for which in shown)
        latencies.append(f"{name.upper()} {'/'.join(shown)}: {times} ms")
    per_instance = " per instance" if replicas > 1 else ""
    return [
        f"The load is {100 * load.utilization:.0f}% of capacity: {load.in_flight:.1f} concurrent "
        f"requests{per_instance}. {'. '.join(latencies)}{simulated}."
    ]


def fleet_label(service: Service, replicas: int) -> str:
    """Describe a fleet as text: instances, GPUs, layout, and engines that support the layout."""
    return f"{fleet_name(service, replicas)}{started(layout_of(service))}"


def fleet_name(service: Service, replicas: int) -> str:
    """Describe a fleet as text: instances, GPUs and layout."""
    instances = f"{replicas} instance{'s' if replicas > 1 else ''} of " if replicas > 1 else ""
    used, rented = replicas * service.accelerators, int(service.setup.rented(replicas, service.accelerators))
    paid = "" if rented == used else f" ({rented} rented)"
    return (
        f"{instances}{service.accelerators} x {service.setup.hardware.name}{paid}, {layout_label(layout_of(service))}"
    )


def picked(service: Service, pick: SelectionRule | None) -> list[str]:
    """Sentences on the selected layout, its criterion, and the options that select another layout."""
    if pick is None:
        return []
    label = layout_label(layout_of(service))
    if pick.layouts == 1:
        return [f"Layout {label} is the only one that fits."]
    return [
        f"Layout {label} was selected from {pick.layouts} layouts by this criterion: {pick.rule}. Select another "
        "layout with --tp, --pp, --dp and --ep."
    ]


def service_title(
    counted: str,
    services: Sequence[Service],
    setups: Sequence[Setup] = (),
    *,
    rate: float | None = None,
    promises: Targets | None = None,
) -> str:
    """Heading for services with the same requests; see :func:`inference_econ.report.headings.heading`.

    ``setups`` also has the setup of prefill instances, if they run on another kind of GPU.
    """
    return heading(
        counted,
        setups or [service.setup for service in services],
        [lengths_label(services[0].requests)],
        rate=rate,
        promises=() if promises is None else (promises,),
        speculations=[service.speculation for service in services],
    )


def default_slo_notes(usual: UsualSpeed | None) -> tuple[str, ...]:
    """Note on the speed and the source of the default TPOT SLO; empty if the query sets the SLOs."""
    if usual is None:
        return ()
    if not usual.tokens_per_second:
        return (f"No TPOT SLO is set, because {usual.source} tokens/s per user. Set one with --tpot.",)
    speed = f"{usual.tokens_per_second:.3g} tokens/s per user ({usual.source})"
    return (f"Default TPOT SLO: {speed}. Change it with --tpot, or remove it with --any-speed.",)


def milliseconds(seconds: float) -> str:
    """Format a time in milliseconds with three digits, without the unit; numbers above 100 are integers."""
    return amount(1e3 * seconds)


def slots_notes(fleet: PooledFleet) -> tuple[str, ...]:
    """Note that the TPOT SLO limits the concurrency of decode instances below the memory limit; empty otherwise."""
    room = int(fleet.pools.decode.services.slots[fleet.decode])
    if fleet.slots >= room:
        return ()
    return (
        f"The TPOT SLO limits a decode instance to {fleet.slots:,} concurrent requests (vLLM --max-num-seqs). Its "
        f"memory has room for {room:,}. Further requests queue; TTFT includes this time.",
    )


#: Compute units for formats below one byte.
_NARROW = ("fp4", "int4")


def power_basis(setup: Setup) -> str:
    """Text on the measurements to which the power of a GPU is fitted; empty without power data."""
    power, chip = chip_power(setup.hardware), setup.hardware
    if power is None:
        return ""
    shares = power.shares
    error = f"median error {100 * shares.median_error:.0f}%"
    if any(
        BYTES_PER_ELEMENT[dtype] < 1 and setup.rates.unit(dtype) not in _NARROW for dtype in setup.precision.of_weights
    ):
        error += ", 40% higher for weight formats without compute units (mxfp4 on H100)"
    if chip.generation not in catalog.power().generations:
        return f"fitted to {shares.chip}, because no GPU of this generation was measured; {error} on other GPUs"
    if chip.name != catalog.title("hardware", shares.chip):
        return f"fitted to {shares.chip} of the same generation, {error}"
    return f"fitted to {shares.rows} measurements, {error}"


def power_notes(setup: Setup, record: Mapping[str, Any]) -> list[str]:
    """Note on the power of boards, servers and the facility, and on energy; empty without power data."""
    if record["board_watts"] is None:
        return []
    grams = record.get("grams_co2e_per_million_output_tokens")
    carbon = "" if grams is None or setup.grid is None else f", {amount(grams)} gCO2e per million at {setup.grid.text}"
    watts = ("board_watts", "server_watts", "facility_watts", "provisioned_watts")
    drawn = {name: f"{prefixed(record[name], 'Mk', ',.3g')}W" for name in watts}
    return [
        f"Power: boards {drawn['board_watts']}, servers {drawn['server_watts']}, facility {drawn['facility_watts']} "
        f"({drawn['provisioned_watts']} provisioned). Energy per output token: boards "
        f"{amount(record['joules_per_output_token'])} J, facility "
        f"{amount(record['facility_joules_per_output_token'])} J{carbon} ({power_basis(setup)})."
    ]


def power_columns(setups: Iterable[Setup]) -> Sequence[str]:
    """Columns of power and energy; empty if no GPU has power data."""
    measurable = [setup for setup in setups if setup.hardware.watts is not None]
    grams = ("grams_co2e_per_million_output_tokens",) if any(setup.grid for setup in measurable) else ()
    return ("board_watts", "joules_per_output_token", *grams) if measurable else ()
