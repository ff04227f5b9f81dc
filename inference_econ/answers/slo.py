"""SLOs, the safety margins for a given confidence, and the probability that a measured server meets the SLOs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine import (
    Instances,
    Setup,
    bare_key,
    bounds,
    chance,
    check_confidence,
    evidence_of,
    layout_keys,
    margin,
)
from inference_econ.errors import InputError
from inference_econ.formulas import special
from inference_econ.inputs import Quantity
from inference_econ.inputs.workload import percentiles
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Loaded, Service, Services, loaded, new_tokens, quantiles

#: For each kind of latency SLO: the error statistic that applies, and the name of the latency in messages.
_PROMISED: Mapping[str, tuple[Quantity, str]] = {
    "ttft": ("ttft", "TTFTs"),
    "tpot": ("tpot", "TPOTs"),
    "e2e": ("request", "times of requests"),
}


class Margins(NamedTuple):
    """Safety margins of n layouts: divisors of the SLOs that a prediction must meet, at least 1, shape (n,) [1]."""

    ttft: Array
    """Divisor of the TTFT SLO."""
    tpot: Array
    """Divisor of the TPOT SLO."""
    e2e: Array
    """Divisor of the end-to-end SLO."""
    throughput: Array
    """Divisor of the maximum load; 1 if the throughput error is unknown."""


def margins(layouts: Services | Service, confidence: float, promised: Collection[str]) -> Margins:
    """Compute the safety margins of n layouts.

    Parameters
    ----------
    layouts : Services or Service
        Layouts of one setup, for which prediction errors are looked up.
    confidence : float
        Probability that each SLO is met [1].
    promised : collection of {'ttft', 'tpot', 'e2e'}
        Latencies with an SLO.

    Returns
    -------
    Margins
        Safety margins; 1 for latencies without an SLO.

    Raises
    ------
    InputError
        If the confidence is out of range, or the error of a latency with an SLO is unknown.
    """
    every, setup = instances_of(layouts), layouts.setup
    keys = list(zip(every.accelerators, every.layouts, strict=True))
    by_key = {key: every._replace(accelerators=[key[0]], layouts=[key[1]]) for key in keys}

    def of(quantity: Quantity, unknown: str = "") -> Array:
        margins_of = {
            key: margin(setup.assumptions, quantity, confidence, bounds.subjects_of(instances))
            for key, instances in by_key.items()
        }
        if unknown and None in margins_of.values():
            raise InputError(
                f"confidence: {setup.assumptions.name} has no prediction errors on {setup.hardware.name}, because it "
                f"was not fitted to measurements of {unknown}. Leave --confidence out, use a fitted profile "
                "(--assumptions profiles/servers, without what-ifs), or fit one with inference-econ calibrate."
            )
        return np.array([margins_of[key] or 1.0 for key in keys])

    ones = np.ones(len(keys))
    ttft, tpot, e2e = (of(*about) if name in promised else ones for name, about in _PROMISED.items())
    return Margins(ttft, tpot, e2e, of("throughput"))


def instances_of(layouts: Services | Service) -> Instances:
    """Describe n layouts as instances without a load, for which prediction errors can be looked up."""
    requests = layouts.requests
    return Instances(
        layouts.setup,
        layouts.plans.accelerators.tolist(),
        isl=requests.isl.mean,
        osl=requests.osl.mean,
        speculates=layouts.speculation is not None,
        layouts=layout_keys(layouts.plans, layouts.setup.assumptions.layout),
    )


#: Latencies with SLOs: time to first token, time per output token, time to last token.
NAMES = ("ttft", "tpot", "e2e")
#: Largest planned load, as a share of the capacity [1]. Above this load, queueing time is too sensitive to the load.
FULLEST = 0.98
#: Planned load of prefill instances, and load at the default request rate, as a share of the capacity [1].
FILLED = 0.8
#: Quantile of prompt lengths that stands for the shortest prompt [1].
_SHORTEST = 1e-3
#: Percentile below which requests run with few other requests, so that a steady state is no bound on their latency [1].
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Targets:
    """SLOs on latencies.

    Attributes
    ----------
    ttft_seconds, tpot_seconds : float
        Longest time to first token, and longest time per output token [s]; ``inf`` for no SLO.
    percentile : str
        Default statistic of the SLOs: ``mean``, or a percentile from ``p1`` to ``p99.9``.
    e2e_seconds : float
        Longest time to the last token [s]; ``inf`` for no SLO.
    confidence : float or None
        Required probability that a measured server meets each SLO, above 0.5 and at most 0.9 [1]; None for no safety
        margin.
    fullest : float
        Largest planned load as a share of the capacity [1]. Without SLOs, the default is the same, so that a deployment
        within some SLOs is never cheaper than one without SLOs.
    ttft_percentile, tpot_percentile, e2e_percentile : str or None
        Statistic of each SLO; None for the default ``percentile``.
    is_default : bool
        True if the query sets no SLO, and the default TPOT SLO of the model applies (:mod:`.deployments.default_slo`).
        The SLO is unset until candidates are known.

    Raises
    ------
    InputError
        If a time is not positive, a percentile is unknown, the confidence is out of range, or a confidence is set
        without SLOs.

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
    fullest: float = FULLEST
    ttft_percentile: str | None = None
    tpot_percentile: str | None = None
    e2e_percentile: str | None = None
    is_default: bool = False

    def __post_init__(self) -> None:
        for name, value in self.every.items():
            if not value > 0:
                raise InputError(f"the SLO of {name} must be positive, got {value:g} s")
        for name in ("percentile", *(f"{name}_percentile" for name in NAMES)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, percentiles.percentile(getattr(self, name)))
        if self.confidence is not None:
            check_confidence(self.confidence)
            if not self.given and not self.is_default:
                raise InputError(
                    "confidence: there is no SLO to meet; give --ttft, --tpot or --e2e", option="confidence"
                )

    @property
    def every(self) -> dict[str, float]:
        """Values of all three SLOs by name [s]; ``inf`` for no SLO."""
        return {name: getattr(self, f"{name}_seconds") for name in NAMES}

    def record(self) -> dict[str, object]:
        """Return the SLOs as plain data; missing SLOs are null."""
        return {
            **{f"{name}_seconds": finite_or_none(seconds) for name, seconds in self.every.items()},
            **{f"{name}_percentile": self.percentile_of(name) for name in self.every},
            "confidence": self.confidence,
        }

    @property
    def given(self) -> dict[str, float]:
        """Values of the SLOs that are set, by name [s]."""
        return {name: seconds for name, seconds in self.every.items() if seconds < math.inf}

    def percentile_of(self, name: str) -> str:
        """Statistic of one SLO: ``mean``, or a percentile such as ``p90``."""
        return getattr(self, f"{name}_percentile") or self.percentile

    def finds_few(self, name: str) -> bool:
        """True if requests at the percentile of an SLO may share the server with few other requests (below p50).

        The steady state is not a bound on the latency of these requests.
        """
        share = percentiles.share(self.percentile_of(name))
        return share is not None and share < _FEW

    @property
    def common(self) -> str | None:
        """Statistic of all latencies, including those without an SLO; None if their statistics differ."""
        distinct = {self.percentile_of(name) for name in self.given or NAMES}
        return distinct.pop() if len(distinct) == 1 else None

    def statistic(self, name: str, load: Loaded) -> float:
        """Value of one latency under a load, at the statistic of the latency's SLO [s]."""
        times: Mapping[str, float] = getattr(load, f"{name}_seconds")
        return times[self.percentile_of(name)]

    def relaxed(self, name: str, seconds: float) -> Targets:
        """Copy of the SLOs in which one SLO has another value [s].

        If no SLO remains, the confidence is removed.
        """
        times = {**self.every, name: seconds}
        confidence = self.confidence if any(limit < math.inf for limit in times.values()) else None
        return self._timed(times, confidence)

    def like(self, first_load: Loaded, second_load: Loaded) -> Targets:
        """Convert the SLOs from one prediction method to another (analytical model and simulation).

        The adjusted SLOs are as strict for ``first_load`` as the original SLOs are for ``second_load``.
        """
        times = {}
        for name, seconds in self.every.items():
            if name not in self.given:
                times[name] = seconds
                continue
            first, second = self.statistic(name, first_load), self.statistic(name, second_load)
            times[name] = seconds * (first / second) if 0.0 < second < math.inf else seconds
        return self._timed(times, self.confidence)

    def predicted(self, service: Service) -> Targets:
        """Stricter SLOs that a prediction must meet.

        If a prediction meets the stricter SLOs, a server meets the original SLOs with the required confidence.
        """
        return self if self.confidence is None else self.less(self.margins(service))

    def margins(self, layouts: Services | Service) -> Margins:
        """Safety margins for each of n layouts [1]: divisors of the SLOs."""
        if self.confidence is None:
            return Margins(*np.ones((len(Margins._fields), layouts.plans.accelerators.size)))
        return margins(layouts, self.confidence, self.given)

    def less(self, by: Margins) -> Targets:
        """SLOs divided by the largest safety margin of all layouts. The new SLOs have no confidence."""
        widest = {name: float(factors.max()) for name, factors in by._asdict().items()}
        times = {name: limit / widest[name] for name, limit in self.every.items()}
        return replace(self._timed(times, None), fullest=self.fullest / widest["throughput"])

    def _timed(self, times: Mapping[str, float], confidence: float | None) -> Targets:
        """Copy of the SLOs with other times [s] and another confidence."""
        ttft, tpot, e2e = (times[name] for name in NAMES)
        return replace(self, ttft_seconds=ttft, tpot_seconds=tpot, e2e_seconds=e2e, confidence=confidence)

    @property
    def text(self) -> str:
        """SLOs as text, with statistics and confidence; empty without SLOs."""
        common = self.common
        texts = [
            f"{'' if common else f'{self.percentile_of(name)} '}{name.upper()} {1e3 * seconds:g} ms"
            for name, seconds in self.given.items()
        ]
        surely = None if self.confidence is None else f"with {100 * self.confidence:g} %"
        beside = ", ".join(word for word in (common, surely) if word)
        return f"{', '.join(texts)} ({beside})" if texts and beside else ", ".join(texts)

    def first_violated(self, load: Loaded) -> str | None:
        """First constraint that a load violates: capacity, ttft, tpot or e2e; None if it violates no constraint."""
        if load.saturated or load.utilization > self.fullest * (1.0 + 1e-9):
            return "capacity"
        return next((name for name, seconds in self.given.items() if self.statistic(name, load) > seconds), None)


