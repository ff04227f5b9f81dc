"""Best deployments that meet the SLOs: the cheapest ones at a rate, or the largest rates within a resource limit."""

from __future__ import annotations

import math
import reprlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import Any, TypeVar, overload

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Indices, Progress
from inference_econ.answers import capacity
from inference_econ.answers.capacity import fewest, fewest_near
from inference_econ.answers.deployments.default_slo import UsualSpeed, with_default_slo
from inference_econ.answers.deployments.deployment import Deployment, Margin, at_rate, finite, layout_of, with_margin
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PooledFleet
from inference_econ.answers.disaggregated.size_pools import largest, smallest
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.simplest import SIMPLER, complexity, cost_limit, is_plain, worth_their_complexity
from inference_econ.answers.slo import (
    FILLED,
    Targets,
    chance_below,
    least_chance,
    nothing_kept,
    of_throughput,
    promised_rates,
)
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError, TooLittleError, TooMuchError
from inference_econ.records.plain import attributes
from inference_econ.serving import (
    Gamma,
    Loaded,
    Service,
    Services,
    arrivals_of,
    as_poisson,
    check_rate,
    loaded,
    needs_simulation,
    simulate_where_needed,
)

DeploymentT = TypeVar("DeploymentT", bound=Deployment)
#: Largest cost of a listed layout, as a multiple of the cheapest cost on its GPU [1].
_DEAREST = 4.0
#: Largest number of steps between 0 and the analytical number of instances, and largest ratio of the simulated to the
#: analytical number of instances [1].
_FINEST, _MOST_MORE = 16, 8
#: Maximum number of simulated layouts [1]. Further layouts that would need a simulation are not selected.
_MOST_PLAYED = 12


