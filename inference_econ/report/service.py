"""Services under load, as answers about them show them: titles, labels, notes on load, power and energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.heading import heading, lengths_label
from inference_econ.answers.promises import NAMES, Targets
from inference_econ.answers.service_record import Pick, layout_of, statistics
from inference_econ.engine import Setup, chip_power
from inference_econ.inputs import BYTES_PER_ELEMENT, catalog
from inference_econ.inputs.percentiles import MEAN
from inference_econ.records.texts import amount, layout_label, prefixed
from inference_econ.report.startable import started
from inference_econ.serving import Loaded, Service


def spread_label(load: Loaded, name: str, targets: Targets) -> str:
    """Percentiles of one latency in words, and the mean where that is promised [ms]."""
    seen = statistics(load, name, targets)
    shown = [
        which for which in seen if which != MEAN or (name in targets.given and targets.percentile_of(name) == MEAN)
    ]
    # Of pools only the mean of the time to the last token is known.
    return ", ".join(f"{which} {milliseconds(seen[which])}" for which in shown or seen)


def load_notes(load: Loaded, replicas: int, targets: Targets) -> list[str]:
    """Sentences on latencies at a load."""
    rate, played = load.requests_per_second * replicas, ", played" if load.played else ""
    if load.saturated:
        return [
            f"SATURATED: {rate:g} requests/s are {100 * load.utilization:.0f} % of what it completes "
            f"({load.completed_per_second * replicas:.3g}/s{played}): queues grow without end, and the rest is not "
            "served."
        ]
    ttft, tpot, e2e = (spread_label(load, name, targets) for name in NAMES)
    per_instance = " per instance" if replicas > 1 else ""
    return [
        f"{rate:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes at most, SLOs aside; "
        f"{load.in_flight:.1f} in flight{per_instance}. TTFT {ttft}; TPOT {tpot}; E2E {e2e} ms{played}."
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


def picked(service: Service, pick: Pick | None) -> list[str]:
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


def slots_notes(fleet: Fleet) -> tuple[str, ...]:
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
    if any(BYTES_PER_ELEMENT[dtype] < 1 and setup.unit(dtype) not in _NARROW for dtype in setup.precision.of_weights):
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
