"""Plan of a fleet for a day: the cheapest combination of chips and contracts, and its autoscaler."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments.recommend import as_candidates
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.extras.fleets.autoscaler import (
    POLICIES,
    TARGETS,
    Look,
    Policy,
    RentedFleet,
    SimulatedDay,
    autoscaler,
    cheapest_first,
    play,
)
from inference_econ.extras.fleets.capacity_blocks import EVERY_WAY, WAYS, CapacityBlock, Way, best_of_chips, lots
from inference_econ.extras.fleets.plan import Plan, plan
from inference_econ.extras.fleets.pools import PooledDay
from inference_econ.formulas import money
from inference_econ.inputs import Arrivals, Elasticity, catalog
from inference_econ.serving import Services

#: Default share of requests for which the autoscaler must meet the SLOs [1].
KEPT = 0.99
#: Longest day, a week [h].
MOST_HOURS = 168


@dataclass(frozen=True, slots=True, repr=False)
class DayOfFleet(Shown):
    """Day of a fleet.

    Attributes
    ----------
    lots : tuple of CapacityBlock
        Rental units that are used in at least one of the simulated days.
    rates : tuple of float
        Mean request rate of each hour [1/s].
    targets : Targets
        SLOs.
    plan : Plan
        Cheapest numbers of rental units with a perfect forecast.
    policy : str
        Metric of the autoscaler.
    target : float
        Target of the autoscaler, as a share of the SLO capacity [1].
    runs : mapping of str to SimulatedDay
        Simulated days: ``constant``, ``autoscaled`` and ``planned``.
    elasticity : Elasticity
        Scaling behavior of replicas.
    left_out : tuple of str
        Chips that cannot meet the SLOs, with reasons. Disaggregated deployments are included if they would be cheaper.
    """

    page = "extras.fleets.day_page:FleetPage"
    #: Name of the hourly load.
    counted: ClassVar[str] = "request_rate"

    lots: tuple[CapacityBlock, ...]
    rates: tuple[float, ...]
    targets: Targets
    plan: Plan
    policy: Policy
    target: float
    runs: Mapping[str, SimulatedDay]
    elasticity: Elasticity
    left_out: tuple[str, ...] = ()

    @property
    def saved_by_knowing(self) -> float:
        """Share of the autoscaler's cost that a perfect forecast saves [1]."""
        autoscaled, planned = (float(self.runs[run].dollars.sum()) for run in ("autoscaled", "planned"))
        return 1.0 - planned / autoscaled

    @property
    def output_tokens(self) -> float:
        """Output tokens of the day [tokens]."""
        return 3600.0 * sum(self.rates) * self.lots[0].service.requests.osl.mean

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all chips."""
        return list({lot.chip: lot.setup for lot in self.lots}.values())

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {
            "targets": self.targets.record(),
            "rental_units": self.lot_records(),
            "runs": self.run_records(),
            "policy": self.policy,
            "target_share": self.target,
            "autoscaler": {
                "polling_seconds": self.elasticity.polling_seconds,
                "scale_down_seconds": self.elasticity.scale_down_seconds,
            },
            "proven_gap": self.plan.gap,
            "saved_by_knowing": self.saved_by_knowing,
            "hours": self.records(),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """One record per hour."""
        runs = {name: self.runs[name] for name in ("planned", "autoscaled")}
        return [
            {"hour": hour, self.counted: rate}
            | {
                f"{name}_{field}": float(values[hour])
                for name, run in runs.items()
                for field, values in (("gpus", run.gpu_hours), ("dollars", run.dollars), ("slo_met_share", run.kept))
            }
            for hour, rate in enumerate(self.rates)
        ]

    def lot_records(self) -> list[dict[str, Any]]:
        """One record per type of rental unit in the fleet."""
        return [
            {**lot.record(self.targets), "rental_units_by_hour": counts.tolist(), "scaling": scaling}
            for lot, counts, scaling in zip(self.lots, self.plan.counts, self._scaling(), strict=True)
        ]

    def _scaling(self) -> list[dict[str, Any]]:
        """Autoscaler settings of each rental unit. Rental units that are used first take their part of the metric."""
        day, before, told = self.runs["autoscaled"], 0.0, dict[int, dict[str, Any]]()
        for place in cheapest_first(self.lots):
            lot = self.lots[place]
            at_target = float(lot.in_flight(np.array([self.target]))[0])
            held = (at_target if self.policy == "in_flight" else self.target * lot.requests_per_second) / lot.replicas
            fewest, most = (int(counts[place]) * lot.replicas for counts in (day.fewest, day.most))
            told[place] = {"fewest": fewest, "most": most, "per_replica": held, "held_before": before}
            before += most * held
        return [told[place] for place in range(len(self.lots))]

    def run_records(self) -> list[dict[str, Any]]:
        """One record for each simulated day."""
        return [
            {
                "run": run,
                "gpu_hours": float(day.gpu_hours.sum()),
                "most_accelerators": day.most_accelerators,
                "dollars_per_day": float(day.dollars.sum()),
                **self.unit_cost(float(day.dollars.sum())),
                "slo_met_share": day.slo_met_share,
            }
            for run, day in self.runs.items()
        ]

    def unit_cost(self, dollars: float) -> dict[str, float]:
        """Cost of a day divided by its load, as a field of the result [USD]."""
        return {"dollars_per_million_output_tokens": float(money.dollars_per_million(dollars, self.output_tokens))}


def fleet(
    offers: Sequence[Candidate | Services],
    rates: Sequence[float],
    targets: Targets,
    *,
    stock: Mapping[str, int] | None = None,
    ways: Collection[Way] = WAYS,
    policy: Policy = "in_flight",
    target: float | None = None,
    min_replicas: int = 1,
    arrival_scv: float = 1.0,
    elasticity: Elasticity | None = None,
    progress: Progress | None = None,
) -> DayOfFleet:
    """Find the cheapest combination of chips and contracts for a day, and simulate its autoscaler.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidates on one or several chips (``market``): aggregated instances. For disaggregated candidates, only the
        planned cost is reported.
    rates : sequence of float
        Mean request rate of each hour [1/s], interpolated between the middles of hours; the day repeats.
    targets : Targets
        SLOs.
    stock : mapping of str to int, optional
        Most accelerators at once by chip [1]; unlimited by default.
    ways : collection of {'reserved', 'on_demand', 'spot', 'owned'}
        Pricing models; all kinds of rent by default.
    policy : {'in_flight', 'rate', 'utilization'}
        Metric of the autoscaler (:func:`inference_econ.extras.fleets.autoscaler.autoscaler`).
    target : float, optional
        Target of the metric, as a share of the SLO capacity [1]. By default, the target of the cheapest day that meets
        the SLOs for 99% of the requests, or else for the largest share.
    min_replicas : int
        Minimum number of replicas at any hour [1].
    arrival_scv : float
        Squared coefficient of variation of interarrival times within a minute [1]; see
        :func:`inference_econ.serving.load.loaded`.
    elasticity : Elasticity, optional
        Scaling behavior of replicas; by default ``scenarios/assumptions/elasticity``.
    progress : callable, optional
        Receives the completed share.

    Returns
    -------
    DayOfFleet
        Plan, and three simulated days: a constant fleet, an autoscaler that adds to the reserved part of the plan, and
        the plan itself.

    Raises
    ------
    InputError
        If a rate, share or number is out of range, or ``stock`` names a chip that is not a candidate.
    NothingFitsError
        If no deployment meets the SLOs, or too few GPUs are available.
    """
    day = tuple(map(float, rates))
    check_day(day, policy, target, min_replicas, ways)
    left_out: list[str] = []
    busiest = max(needed(day))
    candidates = as_candidates(offers)
    together = [candidate for candidate in candidates if candidate.pools is None]
    best = best_of_chips(together, busiest, targets, arrival_scv=arrival_scv, play=False, note=left_out.append)
    offered = lots(best, targets, arrival_scv=arrival_scv, ways=ways, note=left_out.append)
    whole = min(choice.dollars_per_hour for choice in best.values())
    apart = PooledDay.of(candidates, needed(day), targets, whole / (1.0 + SIMPLER), arrival_scv)
    return planned(
        offered, day, targets, offers, ways=ways, stock=stock, policy=policy, target=target, min_replicas=min_replicas,
        elasticity=elasticity, left_out=left_out, apart=apart, progress=progress,
    )  # fmt: skip


def planned(
    offered: Sequence[CapacityBlock],
    day: Sequence[float],
    targets: Targets,
    offers: Sequence[Candidate | Services],
    *,
    ways: Collection[Way],
    stock: Mapping[str, int] | None,
    policy: Policy,
    target: float | None,
    min_replicas: int,
    elasticity: Elasticity | None,
    left_out: Sequence[str],
    apart: PooledDay | None,
    progress: Progress | None,
    kind: type[DayOfFleet] = DayOfFleet,
) -> DayOfFleet:
    """Find the cheapest numbers of rental units for a day, and simulate the day; see :func:`fleet`.

    Parameters
    ----------
    offered : sequence of CapacityBlock
        Available rental units.
    day : sequence of float
        Load of each hour: request rate [1/s], or number of agents [1].
    targets, offers, ways, stock, policy, target, min_replicas, elasticity, progress
        See :func:`fleet`.
    left_out : sequence of str
        See :class:`DayOfFleet`.
    apart : PooledDay, optional
        Disaggregated deployment that may be cheaper.
    kind : type
        Class of the result.
    """
    usual = catalog.elasticity() if elasticity is None else elasticity
    demand, hours = needed(day), np.arange(len(day))

    def curve(seconds: Array) -> Array:
        """Request rate at times of the day, interpolated between the middles of hours [1/s]."""
        return np.asarray(np.interp(seconds / 3600.0 - 0.5, hours, np.array(day), period=len(day)))

    room = _stock(stock or {}, offers)
    tell = progress or (lambda *_: None)
    tell(0.4, "the cheapest mixture")
    chosen = plan(offered, demand, usual, stock=room, min_replicas=min_replicas)
    constant = plan(offered, demand, usual, stock=room, min_replicas=min_replicas, constant=True)
    tell(0.7, "the day")
    reserved = [counts[0] if lot.stays else 0 for lot, counts in zip(offered, chosen.counts, strict=True)]
    playing = partial(play, curve, len(day), longest_wait=targets.ttft_seconds)
    scaled = RentedFleet(offered, reserved, room, usual, min_replicas)
    largest = usual.most_of_peak * max(demand)

    def autoscaled(share: float) -> SimulatedDay:
        start = scaled.wanted(float(curve(np.zeros(1))[0]) / share)
        return playing(scaled, autoscaler(policy, share, scaled, largest / share), start, target=share)

    # Cheapest day that meets the SLOs for enough requests, or else the day that meets them for most requests.
    days = [(share, autoscaled(share)) for share in (TARGETS if target is None else (target,))]
    enough = min(KEPT, max(day_played.slo_met_share for _, day_played in days))
    kept = [tried for tried in days if tried[1].slo_met_share >= enough]
    share, best = min(kept, key=lambda tried: float(tried[1].dollars.sum()))

    def fixed(counts: Array) -> SimulatedDay:
        def decide(look: Look) -> Sequence[int]:
            return [int(count) for count in counts[:, int(look.second // 3600.0)]]

        return playing(scaled, decide, [int(count) for count in counts[:, -1]], foreseen=True)

    played = {"constant": fixed(constant.counts), "autoscaled": best, "planned": fixed(chosen.counts)}
    busiest = np.flatnonzero(np.any([run_played.most for run_played in played.values()], axis=0))
    played = {run: run_played.of(busiest) for run, run_played in played.items()}
    chosen = chosen._replace(counts=chosen.counts[busiest])
    mixture = tuple(offered[index] for index in busiest.tolist())
    pools = [] if apart is None else apart.sentences(chosen.dollars, ways, usual, room, min_replicas)
    return kind(mixture, tuple(day), targets, chosen, policy, share, played, usual, (*left_out, *pools))


def rates_by_hour(arrivals: Arrivals) -> tuple[float, ...]:
    """Mean request rate of each hour in a workload [1/s].

    Raises
    ------
    InputError
        If the workload has no rates, or its intervals do not divide an hour.

    Notes
    -----
    A last hour is dropped if less than half of it is known.

    Examples
    --------
    >>> rates_by_hour(Arrivals(rates=(1.0, 3.0, 5.0, 7.0, 6.0), interval=1800.0))
    (2.0, 6.0, 6.0)
    """
    if not arrivals.rates:
        raise InputError(
            "the workload has no request rates by hour (a trace whose times restart with each session has none); also "
            "give --rates R,R,...",
            option="rates",
        )
    parts = round(3600.0 / arrivals.interval)
    hours = max(round(len(arrivals.rates) / max(parts, 1) + 1e-9), 1)
    if parts < 1 or parts * arrivals.interval != 3600.0 or len(arrivals.rates) < parts:
        raise InputError(
            f"a day needs hourly rates (interval: 1 h), but the workload has {len(arrivals.rates)} rates for "
            f"intervals of {arrivals.interval:g} s; also give --rates R,R,...",
            option="rates",
        )
    return tuple(float(np.mean(arrivals.rates[hour * parts : (hour + 1) * parts])) for hour in range(hours))


def check_day(
    day: Sequence[float], policy: str, target: float | None, min_replicas: int, ways: Collection[str],
    counted: str = "requests/s", option: str = "rates", policies: Sequence[str] = POLICIES,
) -> None:  # fmt: skip
    """Reject invalid loads of a day, which come from an option, and policies that are not supported.

    Raises
    ------
    InputError
        If a value is invalid; the message names it.
    """
    if not 2 <= len(day) <= MOST_HOURS:
        entry = "a rate" if option == "rates" else option
        raise InputError(f"a day has from 2 to {MOST_HOURS} hours with {entry} each, got {len(day)}", option=option)
    if not all(0.0 <= count <= 1e9 for count in day) or not any(day):
        raise InputError(f"{option} by hour must be {counted} from 0 to 1e9, one above 0", option=option)
    if policy not in policies:
        raise InputError(f"policy: got {policy!r}; allowed: {', '.join(policies)}", option="policy")
    if target is not None and not 0.0 < target <= 1.0:
        raise InputError(f"target: a share above 0 and at most 1 is needed, got {target:g}", option="target")
    if min_replicas < 0 or min_replicas != int(min_replicas):
        raise InputError(f"min_replicas must be an integer >= 0, got {min_replicas}", option="min_replicas")
    if not ways or set(ways) - set(EVERY_WAY):
        raise InputError(
            f"pricing: got {', '.join(ways) or 'nothing'}; allowed: {', '.join(EVERY_WAY)}", option="pricing"
        )


def _stock(stock: Mapping[str, int], offers: Sequence[Candidate | Services]) -> dict[str, int]:
    """Accelerators by full name of the chip.

    Raises
    ------
    InputError
        If a chip is not a candidate, or a number is negative.
    """
    competing = {offer.setup.hardware.name for offer in offers}
    limits: dict[str, int] = {}
    for name, count in stock.items():
        chip = name if name in competing else catalog.hardware(name).name
        if chip not in competing:
            raise InputError(
                f"stock: {name} is not among the hardware: {', '.join(sorted(competing))}; add it with --on",
                option="stock",
            )
        if count < 0 or count != int(count):
            raise InputError(f"stock of {name} must be an integer >= 0, got {count}", option="stock")
        limits[chip] = int(count)
    return limits


def needed(day: Sequence[float]) -> list[float]:
    """Largest load within each hour."""
    rates = np.array(day)
    before, after = ((rates + np.roll(rates, shift)) / 2.0 for shift in (1, -1))
    return [float(rate) for rate in np.maximum(np.maximum(before, after), rates)]