def cheapest(
    offers: Sequence[Services],
    requests_per_second: float,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    most: int = 5,
    play: bool = True,
    progress: Progress | None = None,
) -> list[Deployment]:
    """Select the cheapest aggregated instances that meet the SLOs, best first.

    The result has at most one deployment for each item of ``offers`` and instance size. Deployments that save at most
    10% compared with a simpler deployment are left out. For every GPU, the cheapest deployment that uses only tensor
    parallelism is included.

    Parameters
    ----------
    offers : sequence of Services
        Candidate layouts (:func:`inference_econ.answers.layout_services.offer`); each item has the layouts of one
        engine on one kind of GPU.
    requests_per_second : float
        Total request rate [1/s].
    targets : Targets
        SLOs.
    arrival_scv : float
        Squared coefficient of variation of the interarrival times of all requests [1]. A router sends each request to a
        random instance.
    most : int
        Number of results [1], shared evenly among the kinds of GPUs.
    play : bool
        True to simulate selected layouts outside the validated range of the analytical model, and correct their number
        of instances.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    list of Deployment
        Deployments in ascending order of cost; equal costs are sorted by P(SLO met), then by speed.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no layout meets the SLOs with a single request; the message reports the best reachable latencies.

    Notes
    -----
    The steady states of a layout give an upper bound on its request rate within the SLOs, and therefore a lower bound
    on its cost. The analytical model evaluates only layouts with a bound below the cost of the deployments found so
    far. Selected layouts outside the validated range of the model are simulated, and instances are added until the SLOs
    are met.
    """
    check_rate(requests_per_second)
    bounds = []
    for which, layouts in enumerate(offers):
        rates = promised_rates(layouts, targets)
        replicas = np.ceil(np.divide(requests_per_second, rates, out=np.ones_like(rates), where=rates > 0.0))
        sizes = layouts.plans.accelerators
        cost = np.where(rates > 0.0, layouts.setup.dollars_per_hour(replicas, sizes), np.inf)
        plain = is_plain(layouts.plans, layouts.setup.assumptions.layout).tolist()
        bounds += [(float(cost[index]), which, int(index), plain[index]) for index in np.flatnonzero(np.isfinite(cost))]
    levels = [complexity(layouts.setup.hardware, layouts.plans, disaggregated=False) for layouts in offers]
    bill = attrgetter("dollars_per_hour")
    kept: dict[tuple[int, int, bool], Deployment] = {}
    ranked_by = partial(rank, targets)
    chips = [layouts.setup.hardware.name for layouts in offers]
    most_each, played = max(1, most // len(set(chips))), 0
    for number, (bound, which, index, plain) in enumerate(sorted(bounds)):
        if progress is not None:
            progress(number / len(bounds), f"{len(bounds)} layouts")
        layouts = offers[which]
        key = which, int(layouts.plans.accelerators[index]), plain
        same = [choice for (rival, *_), choice in kept.items() if chips[rival] == chips[which]]
        limit = cost_limit(same, bill, int(levels[which][index]), plain=plain, most=most_each)
        limit = min(limit, kept[key].dollars_per_hour) if key in kept else limit
        if bound > limit:
            continue
        service = layouts.service(index)
        promised = targets.predicted(service)
        choice = _fewest(service, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and key in kept and ranked_by(choice) >= ranked_by(kept[key]):
            continue
        if play and choice is not None and _is_doubtful(choice, requests_per_second, arrival_scv):
            played += 1
            last = played > _MOST_PLAYED
            choice = None if last else _simulated(choice, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and (key not in kept or ranked_by(choice) < ranked_by(kept[key])):
            kept[key] = choice
    if not kept:
        raise NothingFitsError(
            nothing_kept(offers, targets, partial(_keeps_at_rate, requests_per_second, arrival_scv, play))
        )
    listed: list[Deployment] = []
    for chip in dict.fromkeys(chips[which] for which, *_ in kept):
        same = [choice for (which, *_), choice in kept.items() if chips[which] == chip]
        ranked = sorted(worth_their_complexity(same, bill), key=ranked_by)
        near = [choice for choice in ranked if choice.dollars_per_hour <= _DEAREST * ranked[0].dollars_per_hour]
        listed += with_plain(near[:most_each], ranked)
    return sorted(listed, key=ranked_by)


def with_plain(chosen: Sequence[DeploymentT], ranked: Sequence[DeploymentT]) -> list[DeploymentT]:
    """Add the best deployment that uses only tensor parallelism to the selected deployments of a ranking.

    Nothing is added to a single selected deployment.
    """
    plain = next((choice for choice in ranked if choice.is_plain), None)
    if plain is None or len(chosen) < 2 or any(choice.is_plain for choice in chosen):
        return list(chosen)
    return [*chosen, plain]


def rank(targets: Targets, choice: Deployment) -> tuple[float, float, int, float]:
    """Sort key: lowest cost, then highest P(SLO met) to 10%, then best calibration data, then lowest mean TPOT."""
    likely = round(least_chance(choice.chances(targets)), 1)
    return round(choice.dollars_per_hour, 6), -likely, choice.evidence.order, choice.load.tpot_seconds["mean"]


def _fewest(service: Service, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Deployment | None:
    """Deployment with the fewest replicas that meet the SLOs under the analytical model; None above the cost limit."""
    calm = as_poisson(service.requests, arrival_scv)

    def shared(replicas: int) -> Loaded:
        return loaded(service, rate / replicas, arrivals=calm.among(replicas))

    def bill(replicas: int) -> float:
        return float(service.setup.dollars_per_hour(replicas, service.accelerators))

    start = max(1, math.ceil(rate / service.most_requests_per_second))
    replicas = fewest(
        lambda replicas: targets.first_violated(shared(replicas)) is None,
        start,
        gives_up=lambda replicas: bill(replicas) > limit or (replicas > start and rate / replicas < 1e-6),
    )
    if replicas is None:
        return None
    broken = "instance" if replicas == 1 else targets.first_violated(shared(replicas - 1)) or "capacity"
    return Deployment(service, replicas, shared(replicas), bill(replicas), broken)


def _with_fewest(
    service: Service, rate: float, targets: Targets, arrival_scv: float, *, play: bool
) -> Deployment | None:
    """Deployment with the fewest replicas that meet the SLOs; None if no number of replicas meets them."""
    choice = _fewest(service, rate, targets, math.inf, arrival_scv)
    if choice is not None and play and _is_doubtful(choice, rate, arrival_scv):
        choice = _simulated(choice, rate, targets, math.inf, arrival_scv)
    return choice


def _keeps_at_rate(rate: float, arrival_scv: float, play: bool, service: Service, targets: Targets) -> bool:
    """True if a deployment of the service meets the SLOs with any number of instances."""
    return _with_fewest(service, rate, targets, arrival_scv, play=play) is not None


def _is_doubtful(choice: Deployment, rate: float, arrival_scv: float) -> bool:
    """True if a simulation may change the number of instances: at this number, or at the next smaller one it tries."""
    service, fewer = choice.service, choice.replicas - _grain(choice.replicas)
    if needs_simulation(service, choice.load):
        return True
    if fewer * service.most_requests_per_second < rate:
        return False
    calm = as_poisson(service.requests, arrival_scv).among(fewer)
    return needs_simulation(service, loaded(service, rate / fewer, arrivals=calm))


def _grain(replicas: int) -> int:
    """Difference between two numbers of instances that simulations try [1]."""
    return -(-replicas // _FINEST)


def _simulated(
    choice: Deployment, rate: float, targets: Targets, limit: float, arrival_scv: float
) -> Deployment | None:
    """Deployment with the fewest instances that meet the SLOs in a simulation; None if it costs more than the limit.

    The analytical model may overestimate the number of instances, so smaller numbers are tried too. The relative
    resolution of the number is 1 / :data:`_FINEST`.
    """
    service, closed_fewest = choice.service, choice.replicas
    arrivals = arrivals_of(service.requests, arrival_scv)
    play, grain = simulate_where_needed(service, arrivals), _grain(closed_fewest)
    below = max(1, math.ceil(rate / service.most_requests_per_second))
    closed_form = (closed_fewest - below) // grain
    tried = range(closed_fewest - closed_form * grain, _MOST_MORE * (closed_fewest + 1) + 1, grain)

    def bill(replicas: int) -> float:
        return float(service.setup.dollars_per_hour(replicas, service.accelerators))

    @cache
    def shared(replicas: int) -> Loaded:
        return play(rate / replicas, replicas)

    def kept(place: int) -> bool:
        return targets.first_violated(shared(tried[place])) is None

    def likely(place: int) -> bool:
        """Return True if the analytical model predicts that a simulation meets the SLOs.

        The SLOs are corrected by the error of the analytical model at the smallest number of instances, where a
        simulation is known.
        """
        calm = as_poisson(service.requests, arrival_scv).among(tried[place])
        closed = loaded(service, rate / tried[place], arrivals=calm)
        return targets.like(choice.load, shared(closed_fewest)).first_violated(closed) is None

    affordable = bisect_left(tried, True, key=lambda replicas: bill(replicas) > limit)
    # If a layout costs too much, the largest affordable number of instances usually misses the SLOs, so this number is
    # simulated first.
    if not affordable or (limit < math.inf and not kept(affordable - 1)):
        return None
    guess = closed_form
    if guess >= affordable or not kept(guess):
        guess = bisect_left(range(closed_form + 1, affordable), True, key=likely) + closed_form + 1
    place = fewest_near(kept, min(guess, affordable - 1), affordable)
    if place is None:
        return None
    needed = tried[place]
    fewer = "instance" if needed == 1 else choice.binding if place == closed_form else "capacity"
    binding = fewer if not place else targets.first_violated(shared(tried[place - 1])) or "capacity"
    return replace(choice, replicas=needed, load=shared(needed), dollars_per_hour=bill(needed), binding=binding)


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
                **attributes(load, "saturated is_simulated=played"),
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
#: Number of deployments that are compared if a margin or a number of users is set [1].
_COMPARED = 20
#: Maximum number of iterations that find the request rate of users, and relative tolerance of this rate [1].
_ROUNDS, _SAME_RATE = 12, 0.02
#: E2E latency that stands for an unbounded queue [s].
_ENDLESS = 1e6


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
    usual : UsualSpeed or None
        Speed that the default TPOT SLO requires; None if the query sets the SLOs.
    left_out : tuple of str
        GPUs without a deployment that meets the SLOs.
    """

    page = "report.questions.recommend:RecommendationPage"

    choices: tuple[Deployment, ...]
    targets: Targets
    layouts: int
    arrival_scv: float
    startable: Deployment | None = field(default=None, kw_only=True)
    margin: Margin = field(default=_NO_MARGIN, kw_only=True)
    users: Users | None = field(default=None, kw_only=True)
    usual: UsualSpeed | None = field(default=None, kw_only=True)
    left_out: tuple[str, ...] = field(default=(), kw_only=True)

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
        record = {**recommend_record(self, self.targets), **self._speed_record()}
        if self.bursts is not None:
            record["burstiness"] = burstiness_record(self.bursts)
        if self.margin:
            record["margin"] = self.margin.record()
        if self.users is not None:
            record |= {"users": self.users.number, "think_seconds": self.users.think_seconds}
        if self.startable is not None:
            record["startable"] = {
                "layout": layout_of(self.startable.service),
                **attributes(self.startable, "accelerators dollars_per_hour"),
            }
        return record

    def _speed_record(self) -> dict[str, Any]:
        """Return the speed of the default TPOT SLO as plain data; empty if the query sets the SLOs."""
        return {} if self.usual is None else {"usual_speed": asdict(self.usual)}

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per deployment."""
        return [choice.served_record(self.targets) for choice in self]


def recommend(
    offers: Sequence[Candidate | Services],
    requests_per_second: float | None,
    targets: Targets | None = None,
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
    targets : Targets, optional
        SLOs; by default, the default TPOT SLO of the model (:func:`.default_slo.usual_speed`).
        ``Targets()`` sets no SLO.
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
    found, _, usual = with_default_slo(
        candidates,
        targets,
        lambda promised: _recommend(
            candidates, requests_per_second, promised, arrival_scv, most, play=play, margin=margin, progress=progress
        ),
    )
    return replace(found, usual=usual)


def _recommend(
    candidates: Sequence[Candidate],
    requests_per_second: float | None,
    targets: Targets,
    arrival_scv: float,
    most: int,
    *,
    play: bool,
    margin: Margin,
    progress: Progress | None,
) -> Recommendation:
    """Find the cheapest deployments that meet given SLOs; see :func:`recommend`."""
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
    tried = sum(map(len, candidates))
    left_out = _chips_without(ranked, candidates)
    return Recommendation(tuple(ranked), targets, tried, arrival_scv, margin=margin, left_out=left_out)


def _chips_without(choices: Sequence[Deployment], candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Names of the GPUs of the candidates that no selected deployment uses."""
    used = {setup.hardware.name for choice in choices for setup in choice.setups}
    return tuple(dict.fromkeys(name for name in (it.setup.hardware.name for it in candidates) if name not in used))


def recommend_for_users(
    offers: Sequence[Candidate | Services], users: Users, targets: Targets | None = None, **options: Any
) -> Recommendation:
    """Find the cheapest deployments for a number of users; see :func:`recommend` for the other parameters.

    Each deployment has the request rate that the users send at its own mean E2E latency. Headroom is for more users.

    Raises
    ------
    InputError, NothingFitsError
        See :func:`recommend`.

    Notes
    -----
    All deployments are first compared at the rate of one deployment. The cheapest of them are then sized for the users:
    the analytical model finds their rates and their order, and the listed deployments are simulated where necessary.
    """
    candidates, most = as_candidates(offers), options.pop("most", 5)
    scv, play, margin = options.get("arrival_scv", 1.0), options.get("play", True), options.get("margin", _NO_MARGIN)
    # The headroom is for more users, not for the higher rate of the same users.
    most_users = replace(users, number=users.number * (1.0 + margin.headroom))

    def sized(choice: Deployment, rate: float, promised: Targets, *, play: bool) -> Deployment | None:
        """Deployment with the fewest instances that meet the SLOs at a rate, in the layouts of another deployment."""
        if choice.fleet is None:
            own = promised.predicted(choice.service)
            return _with_fewest(choice.service, rate, own, scv, play=play)
        fleet = smallest(choice.fleet.pools, rate, DisaggregationTerms(promised, scv))
        return None if fleet is None else Deployment.of_pools(fleet)

    def own_rate(choice: Deployment, promised: Targets, crowd: Users, *, play: bool) -> float:
        """Request rate of users on a deployment [1/s]: in a closed loop; with ``play``, at the simulated latency."""
        if not play:
            return _rate_of_users(crowd, choice, promised, scv)
        return crowd.requests_per_second(min(choice.load.e2e_seconds["mean"], _ENDLESS))

    def lowest_rate(choice: Deployment, promised: Targets) -> float:
        """Request rate of the users at the longest E2E latency within the SLOs [1/s]."""
        wait = min(promised.ttft_seconds, choice.load.ttft_seconds["mean"])
        slowest = min(wait + choice.service.requests.osl.mean * promised.tpot_seconds, promised.e2e_seconds)
        return most_users.requests_per_second(slowest) if slowest < math.inf else choice.requests_per_second

    def for_users(choice: Deployment, promised: Targets, *, play: bool) -> Deployment | None:
        """Size a deployment for the rate of its users, from a low rate upward; None if nothing meets the SLOs."""

        def planned(rate: float, *, play: bool) -> tuple[Deployment | None, float]:
            found = sized(choice, rate, promised, play=play)
            return found, 0.0 if found is None else own_rate(found, promised, most_users, play=play)

        found, rate = _at_own_rate(partial(planned, play=False), lowest_rate(choice, promised), play=False)
        if play and found is not None:
            found, rate = _at_own_rate(partial(planned, play=True), rate, play=True)
        if found is None:
            return None
        least = found

        def with_spares(rate: float) -> tuple[Deployment | None, float]:
            found = with_margin(least, rate, margin, promised, arrival_scv=scv, play=play)
            return found, own_rate(found, promised, users, play=play)

        if margin:
            found, rate = _at_own_rate(with_spares, rate, play=play)
        if found is None or play:
            return found
        return at_rate(found, rate, targets=promised, arrival_scv=scv, play=False)

    def at_rates_of_users(promised: Targets) -> Recommendation:
        """Cheapest deployments within given SLOs, at the request rates of the users."""
        first = recommend(candidates, None, promised, most=1, play=False, arrival_scv=scv)[0]
        rate = users.requests_per_second(first.load.e2e_seconds["mean"])
        found = recommend(candidates, rate, promised, **{**options, "most": _COMPARED, "play": False})

        def ranked(choices: Iterable[Deployment], *, play: bool) -> list[Deployment]:
            own = (for_users(choice, promised, play=play) for choice in choices)
            kept = (choice for choice in own if choice is not None)
            return some_of_each_chip(sorted(kept, key=partial(_rank, promised)), most)

        chosen = ranked(found, play=False)
        return replace(found, choices=tuple(ranked(chosen, play=True) if play else chosen))

    found, _, usual = with_default_slo(candidates, targets, at_rates_of_users)
    return replace(found, users=users, usual=usual)


def _at_own_rate(
    deployed: Callable[[float], tuple[Deployment | None, float]], rate: float, *, play: bool
) -> tuple[Deployment | None, float]:
    """Find a deployment for a rate that its users send at their own latency, and this rate [1/s].

    Parameters
    ----------
    deployed : callable
        Function that returns the deployment for a rate, and the rate that its users send [1/s]. The deployment may be
        None.
    rate : float
        First rate, at most the result without simulations [1/s].
    play : bool
        True if the second rate comes from a simulation at the first rate. It may then fall faster than the first rate
        rises, so the search bisects.
    """
    low, high = 0.0, math.inf
    for _ in range(_ROUNDS):
        found, own = deployed(rate)
        if found is None or abs(own / rate - 1.0) < _SAME_RATE or (own < rate and not play):
            break
        low, high = (rate, high) if own > rate else (low, rate)
        if play:
            own = math.sqrt(low * high) if 0.0 < low < high < math.inf else math.sqrt(rate * own)
        rate = own
    return found, rate if play else min(own, rate)


def _rate_of_users(users: Users, deployment: Deployment, targets: Targets, arrival_scv: float) -> float:
    """Request rate of users on a deployment [1/s]: users / (E2E latency + think time), at most the capacity.

    The analytical model predicts the E2E latency.
    """

    def excess(rate: float) -> float:
        """Logarithm of a trial rate divided by the rate that the users generate at the latency under this rate."""
        loaded = at_rate(deployment, rate, targets=targets, arrival_scv=arrival_scv, play=False).load
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

    Both values are 0 if no layout meets the SLOs. For disaggregated layouts, the SLOs are applied to mean latencies,
    and the load of prefill instances is at most :data:`inference_econ.answers.slo.FILLED`.
    """
    layouts, handicap = candidate.services, 1.0
    if candidate.pools is None:
        rates, chips = filled * promised_rates(layouts, targets), layouts.plans.accelerators
    else:
        kept, seen, handicap = np.isfinite(candidate.kept_dollars(targets)), candidate.metrics, 1.0 + SIMPLER
        if not kept.any():
            return 0.0, 0.0
        # Prefill instances of a frontier have the load FILLED.
        rates = min(filled / FILLED, 1.0) * seen.requests_per_second[kept]
        chips = candidate.paid_chips[kept]
    per_dollar = rates / layouts.setup.dollars_per_hour_in_bulk(chips) / handicap
    index = int(np.argmax(per_dollar))
    rate = float(rates[index])
    if candidate.pools is None:
        # The rate of the steady states is an upper bound. Bursts that fill all slots lower the capacity slightly.
        rate = min(rate, filled * layouts.service(index).most_requests_per_second)
    return rate, float(per_dollar[index])


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


#: Number of bisections between a rate that meets the SLOs and one that misses them [1].
_HALVINGS = 20
#: Number of equally spaced rates up to the analytical rate; simulations search among these and larger rates [1].
_STEPS = 128
#: Factor on the largest rate; the constraint that this slightly larger rate violates is reported [1].
_MORE = 1.02


@dataclass(frozen=True, slots=True, repr=False)
class MostTraffic(Recommendation):
    """Deployments with the largest request rates within the SLOs, best first.

    Attributes
    ----------
    means : Means
        Limit on GPUs, cost or power for each deployment. A deployment uses one kind of GPU.
    """

    page = "report.questions.recommend:MostTrafficPage"

    means: Means

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "means": self.means.record(),
            "targets": self.targets.record(),
            "choices": self.records(),
            **self._speed_record(),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per deployment."""
        return [{**choice.served_record(self.targets), **output_record(choice)} for choice in self]


def most_traffic(
    offers: Sequence[Candidate | Services],
    means: Means,
    targets: Targets | None = None,
    *,
    arrival_scv: float = 1.0,
    most: int = 5,
) -> MostTraffic:
    """Find the deployments that serve the most requests within a limit, best first.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidate deployments on one or several kinds of GPUs; see
        :func:`inference_econ.answers.deployments.serving_options.market` and
        :func:`inference_econ.answers.layout_services.offer`.
    means : Means
        Limit on GPUs, cost or power, for one kind of GPU.
    targets : Targets, optional
        SLOs; see :func:`recommend`.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    most : int
        Number of results [1].

    Returns
    -------
    MostTraffic
        Deployments at the largest rate that meets the SLOs, with the most instances within the limit. ``binding`` is
        the constraint that a slightly larger load would violate. Deployments are sorted by descending rate, then by
        ascending cost.

        The result has one deployment per recipe and aggregated instance size. A recipe also has a disaggregated
        deployment if it serves 10% more requests than aggregated deployments on the same GPU. The best deployment of
        every GPU is included.

    Raises
    ------
    InputError
        If an end-to-end SLO is set and all candidates are disaggregated. For disaggregated candidates, only the mean
        E2E latency is predicted.
    NothingFitsError
        If the limit is too small for one instance (the message has the number of GPUs that it needs), or if no layout
        meets the SLOs.

    Notes
    -----
    The largest steady request rate of a layout within the SLOs is an upper bound on its load. Layouts are evaluated in
    descending order of this bound. A layout is dropped if it misses the SLOs at the largest rate found so far for its
    instance size.

    A deployment is simulated only if its analytical rate is high enough for the result, or if its rate limits the
    search for disaggregated deployments.
    """
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv
    found, _, usual = with_default_slo(
        candidates,
        targets,
        lambda promised: _most_traffic(candidates, means, promised, arrival_scv, most),
    )
    return replace(found, usual=usual)


def _most_traffic(
    candidates: Sequence[Candidate], means: Means, targets: Targets, arrival_scv: float, most: int
) -> MostTraffic:
    """Find the deployments that serve the most requests within given SLOs; see :func:`most_traffic`."""
    failures, choices = list[Exception](), list[Deployment]()
    both = [candidate.services for candidate in candidates if candidate.pools is None]
    try:
        choices += _together(both, means, targets, arrival_scv, most) if both else []
    except NothingFitsError as error:
        failures.append(error)
    analytical = set(map(id, choices[1:]))

    def simulated(select: Callable[[], Sequence[Deployment]]) -> Sequence[Deployment]:
        """Simulate all selected deployments. A simulation may lower a rate, and so change the selection."""
        while waiting := [choice for choice in select() if id(choice) in analytical]:
            analytical.remove(id(waiting[0]))
            place = next(place for place, choice in enumerate(choices) if choice is waiting[0])
            choices[place : place + 1] = filter(None, [_played(waiting[0], targets, arrival_scv)])
        return select()

    def fastest(chip: str) -> list[Deployment]:
        """Aggregated deployment with the largest request rate on one kind of GPU, as a list; empty if there is none."""
        alike = (choice for choice in choices if choice.fleet is None and _chip(choice) == chip)
        return sorted(alike, key=_seconds)[:1]

    for candidate in candidates:
        if candidate.pools is None:
            continue
        best = simulated(partial(fastest, candidate.services.setup.hardware.name))
        least = (1.0 + SIMPLER) * best[0].requests_per_second if best else 0.0
        try:
            terms = DisaggregationTerms(targets, arrival_scv)
            fuller = replace(terms, fullest=terms.kept.fullest)
            fleet = largest(candidate.pools.pools, means, fuller, least=least)
        except (InputError, NothingFitsError) as error:
            failures.append(error)
            continue
        if fleet is not None:
            choices.append(Deployment.of_pools(fleet))
    if not choices:
        if both:
            raise failures[0]
        # Report the smallest amount by which a limit is too small, if a limit is the only reason.
        raise min(failures, key=lambda failure: failure.least if isinstance(failure, TooLittleError) else np.inf)
    ranked = simulated(lambda: some_of_each_chip(sorted(choices, key=_rank_by_rate), most))
    tried, left_out = sum(map(len, candidates)), _chips_without(ranked, candidates)
    return MostTraffic(tuple(ranked), targets, tried, arrival_scv, means, left_out=left_out)


def _together(
    offers: Sequence[Services], means: Means, targets: Targets, arrival_scv: float, most: int
) -> list[Deployment]:
    """Find aggregated deployments with the largest rates; at most one per item of ``offers`` and instance size.

    Only the rate of the first deployment is simulated; all other rates are analytical.
    """
    within, replicas = instances_within(offers, means)
    bounds = sorted(
        (
            (-float(rate), which, index)
            for which, layouts in enumerate(within)
            for index, rate in enumerate(replicas[which] * promised_rates(layouts, targets))
            if rate > 0.0
        )
    )
    kept: dict[tuple[int, int, bool], Deployment] = {}
    for bound, which, index in bounds:
        service = within[which].service(index)
        key = which, service.accelerators, bool(is_plain(service.plans, service.setup.assumptions.layout).all())
        chip, plain = service.setup.hardware.name, key[2]
        same = [choice for choice in kept.values() if _chip(choice) == chip]
        level = int(complexity(service.setup.hardware, service.plans, disaggregated=False).max())
        least = 1.0 / cost_limit(same, _seconds, level, plain=plain, most=most)
        least = max(least, kept[key].requests_per_second) if key in kept else least
        if -bound <= least:
            continue
        choice = _fullest(service, int(replicas[which][index]), targets.predicted(service), -bound, least, arrival_scv)
        if choice is not None:
            kept[key] = choice
    ranked = some_of_each_chip(sorted(worth_their_complexity(list(kept.values()), _seconds), key=_rank_by_rate), most)
    for place, choice in enumerate(ranked):
        best = _played(choice, targets, arrival_scv)
        if best is not None:
            return [best, *ranked[place + 1 :]]
    raise NothingFitsError(
        nothing_kept(within, targets, lambda service, wanted: most_of_one(service, wanted, arrival_scv) is not None)
    )


def _seconds(choice: Deployment) -> float:
    """Reciprocal of the request rate of a deployment [s]; it is proportional to the cost of a request."""
    return 1.0 / choice.requests_per_second


def _chip(choice: Deployment) -> str:
    """GPU name of a deployment."""
    return choice.service.setup.hardware.name


def most_of_one(service: Service, targets: Targets, arrival_scv: float = 1.0) -> Deployment | None:
    """Evaluate one instance at the largest load that meets the SLOs; None if no load meets them.

    Parameters
    ----------
    service : Service
        Instance.
    targets : Targets
        SLOs.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    """
    choice = _fullest(service, 1, targets.predicted(service), service.most_requests_per_second, 0.0, arrival_scv)
    return None if choice is None else _played(choice, targets, arrival_scv)


def _rank_by_rate(choice: Deployment) -> tuple[bool, float, float]:
    return choice.service.setup.is_bound, -choice.requests_per_second, choice.dollars_per_hour


def _played(choice: Deployment, targets: Targets, arrival_scv: float) -> Deployment | None:
    """Find the largest rate at which a deployment meets the SLOs, and simulate it where necessary.

    The result is None if even a small fraction of the analytical rate misses the SLOs.
    """
    service, step = choice.service, choice.load.requests_per_second / _STEPS
    play = simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))
    promised = targets.predicted(service)
    most = max(_STEPS, int(service.most_requests_per_second / step))

    @cache
    def load(number: int) -> Loaded:
        return play(number * step, choice.replicas)

    def broken(number: int) -> str | None:
        return promised.first_violated(load(number))

    @cache
    def closed(number: int) -> Loaded:
        return loaded(service, number * step, arrivals=choice.load.arrivals)

    # The search starts where the analytical model, scaled to the simulation, misses the SLOs. It may miss them a little
    # earlier than the simulation does, so the scale is that of the first simulated rate from the analytical rate on.
    beyond = range(_STEPS, most + 1)
    first = beyond[bisect_left(beyond[:-1], True, key=lambda number: needs_simulation(service, closed(number)))]
    scaled = promised.like(closed(first), load(first))

    def likely(number: int) -> bool:
        return scaled.first_violated(closed(number)) is not None

    guess = bisect_left(range(1, most), True, key=likely)
    place = capacity.fewest_near(lambda place: broken(place + 1) is not None, guess, most)
    kept = most if place is None else place
    return None if not kept else replace(choice, load=load(kept), binding=broken(kept + 1) or "capacity")


def instances_within(offers: Sequence[Services], means: Means) -> tuple[list[Services], list[Indices]]:
    """Layouts with at least one instance within the limit, and the largest number of instances of each layout.

    Raises
    ------
    NothingFitsError
        If no instance is within the limit; the message has the GPUs of the smallest instance.
    """
    within, counts = [], []
    for layouts in offers:
        sizes = layouts.plans.accelerators.astype(int)
        room = {size: means.most_instances(layouts.setup, size) for size in set(sizes.tolist())}
        count = np.array([room[size] for size in sizes.tolist()])
        chosen = np.flatnonzero(count)
        if chosen.size:
            within.append(layouts.take(chosen))
            counts.append(count[chosen])
    if not within:
        smallest: dict[str, Services] = {}
        for layouts in offers:
            chip = layouts.setup.hardware.name
            smallest[chip] = min(smallest.get(chip, layouts), layouts, key=_smallest)
        needed = (_needed(layouts, means) for layouts in smallest.values())
        raise NothingFitsError(f"{means.text}: {'; '.join(needed)}")
    return within, counts


def _smallest(layouts: Services) -> int:
    """Number of GPUs in the smallest instance of the layouts [1]."""
    return int(layouts.plans.accelerators.min())


def _needed(layouts: Services, means: Means) -> str:
    """Text with the number of GPUs in the smallest instance, and its cost or power."""
    setup, size = layouts.setup, _smallest(layouts)
    rented = int(setup.rented(1, size))
    paid = "" if rented == size else f", which are rented as {rented}"
    priced = means if means.accelerators is None else Means(dollars_per_hour=1.0)
    taken = priced.in_words(rented * priced.taken(setup))
    return f"{setup.model.name} ({setup.precision.weights}) needs at least {size} {setup.hardware.name}{paid} ({taken})"


def _fullest(
    service: Service, replicas: int, targets: Targets, most: float, least: float, arrival_scv: float
) -> Deployment | None:
    """Find the largest rate at which some replicas meet the SLOs; None if this rate does not exceed ``least``."""
    arrivals = as_poisson(service.requests, arrival_scv).among(replicas)

    @cache
    def load(rate: float) -> Loaded:
        return loaded(service, rate / replicas, arrivals=arrivals)

    def broken(rate: float) -> str | None:
        return targets.first_violated(load(rate))

    if least > 0.0 and broken(least) is not None:
        return None
    low, high = capacity.most(lambda rate: broken(rate) is None, least, most, _HALVINGS)
    if low <= least * (1.0 + 1e-6):
        return None
    bill = float(service.setup.dollars_per_hour(replicas, service.accelerators))
    return Deployment(service, replicas, load(low), bill, broken(max(high, low * _MORE)) or "capacity")


def output_record(choice: Deployment) -> dict[str, float]:
    """Output rates of a deployment as plain data."""
    return {"output_tokens_per_second": choice.requests_per_second * choice.service.requests.osl.mean}