def promised_rates(layouts: Services, targets: Targets) -> Array:
    """Largest steady request rate of each layout within the SLOs [1/s]; 0 if no rate meets the SLOs.

    Values between two steady states are interpolated as in :meth:`inference_econ.serving.services.Service.at`. For an
    SLO on a percentile, the rate is an upper bound, because it assumes the latency of a request at this percentile of
    the length, without queueing. Requests at percentiles below the median may run with few other requests at any load,
    so their latency is assumed to be the lowest at any load.
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
        # States that meet the SLOs come first. Count them, then interpolate to the next state.
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
    """Lower bound on the latency at the percentile of an SLO, in every steady state, shape (n, k) [s].

    The bound is the latency of a request without queueing, with a prompt or output length at that percentile.
    """
    states, requests = layouts.states, layouts.requests
    fixed, share = states.fixed_seconds, percentiles.share(targets.percentile_of(name))
    if share is None:
        answering = requests.decode_steps * states.tpot_seconds
        return {"tpot": states.tpot_seconds, "ttft": fixed, "e2e": fixed + answering}[name]
    least = states.tpot_seconds if name == "tpot" else _least_of_length(layouts, name, share)
    return np.broadcast_to(least[:, :1], least.shape) if targets.finds_few(name) else least


def _least_of_length(layouts: Services, name: str, share: float) -> Array:
    """Lower bound on the TTFT or end-to-end latency of requests with a length at a quantile, shape (n, k) [s]."""
    states, requests, which = layouts.states, layouts.requests, np.array([share])
    prompt, shortest = (float(new_tokens(requests, some)[0]) for some in (which, np.array([_SHORTEST])))
    first, soonest = (
        states.fixed_seconds + states.prompts.of_length(some, states.beside_seconds) for some in (prompt, shortest)
    )
    if name == "ttft":
        return first
    answer = max(float(quantiles(requests.osl, which)[0]) - 1.0, 0.0)
    # A request that decodes with many other requests may still see none of their prefills.
    return np.maximum(first, soonest + answer * states.decode_seconds)


def check_mean(promises: Targets | None) -> Targets:
    """Check that all SLOs apply to means, and return them; by default, no SLO is set.

    Raises
    ------
    InputError
        If an SLO applies to a percentile. A steady state has no queue and no latency distribution.
    """
    if promises is None:
        return Targets(percentile="mean")
    if promises.common != percentiles.MEAN:
        spread = next(name for name in promises.given or NAMES if promises.percentile_of(name) != percentiles.MEAN)
        raise InputError(
            f"{spread}: {percentiles.MEANS_ONLY} (got {promises.percentile_of(spread)}); "
            "write mean:TIME, or use recommend",
            option=spread,
        )
    return promises


def kept_states(seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> npt.NDArray[np.bool_]:
    """True for steady states whose mean latencies meet the SLOs, shape (n, k).

    ``seen`` has the mean latencies by name, including TPOT. A state with an undefined TPOT (NaN) does not exist, so its
    entry is False.
    """
    kept = [seen[name] <= limit for name, limit in promises.given.items()]
    return np.asarray(np.logical_and.reduce([np.isfinite(seen["tpot"]), *kept]))


def why_none_is_kept(setup: Setup, seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> str:
    """Message that no steady state meets the SLOs, with the smallest feasible value of an SLO."""
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
    """Time rounded up to four digits, as text [ms]."""
    milliseconds = 1e3 * seconds
    digit = 10.0 ** (math.floor(math.log10(milliseconds)) - 3)
    return f"{math.ceil(milliseconds / digit) * digit:.4g}"


class Chances(NamedTuple):
    """Probability that a measured server meets each SLO [1].

    The values 0.05 and 0.95 mean "at most 0.05" and "at least 0.95".

    A probability is None without an SLO, or if the assumptions have no error estimate.
    """

    ttft: float | None
    """Probability that the TTFT SLO is met."""
    tpot: float | None
    """Probability that the TPOT SLO is met."""
    e2e: float | None
    """Probability that the end-to-end SLO is met."""
    capacity: float | None
    """Probability that the instances sustain the request rate, P(capacity sufficient)."""


def least_chance(chances: Chances) -> float:
    """Smallest known probability among the latency SLOs [1]; 1 if no probability is known."""
    return min((value for value in chances[:3] if value is not None), default=1.0)


def chances(service: Service, load: Loaded, targets: Targets) -> Chances:
    """Compute the probability of meeting each SLO separately, for an instance under a load.

    Parameters
    ----------
    service : Service
        One instance.
    load : Loaded
        Predicted load of the instance.
    targets : Targets
        SLOs; their confidence is ignored.
    """
    instances = instances_of(service)
    return chances_of(instances, instances, load, targets)


def chances_of(reading: Instances, decoding: Instances, load: Loaded, targets: Targets) -> Chances:
    """Compute the probability of meeting each SLO from the errors of prefill and of decode instances.

    The TTFT has the prediction errors of prefill instances. All other quantities have the errors of decode instances.
    """
    seen = {name: targets.statistic(name, load) for name in targets.given}
    room = math.inf if not load.utilization > 0.0 else 1.0 / load.utilization
    return Chances(
        _kept(reading, "ttft", targets.ttft_seconds, seen.get("ttft")),
        _kept(decoding, "tpot", targets.tpot_seconds, seen.get("tpot")),
        _kept(decoding, "request", targets.e2e_seconds, seen.get("e2e")),
        _kept(decoding, "throughput", room, 1.0),  # the capacity is relative to the load
    )


def _kept(instances: Instances, quantity: Quantity, promised: float, predicted: float | None) -> float | None:
    """Probability that a measured latency is within its SLO [1]; None without an SLO."""
    if predicted is None:
        return None
    # Outputs of one token have no TPOT, so they meet any TPOT SLO.
    if predicted == 0.0:
        return 1.0
    return chance(instances.setup.assumptions, quantity, promised / predicted, bounds.subjects_of(instances))


def chances_record(chances: Chances) -> dict[str, float | None]:
    """Return the probabilities of meeting SLOs as plain data; None if unknown or without an SLO.

    Error quantiles are known only from 5% to 95%. A value of 0.05 means at most 5%, and 0.95 means at least 95%.
    """
    names = {"capacity": "p_capacity_sufficient"}
    return {names.get(name, f"p_{name}_met"): value for name, value in chances._asdict().items()}


#: Load of a nearly idle instance, and load at which two requests never run together, as shares of the capacity [1].
_IDLE, _ALONE = 1e-3, 1e-6
#: First factor on the latency of an idle instance, so that it can serve more than one request [1]. If the SLO is not
#: met, this factor is increased by the second number, up to a maximum number of times [1].
_ROOM, _MORE, _TIMES = 1.02, 1.1, 12


def nothing_kept(every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]) -> str:
    """Compose the message that no deployment meets the SLOs, with the SLO to relax and its smallest feasible value.

    Parameters
    ----------
    every : sequence of Services
        Aggregated layouts of all candidate deployments.
    targets : Targets
        SLOs.
    keeps : callable
        Function that returns True if a deployment of the given service can meet the given SLOs under the load.
    """
    sentence = f"no deployment keeps {targets.text or 'up'}, even with one request in flight"
    relaxed = {name: (seconds, service) for name, seconds, service in relaxations(every, targets, keeps)}
    ways = [
        f"{name.upper()} {1e3 * seconds:,.9g} ms would do ({_label(service)})"
        for name, (seconds, service) in relaxed.items()
    ]
    helpless = [name.upper() for name in targets.given if name not in relaxed]
    if helpless and len(targets.given) > 1:
        ways.append(f"{' or '.join(helpless)} alone, however long, would not")
    would_do = f": {'; '.join(ways)}" if ways else ""
    return f"{sentence}{would_do}. {best_reachable(every, targets)}"


def relaxations(
    every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]
) -> Iterator[tuple[str, float, Service]]:
    """Yield each SLO that makes all feasible if relaxed alone, its smallest feasible value [s], and a service.

    The value has two digits. Smaller values may be feasible with instances that are almost always idle.
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
                yield name, seconds, idle[index][0]


