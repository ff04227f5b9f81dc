"""Services under load, as answers about them show them: titles, labels, notes and records."""

from __future__ import annotations

from collections.abc import Mapping

from inference_econ.answers.subjects import under_load
from inference_econ.inputs import Quantity, Requests
from inference_econ.report import caveats
from inference_econ.report.record import HEAD, facts, finite_or_none
from inference_econ.report.startable import started
from inference_econ.report.table import layout_label
from inference_econ.serving import SHARES, Loaded, Service

#: What users see of a service.
SEEN: tuple[Quantity, ...] = ("tpot", "ttft")
#: That, and what its operator sees.
SERVED: tuple[Quantity, ...] = (*SEEN, "throughput")


def layout_of(service: Service) -> dict[str, float | str]:
    """The degrees of a service, under the names that people use."""
    return service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])


def load_notes(load: Loaded, replicas: int) -> list[str]:
    """What users see at a load, in words."""
    rate, played = load.requests_per_second * replicas, ", played" if load.played else ""
    if load.saturated:
        return [
            f"SATURATED: {rate:g} requests/s are {100 * load.utilization:.0f} % of what it completes "
            f"({load.completed_per_second * replicas:.3g}/s{played}): queues grow without end, and the rest is not "
            "served."
        ]
    ttft, tpot, e2e = (
        ", ".join(f"{name} {milliseconds(times[name])}" for name in SHARES)
        for times in (load.ttft_seconds, load.tpot_seconds, load.e2e_seconds)
    )
    return [
        f"{rate:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes; {load.in_flight:.1f} in flight "
        f"per instance. TTFT {ttft}; TPOT {tpot}; E2E {e2e} ms{played}."
    ]


def load_record(load: Loaded, replicas: int) -> dict[str, object]:
    """A load as plain data."""
    return {
        "request_rate": load.requests_per_second * replicas,
        "completed_requests_per_second": load.completed_per_second * replicas,
        "utilization": load.utilization,
        "saturated": load.saturated,
        "in_flight_per_instance": load.in_flight,
        "probability_of_waiting": load.waiting,
        "played": load.played,
        "ttft_seconds": finite(load.ttft_seconds),
        "tpot_seconds": finite(load.tpot_seconds),
        "e2e_seconds": finite(load.e2e_seconds),
        "e2e_seconds_per_output_token": finite(load.e2e_seconds_per_output_token),
    }


def bounded_load(service: Service, load: Loaded, replicas: int) -> dict[str, object]:
    """A load as plain data, and how far off its latencies may be."""
    (instances,) = under_load([(service, load)])
    return caveats.bounded(load_record(load, replicas), caveats.ends(instances, caveats.LOAD))


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
    """Instances, chips and layout in words."""
    instances = f"{replicas} instance{'s' if replicas > 1 else ''} of " if replicas > 1 else ""
    used, rented = replicas * service.accelerators, int(service.setup.rented(replicas, service.accelerators))
    paid, layout = "" if rented == used else f" ({rented} rented)", layout_of(service)
    chips = f"{instances}{service.accelerators} x {service.setup.hardware.name}{paid}"
    return f"{chips}, {layout_label(layout)}{started(layout)}"


def cached_label(requests: Requests) -> str:
    """What of a prompt is in the cache, and in common with all others, in words; nothing if nothing is."""
    cached = f", {requests.cached:g} of it cached" if requests.cached else ""
    return f"{cached}, {requests.shared_prefix:g} in common" if requests.shared_prefix else cached


def service_title(service: Service) -> str:
    """Model, lengths and formats in one line."""
    requests, precision = service.requests, service.setup.precision
    cached = cached_label(requests)
    proposer = "" if service.speculation is None else f"; {service.speculation.label}"
    return (
        f"{service.setup.model.name}: {requests.isl.mean:g} input tokens{cached}, {requests.osl.mean:g} output "
        f"tokens, weights {precision.weights}, KV {precision.kv}{proposer}"
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as plain data: those without an end are null."""
    return {name: finite_or_none(value) for name, value in values.items()}


def milliseconds(seconds: float) -> str:
    """A time with four digits, without a unit [ms]."""
    return f"{1e3 * seconds:.4g}" if seconds < 10 else f"{1e3 * seconds:,.0f}"
