"""Cheapest deployment that meets the SLOs at a request rate, among all engines, recipes and arrangements."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar, overload

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Progress
from inference_econ.answers.deployments.aggregated import cheapest, rank
from inference_econ.answers.deployments.deployment import Deployment, Margin, at_rate, with_margin
from inference_econ.answers.deployments.service_record import finite, layout_of
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PooledFleet
from inference_econ.answers.disaggregated.size_pools import smallest
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED, Targets, chance_below, least_chance, of_throughput, promised_rates
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.serving import (
    Gamma,
    Loaded,
    Service,
    Services,
    arrivals_of,
    check_rate,
    loaded,
    needs_simulation,
    simulate_where_needed,
)

#: Squared coefficient of variation of the interarrival times [1]: for independent users, and for bursts. The value for
#: bursts is an assumption, not a measurement.
POISSON, CROWDS = 1.0, 10.0
#: Load at which kinds of arrivals are compared, as a share of the fleet's capacity [1].
_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Burstiness:
    """One instance at the same request rate under two kinds of arrivals: the assumed arrivals, and others to compare.

    Attributes
    ----------
    requests_per_second : float
        Request rate of the fleet [1/s].
    assumed_scv, other_scv : float
        Squared coefficient of variation of the interarrival times, for the assumed arrivals and for the compared
        arrivals [1].
    assumed, other : Loaded
        Load of an instance under the assumed arrivals, and under the compared arrivals.
    traffic : str
        Name of the workload that defines the arrivals; empty if no workload defines them.
    """

    requests_per_second: float
    assumed_scv: float
    other_scv: float
    assumed: Loaded
    other: Loaded
    traffic: str = ""


def other_scv(arrival_scv: float) -> float:
    """Squared coefficient of variation of the compared arrivals [1]: bursts, or Poisson if bursts are assumed."""
    return CROWDS if arrival_scv <= POISSON else POISSON


def burstiness(service: Service, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """Compare a fleet under the assumed arrivals with the same fleet under other arrivals, at 80% of its capacity.

    Parameters
    ----------
    service : Service
        One instance.
    replicas : int
        Instances that share the load evenly [1].
    arrival_scv : float
        Assumed squared coefficient of variation [1].
    """
    rate = _SHARE * service.most_requests_per_second
    assumed = simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))(rate, replicas)
    return burstiness_at(service, assumed, replicas=replicas, arrival_scv=arrival_scv)


def burstiness_at(service: Service, load: Loaded, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """Compare two kinds of arrivals at a known load of an instance.

    If one kind must be simulated, both kinds are simulated.
    """
    rate, other = load.requests_per_second, other_scv(arrival_scv)
    player = simulate_where_needed(service, Gamma(max(other, load.arrivals.scv)))
    others = loaded(service, rate, arrivals=Gamma(other).among(replicas))
    if needs_simulation(service, others) or load.played:
        # Both loads use the same method, so their difference does not include the error of the analytical model.
        others, load = player.played(others), load if load.played else player.played(load)
    return Burstiness(rate * replicas, arrival_scv, other, load, others, service.requests.traffic)


def burstiness_record(compared: Burstiness) -> dict[str, object]:
    """Return the comparison of two kinds of arrivals as plain data."""
    return {
        "request_rate": compared.requests_per_second,
        "loads": [
            {
                "arrival_scv": scv,
                "saturated": load.saturated,
                "is_simulated": load.played,
                "ttft_seconds": finite(load.ttft_seconds),
                "tpot_seconds": finite(load.tpot_seconds),
            }
            for scv, load in ((compared.assumed_scv, compared.assumed), (compared.other_scv, compared.other))
        ],
    }


#: Largest ratio of two costs that count as equal [1], and smallest probability of an SLO that is likely to be met [1].
_EQUAL, _LIKELY = 1.001, 0.5

#: No capacity above the stated load.
_NO_MARGIN = Margin()
#: Number of deployments that are compared if a margin is set [1].
_COMPARED = 20
#: Maximum number of iterations that find the request rate of users, and relative tolerance of this rate [1].
_ROUNDS, _SAME_RATE = 6, 0.01
#: E2E latency that stands for an unbounded queue [s].
_ENDLESS = 1e6

DeploymentT = TypeVar("DeploymentT", bound=Deployment)


@dataclass(frozen=True, slots=True)
class Users:
    """Users in a closed loop: each user sends a request, waits for the response, pauses, and sends the next request.

    Raises
    ------
    InputError
        If the number is not positive, or the time is negative.
    """

    number: float
    """Number of users [1]."""
    think_seconds: float = 0.0
    """Time between a response and the next request of the same user [s]; 0 for a constant concurrency."""

    def __post_init__(self) -> None:
        if not 0.0 < self.number < math.inf:
            raise InputError(f"users are a positive number, got {self.number:g}", option="users")
        if not 0.0 <= self.think_seconds < math.inf:
            raise InputError(f"think_time is 0 s or more, got {self.think_seconds:g} s", option="think_time")

    def requests_per_second(self, e2e_seconds: float) -> float:
        """Return the request rate of all users [1/s], from the mean E2E latency by Little's law."""
        return self.number / (e2e_seconds + self.think_seconds)