def _least_kept(
    service: Service, targets: Targets, name: str, least: float, keeps: Callable[[Service, Targets], bool]
) -> float | None:
    """Smallest value of one SLO with which a service meets all SLOs [s]; None if no tried value is sufficient.

    The search starts at the latency of an idle instance.
    """
    wanted = least * _ROOM
    for _ in range(_TIMES):
        # Round up to two digits.
        unit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
        seconds = float(f"{math.ceil(wanted / unit - 1e-9) * unit:.2g}")
        if keeps(service, targets.relaxed(name, seconds)):
            return seconds
        wanted = seconds * _MORE
    return None


def _filled(service: Service, share: float) -> Loaded:
    return loaded(service, share * service.most_requests_per_second)


def _label(service: Service) -> str:
    """Describe an instance as text, by its GPUs and parallelism degrees."""
    degrees = service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])
    named = ", ".join(f"{name}{degrees[name]:g}" for name in ("tp", "dp", "pp", "ep") if degrees.get(name, 1) != 1)
    chips = f"{service.accelerators} x {service.setup.hardware.name}"
    return f"{chips}, {named}" if named else chips


def best_reachable(every: Sequence[Services], targets: Targets) -> str:
    """Text with the lowest latencies of a single request on each kind of GPU, over all layouts."""
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


