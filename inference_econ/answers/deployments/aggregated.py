"""Cheapest aggregated instances that meet the SLOs at a request rate."""

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
from inference_econ.answers.simplest import complexity, cost_limit, is_plain, worth_their_complexity
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


def _keeps(rate: float, arrival_scv: float, play: bool, service: Service, targets: Targets) -> bool:
    """True if a deployment of the service meets the SLOs with any number of instances."""
    choice = _fewest(service, rate, targets, math.inf, arrival_scv)
    if choice is not None and play and needs_simulation(service, choice.load):
        choice = _played(choice, rate, targets, math.inf, arrival_scv)
    return choice is not None


def _played(choice: Deployment, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Deployment | None:
    """Deployment with the fewest instances that meet the SLOs in a simulation; None if it costs more than the limit.

    For bursty arrivals, the analytical model may overestimate the number of instances, so smaller numbers are tried
    too. The relative resolution of the number is 1 / :data:`_FINEST`.
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
