"""The cheapest instances that read prompts and decode, and keep promises at a traffic."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import TypeVar

import numpy as np

from inference_econ._types import Progress
from inference_econ.answers.capacity import fewest, fewest_near
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.simplest import SIMPLER, complexity, is_plain, worth_their_complexity
from inference_econ.answers.slo import Targets, least_chance, nothing_kept, promised_rates
from inference_econ.errors import NothingFitsError
from inference_econ.serving import (
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
#: What costs more than so many times the cheapest of a chip is no choice [1].
_DEAREST = 4.0
#: Where a load is played, instances are counted as finely as one in so many, and up to so many times as many as closed
#: forms say [1].
_FINEST, _MOST_MORE = 16, 8
#: Layouts that are played at most; the next ones that would have to be are not chosen [1].
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
    """The cheapest instances that keep some promises, best first; one per offer and size of instance.

    Without those that a simpler one costs at most 10 % more than. On every GPU the cheapest with tensor parallelism
    alone is there as well.

    Parameters
    ----------
    offers : sequence of Services
        Layouts to choose from, of one engine on one kind of chip each (``offer``).
    requests_per_second : float
        The whole traffic [1/s].
    targets : Targets
        What is promised.
    arrival_scv : float
        Of the times between arrivals of the whole traffic, of which each instance gets a random part [1].
    most : int
        Choices wanted, shared evenly among the kinds of chips [1].
    play : bool
        Play what closed forms choose where they are not proven, and correct it; otherwise closed forms count.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    list of Deployment
        Ascending in cost; at equal cost those first that are likelier to keep the promises, then the quicker.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no layout keeps the promises even with a single request in flight, with the best that can be reached.

    Notes
    -----
    The steady states bound the rate that a layout can promise; only layouts whose bound is cheaper than the choices
    found so far are put under load: by closed forms, and, where these choose a layout but are not proven, by playing
    the load and adding instances until the promises hold.
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
        level = int(levels[which][index])
        same = [choice for (rival, *_), choice in kept.items() if chips[rival] == chips[which]]
        rivals = sorted(worth_their_complexity(same, bill), key=bill)
        limit = bill(rivals[most_each - 1]) if len(rivals) >= most_each else math.inf
        if plain and most_each > 1:
            limit = max(limit, min((bill(choice) for choice in rivals if choice.is_plain), default=math.inf))
        simpler = (bill(choice) / (1.0 + SIMPLER) for choice in same if choice.complexity < level)
        limit = min(limit, kept[key].dollars_per_hour if key in kept else math.inf, *simpler)
        if bound > limit:
            continue
        service = layouts.service(index)
        promised = targets.predicted(service)
        choice = _fewest(service, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and key in kept and ranked_by(choice) >= ranked_by(kept[key]):
            continue
        if play and choice is not None and needs_simulation(choice.service, choice.load):
            played += 1
            last = played > _MOST_PLAYED
            choice = None if last else _played(choice, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and (key not in kept or ranked_by(choice) < ranked_by(kept[key])):
            kept[key] = choice
    if not kept:
        raise NothingFitsError(nothing_kept(offers, targets, partial(_keeps, requests_per_second, arrival_scv, play)))
    listed: list[Deployment] = []
    for chip in dict.fromkeys(chips[which] for which, *_ in kept):
        same = [choice for (which, *_), choice in kept.items() if chips[which] == chip]
        ranked = sorted(worth_their_complexity(same, bill), key=ranked_by)
        near = [choice for choice in ranked if choice.dollars_per_hour <= _DEAREST * ranked[0].dollars_per_hour]
        listed += with_plain(near[:most_each], ranked)
    return sorted(listed, key=ranked_by)


def with_plain(chosen: Sequence[DeploymentT], ranked: Sequence[DeploymentT]) -> list[DeploymentT]:
    """Chosen deployments with the first of all ranked ones that has tensor parallelism alone, if several are wanted."""
    plain = next((choice for choice in ranked if choice.is_plain), None)
    if plain is None or len(chosen) < 2 or any(choice.is_plain for choice in chosen):
        return list(chosen)
    return [*chosen, plain]


def rank(targets: Targets, choice: Deployment) -> tuple[float, float, float]:
    """Key that deployments are ordered by: cost; at equal cost the probability of promises; then the mean TPOT."""
    return round(choice.dollars_per_hour, 6), -least_chance(choice.chances(targets)), choice.load.tpot_seconds["mean"]


def _fewest(service: Service, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Deployment | None:
    """The fewest replicas of a service that keep the promises, if they cost no more than the limit."""
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


def _keeps(rate: float, arrival_scv: float, play: bool, service: Service, targets: Targets) -> bool:
    """Whether some number of instances keeps the promises."""
    choice = _fewest(service, rate, targets, math.inf, arrival_scv)
    if choice is not None and play and needs_simulation(service, choice.load):
        choice = _played(choice, rate, targets, math.inf, arrival_scv)
    return choice is not None


def _played(choice: Deployment, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Deployment | None:
    """A choice with as many instances as its load needs where it is played, at least those of closed forms.

    Of bursty arrivals closed forms may want more than are needed, so that fewer are tried as well. None if these cost
    more than the limit. Numbers of instances are told apart as finely as one in :data:`_FINEST`.
    """
    service, closed_fewest = choice.service, choice.replicas
    arrivals = arrivals_of(service.requests, arrival_scv)
    play, grain = simulate_where_needed(service, arrivals), -(-closed_fewest // _FINEST)
    below = max(1, math.ceil(rate / service.most_requests_per_second)) if arrivals.scv > 1.0 else closed_fewest
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
        """As closed forms have it, with what is promised as much shorter as they were off with the fewest instances."""
        calm = as_poisson(service.requests, arrival_scv).among(tried[place])
        closed = loaded(service, rate / tried[place], arrivals=calm)
        return targets.like(choice.load, shared(closed_fewest)).first_violated(closed) is None

    affordable = bisect_left(tried, True, key=lambda replicas: bill(replicas) > limit)
    # Most that are dearer than others show it with as many instances as they could be.
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