#: Half width of the 80% interval of a standard normal distribution [1].
_HALF_WIDTH = float(special.normal_quantiles(np.array(0.9)))


#: Function that returns the lowest costs at some speeds or above, shape (n,) [tokens/s], in any unit. If its second
#: argument is True, it uses only layouts of measured servers. Costs are infinite if no layout is as fast.
LeastAt = Callable[[Array, bool], Array]


class Likely(NamedTuple):
    """Predicted cost with its 80% interval, for comparisons of costs."""

    dollars: float
    """Predicted cost, in the same unit as the costs that it is compared with."""
    low: float | None
    """Lower end of the 80% interval; None without an error estimate."""
    high: float | None
    """Upper end of the 80% interval.

    The value is None without an error estimate, or if no deployment is fast enough at this end.
    """
    instances: Instances
    """Instances that have this cost, for which prediction errors can be looked up."""

    @property
    def spread(self) -> tuple[float, float] | None:
        """Mean and standard deviation of the logarithm of the measured cost (assumed to be normally distributed).

        The value is None without an error estimate.
        """
        if self.low is None or self.high is None:
            return None
        low, high = math.log(self.low), math.log(self.high)
        return (low + high) / 2.0, (high - low) / 2.0 / _HALF_WIDTH


#: Exponents of :func:`interval_scale` [1], set so that the intervals contain 80% of the servers in
#: docs/evidence/costs.md. The first two are for aggregated deployments with ``measured`` evidence, and with other
#: evidence. The third is for disaggregated deployments. The last is for disaggregated speculation in unmeasured
#: layouts.
_WIDTH_MEASURED, _WIDTH_UNMEASURED, _WIDTH_DISAGGREGATED, _WIDTH_UNKNOWN = 0.55, 0.85, 0.6, 1.1


