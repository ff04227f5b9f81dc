"""A deployment under its load as plain data for records, with its cost, and its capacity above that load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from inference_econ.answers.deployments.power import fleet_power, instance_watts, power_record
from inference_econ.answers.deployments.serving_options import label_of
from inference_econ.answers.disaggregated.load import PooledFleet, pools_under_load
from inference_econ.answers.simplest import complexity, is_plain
from inference_econ.answers.slo import NAMES, Chances, Targets, chances, chances_record, instances_of
from inference_econ.engine import Evidence, Instances, Setup, bounds, evidence_of
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.records.deviations import SERVED, calibration_record
from inference_econ.records.facts import HEAD, bound, facts, without_unknown_costs
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.serving import Loaded, Service, arrivals_of, listed, loaded


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
    loaded = []
    for kind, pairs in kinds.items():
        each = [instances_of(service) for service, _ in pairs]
        loaded.append(
            each[0]._replace(
                accelerators=[float(service.accelerators) for service, _ in pairs],
                concurrency=[load.in_flight for _, load in pairs],
                label=", ".join(name for name, shown in zip(kind, several, strict=True) if shown),
                layouts=[layout for instances in each for layout in instances.layouts],
            )
        )
    return tuple(loaded)


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
        **attributes(load, "utilization saturated concurrency_per_replica=in_flight"),
        **attributes(load, "probability_of_waiting=waiting is_simulated=played"),
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
        **attributes(fleet, "decode_utilization decode_slots=slots"),
        "accelerators": sum(fleet.accelerators),
        "accelerators_rented": sum(fleet.rented),
        **attributes(fleet, "dollars_per_hour dollars_per_million_output_tokens"),
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


@dataclass(frozen=True, slots=True)
class Deployment:
    """Deployment under a load, with its cost: aggregated instances of one layout, or prefill and decode instances.

    Attributes
    ----------
    service : Service
        One aggregated or decode instance.
    replicas : int
        Number of aggregated instances [1]. The number is 1 for a disaggregated deployment, whose ``fleet`` has the
        numbers of prefill and decode instances.
    load : Loaded
        Load of one aggregated instance, or total load of a disaggregated deployment.
    dollars_per_hour : float
        Cost of all instances [USD/h].
    binding : str
        Constraint that the deployment would violate with one instance fewer: capacity, ttft, tpot or e2e. The value is
        ``instance`` if the deployment has only one instance. For a disaggregated deployment, the value is the kind of
        instances with less spare capacity (``prefill`` or ``decode``). The value is empty if the query sets the number
        of instances.
    fleet : PooledFleet or None
        Prefill and decode instances; None if aggregated.
    """

    service: Service
    replicas: int
    load: Loaded
    dollars_per_hour: float
    binding: str = ""
    fleet: PooledFleet | None = None

    @classmethod
    def of_pools(cls, fleet: PooledFleet, **fields: Any) -> Self:
        """Create a disaggregated deployment; ``fields`` are the additional fields of a subclass."""
        writer = fleet.pools.decode.services.service(fleet.decode)
        return cls(writer, 1, fleet.load, fleet.dollars_per_hour, **{"binding": fleet.binding, **fields}, fleet=fleet)

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of the deployment: one for prefill and one for decode if their GPUs differ, else a single one."""
        if self.fleet is None or not self.fleet.pools.prefill_chip:
            return [self.service.setup]
        return [self.fleet.pools.prefill.setup, self.service.setup]

    @property
    def evidence(self) -> Evidence:
        """Calibration data: how similar the measured servers are to this deployment, and how many were measured."""
        speculates, disaggregated = self.service.speculation is not None, self.fleet is not None
        return evidence_of(self.service.setup, disaggregated=disaggregated, speculates=speculates)

    @property
    def complexity(self) -> int:
        """Distance from the simplest kind of deployment [1]; see :func:`inference_econ.answers.simplest.complexity`."""
        setup, plans = self.service.setup, self.service.plans
        return int(complexity(setup.hardware, plans, disaggregated=self.fleet is not None).max())

    @property
    def is_plain(self) -> bool:
        """True if instances are aggregated and use only tensor parallelism."""
        plans, layout = self.service.plans, self.service.setup.assumptions.layout
        return self.fleet is None and bool(is_plain(plans, layout).all())

    @property
    def requests_per_second(self) -> float:
        """Request rate of all instances [1/s]."""
        return self.load.requests_per_second * self.replicas

    @property
    def output_tokens_per_second(self) -> float:
        """Output rate of all instances [tokens/s]."""
        return self.replicas * self.load.completed_per_second * self.service.requests.osl.mean

    @property
    def instance_load(self) -> Loaded:
        """Load of one instance.

        A disaggregated deployment has its total load, but with the concurrency of one decode instance.
        """
        if self.fleet is None:
            return self.load
        return replace(self.load, in_flight=self.load.in_flight / self.fleet.decode_instances)

    @property
    def accelerators(self) -> int:
        """Number of GPUs in all instances [1]."""
        return self.replicas * self.service.accelerators if self.fleet is None else sum(self.fleet.accelerators)

    @property
    def rented(self) -> int:
        """Number of GPUs in all rented machines, idle GPUs included [1]."""
        if self.fleet is not None:
            return sum(self.fleet.rented)
        return int(self.service.setup.rented(self.replicas, self.service.accelerators))

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """Cost divided by output tokens [USD per 1e6 tokens]."""
        if self.fleet is not None:
            return self.fleet.dollars_per_million_output_tokens
        return float(money.dollars_per_million(self.dollars_per_hour / 3600.0, self.output_tokens_per_second))

    def chances(self, targets: Targets) -> Chances:
        """Return the probability that each SLO is met."""
        if self.fleet is not None:
            return self.fleet.chances(targets)
        return chances(self.service, self.load, targets)

    def subjects(self) -> tuple[Instances, ...]:
        """Return one instance under its load, for which prediction errors can be looked up."""
        return under_load([(self.service, self.instance_load)])

    def power(self) -> dict[str, float | None]:
        """Return power and energy as plain data, see :func:`inference_econ.answers.deployments.power.power_record`."""
        if self.fleet is not None:
            return fleet_power(self.fleet)
        batch = np.atleast_1d(self.service.at(self.load.in_flight).batch)
        watts = instance_watts(self.service, np.array([0]), batch, np.array([self.load.completed_per_second]))
        total = None if watts is None else self.replicas * float(watts[0])
        return power_record([(self.service.setup, self.accelerators)], total, self.output_tokens_per_second)

    def layout(self) -> dict[str, float | str]:
        """Return the parallelism degrees of an aggregated or decode instance, by option.

        For a disaggregated deployment, the mapping also has the name of the prefill layout under ``prefill``.
        """
        layout = layout_of(self.service)
        if self.fleet is None:
            return layout
        pools = self.fleet.pools
        return {**layout, "prefill": pools.prefill.layouts[self.fleet.prefill], **pools.prefill_chip}

    def served_record(self, targets: Targets) -> dict[str, object]:
        """Return instances, cost and load as plain data.

        Aggregated and disaggregated deployments have the same field names.
        """
        return without_unknown_costs(self._record(targets), *self.setups)

    def _record(self, targets: Targets) -> dict[str, object]:
        service = self.service
        if self.fleet is None:
            return {
                "serving": "aggregated",
                **self.evidence.record(),
                **service_record(service, self.replicas, self.load),
                **attributes(self, "dollars_per_hour dollars_per_million_output_tokens limiting_constraint=binding"),
                **bounded_load(service, self.load, self.replicas, targets),
                **self.power(),
                **chances_record(self.chances(targets)),
            }
        named = ("weights", "kv", "isl", "osl", "cached", "shared_prefix")
        return {
            "serving": "disaggregated",
            **self.evidence.record(),
            **facts(service.setup, *HEAD, *named, requests=service.requests),
            **bound(*self.setups),
            **self.fleet.pools.prefill_chip,
            "speculation": None if service.speculation is None else service.speculation.record(),
            "layout": layout_of(service),
            "replicas": 1,
            "limiting_constraint": self.binding,
            **fleet_record(self.fleet, targets),
            "concurrency_per_replica": self.instance_load.in_flight,
        }