@dataclass(frozen=True, repr=False)
class Recommendation(Shown, Sequence[Deployment]):
    """Deployments that meet the SLOs, best first.

    Attributes
    ----------
    choices : tuple of Deployment
        Recommended deployments. The :class:`Recommendation` is itself a sequence of these deployments.
    targets : Targets
        SLOs.
    layouts : int
        Number of evaluated layouts [1].
    arrival_scv : float
        Assumed squared coefficient of variation of the interarrival times [1].
    startable : Deployment or None
        Cheapest deployment that an engine can start, for a comparison. The value is None if engines can start all
        recommended deployments.
    margin : Margin
        Capacity above the stated load.
    users : Users or None
        Users in a closed loop, if the query gives a number of users instead of a request rate; else None.
    """

    page = "report.questions.recommend:RecommendationPage"

    choices: tuple[Deployment, ...]
    targets: Targets
    layouts: int
    arrival_scv: float
    startable: Deployment | None = field(default=None, kw_only=True)
    margin: Margin = field(default=_NO_MARGIN, kw_only=True)
    users: Users | None = field(default=None, kw_only=True)

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all deployments."""
        return [setup for choice in self for setup in choice.setups]

    def __len__(self) -> int:
        return len(self.choices)

    @cached_property
    def bursts(self) -> Burstiness | None:
        """Comparison of two kinds of arrivals for the best deployment; None if this deployment is disaggregated."""
        best = self[0]
        if best.fleet is not None:
            return None
        return burstiness_at(best.service, best.load, replicas=best.replicas, arrival_scv=self.arrival_scv)

    @overload
    def __getitem__(self, index: int) -> Deployment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Deployment, ...]: ...
    def __getitem__(self, index: int | slice) -> Deployment | tuple[Deployment, ...]:
        return self.choices[index]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        record = recommend_record(self, self.targets)
        if self.bursts is not None:
            record["burstiness"] = burstiness_record(self.bursts)
        if self.margin:
            record["margin"] = self.margin.record()
        if self.users is not None:
            record |= {"users": self.users.number, "think_seconds": self.users.think_seconds}
        if self.startable is not None:
            record["startable"] = {
                "layout": layout_of(self.startable.service),
                "accelerators": self.startable.accelerators,
                "dollars_per_hour": self.startable.dollars_per_hour,
            }
        return record

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per deployment."""
        return [choice.served_record(self.targets) for choice in self]


