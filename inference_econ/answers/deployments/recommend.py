"""The cheapest deployment that keeps its promises at a traffic: every engine's practice, together or apart."""

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
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.margin import Margin, at_rate, with_margin
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

#: Squared coefficients of variation of the times between arrivals: of independent users, and of users that come in
#: crowds, where so many is a choice of ours and not a measurement [1].
POISSON, CROWDS = 1.0, 10.0
#: Load at which a fleet is looked at that nobody chose, over what it completes [1].
_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Burstiness:
    """An instance under one load with two kinds of arrivals.

    Attributes
    ----------
    requests_per_second : float
        Offered to the fleet [1/s].
    assumed_scv, other_scv : float
        Squared coefficients of variation of the times between arrivals: as assumed, and another [1].
    assumed, other : Loaded
        An instance under both.
    traffic : str
        What the traffic is called that says how requests arrive; nothing where that is assumed.
    """

    requests_per_second: float
    assumed_scv: float
    other_scv: float
    assumed: Loaded
    other: Loaded
    traffic: str = ""


def other_scv(arrival_scv: float) -> float:
    """Variation that an assumed one is held against: crowds, or Poisson arrivals if more than these are assumed [1]."""
    return CROWDS if arrival_scv <= POISSON else POISSON


def burstiness(service: Service, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """A fleet at 80 % of what it completes, under arrivals as they are assumed, and under others.

    Parameters
    ----------
    service : Service
        One instance.
    replicas : int
        Instances that share the traffic evenly [1].
    arrival_scv : float
        As assumed [1].
    """
    rate = _SHARE * service.most_requests_per_second
    assumed = simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))(rate, replicas)
    return burstiness_at(service, assumed, replicas=replicas, arrival_scv=arrival_scv)


