"""Capacity above the stated load: headroom, spare replicas and a limit on utilization."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.disaggregated.load import pools_under_load
from inference_econ.answers.slo import Targets
from inference_econ.errors import InputError
from inference_econ.serving import arrivals_of, loaded, simulate_where_needed

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
