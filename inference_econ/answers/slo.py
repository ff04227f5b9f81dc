"""How much better than a promise each layout must be predicted, so that measured servers keep it with a probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.layout_services import beyond_model
from inference_econ.engine import Instances, Setup, bare_key, bounds, chance, check_confidence, layout_keys, margin
from inference_econ.errors import InputError
from inference_econ.formulas import special
from inference_econ.inputs import Quantity
from inference_econ.inputs.workload import percentiles
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Loaded, Service, Services, loaded, new_tokens, quantiles

#: Latencies that can be promised: the quantity whose errors speak for each, and what messages call measurements of it.
_PROMISED: Mapping[str, tuple[Quantity, str]] = {
    "ttft": ("ttft", "TTFTs"),
    "tpot": ("tpot", "TPOTs"),
    "e2e": ("request", "times of requests"),
}


class Margins(NamedTuple):
    """Divisors of promises before predictions are held against them; at least 1, shape (n,) [1]."""

    ttft: Array
    """Of the time to first token."""
    tpot: Array
    """Of the time per output token."""
    e2e: Array
    """Of the time to the last token."""
    throughput: Array
    """Of the share of what an instance completes that it is filled to; 1 where no throughput was fitted."""


def margins(layouts: Services | Service, confidence: float, promised: Collection[str]) -> Margins:
    """The margins of each of n layouts.

    Parameters
    ----------
    layouts : Services or Service
        What is served, how.
    confidence : float
        Probability that each promise is kept [1].
    promised : collection of {'ttft', 'tpot', 'e2e'}
        What is promised.

    Returns
    -------
    Margins
        1 for latencies that are not promised.

    Raises
    ------
    InputError
        If the confidence is out of its range, or how far off predictions of what is promised are is not known.
    """
    every = instances_of(layouts)
    keys = list(zip(every.accelerators, every.layouts, strict=True))
    by_key = {key: every._replace(accelerators=[key[0]], layouts=[key[1]]) for key in keys}

    def of(quantity: Quantity, unknown: str = "") -> Array:
        margins_of = {key: margin_of(instances, quantity, confidence) for key, instances in by_key.items()}
        if unknown and None in margins_of.values():
            raise InputError(_unknown(layouts.setup, unknown))
        return np.array([margins_of[key] or 1.0 for key in keys])

    ones = np.ones(len(keys))
    ttft, tpot, e2e = (of(*about) if name in promised else ones for name, about in _PROMISED.items())
    return Margins(ttft, tpot, e2e, of("throughput"))


def margin_of(instances: Instances, quantity: Quantity, confidence: float) -> float | None:
    """The margin of the instance that is the most unlike what was measured [1]; None if nobody knows."""
    return margin(instances.setup.assumptions, quantity, confidence, bounds.subjects_of(instances))


def instances_of(layouts: Services | Service) -> Instances:
    """Each of n layouts as an instance that may be unlike what was measured, whatever its load."""
    requests = layouts.requests
    return Instances(
        layouts.setup,
        layouts.plans.accelerators.tolist(),
        isl=requests.isl.mean,
        osl=requests.osl.mean,
        speculates=layouts.speculation is not None,
        layouts=layout_keys(layouts.plans, layouts.setup.assumptions.layout),
    )


def _unknown(setup: Setup, what: str) -> str:
    return (
        f"confidence: nobody knows how far off {setup.assumptions.name} is on {setup.hardware.name}, as it was fitted "
        f"to no measured {what}; leave --confidence out, take a fitted profile (--assumptions profiles/servers; a "
        "what-if of assumptions makes it unfitted), or fit one to measurements: inference-econ calibrate --help"
    )


#: What is promised: time to first token, per output token, and to the last token.
NAMES = ("ttft", "tpot", "e2e")
#: Share of what an instance completes beyond which nobody plans: the wait there hangs on the last digit [1].
FULLEST = 0.98
#: The same where nothing is promised that a full instance would break first [1].
FILLED = 0.8
#: Share of the prompts that is shorter than the shortest that counts [1].
_SHORTEST = 1e-3
#: Requests below come when few others are there, so that steady states of a load do not bound what they see [1].
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Targets:
    """Promises to users.

    Attributes
    ----------
    ttft_seconds, tpot_seconds : float
        Longest time to first token, and per output token [s]; ``inf`` if nothing is promised.
    percentile : str
        Which requests must see those that do not say: ``mean``, or any percentile from ``p1`` to ``p99.9``.
    e2e_seconds : float
        Longest time to the last token [s]; ``inf`` if nothing is promised.
    confidence : float or None
        Probability that a measured server keeps each of them, above 0.5 and at most 0.9 [1]; None for predictions
        without a margin.
    fullest : float
        Share of what an instance completes beyond which nobody plans [1]: by default :data:`FULLEST`, or
        :data:`FILLED` where nothing is promised.
    ttft_percentile, tpot_percentile, e2e_percentile : str or None
        Which requests must see each of them; None for ``percentile``.

    Raises
    ------
    InputError
        If a time is not positive, a percentile unknown, or the confidence out of its range or without a promise.

    Examples
    --------
    >>> Targets(1.0, 0.03, ttft_percentile="p95", tpot_percentile="mean").text
    'p95 TTFT 1000 ms, mean TPOT 30 ms'
    """

    ttft_seconds: float = math.inf
    tpot_seconds: float = math.inf
    percentile: str = "p90"
    e2e_seconds: float = math.inf
    confidence: float | None = None
    fullest: float = math.nan
    ttft_percentile: str | None = None
    tpot_percentile: str | None = None
    e2e_percentile: str | None = None

    def __post_init__(self) -> None:
        """Refuse impossible promises."""
        for name, value in self.every.items():
            if not value > 0:
                raise InputError(f"a promised {name} must be positive, got {value:g} s")
        for name in ("percentile", *(f"{name}_percentile" for name in NAMES)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, percentiles.percentile(getattr(self, name)))
        if math.isnan(self.fullest):
            object.__setattr__(self, "fullest", FULLEST if self.given else FILLED)
        if self.confidence is not None:
            check_confidence(self.confidence)
            if not self.given:
                raise InputError(
                    "confidence: nothing is promised that could be kept; give a --ttft, --tpot or --e2e",
                    option="confidence",
                )

    @property
    def every(self) -> dict[str, float]:
        """All three by name; ``inf`` where nothing is promised [s]."""
        return {name: getattr(self, f"{name}_seconds") for name in NAMES}

    def record(self) -> dict[str, object]:
        """Return the promises as plain data; null where there is none."""
        return {
            **{f"{name}_seconds": finite_or_none(seconds) for name, seconds in self.every.items()},
            **{f"{name}_percentile": self.percentile_of(name) for name in self.every},
            "confidence": self.confidence,
        }

    @property
    def given(self) -> dict[str, float]:
        """Promised times, by name [s]."""
        return {name: seconds for name, seconds in self.every.items() if seconds < math.inf}

    def percentile_of(self, name: str) -> str:
        """Which requests must see one of them."""
        return getattr(self, f"{name}_percentile") or self.percentile

    def finds_few(self, name: str) -> bool:
        """Whether those count that find few other requests, so that steady states of a load bound nothing for them."""
        share = percentiles.share(self.percentile_of(name))
        return share is not None and share < _FEW

    @property
    def common(self) -> str | None:
        """The percentile that all have, also where nothing is promised; None if they differ."""
        distinct = {self.percentile_of(name) for name in self.given or NAMES}
        return distinct.pop() if len(distinct) == 1 else None

    def statistic(self, name: str, load: Loaded) -> float:
        """Latency of one kind that the requests that count see under a load [s]."""
        times: Mapping[str, float] = getattr(load, f"{name}_seconds")
        return times[self.percentile_of(name)]

    def relaxed(self, name: str, seconds: float) -> Targets:
        """Promises with another value of one of them [s]; where nothing else is left, without a confidence."""
        times = {**self.every, name: seconds}
        confidence = self.confidence if any(limit < math.inf for limit in times.values()) else None
        return self._timed(times, confidence)

    def like(self, first_load: Loaded, second_load: Loaded) -> Targets:
        """Promises about the first of two accounts of a load that are kept where these are kept of the second."""
        times = {}
        for name, seconds in self.every.items():
            if name not in self.given:
                times[name] = seconds
                continue
            first, second = self.statistic(name, first_load), self.statistic(name, second_load)
            times[name] = seconds * (first / second) if 0.0 < second < math.inf else seconds
        return self._timed(times, self.confidence)

    def predicted(self, service: Service) -> Targets:
        """Promises that predictions for a service must keep for a measured one to keep these with their confidence."""
        return self if self.confidence is None else self.less(self.margins(service))

    def margins(self, layouts: Services | Service) -> Margins:
        """Divisors of promises before predictions for each of n layouts are held against them [1]."""
        if self.confidence is None:
            return Margins(*np.ones((len(Margins._fields), layouts.plans.accelerators.size)))
        return margins(layouts, self.confidence, self.given)

    def less(self, by: Margins) -> Targets:
        """These with margins taken off, those of the layout that has the widest; no confidence is left to be kept."""
        widest = {name: float(factors.max()) for name, factors in by._asdict().items()}
        times = {name: limit / widest[name] for name, limit in self.every.items()}
        return replace(self._timed(times, None), fullest=self.fullest / widest["throughput"])

    def _timed(self, times: Mapping[str, float], confidence: float | None) -> Targets:
        """Promises with other values of all [s], and another confidence."""
        ttft, tpot, e2e = (times[name] for name in NAMES)
        return replace(self, ttft_seconds=ttft, tpot_seconds=tpot, e2e_seconds=e2e, confidence=confidence)

    @property
    def text(self) -> str:
        """The promises in words, with which requests must see them and how probable that must be; empty without any."""
        common = self.common
        texts = [
            f"{'' if common else f'{self.percentile_of(name)} '}{name.upper()} {1e3 * seconds:g} ms"
            for name, seconds in self.given.items()
        ]
        surely = None if self.confidence is None else f"with {100 * self.confidence:g} %"
        beside = ", ".join(word for word in (common, surely) if word)
        return f"{', '.join(texts)} ({beside})" if texts and beside else ", ".join(texts)

    def first_violated(self, load: Loaded) -> str | None:
        """Promise that a load breaks: capacity, ttft, tpot or e2e; None if all is kept."""
        if load.saturated or load.utilization > self.fullest * (1.0 + 1e-9):
            return "capacity"
        return next((name for name, seconds in self.given.items() if self.statistic(name, load) > seconds), None)


def promised_rates(layouts: Services, targets: Targets) -> Array:
    """The largest steady rate of each layout whose mean latencies keep the promises; 0 if none does [1/s].

    Between two steady states as :meth:`inference_econ.serving.services.Service.at` reads them. No percentile of a
    loaded instance is below what requests of that percentile take without others before them; percentiles below the
    median are those of requests that find few others, whatever the load.
    """
    states = layouts.states
    tpot, ttft, e2e = (_least_seconds(layouts, name, targets) for name in ("tpot", "ttft", "e2e"))
    rates: Array = states.requests_per_second
    last, share = rates.shape[1] - 1, np.full(len(layouts), np.inf)
    by = targets.margins(layouts)
    for values, limit in (
        (tpot, targets.tpot_seconds / by.tpot),
        (ttft, targets.ttft_seconds / by.ttft),
        (e2e, targets.e2e_seconds / by.e2e),
    ):
        # All that is kept comes before all that is not: how many states, and the part of the way to the next.
        kept = np.count_nonzero(values <= limit[:, None], axis=1)
        low, high = (np.take_along_axis(values, np.clip(kept[:, None] + k, 0, last), axis=1)[:, 0] for k in (-1, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.log(limit / low) / np.log(high / low)
        reached = np.where((kept > 0) & (kept <= last), kept - 1 + np.clip(beyond, 0.0, 1.0), kept - 1.0)
        share = np.minimum(share, reached)
    below = np.clip(np.floor(share), 0, last).astype(np.intp)
    lower, upper = (np.take_along_axis(rates, np.minimum(below + k, last)[:, None], axis=1)[:, 0] for k in (0, 1))
    kept_rates = np.where(share < 0.0, 0.0, lower * (upper / lower) ** np.clip(share - below, 0.0, 1.0))
    return np.asarray(np.minimum(kept_rates, rates[:, -1] / by.throughput))


def _least_seconds(layouts: Services, name: str, targets: Targets) -> Array:
    """Least time of the percentile of a promise in every steady state, shape (n, k) [s].

    A request is no sooner through than a prompt, or an answer, of its percentile is by itself.
    """
    states, requests = layouts.states, layouts.requests
    fixed, share = states.fixed_seconds, percentiles.share(targets.percentile_of(name))
    if share is None:
        answering = requests.decode_steps * states.tpot_seconds
        return {"tpot": states.tpot_seconds, "ttft": fixed, "e2e": fixed + answering}[name]
    least = states.tpot_seconds if name == "tpot" else _least_of_length(layouts, name, share)
    return np.broadcast_to(least[:, :1], least.shape) if targets.finds_few(name) else least


def _least_of_length(layouts: Services, name: str, share: float) -> Array:
    """Least TTFT, or time to the last token, of requests with the length that a share does not exceed [s]."""
    states, requests, which = layouts.states, layouts.requests, np.array([share])
    prompt, shortest = (float(new_tokens(requests, some)[0]) for some in (which, np.array([_SHORTEST])))
    first, soonest = (
        states.fixed_seconds + states.prompts.of_length(some, states.beside_seconds) for some in (prompt, shortest)
    )
    if name == "ttft":
        return first
    answer = max(float(quantiles(requests.osl, which)[0]) - 1.0, 0.0)
    # Who decodes with many others may meet none of their prompts.
    return np.maximum(first, soonest + answer * states.decode_seconds)


def check_mean(promises: Targets | None) -> Targets:
    """The promises, none by default.

    Raises
    ------
    InputError
        If they are not about means: a steady state has no queue, and no spread of latencies.
    """
    if promises is None:
        return Targets(percentile="mean")
    if promises.common != percentiles.MEAN:
        spread = next(name for name in promises.given or NAMES if promises.percentile_of(name) != percentiles.MEAN)
        raise InputError(
            f"{percentiles.MEANS_ONLY}, got {promises.percentile_of(spread)}; give percentile='mean', or ask recommend"
        )
    return promises


def kept_states(seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> npt.NDArray[np.bool_]:
    """Which states keep the promises as a mean, shape (n, k); what is seen are means by name, that of TPOT among them.

    Where there is no state, the TPOT is NaN, and nothing is kept.
    """
    kept = [seen[name] <= limit for name, limit in promises.given.items()]
    return np.asarray(np.logical_and.reduce([np.isfinite(seen["tpot"]), *kept]))


def why_none_is_kept(setup: Setup, seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> str:
    """Promise that is kept by no state, and the least that can be promised instead."""
    promised = " and ".join(f"{name.upper()} of {1e3 * value:.4g} ms" for name, value in promises.given.items())
    least = []
    for name in promises.given:
        others = kept_states(seen, promises.relaxed(name, math.inf))
        if others.any():
            least.append(f"a {name.upper()} of {_upwards(seen[name][others].min())} ms")
    if not least:
        first = np.lexsort([seen[name].ravel() for name in reversed(promises.given)])[0]
        every = (f"a {name.upper()} of {_upwards(seen[name].ravel()[first])} ms" for name in promises.given)
        least = [" and ".join(every)]
    return (
        f"nothing keeps a mean {promised}, not even without a queue: {setup.model.name} ({setup.precision.weights}) on "
        f"{setup.hardware.name}; relax the SLO to {' or to '.join(least)} at least"
    )


def _upwards(seconds: float) -> str:
    """A time with four digits, rounded up so that it can be promised [ms]."""
    milliseconds = 1e3 * seconds
    digit = 10.0 ** (math.floor(math.log10(milliseconds)) - 3)
    return f"{math.ceil(milliseconds / digit) * digit:.4g}"


class Chances(NamedTuple):
    """Probabilities from 0.05 to 0.95, which stand for less and for more [1].

    None for what is not promised, or where the assumptions were fitted to nothing that says how far off it may be.
    """

    ttft: float | None
    """That the TTFT is not longer."""
    tpot: float | None
    """That the TPOT is not longer."""
    e2e: float | None
    """That the time to the last token is not longer."""
    capacity: float | None
    """That the traffic is no more than what instances complete."""


def least_chance(chances: Chances) -> float:
    """The probability of the latency that is promised and least likely to be kept; 1 where nobody knows any [1]."""
    return min((value for value in chances[:3] if value is not None), default=1.0)


def chances(service: Service, load: Loaded, targets: Targets) -> Chances:
    """The probabilities that promises hold for a service under a load, each by itself.

    Parameters
    ----------
    service : Service
        One instance.
    load : Loaded
        Of it, as predicted.
    targets : Targets
        What is promised; its confidence does not count.
    """
    instances = instances_of(service)
    return chances_of(instances, instances, load, targets)


def chances_of(reading: Instances, decoding: Instances, load: Loaded, targets: Targets) -> Chances:
    """Chances of promises where some instances read prompts and others decode."""
    seen = {name: targets.statistic(name, load) for name in targets.given}
    room = math.inf if not load.utilization > 0.0 else 1.0 / load.utilization
    return Chances(
        _kept(reading, "ttft", targets.ttft_seconds, seen.get("ttft")),
        _kept(decoding, "tpot", targets.tpot_seconds, seen.get("tpot")),
        _kept(decoding, "request", targets.e2e_seconds, seen.get("e2e")),
        _chance(decoding, "throughput", room),
    )


def _kept(instances: Instances, quantity: Quantity, promised: float, predicted: float | None) -> float | None:
    """That a latency is not longer than promised [1]; None if nothing is."""
    if predicted is None:
        return None
    # Answers of one token have no time between tokens, and keep any promise of it.
    return 1.0 if predicted == 0.0 else _chance(instances, quantity, promised / predicted)


def _chance(instances: Instances, quantity: Quantity, slack: float) -> float | None:
    return chance(instances.setup.assumptions, quantity, slack, bounds.subjects_of(instances))


def chances_record(chances: Chances) -> dict[str, float | None]:
    """Probabilities as plain data; null where nothing is promised or nobody knows, 0.05 and 0.95 stand for beyond."""
    names = {"capacity": "p_capacity_sufficient"}
    return {names.get(name, f"p_{name}_met"): value for name, value in chances._asdict().items()}


#: Load of an instance that is nearly idle, and of one that never serves two requests at a time, over what it completes
#: [1].
_IDLE, _ALONE = 1e-3, 1e-6
#: Room above what an idle instance reaches, so that more than one request can be served; and what is added to it, so
#: many times at most, until some number of instances keeps it [1].
_ROOM, _MORE, _TIMES = 1.02, 1.1, 12


@dataclass(frozen=True, slots=True)
class Relaxed:
    """One promise, relaxed so far that all others can be kept.

    Attributes
    ----------
    name : str
        Which promise: ttft, tpot or e2e.
    seconds : float
        What could be promised [s], in two digits.
    service : Service
        An instance of the deployment that keeps it.
    """

    name: str
    seconds: float
    service: Service


def nothing_kept(every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]) -> str:
    """One message: that no deployment keeps the promises, and which of them to relax to what.

    Parameters
    ----------
    every : sequence of Services
        Layouts to choose from.
    targets : Targets
        The promises.
    keeps : callable
        Whether a deployment of some service can keep some promises under the traffic.

    Notes
    -----
    Which promise to relax is not looked for where requests are longer than the model was made for: shorter ones are
    what helps, and with such long ones the search takes several times as long as everything else.
    """
    sentence = f"no deployment keeps {targets.text or 'up'}, even with one request in flight"
    if too_long := beyond_model(every[0].setup.model, every[0].requests):
        return f"{sentence}: {too_long}, or promise less. {best_reachable(every, targets)}"
    relaxed = list(relaxations(every, targets, keeps))
    ways = [f"{way.name.upper()} {1e3 * way.seconds:,.9g} ms would do ({_label(way.service)})" for way in relaxed]
    helpless = [name.upper() for name in targets.given if name not in {way.name for way in relaxed}]
    if helpless and len(targets.given) > 1:
        ways.append(f"{' or '.join(helpless)} alone, however long, would not")
    would_do = f": {'; '.join(ways)}" if ways else ""
    return f"{sentence}{would_do}. {best_reachable(every, targets)}"


def relaxations(
    every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]
) -> Iterator[Relaxed]:
    """Each promise by itself at the least value with which all others are kept; none where that takes more.

    The least that somebody would pay for: below it, instances that are nearly always idle may keep it too.
    """
    idle = [
        (service, _filled(service, _IDLE)) for layouts in every for service in map(layouts.service, range(len(layouts)))
    ]
    for name in targets.given:
        others = targets.relaxed(name, math.inf)
        possible = [
            (targets.statistic(name, load), index)
            for index, (service, load) in enumerate(idle)
            if others.predicted(service).first_violated(load) is None
        ]
        if possible:
            least, index = min(possible)
            seconds = _least_kept(idle[index][0], targets, name, least, keeps)
            if seconds is not None:
                yield Relaxed(name, seconds, idle[index][0])


def _least_kept(
    service: Service, targets: Targets, name: str, least: float, keeps: Callable[[Service, Targets], bool]
) -> float | None:
    """Least that a service can promise beside all else, from what it reaches when it is idle [s]; None if nothing."""
    wanted = least * _ROOM
    for _ in range(_TIMES):
        seconds = _rounded_up(wanted)
        if keeps(service, targets.relaxed(name, seconds)):
            return seconds
        wanted = seconds * _MORE
    return None


def _rounded_up(seconds: float) -> float:
    """The next number of two digits [s]."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / unit - 1e-9) * unit:.2g}")