#: Rounding tolerance of replicas [1].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Margin:
    """Capacity of a deployment above the stated load.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    headroom: float = 0.0
    """Additional load as a share of the stated load [1]."""
    spare: int = 0
    """Number of additional replicas [1].

    A disaggregated deployment has this number of additional prefill instances and of additional decode instances.
    """
    utilization: float = 1.0
    """Largest load of a replica as a share of its capacity [1]."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.headroom <= 10.0:
            raise InputError(f"headroom is from 0 to 1000 %, got {100 * self.headroom:g}", option="headroom")
        if not 0.0 < self.utilization <= 1.0:
            got = f"got {100 * self.utilization:g}"
            raise InputError(f"utilization is above 0 and at most 100 %, {got}", option="utilization")
        if self.spare < 0:
            raise InputError(f"spare replicas are 0 or more, got {self.spare}", option="spare")

    def __bool__(self) -> bool:
        """Return True if the margin adds any capacity to the stated load."""
        return self != Margin()

    def record(self) -> dict[str, float]:
        """Return the margin as plain data."""
        return {"headroom": self.headroom, "spare": self.spare, "most_utilization": self.utilization}


def with_margin(
    planned: Deployment,
    requests_per_second: float,
    margin: Margin,
    targets: Targets,
    *,
    arrival_scv: float,
    play: bool,
) -> Deployment:
    """Add a margin to a deployment, and evaluate it under the stated load.

    Parameters
    ----------
    planned : Deployment
        Deployment with the fewest instances that serve the load with its headroom.
    requests_per_second : float
        Stated load, without headroom [1/s].
    margin : Margin
        Capacity above the stated load.
    targets : Targets
        SLOs.
    arrival_scv : float
        Squared coefficient of variation of the interarrival times [1].
    play : bool
        True to simulate loads outside the validated range of the analytical model.
    """
    stated, fleet = requests_per_second / planned.requests_per_second, planned.fleet
    if fleet is None:
        busy = requests_per_second / planned.replicas / planned.service.most_requests_per_second
        counts: tuple[int, ...] = (_limited(planned.replicas, busy, margin),)
    else:
        counts = (
            _limited(fleet.prefill_instances, stated * fleet.prefill_utilization, margin),
            _limited(fleet.decode_instances, stated * fleet.decode_utilization, margin),
        )
    return at_rate(planned, requests_per_second, counts, targets=targets, arrival_scv=arrival_scv, play=play)


