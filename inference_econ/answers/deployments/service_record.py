"""Services and disaggregated deployments under load as plain data for records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from inference_econ.answers.deployments.power import fleet_power
from inference_econ.answers.deployments.serving_options import label_of
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import NAMES, Targets, chances_record
from inference_econ.engine import Instances, bounds, layout_keys
from inference_econ.records.deviations import SERVED, calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Loaded, Service, listed


def under_load(shown: Iterable[tuple[Service, Loaded]]) -> tuple[Instances, ...]:
    """Instances of services under load, by kind of GPU.

    Parameters
    ----------
    shown : iterable of (Service, Loaded)
        Services of one model for the same requests, each with its load.

    Returns
    -------
    tuple of Instances
        One entry per kind of GPU and recipe. Entries have labels if the result has more than one.
    """
    kinds: dict[tuple[str, str], list[tuple[Service, Loaded]]] = {}
    for service, load in shown:
        practice = label_of(service.setup, service.speculation, apart=False)
        kinds.setdefault((service.setup.hardware.name, practice), []).append((service, load))
    several = [len({kind[part] for kind in kinds}) > 1 for part in (0, 1)]
    return tuple(
        _alike(pairs, ", ".join(name for name, shown in zip(kind, several, strict=True) if shown))
        for kind, pairs in kinds.items()
    )


def _alike(pairs: list[tuple[Service, Loaded]], label: str) -> Instances:
    service, _ = pairs[0]
    return Instances(
        service.setup,
        [float(service.accelerators) for service, _ in pairs],
        [load.in_flight for _, load in pairs],
        service.requests.isl.mean,
        service.requests.osl.mean,
        speculates=service.speculation is not None,
        label=label,
        layouts=[
            key
            for layouts_alike, _ in pairs
            for key in layout_keys(layouts_alike.plans, layouts_alike.setup.assumptions.layout)
        ],
    )


def layout_of(service: Service) -> dict[str, float | str]:
    """Parallelism degrees of a service, by option name."""
    return service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])


def statistics(load: Loaded, name: str, targets: Targets) -> dict[str, float]:
    """Mean and percentiles of one latency of a load [s], including the percentile of the latency's SLO."""
    return listed(getattr(load, f"{name}_seconds"), *([targets.percentile_of(name)] if name in targets.given else []))


def load_record(load: Loaded, replicas: int, targets: Targets) -> dict[str, object]:
    """Return a load as plain data. Latencies include the percentiles of the SLOs."""
    return {
        "request_rate": load.requests_per_second * replicas,
        "completed_requests_per_second": load.completed_per_second * replicas,
        "utilization": load.utilization,
        "saturated": load.saturated,
        "concurrency_per_replica": load.in_flight,
        "probability_of_waiting": load.waiting,
        "is_simulated": load.played,
        **{f"{name}_seconds": finite(statistics(load, name, targets)) for name in NAMES},
        "e2e_seconds_per_output_token": finite(load.e2e_seconds_per_output_token),
    }


def bounded_load(service: Service, load: Loaded, replicas: int, targets: Targets) -> dict[str, object]:
    """Return a load as plain data, with 80% intervals of its latencies."""
    (instances,) = under_load([(service, load)])
    return bounds.bounded(load_record(load, replicas, targets), bounds.ends(instances, bounds.LOAD))


def service_record(service: Service, replicas: int, *loads: Loaded) -> dict[str, object]:
    """Instances, layout and requests of a service as plain data, with prediction errors at the given loads."""
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
        "calibration": calibration_record(instances, SERVED),
    }
    return bounds.bounded(record, bounds.ends(instances, bounds.LOAD))


#: Record fields of one instance, each with the name of the field that has the total over all instances.
_OF_ALL = {"concurrency_per_replica": "in_flight"}


def fleet_record(fleet: PooledFleet, targets: Targets) -> dict[str, object]:
    """Return a disaggregated deployment as plain data.

    TTFT intervals use the prediction errors of prefill instances. TPOT intervals use the errors of decode instances.
    """
    pools, pair = fleet.pools, (fleet.prefill, fleet.decode)
    moved, processes = pools.transfer, pools.prefill.processes_of(fleet.prefill)
    factors = {
        name: bounds.ends(pool.instances([layout])._replace(osl=pools.requests.osl.mean), {name: bounds.LOAD[name]})[
            name
        ]
        for name, pool, layout in (
            ("ttft_seconds", pools.prefill, fleet.prefill),
            ("tpot_seconds", pools.decode, fleet.decode),
        )
    }
    load = bounds.bounded(load_record(fleet.load, 1, targets), factors)
    return {
        "prefill_instances": fleet.prefill_instances,
        "prefill_accelerators_per_instance": int(pools.prefill.accelerators[fleet.prefill]),
        # A prefill chain has the parallelism degrees of each process, and the number of processes.
        "prefill_layout": {
            **layout_of(pools.prefill.services.service(fleet.prefill)),
            **({"chain": processes} if processes > 1 else {}),
        },
        "prefill_utilization": fleet.prefill_utilization,
        "decode_instances": fleet.decode_instances,
        "decode_accelerators_per_instance": int(pools.decode.accelerators[fleet.decode]),
        "decode_layout": layout_of(pools.decode.services.service(fleet.decode)),
        **({"engine": ", ".join(pools.engines_of(*pair))} if pools.decode.setup.engines else {}),
        "decode_utilization": fleet.decode_utilization,
        "decode_slots": fleet.slots,
        "accelerators": sum(fleet.accelerators),
        "accelerators_rented": sum(fleet.rented),
        "dollars_per_hour": fleet.dollars_per_hour,
        "dollars_per_million_output_tokens": fleet.dollars_per_million_output_tokens,
        "link": "fast link" if moved.fast[pair] else "network",
        "transfer_seconds": float(moved.seconds[pair]),
        "transfer_exposed_seconds": float(moved.exposed_seconds[pair]),
        **{_OF_ALL.get(name, name.removesuffix("_per_instance")): value for name, value in load.items()},
        **fleet_power(fleet),
        **chances_record(fleet.chances(targets)),
    }


def pick_record(pick: SelectionRule | None) -> dict[str, object]:
    """Return the rule that selected a deployment as plain data; empty if the input fixed the deployment."""
    return {} if pick is None else {"picked": pick._asdict()}


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Replace infinite and undefined numbers by None, which JSON shows as null."""
    return {name: finite_or_none(value) for name, value in values.items()}


class SelectionRule(NamedTuple):
    """Rule that selected one of several layouts."""

    rule: str
    """Selection rule as text."""
    layouts: int
    """Number of layouts from which the rule selected one [1]."""
