"""Largest request rate within SLOs on given GPUs, or within a budget or a power limit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from inference_econ._types import Indices
from inference_econ.answers import capacity
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.recommend import Recommendation, as_candidates, some_of_each_chip
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import DisaggregationTerms
from inference_econ.answers.disaggregated.size_pools import largest
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.simplest import SIMPLER, complexity, is_plain, worth_their_complexity
from inference_econ.answers.slo import Targets, nothing_kept, promised_rates
from inference_econ.errors import InputError, NothingFitsError, TooLittleError
from inference_econ.serving import (
    Loaded,
    Service,
    Services,
    arrivals_of,
    as_poisson,
    loaded,
    needs_simulation,
    simulate_where_needed,
)

#: Number of bisections between a rate that meets the SLOs and one that misses them [1].
_HALVINGS = 20
#: Number of equally spaced rates, up to the analytical rate, among which simulations search [1].
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
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per deployment."""
        return [{**choice.served_record(self.targets), **output_record(choice)} for choice in self]


def most_traffic(
    offers: Sequence[Candidate | Services], means: Means, targets: Targets, *, arrival_scv: float = 1.0, most: int = 5
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
    targets : Targets
        SLOs.
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

    The analytical rate is an upper bound on the simulated rate. A deployment is simulated only if its analytical rate
    is high enough for the result, or if its rate limits the search for disaggregated deployments.
    """
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv
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
        raise failures[0] if both else min(failures, key=_lacking)
    ranked = simulated(lambda: some_of_each_chip(sorted(choices, key=_rank), most))
    return MostTraffic(tuple(ranked), targets, sum(map(len, candidates)), arrival_scv, means)


def _lacking(failure: Exception) -> float:
    """Resources that the smallest disaggregated deployment needs, if they exceed the limit.

    The value is ``inf`` if disaggregated serving is not possible for another reason.
    """
    return failure.least if isinstance(failure, TooLittleError) else np.inf


def _together(
    offers: Sequence[Services], means: Means, targets: Targets, arrival_scv: float, most: int
) -> list[Deployment]:
    """Find aggregated deployments with the largest rates; at most one per item of ``offers`` and instance size.

    Only the rate of the first deployment is simulated; all other rates are upper bounds.
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
        rivals = sorted(worth_their_complexity(same, _seconds), key=_seconds)
        least = rivals[most - 1].requests_per_second if len(rivals) >= most else 0.0
        if plain and most > 1:
            least = min(least, max((choice.requests_per_second for choice in rivals if choice.is_plain), default=0.0))
        level = int(complexity(service.setup.hardware, service.plans, disaggregated=False).max())
        simpler = ((1.0 + SIMPLER) * choice.requests_per_second for choice in same if choice.complexity < level)
        least = max(least, kept[key].requests_per_second if key in kept else 0.0, *simpler)
        if -bound <= least:
            continue
        choice = _fullest(service, int(replicas[which][index]), targets.predicted(service), -bound, least, arrival_scv)
        if choice is not None:
            kept[key] = choice
    ranked = some_of_each_chip(sorted(worth_their_complexity(list(kept.values()), _seconds), key=_rank), most)
    for place, choice in enumerate(ranked):
        best = _played(choice, targets, arrival_scv)
        if best is not None:
            return [best, *ranked[place + 1 :]]
    raise NothingFitsError(nothing_kept(within, targets, partial(_keeps, arrival_scv)))


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


def _keeps(arrival_scv: float, service: Service, targets: Targets) -> bool:
    """True if a single instance of the service meets the SLOs at any load."""
    return most_of_one(service, targets, arrival_scv) is not None


def _rank(choice: Deployment) -> tuple[bool, float, float]:
    return choice.service.setup.is_bound, -choice.requests_per_second, choice.dollars_per_hour


def _played(choice: Deployment, targets: Targets, arrival_scv: float) -> Deployment | None:
    """Find the largest rate, up to the analytical rate, at which a simulated deployment meets the SLOs.

    The result is None if even a small fraction of the analytical rate misses the SLOs.
    """
    if not needs_simulation(choice.service, choice.load):
        return choice
    service, step = choice.service, choice.load.requests_per_second / _STEPS
    play = simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))
    promised = targets.predicted(service)

    @cache
    def load(number: int) -> Loaded:
        return play(number * step, choice.replicas)

    def broken(number: int) -> str | None:
        return promised.first_violated(load(number))

    if broken(_STEPS) is None:
        return replace(choice, load=load(_STEPS))
    # The search starts where the analytical model, scaled to the simulation, misses the SLOs.
    scaled, calm = promised.like(choice.load, load(_STEPS)), choice.load.arrivals

    def likely(number: int) -> bool:
        return scaled.first_violated(loaded(service, number * step, arrivals=calm)) is not None

    guess = bisect_left(range(1, _STEPS), True, key=likely)
    place = capacity.fewest_near(lambda place: broken(place + 1) is not None, min(guess, _STEPS - 2), _STEPS - 1)
    kept = _STEPS - 1 if place is None else place
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