def _limited(count: int, utilization: float, margin: Margin) -> int:
    """Return the number of instances with a utilization at most ``margin.utilization``, plus spare instances."""
    return max(count, math.ceil(count * utilization / margin.utilization - _ROUNDING)) + margin.spare


def at_rate(
    deployment: Deployment,
    requests_per_second: float,
    counts: tuple[int, ...] = (),
    *,
    targets: Targets,
    arrival_scv: float,
    play: bool = True,
) -> Deployment:
    """Evaluate a deployment under another load. The number of instances is unchanged unless ``counts`` is given.

    ``counts`` has the number of aggregated instances, or the numbers of prefill and of decode instances [1]. See
    :func:`with_margin` for the other parameters.
    """
    from inference_econ.serving import simulate_where_needed  # imports the simulator

    fleet, service = deployment.fleet, deployment.service
    if fleet is not None:
        prefill, decode = counts or (fleet.prefill_instances, fleet.decode_instances)
        layouts, scv = (fleet.prefill, fleet.decode), arrival_scv
        return Deployment.of_pools(
            pools_under_load(
                fleet.pools, layouts, (prefill, decode), requests_per_second, arrival_scv=scv, targets=targets
            )
        )
    (replicas,) = counts or (deployment.replicas,)
    arrivals, each = arrivals_of(service.requests, arrival_scv), requests_per_second / replicas
    load = (
        simulate_where_needed(service, arrivals)(each, replicas)
        if play
        else loaded(service, each, arrivals=arrivals.among(replicas))
    )
    bill = float(service.setup.dollars_per_hour(replicas, service.accelerators))
    return replace(deployment, replicas=replicas, load=load, dollars_per_hour=bill)