def burstiness_at(service: Service, load: Loaded, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """Burstiness at a load of an instance that is known; both are played if one of them has to be."""
    rate, other = load.requests_per_second, other_scv(arrival_scv)
    player = simulate_where_needed(service, Gamma(max(other, load.arrivals.scv)))
    others = loaded(service, rate, arrivals=Gamma(other).among(replicas))
    if needs_simulation(service, others) or load.played:
        # What closed forms and the player differ in is no effect of bursts.
        others, load = player.played(others), load if load.played else player.played(load)
    return Burstiness(rate * replicas, arrival_scv, other, load, others, service.requests.traffic)


def burstiness_record(compared: Burstiness) -> dict[str, object]:
    """Burstiness as plain data."""
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


#: Fleets within this factor cost the same [1]; from this probability on a promise is likely to be kept [1].
_EQUAL, _LIKELY = 1.001, 0.5

#: No capacity beyond the stated load.
_NO_MARGIN = Margin()
#: Deployments that are compared where a margin is wanted [1].
_COMPARED = 20
#: Rounds in which the rate of users is found at most, and the change that is none [1].
_ROUNDS, _SAME_RATE = 6, 0.01
#: E2E latency that stands for a queue without end [s].
_ENDLESS = 1e6

DeploymentT = TypeVar("DeploymentT", bound=Deployment)


@dataclass(frozen=True, slots=True)
class Users:
    """Users who each send a request, think after its answer, and send the next one.

    Raises
    ------
    InputError
        If their number is not positive, or the time is negative.
    """

    number: float
    """Users at a time [1]."""
    think_seconds: float = 0.0
    """Time between an answer and the next request [s]; 0 for requests that are always in flight."""

    def __post_init__(self) -> None:
        """Reject values out of range."""
        if not 0.0 < self.number < math.inf:
            raise InputError(f"users are a positive number, got {self.number:g}", option="users")
        if not 0.0 <= self.think_seconds < math.inf:
            raise InputError(f"think_time is 0 s or more, got {self.think_seconds:g} s", option="think_time")

    def requests_per_second(self, e2e_seconds: float) -> float:
        """Return the rate of their requests at a mean E2E latency, by Little's law [1/s]."""
        return self.number / (e2e_seconds + self.think_seconds)


@dataclass(frozen=True, repr=False)
class Recommendation(Shown, Sequence[Deployment]):
    """Deployments that keep some promises, the best first.

    Attributes
    ----------
    choices : tuple of Deployment
        The deployments; the answer itself is a sequence of them.
    targets : Targets
        What is promised.
    layouts : int
        Layouts that were tried [1].
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals, as assumed [1].
    startable : Deployment or None
        Beside layouts that no engine can start, the cheapest deployment that one can, if that is compared.
    margin : Margin
        Capacity beyond the stated load.
    users : Users or None
        Who sends the requests, if their number was given in place of a rate.
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
        """The best deployment under arrivals as assumed and under others; None of pools."""
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
        """Return all of the answer as plain data."""
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
    """The cheapest deployments that keep some promises, best first.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        What competes, on one or several GPUs: see
        :func:`inference_econ.answers.deployments.serving_options.market` and
        :func:`inference_econ.answers.layout_services.offer`.
    requests_per_second : float or None
        The whole traffic [1/s]; None for what fills one instance, or group of pools, of the cheapest layout
        (:func:`natural_rate`).
    targets : Targets
        What is promised.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    most : int
        Choices wanted, of instances that do both shared evenly among the kinds of chips [1].
    play : bool
        Play what closed forms choose where they are not proven, and correct it; otherwise closed forms count.
    margin : Margin
        Capacity beyond that load. Costs and latencies are those of the stated load on the larger deployment.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Recommendation
        Ascending in cost, and at equal cost descending in the least probability that an SLO is met. One per practice
        and size of aggregated instances, without those that a simpler one costs at most 10 % more than, and one of
        tensor parallelism alone. One per practice of disaggregated deployments that are cheaper than those on their
        GPU by 10 %; if there are none, the best that cost no more, where one of the cheapest instances is unlikely to
        meet an SLO. GPUs that no server was fitted with come last: their numbers are bounds.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If nothing keeps the promises even with a single request in flight, with the best that can be reached.
    """
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv
    both = [candidate.services for candidate in candidates if candidate.pools is None]
    rate = natural_rate(candidates, targets) if requests_per_second is None else requests_per_second
    check_rate(rate)
    stated, rate = rate, rate * (1.0 + margin.headroom)
    # Small instances cost less as spare ones, so that a margin changes the order.
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
    # What a chip does is asked of each by itself: the answer is the same whatever else competes.
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
    """The cheapest deployments for a number of users; see :func:`recommend` for the other parameters.

    The rate is that of the users on the first deployment, by its mean E2E latency. Other deployments are compared at
    the same rate.

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
    """Rate of some users on a deployment, at most what it completes [1/s]: users over E2E latency and think time."""

    def excess(rate: float) -> float:
        """Users whom the rate takes, over those who are there, as a logarithm."""
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
    """Rate that fills an instance, or the smallest group of pools, whose requests are the cheapest, to a share [1/s].

    Pools have to be cheaper by 5 %. Where nothing keeps the promises, it is said of any rate.
    """
    usual = [_naturally_filled(candidate, targets, filled) for candidate in candidates]
    rate, per_dollar = max(usual, key=lambda filled: filled[1])
    return rate if per_dollar > 0.0 else filled


def _naturally_filled(candidate: Candidate, targets: Targets, filled: float) -> tuple[float, float]:
    """Rate planned for the layout whose requests are the cheapest within promises, and that over its price.

    In requests per second [1/s], and [1/s per USD/h]; 0 if no layout keeps them. Pools keep them as a mean.
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
        # What states promise is a bound: crowds at the slots take a little of it.
        rate = min(rate, filled * layouts.service(index).most_requests_per_second)
    return rate, float(per_dollar[index])


def _chip(choice: Deployment) -> str:
    return choice.service.setup.hardware.name


def some_of_each_chip(ranked: Sequence[DeploymentT], most: int) -> list[DeploymentT]:
    """The first choices, of every chip at least its first, and one with tensor parallelism alone of the first chip."""
    firsts = list({_chip(choice): choice for choice in reversed(ranked)}.values())
    plain = (choice for choice in ranked if choice.is_plain and _chip(choice) == _chip(ranked[0]))
    if most > len(firsts):
        firsts += [choice for choice in list(plain)[:1] if all(choice is not first for first in firsts)]
    others = [choice for choice in ranked if all(choice is not first for first in firsts)]
    chosen = [*firsts, *others[: max(most - len(firsts), 0)]]
    return [choice for choice in ranked if any(choice is kept for kept in chosen)]


def as_candidates(offers: Services | Iterable[Candidate | Services]) -> list[Candidate]:
    """Candidates; layouts of a single setup are one.

    Raises
    ------
    InputError
        If they are something else, with how offers are made.
    """
    several = list(offers) if isinstance(offers, (list, tuple)) else [offers]
    candidates = [Candidate(offer) if isinstance(offer, Services) else offer for offer in several]
    right = [offer for offer in candidates if isinstance(offer, Candidate)]
    if not right or len(right) < len(candidates):
        wrong = next((offer for offer in candidates if not isinstance(offer, Candidate)), offers)
        raise InputError(
            f"offers: got {reprlib.repr(wrong)}; give what market(setup, requests) makes, for example "
            "market(Setup.of('llama_3_70b', 'h100_sxm'), Requests(2000, 500))"
        )
    return right


def _rank(targets: Targets, choice: Deployment) -> tuple[int, bool, tuple[float, float, float]]:
    """Kind of the price, whether the numbers are a bound, which comes last, and what deployments are ordered by."""
    bound = any(setup.is_bound for setup in choice.setups)
    return choice.service.setup.hour_price.order, bound, rank(targets, choice)


def _worthwhile(
    candidates: Sequence[Candidate], rate: float, targets: Targets, others: Sequence[Deployment], arrival_scv: float
) -> list[Deployment]:
    """Fleets of pools that are cheaper than others by 5 %; else the best of the same cost, if it is worth it.

    It is where one of the cheapest others is unlikely to meet an SLO, and the pools are likelier than all of them.

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
    """The cheapest fleet of every practice with pools that costs less than a limit [USD/h].

    Raises
    ------
    InputError
        If there is no limit, and a time to the last token is promised, of which pools know the mean only.
    NothingFitsError
        If there is no limit, and no fleet keeps the promises.
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
    """The probability that the first choice is cheaper than the next that costs more, and which that is.

    None where there is none, or nobody knows errors.
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
    """Choices as plain data."""
    chance, place = first_before_second(choices)
    return {
        "targets": targets.record(),
        "choices": [choice.served_record(targets) for choice in choices],
        "first_is_cheaper": None if chance is None else {"than_choice": place + 1, "probability": chance},
    }
