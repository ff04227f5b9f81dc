"""Services, prices and recommendations as tables and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from inference_econ.answers.price import KINDS, Sheet
from inference_econ.answers.recommend import Choice, Targets
from inference_econ.formulas import money
from inference_econ.inputs.calibration import Quantity
from inference_econ.report import caveats
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label
from inference_econ.search.fastest import Chosen
from inference_econ.search.frontier import layout_record
from inference_econ.serving.load import SHARES, Loaded
from inference_econ.serving.services import Service

#: What people call the kinds of tokens.
KIND_NAMES = {"input": "input", "cached_input": "cached input", "output": "output"}


def layout_of(service: Service) -> dict[str, float | str]:
    """The degrees of a service, under the names that people use."""
    cut = service.setup.assumptions.layout.tensor_layouts[0]
    return layout_record(service.setup, Chosen(service.plans, cut))


def price_table(sheet: Sheet, dollars_per_accelerator_hour: float, api: Mapping[str, float] | None = None) -> Table:
    """Costs by kind of token."""
    columns: tuple[str, ...] = ("tokens", "M per hour", "$/M tokens", "$/M when full", "$ per hour")
    rows = []
    for kind in KINDS:
        hourly = sheet.tokens_per_hour[kind]
        if not hourly:
            continue
        cost = sheet.average[kind] * hourly / 1e6
        row = [KIND_NAMES[kind], f"{hourly / 1e6:,.1f}", dollars(sheet.average[kind]), dollars(sheet.marginal[kind])]
        row.append(f"{cost:,.2f}")
        if api is not None:
            row += [f"{api.get(kind, 0.0):g}", f"{(api.get(kind, 0.0) - sheet.average[kind]) * hourly / 1e6:,.2f}"]
        rows.append(tuple(row))
    total = ["all", f"{sum(sheet.tokens_per_hour.values()) / 1e6:,.1f}", dollars(sheet.dollars_per_million_tokens), ""]
    total.append(f"{sheet.dollars_per_hour:,.2f}")
    if api is not None:
        columns = (*columns, "API $/M", "margin $/h")
        total += ["", f"{sheet.revenue_per_hour(api) - sheet.dollars_per_hour:,.2f}"]
    rows.append(tuple(total))
    notes = [
        f"{fleet_label(sheet.service, sheet.replicas)}, at ${dollars_per_accelerator_hour:g} per GPU-hour. "
        f"Assumptions: {sheet.service.setup.assumptions.name}.",
        *load_notes(sheet.load, sheet.replicas),
        "A bill is shared by the time that prefill of new tokens, of cached ones, and decoding take; idle time in "
        "the same proportion.",
        *caveats.remarks(asked([(sheet.service, sheet.load)]), SEEN),
    ]
    if api is not None:
        notes.append(break_even(sheet, api))
    return Table(service_title(sheet.service), columns, tuple(rows), tuple(notes))


#: What users see of a service.
SEEN: tuple[Quantity, ...] = ("tpot", "ttft")
#: That, and what its operator sees.
SERVED: tuple[Quantity, ...] = (*SEEN, "throughput")


def asked(shown: Sequence[tuple[Service, Loaded]]) -> list[caveats.Asked]:
    """Services under load, to be told how far off they may be; by the kind of chip if there are several."""
    kinds: dict[str, list[tuple[Service, Loaded]]] = {}
    for service, load in shown:
        kinds.setdefault(service.setup.hardware.name, []).append((service, load))
    return [_asked(some, kind if len(kinds) > 1 else "") for kind, some in kinds.items()]


def _asked(shown: Sequence[tuple[Service, Loaded]], label: str) -> caveats.Asked:
    first = shown[0][0]
    return caveats.Asked(
        first.setup,
        [float(service.accelerators) for service, _ in shown],
        [load.in_flight for _, load in shown],
        first.requests.isl.mean,
        first.requests.osl.mean,
        speculates=first.speculation is not None,
        label=label,
    )


def break_even(sheet: Sheet, api: Mapping[str, float]) -> str:
    """At which traffic this fleet earns its bill at some prices."""
    revenue = sheet.revenue_per_hour(api)
    rate = sheet.load.completed_per_second * sheet.replicas
    if revenue <= 0:
        return "These prices bring in nothing."
    needed = rate * sheet.dollars_per_hour / revenue
    most = sheet.service.most_requests_per_second * sheet.replicas
    reach = "" if needed <= most else f", more than it can complete ({most:.3g})"
    return f"Revenue ${revenue:,.2f} per hour; this fleet breaks even at {needed:.3g} requests/s{reach}."


def load_notes(load: Loaded, replicas: int) -> list[str]:
    """What users see at a load, in words."""
    rate = load.requests_per_second * replicas
    if load.saturated:
        return [
            f"SATURATED: {rate:g} requests/s are {100 * load.utilization:.0f} % of what it completes "
            f"({load.completed_per_second * replicas:.3g}/s): queues grow without end, and the rest is not served."
        ]
    ttft, tpot = (
        ", ".join(f"{name} {milliseconds(times[name])}" for name in SHARES)
        for times in (load.ttft_seconds, load.tpot_seconds)
    )
    return [
        f"{rate:.4g} requests/s, {100 * load.utilization:.0f} % of what it completes; {load.in_flight:.1f} in flight "
        f"per instance. TTFT {ttft}; TPOT {tpot} ms."
    ]


def price_record(
    sheet: Sheet, dollars_per_accelerator_hour: float, api: Mapping[str, float] | None = None
) -> dict[str, object]:
    """Prices as plain data; infinite latencies are null."""
    record: dict[str, object] = {
        **service_record(sheet.service, sheet.replicas, sheet.load),
        "dollars_per_accelerator_hour": dollars_per_accelerator_hour,
        "dollars_per_hour": sheet.dollars_per_hour,
        "tokens_per_hour": dict(sheet.tokens_per_hour),
        **{f"dollars_per_million_{kind}_tokens": sheet.average[kind] for kind in KINDS},
        "dollars_per_million_tokens": sheet.dollars_per_million_tokens,
        "marginal_dollars_per_million": dict(sheet.marginal),
        **energy_record(sheet.service, sheet.replicas, sheet.load),
        **bounded_load(sheet.service, sheet.load, sheet.replicas),
    }
    if api is not None:
        revenue = sheet.revenue_per_hour(api)
        record["revenue_dollars_per_hour"] = revenue
        record["margin_dollars_per_hour"] = revenue - sheet.dollars_per_hour
    return record


def energy_record(service: Service, replicas: int, load: Loaded) -> dict[str, object]:
    """Board power over the tokens; null where the hardware file has no watts."""
    watts = service.setup.hardware.watts
    if watts is None:
        return {"watts": None, "joules_per_output_token": None}
    tokens_per_second = load.completed_per_second * service.requests.osl.mean
    joules = float(money.joules_per_token(watts, service.accelerators, tokens_per_second))
    return {"watts": watts * service.accelerators * replicas, "joules_per_output_token": joules}


def load_record(load: Loaded, replicas: int) -> dict[str, object]:
    """A load as plain data."""
    return {
        "request_rate": load.requests_per_second * replicas,
        "completed_requests_per_second": load.completed_per_second * replicas,
        "utilization": load.utilization,
        "saturated": load.saturated,
        "in_flight_per_instance": load.in_flight,
        "probability_of_waiting": load.waiting,
        "ttft_seconds": finite(load.ttft_seconds),
        "tpot_seconds": finite(load.tpot_seconds),
    }


def bounded_load(service: Service, load: Loaded, replicas: int) -> dict[str, object]:
    """A load as plain data, and how far off its latencies may be."""
    return caveats.bounded(load_record(load, replicas), caveats.ends(_asked([(service, load)], ""), caveats.LOAD))


def recommend_table(choices: Sequence[Choice], targets: Targets) -> Table:
    """Choices, the cheapest first."""
    which = targets.percentile
    columns = (
        "hardware", "GPUs", "instances", "layout", "$ per hour", "$/M output", "busy %", f"TTFT {which} ms",
        f"TPOT {which} ms", "binding",
    )  # fmt: skip
    rows = []
    for choice in choices:
        load, service = choice.load, choice.service
        rows.append(
            (
                service.setup.hardware.name,
                str(choice.accelerators),
                str(choice.replicas),
                layout_label(layout_of(service)),
                f"{choice.dollars_per_hour:,.2f}",
                dollars(choice.dollars_per_million_output_tokens),
                f"{100 * load.utilization:.0f}",
                f"{1e3 * load.ttft_seconds[which]:.0f}",
                f"{1e3 * load.tpot_seconds[which]:.1f}",
                choice.binding,
            )
        )
    best, setups = choices[0], [choice.service.setup for choice in choices]
    notes = (
        f"The first is the cheapest. Binding: what one instance less would break. $/M output carries the whole bill. "
        f"Assumptions: {assumptions_label(setups)}.",
        *caveats.remarks(asked([(choice.service, choice.load) for choice in choices]), SEEN),
    )
    return Table(service_title(best.service), columns, tuple(rows), notes)


def recommend_record(choices: Sequence[Choice], targets: Targets) -> dict[str, object]:
    """Choices as plain data."""
    return {
        "targets": {
            "ttft_seconds": None if math.isinf(targets.ttft_seconds) else targets.ttft_seconds,
            "tpot_seconds": None if math.isinf(targets.tpot_seconds) else targets.tpot_seconds,
            "percentile": targets.percentile,
        },
        "choices": [
            {
                **service_record(choice.service, choice.replicas, choice.load),
                "dollars_per_hour": choice.dollars_per_hour,
                "dollars_per_million_output_tokens": choice.dollars_per_million_output_tokens,
                "binding": choice.binding,
                **bounded_load(choice.service, choice.load, choice.replicas),
            }
            for choice in choices
        ],
    }


def service_record(service: Service, replicas: int, *loads: Loaded) -> dict[str, object]:
    """Instances, their layout, what they serve, and how far off they may be under some loads, as plain data."""
    setup, requests = service.setup, service.requests
    shown = _asked([(service, load) for load in loads], "")
    record = {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "weights": setup.precision.weights,
        "kv": setup.precision.kv,
        "isl": requests.isl.mean,
        "osl": requests.osl.mean,
        "cached": requests.cached,
        "speculation": None if service.speculation is None else service.speculation.record(),
        "layout": layout_of(service),
        "replicas": replicas,
        "accelerators_per_instance": service.accelerators,
        "accelerators": replicas * service.accelerators,
        "slots": service.slots,
        "requests_per_second_when_full": service.most_requests_per_second * replicas,
        "calibration": caveats.calibration_record(shown, SERVED),
    }
    return caveats.bounded(record, caveats.ends(shown, caveats.LOAD))


def fleet_label(service: Service, replicas: int) -> str:
    """Instances, chips and layout in words."""
    instances = f"{replicas} instance{'s' if replicas > 1 else ''} of " if replicas > 1 else ""
    return f"{instances}{service.accelerators} x {service.setup.hardware.name}, {layout_label(layout_of(service))}"


def service_title(service: Service) -> str:
    """Model, lengths and formats in one line."""
    requests, precision = service.requests, service.setup.precision
    cached = f", {requests.cached:g} of it cached" if requests.cached else ""
    proposer = "" if service.speculation is None else f"; {service.speculation.label}"
    return (
        f"{service.setup.model.name}: {requests.isl.mean:g} input tokens{cached}, {requests.osl.mean:g} output "
        f"tokens, weights {precision.weights}, KV {precision.kv}{proposer}"
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as plain data: those without an end are null."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def milliseconds(seconds: float) -> str:
    """A time with four digits, without a unit [ms]."""
    return f"{1e3 * seconds:.4g}" if seconds < 10 else f"{1e3 * seconds:,.0f}"
