"""Promises to users, and the most that steady states can keep of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ.errors import InputError
from inference_econ.serving import SHARES, Loaded, Services, new_tokens, quantiles

Array = npt.NDArray[np.float64]

#: What is promised: time to first token, per output token, and to the last token.
NAMES = ("ttft", "tpot", "e2e")
#: Share of what an instance completes beyond which nobody plans: the wait there hangs on the last digit [1].
FULLEST = 0.98
#: Share of the prompts that is shorter than the shortest that counts [1].
_SHORTEST = 1e-3


@dataclass(frozen=True, slots=True)
class Targets:
    """Promises to users.

    Attributes
    ----------
    ttft_seconds, tpot_seconds : float
        Longest time to first token, and per output token [s]; ``inf`` if nothing is promised.
    percentile : str
        Which requests must see them: ``mean``, ``p50``, ``p90`` or ``p99``.
    e2e_seconds : float
        Longest time to the last token [s]; ``inf`` if nothing is promised.

    Raises
    ------
    InputError
        If a time is not positive, or the percentile unknown.
    """

    ttft_seconds: float = math.inf
    tpot_seconds: float = math.inf
    percentile: str = "p90"
    e2e_seconds: float = math.inf

    def __post_init__(self) -> None:
        """Refuse impossible promises."""
        for name, value in self.every.items():
            if not value > 0:
                raise InputError(f"a promised {name} must be positive, got {value:g} s")
        if self.percentile not in ("mean", "p50", "p90", "p99"):
            raise InputError(f"percentile: got {self.percentile!r}; allowed: mean, p50, p90, p99")

    @property
    def every(self) -> dict[str, float]:
        """All three by name; ``inf`` where nothing is promised [s]."""
        return {name: getattr(self, f"{name}_seconds") for name in NAMES}

    @property
    def given(self) -> dict[str, float]:
        """What is promised, by name [s]."""
        return {name: seconds for name, seconds in self.every.items() if seconds < math.inf}

    def relaxed(self, name: str, seconds: float) -> Targets:
        """The same with another value of one promise [s]."""
        times = {**self.every, name: seconds}
        return Targets(times["ttft"], times["tpot"], self.percentile, times["e2e"])

    def like(self, ours: Loaded, seen: Loaded) -> Targets:
        """Promises about the first of two accounts of a load that are kept where these are kept of the second."""
        times = {}
        for name, seconds in self.every.items():
            first, second = (getattr(load, f"{name}_seconds")[self.percentile] for load in (ours, seen))
            times[name] = seconds * (first / second) if 0.0 < second < math.inf else seconds
        return Targets(times["ttft"], times["tpot"], self.percentile, times["e2e"])

    @property
    def text(self) -> str:
        """The promises in words."""
        return ", ".join(f"{name.upper()} {1e3 * seconds:g} ms" for name, seconds in self.given.items())

    def broken(self, load: Loaded) -> str | None:
        """What a load breaks: capacity, ttft, tpot or e2e; None if all is kept."""
        if load.saturated or load.utilization > FULLEST:
            return "capacity"
        seen = {name: getattr(load, f"{name}_seconds") for name in self.given}
        return next((name for name, seconds in self.given.items() if seen[name][self.percentile] > seconds), None)


def promised_rates(layouts: Services, targets: Targets) -> Array:
    """The largest steady rate of each layout whose mean latencies keep the promises; 0 if none does [1/s].

    Between two steady states as :meth:`inference_econ.serving.services.Service.at` reads them. No percentile of a
    loaded instance is below what requests of that percentile take without others before them.
    """
    states = layouts.states
    ttft, e2e = _least_seconds(layouts, targets.percentile)
    rates: Array = states.requests_per_second
    last, share = rates.shape[1] - 1, np.full(len(layouts), np.inf)
    for values, limit in (
        (states.tpot_seconds, targets.tpot_seconds),
        (ttft, targets.ttft_seconds),
        (e2e, targets.e2e_seconds),
    ):
        # All that is kept comes before all that is not: how many states, and the part of the way to the next.
        kept = np.count_nonzero(values <= limit, axis=1)
        low, high = (np.take_along_axis(values, np.clip(kept[:, None] + k, 0, last), axis=1)[:, 0] for k in (-1, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.log(limit / low) / np.log(high / low)
        reached = np.where((kept > 0) & (kept <= last), kept - 1 + np.clip(beyond, 0.0, 1.0), kept - 1.0)
        share = np.minimum(share, reached)
    below = np.clip(np.floor(share), 0, last).astype(np.intp)
    lower, upper = (np.take_along_axis(rates, np.minimum(below + k, last)[:, None], axis=1)[:, 0] for k in (0, 1))
    return np.where(share < 0.0, 0.0, lower * (upper / lower) ** np.clip(share - below, 0.0, 1.0))


def _least_seconds(layouts: Services, percentile: str) -> tuple[Array, Array]:
    """Least TTFT and time to the last token of a percentile in every steady state, shape (n, k) [s].

    A request is no sooner through than a prompt, or an answer, of its percentile is by itself.
    """
    states, requests = layouts.states, layouts.requests
    fixed, steps = states.fixed_seconds, requests.decode_steps
    if percentile == "mean":
        return fixed, fixed + steps * states.tpot_seconds
    share = np.array([SHARES[percentile]])
    prompt, shortest = (float(new_tokens(requests, some)[0]) for some in (share, np.array([_SHORTEST])))
    answer = max(float(quantiles(requests.osl, share)[0]) - 1.0, 0.0)
    first, soonest = (fixed + states.prompts.of_length(some, states.beside_seconds) for some in (prompt, shortest))
    # Who decodes with many others may meet none of their prompts.
    return first, np.maximum(first, soonest + answer * states.decode_seconds)