def interval_scale(instances: Instances) -> float:
    """Exponent that narrows or widens the 80% interval of a cost [1].

    With the exponent s, :func:`likely_ends` replaces the ratio r of an interval end to the predicted cost by r^s. The
    ends combine the errors of speed and throughput. Errors of speed and throughput result from the same step times, so
    the combined interval is usually too wide. Deployments without measurements have larger errors, and a larger
    exponent.
    """
    setup, levels = instances.setup, instances.setup.levels
    if levels is not None and levels.apart:
        known = levels.known is not None and all(
            bare_key(each) in levels.known.aggregated for each in instances.layouts
        )
        return _WIDTH_UNKNOWN if instances.speculates and not known else _WIDTH_DISAGGREGATED
    evidence = evidence_of(setup, disaggregated=False, speculates=instances.speculates)
    return _WIDTH_MEASURED if evidence.kind == "measured" else _WIDTH_UNMEASURED


def likely_ends(least: LeastAt, speeds: Array, instances: Instances) -> tuple[Array, Array]:
    """Compute 80% intervals for the lowest costs at some speeds.

    Parameters
    ----------
    least : callable
        Function that returns the lowest costs at some speeds, see :data:`LeastAt`.
    speeds : ndarray, shape (n,)
        Output speeds of a user [tokens/s].
    instances : Instances
        Instances with the lowest costs. The prediction errors of the instances determine the intervals.

    Returns
    -------
    (ndarray, ndarray), shape (n,)
        Lower and upper ends. The lower end is the cost if TPOT is at the low end of its error interval, and throughput
        at the high end. The upper end is the cost if TPOT is at the high end, and throughput at the low end. The ends
        are NaN without an error estimate, and infinite if no deployment reaches the speed.

    Notes
    -----
    The cheapest of many candidates is probably more expensive than predicted, above all if its layout was never
    measured. A user can switch to a measured layout instead. The upper end is therefore at least the upper end of the
    cheapest measured layout. The measured layout is assumed to have the same errors.
    """
    tpot, rate = (bounds.around(instances, quantity) for quantity in ("tpot", "throughput"))
    if tpot is None or rate is None:
        unknown = np.full(speeds.shape, np.nan)
        return unknown, unknown
    costs, scale = least(speeds, False), interval_scale(instances)
    reached = np.where(np.isfinite(costs), costs, 1.0)
    ends = least(speeds * tpot.low, False) / rate.high, least(speeds * tpot.high, False) / rate.low
    low, high = (np.where(np.isfinite(costs), reached * (end / reached) ** scale, np.inf) for end in ends)
    if not any(instances.measured):
        measured = least(speeds * tpot.high, True) / rate.low
        high = np.where(np.isfinite(measured), np.maximum(high, measured), high)
    return low, high


