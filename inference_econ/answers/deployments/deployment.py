"""A deployment under its load, aggregated or disaggregated, and its capacity above that load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from inference_econ.answers.deployments.power import fleet_power, power_record, together_watts
from inference_econ.answers.deployments.service_record import (
    bounded_load,
    fleet_record,
    layout_of,
    service_record,
    under_load,
)
from inference_econ.answers.disaggregated.load import PooledFleet, pools_under_load
from inference_econ.answers.simplest import complexity, is_plain
from inference_econ.answers.slo import Chances, Targets, chances, chances_record
from inference_econ.engine import Evidence, Instances, Setup, evidence_of
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.records.facts import HEAD, bound, facts, without_unknown_costs
from inference_econ.serving import Loaded, Service, arrivals_of, loaded, simulate_where_needed


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
        watts = together_watts(self.service, self.replicas, self.load)
        return power_record([(self.service.setup, self.accelerators)], watts, self.output_tokens_per_second)

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
                "dollars_per_hour": self.dollars_per_hour,
                "dollars_per_million_output_tokens": self.dollars_per_million_output_tokens,
                "limiting_constraint": self.binding,
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
    arrival_scv: float = 1.0,
    play: bool = True,
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
    arrival_scv: float = 1.0,
    play: bool = True,
) -> Deployment:
    """Evaluate a deployment under another load. The number of instances is unchanged unless ``counts`` is given.

    ``counts`` has the number of aggregated instances, or the numbers of prefill and of decode instances [1]. See
    :func:`with_margin` for the other parameters.
    """
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
