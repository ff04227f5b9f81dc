"""Deployment under its load: equal aggregated instances, or prefill and decode instances."""

from __future__ import annotations

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
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.simplest import complexity, is_plain
from inference_econ.answers.slo import Chances, Targets, chances, chances_record
from inference_econ.engine import Evidence, Instances, Setup, evidence_of
from inference_econ.formulas import money
from inference_econ.records.facts import HEAD, bound, facts, without_unknown_costs
from inference_econ.serving import Loaded, Service


@dataclass(frozen=True, slots=True)
class Deployment:
    """Deployment under a load, with its cost: aggregated instances of one layout, or prefill and decode instances.

    Attributes
    ----------
    service : Service
        One aggregated or decode instance.
    replicas : int
        Number of instances [1]. Disaggregated deployments have 1, because ``fleet`` has the numbers of prefill and
        decode instances.
    load : Loaded
        Load of one instance. For a disaggregated deployment, the total load.
    dollars_per_hour : float
        Cost of all instances [USD/h].
    binding : str
        Constraint that the deployment would violate with one instance fewer: capacity, ttft or tpot. The constraint is
        ``instance`` if there is only one instance. For a disaggregated deployment, it is the kind of instances with
        less spare capacity (``prefill`` or ``decode``). The limit is empty if the query sets the number of instances.
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
        """How similar the measured servers are to this deployment, and how many runs they have."""
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
        """Load of one instance. For a disaggregated deployment, it has the concurrency of one decode instance."""
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
        """Return one instance under its load, as input for a lookup of prediction errors."""
        return under_load([(self.service, self.instance_load)])

    def power(self) -> dict[str, float | None]:
        """Return power and energy as plain data, see :func:`inference_econ.answers.deployments.power.power_record`."""
        if self.fleet is not None:
            return fleet_power(self.fleet)
        watts = together_watts(self.service, self.replicas, self.load)
        return power_record([(self.service.setup, self.accelerators)], watts, self.output_tokens_per_second)

    def layout(self) -> dict[str, float | str]:
        """Return the parallelism degrees of an aggregated or decode instance, by option.

        If there is a prefill layout, the mapping includes it.
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