def of_throughput(dollars: float, instances: Instances) -> Likely:
    """Add the 80% interval to a cost that is inversely proportional to the throughput."""
    likely = bounds.around(instances, "throughput")
    if likely is None:
        return Likely(dollars, None, None, instances)
    return Likely(dollars, dollars / likely.high, dollars / likely.low, instances)


def chance_below(first: Likely, second: Likely) -> float | None:
    """Compute the probability that the first cost is below the second; None if a cost has no error estimate.

    Parameters
    ----------
    first, second : Likely
        Costs in the same unit.

    Returns
    -------
    float or None
        Probability [1]. The values 0.05 and 0.95 mean "at most 0.05" and "at least 0.95", because the tails are
        unknown.

    Notes
    -----
    The logarithms of both measured costs are assumed to be normally distributed. Mean and width follow from the 80%
    interval of a cost. :func:`shared_share` is the correlation of the two logarithms. The difference of the logarithms
    is then also normally distributed.
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
    """Share of the error variance that two predictions have in common [1].

    The share is 0 if the predictions have different profiles, models or GPUs, or no measured corrections. For two GPUs
    with the same engine, model and load, TPOT errors are nearly uncorrelated (rank correlation 0.15, ``sh run.sh
    validate error-correlations``).

    For one model, GPU and profile, the share follows from the variances of the measured corrections
    (:class:`inference_econ.inputs.MeasuredLevels`). Two predictions always share the variances of the model on the GPU
    and of the engine version. They share the variance of speculation if both or neither use speculation. They share the
    variance of the layout if their layouts are equal. A what-if variant of a GPU or model has the errors of the
    original, so its share is 1.
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