def _filled(service: Service, share: float) -> Loaded:
    return loaded(service, share * service.most_requests_per_second)


def _label(service: Service) -> str:
    """Chips and degrees of an instance in words."""
    degrees = service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])
    named = ", ".join(f"{name}{degrees[name]:g}" for name in ("tp", "dp", "pp", "ep") if degrees.get(name, 1) != 1)
    chips = f"{service.accelerators} x {service.setup.hardware.name}"
    return f"{chips}, {named}" if named else chips


def best_reachable(every: Sequence[Services], targets: Targets) -> str:
    """Latencies that the quickest layouts on each chip reach with a single request in flight."""
    chips: dict[str, list[tuple[Loaded, Service]]] = {}
    for layouts in every:
        services = map(layouts.service, range(len(layouts)))
        chips.setdefault(layouts.setup.hardware.name, []).extend(
            (_filled(layout, _ALONE), layout) for layout in services
        )
    best: list[str] = []
    for chip, loads in chips.items():
        reached = []
        for name in targets.given or ("ttft", "tpot"):
            seconds, size = min((targets.statistic(name, load), service.accelerators) for load, service in loads)
            reached.append(f"{name.upper()} {float(f'{1e3 * seconds:.4g}'):,.9g} ms on {size} accelerators")
        best.append(f"{chip}: {', '.join(reached)}")
    return f"Best reachable: {'; '.join(best)}"