def recommend(
    offers: Sequence[Candidate | Services],
    requests_per_second: float | None,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    most: int = 5,
    play: bool = True,
    margin: Margin = _NO_MARGIN,
    progress: Progress | None = None,
) -> Recommendation:
    """Find the cheapest deployments that meet the SLOs, best first.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidate deployments on one or several GPUs; see
        :func:`inference_econ.answers.deployments.serving_options.market` and
        :func:`inference_econ.answers.layout_services.offer`.
    requests_per_second : float or None
        Request rate [1/s]. By default, the rate at which one instance, or one prefill/decode group, of the cheapest
        layout runs at its planned utilization (:func:`natural_rate`).
    targets : Targets
        SLOs.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    most : int
        Number of results [1]; aggregated deployments are shared evenly among the kinds of GPUs.
    play : bool
        True to simulate selected layouts outside the validated range of the analytical model, and correct their number
        of instances.
    margin : Margin
        Capacity above the stated load. Costs and latencies are computed with this additional capacity, at the stated
        load.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    Recommendation
        Deployments in ascending order of cost; deployments of equal cost are sorted by P(SLO met), highest first.

        - Aggregated deployments: one per recipe and instance size, and one that uses only tensor parallelism.
          Deployments that save at most 10% compared with a simpler deployment are left out.
        - Disaggregated deployments: one per recipe, if it is 10% cheaper than the aggregated deployments on the same
        GPU. If none is 10% cheaper, and a cheapest aggregated deployment is unlikely to meet an SLO, the best
        disaggregated deployment of equal cost may be included.

        GPUs without measured servers come last, because their costs are lower bounds.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no deployment meets the SLOs with a single request; the message has the best reachable latencies.
    """
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv
    both = [candidate.services for candidate in candidates if candidate.pools is None]
    rate = natural_rate(candidates, targets) if requests_per_second is None else requests_per_second
    check_rate(rate)
    stated, rate = rate, rate * (1.0 + margin.headroom)
    # A spare instance costs less if instances are small, so a margin may change the order of deployments.
    compared = _COMPARED if margin else most
    choices: list[Deployment] = []
    failure: Exception | None = None
    try:
        if both:
            choices += cheapest(
                both, rate, targets, arrival_scv=arrival_scv, most=compared, play=play, progress=progress
            )
    except NothingFitsError as error:
        failure = error
    # Search each GPU separately, so that its result does not depend on the other GPUs.
    for chip in dict.fromkeys(candidate.setup.hardware.name for candidate in candidates):
        several = [candidate for candidate in candidates if candidate.setup.hardware.name == chip]
        alike = [choice for choice in choices if _chip(choice) == chip]
        fitted = [choice for choice in alike if not choice.service.setup.is_bound]
        try:
            choices += _worthwhile(several, rate, targets, fitted or alike, arrival_scv)
        except (InputError, NothingFitsError) as error:
            failure = failure or error
    if not choices:
        assert failure is not None
        raise failure
    if margin:
        choices = [
            with_margin(choice, stated, margin, targets, arrival_scv=arrival_scv, play=play) for choice in choices
        ]
    ranked = some_of_each_chip(sorted(choices, key=partial(_rank, targets)), most)
    return Recommendation(tuple(ranked), targets, sum(map(len, candidates)), arrival_scv, margin=margin)


def recommend_for_users(
    offers: Sequence[Candidate | Services], users: Users, targets: Targets, **options: Any
) -> Recommendation:
    """Find the cheapest deployments for a number of users; see :func:`recommend` for the other parameters.

    The request rate follows from the number of users and the mean E2E latency of the cheapest deployment. All
    deployments are compared at this request rate.

    Raises
    ------
    InputError, NothingFitsError
        See :func:`recommend`.
    """
    scv = options.get("arrival_scv", 1.0)
    first = recommend(offers, None, targets, most=1, play=False, arrival_scv=scv)[0]
    rate = users.requests_per_second(first.load.e2e_seconds["mean"])
    for _ in range(_ROUNDS):
        found = recommend(offers, rate, targets, **options)
        before, rate = rate, _rate_of_users(users, found[0], targets, scv)
        if abs(rate / before - 1.0) < _SAME_RATE:
            break
    return replace(found, users=users)


