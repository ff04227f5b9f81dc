"""Services under load, as answers about them show them: titles, labels, notes and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.answers.picks import Pick
from inference_econ.answers.promises import NAMES, Targets
from inference_econ.answers.subjects import under_load
from inference_econ.inputs import Quantity
from inference_econ.inputs.percentiles import MEAN
from inference_econ.report import caveats
from inference_econ.report.heading import heading, lengths_label
from inference_econ.report.record import HEAD, facts, finite_or_none
from inference_econ.report.startable import started
from inference_econ.report.table import amount, layout_label
from inference_econ.serving import Loaded, Service, listed

#: What users see of a service.
SEEN: tuple[Quantity, ...] = ("tpot", "ttft")
#: That, and what its operator sees.
SERVED: tuple[Quantity, ...] = (*SEEN, "throughput")


def layout_of(service: Service) -> dict[str, float | str]:
    """The degrees of a service, under the names that people use."""
    return service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])


def statistics(load: Loaded, name: str, targets: Targets) -> dict[str, float]:
    """Mean and percentiles of one latency [s]; that which is promised of it is among them."""
    return listed(getattr(load, f"{name}_seconds"), *([targets.percentile_of(name)] if name in targets.given else []))


def spread_label(load: Loaded, name: str, targets: Targets) -> str:
    """Percentiles of one latency in words, and the mean where that is promised [ms]."""
    seen = statistics(load, name, targets)
    shown = [
        which for which in seen if which != MEAN or (name in targets.given and targets.percentile_of(name) == MEAN)
    ]
    # Of pools only the mean of the time to the last token is known.
    return ", ".join(f"{which} {milliseconds(seen[which])}" for which in shown or seen)


def load_notes(load: Loaded, replicas: int, targets: Targets) -> list[str]:
    """What users see at a load, in words."""
    rate, played = load.requests_per_second * replicas, ", played" if load.played else ""
    if load.saturated:
        return [
            f"SATURATED: {rate:g} requests/s are {100 * load.utilization:.0f} % of what it completes "
            f"({load.completed_per_second * replicas:.3g}/s{played}): queues grow without end, and the rest is not "
            "served."
        ]
    ttft, tpot, e2e = (spread_label(load, name, targets) for name in NAMES)
    return [
        f"{rate:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes; {load.in_flight:.1f} in flight "
        f"per instance. TTFT {ttft}; TPOT {tpot}; E2E {e2e} ms{played}."
    ]


def load_record(load: Loaded, replicas: int, targets: Targets) -> dict[str, object]:
    """A load as plain data, percentiles that are promised among its latencies."""
    return {
        "request_rate": load.requests_per_second * replicas,
        "completed_requests_per_second": load.completed_per_second * replicas,
        "utilization": load.utilization,
        "saturated": load.saturated,
        "in_flight_per_instance": load.in_flight,
        "probability_of_waiting": load.waiting,
        "played": load.played,
        **{f"{name}_seconds": finite(statistics(load, name, targets)) for name in NAMES},
        "e2e_seconds_per_output_token": finite(load.e2e_seconds_per_output_token),
    }


def bounded_load(service: Service, load: Loaded, replicas: int, targets: Targets) -> dict[str, object]:
    """A load as plain data, and how far off its latencies may be."""
    (instances,) = under_load([(service, load)])
    return caveats.bounded(load_record(load, replicas, targets), caveats.ends(instances, caveats.LOAD))


def service_record(service: Service, replicas: int, *loads: Loaded) -> dict[str, object]:
    """Instances, their layout, what they serve, and how far off they may be under some loads, as plain data."""
    (instances,) = under_load((service, load) for load in loads)
    record = {
        **facts(
            service.setup, *HEAD, "weights", "kv", "isl", "osl", "cached", "shared_prefix", requests=service.requests
        ),
        "speculation": None if service.speculation is None else service.speculation.record(),
        "layout": layout_of(service),
        "replicas": replicas,
        "accelerators_per_instance": service.accelerators,
        "accelerators": replicas * service.accelerators,
        "accelerators_rented": int(service.setup.rented(replicas, service.accelerators)),
        "slots": service.slots,
        "requests_per_second_when_full": service.most_requests_per_second * replicas,
        "calibration": caveats.calibration_record(instances, SERVED),
    }
    return caveats.bounded(record, caveats.ends(instances, caveats.LOAD))


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
    """Which of the layouts that were left open was taken, by which rule, and how to take another."""
    if pick is None:
        return []
    label = layout_label(layout_of(service))
    if pick.layouts == 1:
        return [f"{label}: the only layout that is left open and fits."]
    return [f"{label}: {pick.rule}, of {pick.layouts} layouts; --tp, --pp, --dp and --ep take another."]


def pick_record(pick: Pick | None) -> dict[str, object]:
    """The same as plain data; nothing if nothing was left open."""
    return {} if pick is None else {"picked": pick._asdict()}


def service_title(
    counted: str, services: Sequence[Service], *, rate: float | None = None, promises: Targets | None = None
) -> str:
    """The heading of what is said of some services for the same requests; see :func:`.heading.heading`."""
    return heading(
        counted,
        [service.setup for service in services],
        [lengths_label(services[0].requests)],
        rate=rate,
        promises=() if promises is None else (promises,),
        speculations=[service.speculation for service in services],
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as plain data: those without an end are null."""
    return {name: finite_or_none(value) for name, value in values.items()}


def milliseconds(seconds: float) -> str:
    """A time with three digits, whole from a hundred on, without a unit [ms]."""
    return amount(1e3 * seconds)
