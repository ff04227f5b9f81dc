"""Planned cost of disaggregated serving for the day of a fleet."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.recommend import fleets
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PooledFleet
from inference_econ.answers.disaggregated.size_pools import smallest
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import Targets
from inference_econ.errors import TooMuchError
from inference_econ.extras.fleets.capacity_blocks import Way, lots_of
from inference_econ.extras.fleets.plan import plan
from inference_econ.inputs import Elasticity


class PooledDay(NamedTuple):
    """Number of prefill and decode instances that a day needs."""

    fleet: PooledFleet
    """Deployment of the busiest hour, whose layouts are used in all hours."""
    readers: tuple[int, ...]
    """Prefill instances of each hour [1]."""
    writers: tuple[int, ...]
    """Decode instances of each hour [1]."""
    question: str
    """Option with which 'recommend' shows the deployment of the busiest hour."""

    @classmethod
    def of(
        cls, candidates: Sequence[Candidate], needed: Sequence[float], targets: Targets, limit: float,
        arrival_scv: float,
    ) -> PooledDay | None:  # fmt: skip
        """Disaggregated deployment for the largest load of each hour [1/s].

        None if it costs at least ``limit`` in the busiest hour [USD/h], or needs too many instances for a quick search.
        """
        busiest = max(needed)
        try:
            apart = fleets(candidates, busiest, targets, limit, arrival_scv)
            if not apart:
                return None
            fleet, terms = min(apart, key=_dollars), DisaggregationTerms(targets, arrival_scv)
            layouts = fleet.prefill, fleet.decode
            of_hours = [smallest(fleet.pools, rate, terms, layouts=layouts) if rate else None for rate in needed]
        except TooMuchError:
            return None
        counts = [(0, 0) if fleet is None else (fleet.prefill_instances, fleet.decode_instances) for fleet in of_hours]
        readers, writers = zip(*counts, strict=True)
        return cls(fleet, readers, writers, f"--request-rate {busiest:.4g}")

    @classmethod
    def shared(cls, fleet: PooledFleet, shares: Sequence[float], question: str) -> PooledDay:
        """Day on which each hour needs a share of the instances of a deployment [1]."""
        readers, writers = (
            tuple(math.ceil(count * share - 1e-9) for share in shares)
            for count in (fleet.prefill_instances, fleet.decode_instances)
        )
        return cls(fleet, readers, writers, question)

    def sentences(
        self, dollars: float, ways: Collection[Way], elasticity: Elasticity, stock: Mapping[str, int], min_replicas: int
    ) -> list[str]:
        """Text on the cost of disaggregated serving compared with aggregated serving [USD]; empty if it is not cheaper.

        Each kind of instance is planned separately with :func:`inference_econ.extras.fleets.plan.plan`.
        """
        fleet, planned = self.fleet, 0.0
        sides = (
            (fleet.pools.prefill, fleet.prefill, self.readers),
            (fleet.pools.decode, fleet.decode, self.writers),
        )
        chips = sum(max(counts) * int(pool.accelerators[layout]) for pool, layout, counts in sides)
        if any(chips > stock.get(pool.setup.hardware.name, math.inf) for pool, _, _ in sides):
            return []
        for pool, layout, counts in sides:
            # If the rate of an instance is 1, the capacity of a unit is its number of instances.
            service, single = pool.services.service(layout), replace(fleet.load, requests_per_second=1.0)
            dollars_per_hour = float(service.setup.dollars_per_hour(1, service.accelerators))
            lots = lots_of(Deployment(service, 1, single, dollars_per_hour, binding="instance"), ways)
            if not lots:
                return []
            planned += plan(lots, counts, elasticity, stock={}, min_replicas=min_replicas).dollars
        if planned * (1.0 + SIMPLER) >= dollars:
            return []
        reading, decoding = (f"{min(counts)} to {max(counts)}" for _, _, counts in sides)
        return [
            f"disaggregated deployments, which would cost ${planned:,.2f} instead of ${dollars:,.2f} ({reading} "
            f"prefill and {decoding} decode instances). See 'recommend {self.question}'"
        ]


def _dollars(fleet: PooledFleet) -> float:
    return fleet.dollars_per_hour