def _rate_of_users(users: Users, deployment: Deployment, targets: Targets, arrival_scv: float) -> float:
    """Request rate of users on a deployment [1/s]: users / (E2E latency + think time), at most the capacity."""

    def excess(rate: float) -> float:
        """Logarithm of a trial rate divided by the rate that the users generate at the latency under this rate."""
        loaded = at_rate(deployment, rate, targets=targets, arrival_scv=arrival_scv).load
        e2e_seconds = min(loaded.e2e_seconds["mean"], _ENDLESS)
        return math.log(rate / users.requests_per_second(e2e_seconds))

    low = high = deployment.requests_per_second
    if excess(low) > 0.0:
        while excess(low := low / 2.0) > 0.0:
            high = low
    else:
        while excess(high := high * 1.5) < 0.0:
            low = high
    while high / low > 1.0 + _SAME_RATE / 2.0:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excess(middle) > 0.0 else (middle, high)
    return low


def natural_rate(candidates: Sequence[Candidate], targets: Targets, filled: float = FILLED) -> float:
    """Request rate at which the most cost-effective instance or prefill/decode group runs at ``filled`` load [1/s].

    A prefill/decode group is used only if its requests are 10% cheaper than requests of aggregated instances. If no
    layout meets the SLOs, the rate is arbitrary, because the search then fails at every rate.
    """
    usual = [_naturally_filled(candidate, targets, filled) for candidate in candidates]
    rate, per_dollar = max(usual, key=lambda filled: filled[1])
    return rate if per_dollar > 0.0 else filled


def _naturally_filled(candidate: Candidate, targets: Targets, filled: float) -> tuple[float, float]:
    """Planned request rate of the layout with the cheapest requests [1/s], and this rate per dollar [1/s per USD/h].

    Both values are 0 if no layout meets the SLOs. For disaggregated layouts, the SLOs are applied to mean latencies.
    """
    layouts, handicap = candidate.services, 1.0
    if candidate.pools is None:
        rates, chips = filled * promised_rates(layouts, targets), layouts.plans.accelerators
    else:
        kept, seen, handicap = np.isfinite(candidate.kept_dollars(targets)), candidate.metrics, 1.0 + SIMPLER
        if not kept.any():
            return 0.0, 0.0
        rates, chips = filled * seen.requests_per_second[kept], candidate.paid_chips[kept]
    per_dollar = rates / layouts.setup.dollars_per_hour_in_bulk(chips) / handicap
    index = int(np.argmax(per_dollar))
    rate = float(rates[index])
    if candidate.pools is None:
        # The rate of the steady states is an upper bound. Bursts that fill all slots lower the capacity slightly.
        rate = min(rate, filled * layouts.service(index).most_requests_per_second)
    return rate, float(per_dollar[index])


def _chip(choice: Deployment) -> str:
    return choice.service.setup.hardware.name


def some_of_each_chip(ranked: Sequence[DeploymentT], most: int) -> list[DeploymentT]:
    """Select the best deployments of a ranking, with at least one deployment per kind of GPU.

    If ``most`` allows, one deployment on the best kind of GPU uses only tensor parallelism.
    """
    firsts = list({_chip(choice): choice for choice in reversed(ranked)}.values())
    plain = (choice for choice in ranked if choice.is_plain and _chip(choice) == _chip(ranked[0]))
    if most > len(firsts):
        firsts += [choice for choice in list(plain)[:1] if all(choice is not first for first in firsts)]
    others = [choice for choice in ranked if all(choice is not first for first in firsts)]
    chosen = [*firsts, *others[: max(most - len(firsts), 0)]]
    return [choice for choice in ranked if any(choice is kept for kept in chosen)]


def as_candidates(offers: Services | Iterable[Candidate | Services]) -> list[Candidate]:
    """Convert a list of candidates and of aggregated layouts (``Services``) to a list of candidates.

    Raises
    ------
    InputError
        If an item is neither a candidate nor a set of layouts; the message shows how to create candidates.
    """
    several = list(offers) if isinstance(offers, (list, tuple)) else [offers]
    candidates = [Candidate(offer) if isinstance(offer, Services) else offer for offer in several]
    right = [offer for offer in candidates if isinstance(offer, Candidate)]
    if not right or len(right) < len(candidates):
        wrong = next((offer for offer in candidates if not isinstance(offer, Candidate)), offers)
        raise InputError(
            f"offers: got {reprlib.repr(wrong)}; give the result of candidates(setup, requests), for example "
            "candidates(Setup.of('llama_3_70b', 'h100_sxm'), Requests(2000, 500))"
        )
    return right