#: Half of the width of an interval of 80 % of a normal distribution, in standard deviations [1].
_HALF_WIDTH = float(special.normal_quantiles(np.array(0.9)))


#: The least cost at a speed [tokens/s] or beyond, in any unit, and whose it is: of all layouts, or of those alone that
#: some measured server had; None where nothing is as fast.
LeastAt = Callable[[float, bool], tuple[float, Instances] | None]


class Likely(NamedTuple):
    """A predicted cost, and where it probably is."""

    dollars: float
    """As predicted, in any unit that is compared."""
    low: float | None
    """The lower end of the 80 % interval of measured servers; None where nobody knows errors."""
    high: float | None
    """The upper end; None where nobody knows errors, or nothing is as fast at it."""
    instances: Instances
    """Instances that cost so much."""

    @property
    def spread(self) -> tuple[float, float] | None:
        """Mean and standard deviation of ln(measured) if errors are normal [1]; None where nobody knows them."""
        if self.low is None or self.high is None:
            return None
        low, high = math.log(self.low), math.log(self.high)
        return (low + high) / 2.0, (high - low) / 2.0 / _HALF_WIDTH


def interval_scale(instances: Instances) -> float:
    """Width of the 80 % interval of a cost over that of the errors of its speed and its rate, as logarithms [1].

    Speed and rate err with the same steps, so an interval that adds both errors is too wide. Layouts that nobody
    measured, where others of the model on the GPU were, err more. The widths are those at which the intervals hold
    four fifths of the measured servers of docs/evidence/costs.md.
    """
    levels = instances.setup.levels
    if instances.speculates or (levels is not None and levels.apart):
        return 0.6
    if levels is None or levels.known is None:
        return 1.0
    return 0.8 if all(bare_key(layout) in levels.known.aggregated for layout in instances.layouts) else 1.3


