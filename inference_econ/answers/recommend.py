"""The cheapest deployment that keeps its promises at a traffic."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from inference_econ._types import Progress
from inference_econ.answers.margins import Margins, margins
from inference_econ.engine import check_confidence
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs import Quantity
from inference_econ.serving import Loaded, Service, Services, check_rate, is_unproven, loaded, served

Array = npt.NDArray[np.float64]


#: Share of what an instance can do that it is filled to where no request rate is given [1].
FILLED = 0.8
#: Share of what an instance completes beyond which nobody plans: the wait there hangs on the last digit [1].
FULLEST = 0.98
#: Where a load is played, instances are counted as finely as one in so many, and up to so many times as many as closed
#: forms say [1].
_FINEST, _MOST_MORE = 16, 8
#: Layouts that are played at most; the next ones that would have to be are not chosen [1].
_MOST_PLAYED = 12


@dataclass(frozen=True, slots=True)
class Targets:
    """Promises to users.

    Attributes
    ----------
    ttft_seconds, tpot_seconds : float
        Longest time to first token, and per output token [s]; ``inf`` if nothing is promised.
    percentile : str
        Which requests must see them: ``mean``, ``p50``, ``p90`` or ``p99``.
    confidence : float or None
        Probability that a measured server keeps each of them, above 0.5 and at most 0.9 [1]; None for predictions
        without a margin.
    fullest : float
        Share of what an instance completes beyond which nobody plans [1].

    Raises
    ------
    InputError
        If a time is not positive, the percentile unknown, or the confidence out of its range or without a promise.
    """

    ttft_seconds: float = math.inf
    tpot_seconds: float = math.inf
    percentile: str = "p90"
    confidence: float | None = None
    fullest: float = FULLEST

    def __post_init__(self) -> None:
        """Refuse impossible promises."""
        for name, value in (("ttft", self.ttft_seconds), ("tpot", self.tpot_seconds)):
            if not value > 0:
                raise InputError(f"a promised {name} must be positive, got {value:g} s")
        if self.percentile not in ("mean", "p50", "p90", "p99"):
            raise InputError(f"percentile: got {self.percentile!r}; allowed: mean, p50, p90, p99")
        if self.confidence is not None:
            check_confidence(self.confidence)
            if not self.promised:
                raise InputError("confidence: nothing is promised that could be kept; give a --ttft or a --tpot")

    @property
    def promised(self) -> tuple[Quantity, ...]:
        """Which latencies are promised."""
        limits: dict[Quantity, float] = {"ttft": self.ttft_seconds, "tpot": self.tpot_seconds}
        return tuple(name for name, limit in limits.items() if limit < math.inf)

    @property
    def label(self) -> str:
        """Which requests must see them, and how probable that must be, in words."""
        return self.percentile if self.confidence is None else f"{self.percentile}, with {100 * self.confidence:g} %"

    def predicted(self, service: Service) -> Targets:
        """What predictions for a service must keep, so that a measured one keeps these with their confidence."""
        return self if self.confidence is None else self.less(self.margins(service))

    def margins(self, layouts: Services | Service) -> Margins:
        """What promises are divided by before predictions for each of n layouts are held against them [1]."""
        if self.confidence is None:
            return Margins(*np.ones((3, layouts.plans.accelerators.size)))
        return margins(layouts, self.confidence, self.promised)

    def less(self, by: Margins) -> Targets:
        """These with margins taken off, those of the layout that has the widest; no confidence is left to be kept."""
        ttft, tpot, throughput = (float(each.max()) for each in by)
        return replace(
            self,
            ttft_seconds=self.ttft_seconds / ttft,
            tpot_seconds=self.tpot_seconds / tpot,
            fullest=self.fullest / throughput,
            confidence=None,
        )

    def broken(self, load: Loaded) -> str | None:
        """What a load breaks: capacity, ttft or tpot; None if all is kept."""
        if load.saturated or load.utilization > self.fullest:
            return "capacity"
        if load.ttft_seconds[self.percentile] > self.ttft_seconds:
            return "ttft"
        return "tpot" if load.tpot_seconds[self.percentile] > self.tpot_seconds else None


@dataclass(frozen=True, slots=True)
class Choice:
    """One deployment that keeps its promises.

    Attributes
    ----------
    service : Service
        One instance.
    replicas : int
        Fewest instances that keep the promises [1].
    load : Loaded
        Of one instance.
    dollars_per_hour : float
        Of all [USD/h].
    binding : str
        What one instance less would break: capacity, ttft or tpot; or ``instance``, if there is only one.
    """

    service: Service
    replicas: int
    load: Loaded
    dollars_per_hour: float
    binding: str

    @property
    def accelerators(self) -> int:
        """Chips of all instances [1]."""
        return self.replicas * self.service.accelerators

    @property
    def rented(self) -> int:
        """Chips of the machines that hold them [1]."""
        return int(self.service.setup.rented(self.replicas, self.service.accelerators))

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """The whole bill over output tokens [USD per 1e6 tokens]."""
        tokens_per_second = self.replicas * self.load.completed_per_second * self.service.requests.osl.mean
        return float(money.dollars_per_million(self.dollars_per_hour / 3600.0, tokens_per_second))


def recommend(
    offers: Sequence[Services],
    requests_per_second: float | None,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    most: int = 5,
    play: bool = True,
    progress: Progress | None = None,
) -> list[Choice]:
    """The cheapest deployments that keep some promises, best first; one per size of instance and kind of chip.

    Parameters
    ----------
    offers : sequence of Services
        Layouts to choose from, of one kind of chip each (:func:`inference_econ.answers.offer.offer`).
    requests_per_second : float or None
        The whole traffic [1/s]; None for what fills one instance of the cheapest layout (:func:`natural_rate`).
    targets : Targets
        What is promised.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    most : int
        Choices wanted, shared evenly among the kinds of chips [1].
    play : bool
        Play what closed forms choose where they are not proven, and correct it; otherwise closed forms count.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    list of Choice
        Ascending in cost; at equal cost the quicker first.

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
    if requests_per_second is None:
        requests_per_second = natural_rate(offers, targets)
    check_rate(requests_per_second)
    bounds = []
    for which, layouts in enumerate(offers):
        rates = promised_rates(layouts, targets)
        replicas = np.ceil(requests_per_second / np.maximum(rates, 1e-300))
        sizes = layouts.plans.accelerators
        cost = np.where(rates > 0.0, layouts.setup.dollars_per_hour(replicas, sizes), np.inf)
        bounds += [(float(cost[index]), which, int(index)) for index in np.flatnonzero(np.isfinite(cost))]
    kept: dict[tuple[int, int], Choice] = {}
    most_each, played = max(1, most // len(offers)), 0
    for number, (bound, which, index) in enumerate(sorted(bounds)):
        if progress is not None:
            progress(number / len(bounds), f"{len(bounds)} layouts")
        layouts = offers[which]
        key = which, int(layouts.plans.accelerators[index])
        rivals = sorted(choice.dollars_per_hour for (rival, _), choice in kept.items() if rival == which)
        limit = min(
            kept[key].dollars_per_hour if key in kept else math.inf,
            rivals[most_each - 1] if len(rivals) >= most_each else math.inf,
        )
        if bound > limit:
            continue
        service = layouts.service(index)
        promised = targets.predicted(service)
        choice = _fewest(service, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and key in kept and _rank(choice) >= _rank(kept[key]):
            continue
        if play and choice is not None and is_unproven(choice.service, choice.load):
            played += 1
            last = played > _MOST_PLAYED
            choice = None if last else _played(choice, requests_per_second, promised, limit, arrival_scv)
        if choice is not None and (key not in kept or _rank(choice) < _rank(kept[key])):
            kept[key] = choice
    if not kept:
        raise NothingFitsError(best_reachable(offers, targets))
    listed = [
        choice
        for which in range(len(offers))
        for choice in sorted((one for (rival, _), one in kept.items() if rival == which), key=_rank)[:most_each]
    ]
    return sorted(listed, key=_rank)


def natural_rate(offers: Sequence[Services], targets: Targets) -> float:
    """What fills an instance of the layout whose requests are the cheapest, as far as is planned [1/s].

    The share is :data:`FILLED` of what it can do within the promises.
    """
    best, rate = 0.0, FILLED
    for layouts in offers:
        rates = promised_rates(layouts, targets)
        per_dollar = rates / layouts.setup.dollars_per_hour_in_bulk(layouts.plans.accelerators)
        index = int(np.argmax(per_dollar))
        if per_dollar[index] > best:
            best, rate = float(per_dollar[index]), FILLED * float(rates[index])
    return rate


def _rank(choice: Choice) -> tuple[float, float]:
    return choice.dollars_per_hour, choice.load.tpot_seconds["mean"]


def promised_rates(layouts: Services, targets: Targets) -> Array:
    """The largest steady rate of each layout whose mean latencies keep the promises; 0 if none does [1/s].

    Between two steady states as :meth:`inference_econ.serving.services.Service.at` reads them. A percentile of a loaded
    instance may be below the mean only for the median of the TTFT, whose fixed part is then what counts.
    """
    states = layouts.states
    fixed = states.ttft_seconds - states.queue_seconds - states.running_seconds
    rates: Array = states.requests_per_second
    last, share = rates.shape[1] - 1, np.full(len(layouts), np.inf)
    ones = np.ones(len(layouts))
    by = Margins(ones, ones, ones)
    if targets.confidence is not None:
        by = margins(layouts, targets.confidence, targets.promised)
    for values, limit in (
        (states.tpot_seconds, targets.tpot_seconds / by.tpot),
        (fixed, targets.ttft_seconds / by.ttft),
    ):
        # All that is kept comes before all that is not: how many states, and the part of the way to the next.
        kept = np.count_nonzero(values <= limit[:, None], axis=1)
        low, high = (np.take_along_axis(values, np.clip(kept[:, None] + k, 0, last), axis=1)[:, 0] for k in (-1, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.log(limit / low) / np.log(high / low)
        reached = np.where((kept > 0) & (kept <= last), kept - 1 + np.clip(beyond, 0.0, 1.0), kept - 1.0)
        share = np.minimum(share, reached)
    below = np.clip(np.floor(share), 0, last).astype(np.intp)
    first, second = (np.take_along_axis(rates, np.minimum(below + k, last)[:, None], axis=1)[:, 0] for k in (0, 1))
    kept_rates = np.where(share < 0.0, 0.0, first * (second / first) ** np.clip(share - below, 0.0, 1.0))
    return np.minimum(kept_rates, rates[:, -1] / by.throughput)


def _fewest(service: Service, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Choice | None:
    """The fewest replicas of a service that keep the promises, if they cost no more than the limit."""

    def shared(replicas: int) -> Loaded:
        return loaded(service, rate / replicas, arrival_scv=arrival_scv)

    def bill(replicas: int) -> float:
        return float(service.setup.dollars_per_hour(replicas, service.accelerators))

    low = high = max(1, math.ceil(rate / service.most_requests_per_second))
    while targets.broken(shared(high)) is not None:
        if bill(high) > limit or high > 1e9 or (high > low and rate / high < 1e-6):
            return None
        low, high = high + 1, 2 * high
    # Between the last number that breaks something and one that does not.
    fewest = low + bisect_left(range(low, high), True, key=lambda replicas: targets.broken(shared(replicas)) is None)
    broken = "instance" if fewest == 1 else targets.broken(shared(fewest - 1)) or "capacity"
    return Choice(service, fewest, shared(fewest), bill(fewest), broken)


def _played(choice: Choice, rate: float, targets: Targets, limit: float, arrival_scv: float) -> Choice | None:
    """A choice with as many instances as its load needs where it is played, at least those of closed forms.

    None if these cost more than the limit. Instances are added in growing steps, and taken away again by halves, to
    about one in :data:`_FINEST`: a dozen plays at most for three times as many.
    """
    service, fewest = choice.service, choice.replicas
    load = served(service, arrival_scv)

    @cache
    def shared(replicas: int) -> Loaded:
        return load(rate / replicas)

    grain, low, high = -(-fewest // _FINEST), fewest, fewest

    def bill(replicas: int) -> float:
        return float(service.setup.dollars_per_hour(replicas, service.accelerators))

    while targets.broken(shared(high)) is not None:
        if bill(high) > limit or high > _MOST_MORE * fewest + _MOST_MORE:
            return None
        low, high = high + 1, high + max(2 * (high - fewest), grain)
    tried = range(low, high, grain)
    place = bisect_left(tried, True, key=lambda replicas: targets.broken(shared(replicas)) is None)
    needed = tried[place] if place < len(tried) else high
    binding = choice.binding if needed == fewest else targets.broken(shared(max(needed - grain, fewest))) or "capacity"
    return replace(choice, replicas=needed, load=shared(needed), dollars_per_hour=bill(needed), binding=binding)


def best_reachable(every: Sequence[Services], targets: Targets) -> str:
    """One message: what the quickest layouts reach with a single request in flight."""
    best: list[str] = []
    for layouts in every:
        sizes, by = layouts.plans.accelerators, targets.margins(layouts)
        tpot, ttft = layouts.states.tpot_seconds[:, 0] * by.tpot, layouts.states.ttft_seconds[:, 0] * by.ttft
        quickest, soonest = int(np.argmin(tpot)), int(np.argmin(ttft))
        best.append(
            f"{layouts.setup.hardware.name}: TPOT {1e3 * float(tpot[quickest]):.3g} ms on {sizes[quickest]:g} "
            f"accelerators, TTFT {1e3 * float(ttft[soonest]):.4g} ms on {sizes[soonest]:g}"
        )
    wanted = ", ".join(
        f"{name} {1e3 * value:g} ms"
        for name, value in (("TTFT", targets.ttft_seconds), ("TPOT", targets.tpot_seconds))
        if value < math.inf
    )
    return (
        f"no deployment keeps {wanted} ({targets.label}), even with one request in flight. Best reachable: "
        f"{'; '.join(best)}"
    )