def _rank(targets: Targets, choice: Deployment) -> tuple[int, bool, tuple[float, float, int, float]]:
    """Sort key of deployments: pricing model, then whether the cost is only a lower bound, then :func:`rank`."""
    bound = any(setup.is_bound for setup in choice.setups)
    return choice.service.setup.hour_price.order, bound, rank(targets, choice)


def _worthwhile(
    candidates: Sequence[Candidate], rate: float, targets: Targets, others: Sequence[Deployment], arrival_scv: float
) -> list[Deployment]:
    """Find disaggregated deployments that are 10% cheaper than all aggregated deployments.

    If no deployment is 10% cheaper, the result may be the best disaggregated deployment of equal cost. This deployment
    must be more likely to meet an SLO that one of the cheapest aggregated deployments is unlikely to meet.

    Raises
    ------
    InputError, NothingFitsError
        See :func:`fleets`.
    """
    least = min((choice.dollars_per_hour for choice in others), default=math.inf)
    level = [choice for choice in others if choice.dollars_per_hour <= least * _EQUAL]
    likely = [least_chance(choice.chances(targets)) for choice in level]
    noticed = least / (1.0 + SIMPLER)
    if min(likely, default=1.0) >= _LIKELY:
        return [Deployment.of_pools(fleet) for fleet in fleets(candidates, rate, targets, noticed, arrival_scv)]
    level_fleets = fleets(candidates, rate, targets, least * _EQUAL, arrival_scv)
    pooled = sorted(map(Deployment.of_pools, level_fleets), key=partial(_rank, targets))
    cheaper = [choice for choice in pooled if choice.dollars_per_hour < noticed]
    better = (choice for choice in pooled if least_chance(choice.chances(targets)) > max(*likely, _LIKELY))
    return cheaper or list(better)[:1]


def fleets(
    candidates: Sequence[Candidate], rate: float, targets: Targets, limit: float, arrival_scv: float
) -> list[PooledFleet]:
    """Cheapest disaggregated deployment of each recipe with a cost below a limit [USD/h].

    Raises
    ------
    InputError
        If an end-to-end SLO is set, and there is no limit on the cost. For disaggregated deployments, only the mean E2E
        latency is predicted.
    NothingFitsError
        If no disaggregated deployment meets the SLOs, and there is no limit on the cost.
    """
    cheapest_fleets: list[PooledFleet] = []
    failures: list[Exception] = []
    for candidate in candidates:
        if candidate.pools is None:
            continue
        try:
            fleet = smallest(candidate.pools.pools, rate, DisaggregationTerms(targets, arrival_scv), limit=limit)
        except TooMuchError:
            raise
        except (InputError, NothingFitsError) as error:
            failures.append(error)
            continue
        if fleet is not None:
            cheapest_fleets.append(fleet)
    if math.isinf(limit) and failures and not cheapest_fleets:
        raise failures[0]
    return cheapest_fleets


def first_before_second(choices: Sequence[Deployment]) -> tuple[float | None, int]:
    """Probability that the first deployment is cheaper than the next more expensive one, and the index of the latter.

    The probability is None if no other deployment is more expensive, or if there is no error estimate.
    """
    first = choices[0]
    kind = first.service.setup.hour_price.order
    dearer = (
        place
        for place, choice in enumerate(choices)
        if choice.service.setup.hour_price.order == kind and choice.dollars_per_hour > first.dollars_per_hour * _EQUAL
    )
    place = next(dearer, 0)
    if not place:
        return None, 0
    likely = [of_throughput(choice.dollars_per_hour, choice.subjects()[0]) for choice in (first, choices[place])]
    return chance_below(*likely), place


def recommend_record(choices: Sequence[Deployment], targets: Targets) -> dict[str, object]:
    """Return recommended deployments as plain data."""
    chance, place = first_before_second(choices)
    return {
        "targets": targets.record(),
        "choices": [choice.served_record(targets) for choice in choices],
        "first_is_cheaper": None if chance is None else {"than_choice": place + 1, "probability": chance},
    }