def scaled(end: Array | float, cost: Array | float, scale: float) -> Array | float:
    """An end of an interval around a cost whose width is scaled, as logarithms."""
    return cost * (end / cost) ** scale


def likely_ends(least: LeastAt, speed: float, instances: Instances) -> tuple[float | None, float | None] | None:
    """Where the least cost of a speed probably is.

    Parameters
    ----------
    least : callable
        Costs of speeds.
    speed : float
        Of a user [tokens/s].
    instances : Instances
        Whose errors count: those that are the cheapest.

    Returns
    -------
    (float or None, float or None) or None
        The lower end is that of a frontier that is faster and cheaper by the good ends of errors of speed and of cost,
        the upper one that of a frontier that is slower and dearer by the bad ones; None where nothing is as fast. None
        for both where nobody knows the errors.

    Notes
    -----
    The cheapest of many candidates is probably dearer than it was predicted to be, most of all where nobody measured
    its layout. Whoever deploys it and is disappointed falls back on one that was measured: so the upper end is no less
    than that of the cheapest such layout.
    """
    tpot, rate = (bounds.around(instances, quantity) for quantity in ("tpot", "throughput"))
    if tpot is None or rate is None:
        return None
    good, bad, cost = least(speed * tpot.low, False), least(speed * tpot.high, False), least(speed, False)
    if cost is None:
        return None, None
    scale = interval_scale(instances)
    low = None if good is None else float(scaled(good[0] / rate.high, cost[0], scale))
    high = None if bad is None else float(scaled(bad[0] / rate.low, cost[0], scale))
    measured = None if high is None or any(instances.measured) else least(speed, True)
    beside = None if measured is None else likely_ends(lambda at, _: least(at, True), speed, measured[1])
    if high is not None and beside is not None and beside[1] is not None:
        high = max(high, beside[1])
    return low, high


