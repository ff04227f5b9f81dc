"""Promises to users, and the most that steady states can keep of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.margins import Margins, margins
from inference_econ.engine import Setup, check_confidence
from inference_econ.errors import InputError
from inference_econ.inputs import percentiles
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Loaded, Service, Services, new_tokens, quantiles

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

    def seen(self, name: str, load: Loaded) -> float:
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
            first, second = self.seen(name, first_load), self.seen(name, second_load)
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

    def broken(self, load: Loaded) -> str | None:
        """Promise that a load breaks: capacity, ttft, tpot or e2e; None if all is kept."""
        if load.saturated or load.utilization > self.fullest * (1.0 + 1e-9):
            return "capacity"
        return next((name for name, seconds in self.given.items() if self.seen(name, load) > seconds), None)


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