def of_throughput(dollars: float, instances: Instances) -> Likely:
    """A cost that is in inverse proportion to what instances complete."""
    likely = bounds.around(instances, "throughput")
    if likely is None:
        return Likely(dollars, None, None, instances)
    return Likely(dollars, dollars / likely.high, dollars / likely.low, instances)


def chance_below(first: Likely, second: Likely) -> float | None:
    """The probability that the first cost is below the second; None where nobody knows the errors of one of them.

    Parameters
    ----------
    first, second : Likely
        In one unit.

    Returns
    -------
    float or None
        From 0.05 to 0.95, which stand for less and for more: tails are not known [1].

    Notes
    -----
    ln(measured / predicted) of both is taken to be normal, with the mean and the width of its interval of 80 %; the
    correlation is :func:`shared_share`. So the difference is normal too.
    """
    spread, other = first.spread, second.spread
    if spread is None or other is None:
        return None
    shared = shared_share(first.instances, second.instances)
    variance = spread[1] ** 2 + other[1] ** 2 - 2.0 * shared * spread[1] * other[1]
    if variance <= 0.0:
        return 0.5 if spread[0] == other[0] else 0.95 if spread[0] < other[0] else 0.05
    chance = float(special.normal_shares(np.array((other[0] - spread[0]) / math.sqrt(variance))))
    return min(max(chance, 0.05), 0.95)


def shared_share(first: Instances, second: Instances) -> float:
    """The share of the variance of errors that two predictions have in common [1].

    Nothing under different profiles, or for different models or chips: errors of the time per token of two chips under
    the same engine, model and load hardly go together (rank correlation 0.15, ``sh run.sh validate
    error-correlations``). For one model on one chip under one profile, what its levels vary by around the profile, by
    version, and, if both are served in the same way, by that
    (:class:`inference_econ.inputs.MeasuredLevels`); nothing where none were measured.
    A chip or model with some fields changed stands for the same servers, so that all of it is shared.
    """
    setup, other = first.setup, second.setup
    levels = setup.assumptions.levels
    alike = setup.model.name == other.model.name and setup.hardware.name == other.hardware.name
    if levels is None or not alike or setup.assumptions.name != other.assumptions.name:
        return 0.0
    if setup.model != other.model or setup.hardware != other.hardware:
        return 1.0
    spreads = levels.spreads["tpot"]
    common = spreads.subject**2 + spreads.version**2
    if first.speculates == second.speculates:
        common += spreads.way**2
    if list(first.layouts) == list(second.layouts):
        common += spreads.deployment**2
    every = (spreads.subject, spreads.version, spreads.way, spreads.deployment, spreads.row)
    return common / sum(spread**2 for spread in every)
