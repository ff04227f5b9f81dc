"""Lengths of requests as equally likely values, and how long prompts of each take by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import Plans, Prefill, Setup, Speculation, read_prompt
from inference_econ.formulas import special
from inference_econ.inputs import Length, Requests

#: Lengths of prompts that the engine is asked for; in between, time is nearly a straight line [1].
_ASKED = 9
#: Equally likely prompts whose mean counts [1].
_AVERAGED = 200


def levels(count: int) -> Array:
    """The middles of so many equal parts of all requests, shape (count,) [1]."""
    return np.asarray((np.arange(count) + 0.5) / count)


def quantiles(length: Length, shares: Array) -> Array:
    """Lengths that some shares of the requests do not exceed [tokens].

    Parameters
    ----------
    length : Length
        A number or a distribution.
    shares : ndarray, shape (...)
        Above 0 and below 1 [1].

    Examples
    --------
    >>> quantiles(Length.parse("uniform:800:1000"), np.array([0.25, 0.5]))
    array([850., 900.])
    """
    if length.kind == "lognormal":
        variance = np.log1p(length.variation**2)
        return np.asarray(
            np.maximum(length.mean * np.exp(special.normal_quantiles(shares) * np.sqrt(variance) - variance / 2.0), 1.0)
        )
    if length.kind == "uniform":
        low, high = length.values
        return np.asarray(low + shares * (high - low))
    order = np.argsort(length.values)
    below = np.cumsum(np.array(length.probabilities or (1.0,))[order])
    place = np.minimum(np.searchsorted(below, shares - 1e-12), order.size - 1)
    return np.asarray(np.array(length.values, dtype=float)[order][place])


def new_tokens(requests: Requests, shares: Array) -> Array:
    """Tokens to read of the prompts that some shares of the requests do not exceed, at least one [tokens]."""
    if requests.unread is not None:
        return np.asarray(np.maximum(quantiles(requests.unread, shares), 1.0))
    return np.asarray(np.maximum(quantiles(requests.isl, shares) - requests.cached, 1.0))


def captured_ends(setup: Setup, longest: float) -> list[float]:
    """The longest prompt whose steps are captured in graphs, and the shortest one whose are not [tokens].

    None of those beyond the longest prompt: time leaps between the two.
    """
    captured = setup.assumptions.host.captured_tokens if setup.assumptions.host.cuda_graphs else 0.0
    return [captured, captured + 1.0] if 1.0 <= captured < longest - 1.0 else []


@dataclass(frozen=True, slots=True)
class PromptTimes:
    """Time to read a prompt by itself, by its length.

    Attributes
    ----------
    tokens : ndarray, shape (m,)
        New tokens, ascending [tokens].
    seconds, chip_seconds : ndarray, shape (..., m)
        From start to first token if nothing else runs, and for how much of it the chips work [s].
    chunk : float
        Tokens of a step at most; 0 if nothing limits them [tokens].
    mean : Prefill
        The average over all prompts.
    """

    tokens: Array
    seconds: Array
    chip_seconds: Array
    chunk: float
    mean: Prefill

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None) -> PromptTimes:
        """Of the prompts of some requests, on plans of shape (...)."""
        usual = read_prompt(setup, plans, requests.new_tokens, requests.cached, speculation)
        chunk = setup.assumptions.serving.prefill_chunk
        if requests.isl.scv == 0.0:
            tokens = np.array([requests.new_tokens])
            return cls(tokens, usual.seconds[..., None], (usual.chip_share * usual.seconds)[..., None], chunk, usual)
        likely = new_tokens(requests, levels(_AVERAGED))
        steps = [some for some in captured_ends(setup, likely[-1]) if some > likely[0]]
        tokens = np.unique([*np.geomspace(likely[0], likely[-1], _ASKED), requests.new_tokens, *steps])
        read = [read_prompt(setup, plans, float(some), requests.cached, speculation) for some in tokens]
        seconds = np.stack([prompt.seconds for prompt in read], axis=-1)
        chips = np.stack([prompt.chip_share * prompt.seconds for prompt in read], axis=-1)
        # All parts of the time are in proportion: the sum over all prompts is what counts for steps.
        longer = _along(tokens, seconds, likely).mean(axis=-1) / usual.seconds
        mean = replace(
            usual,
            seconds=longer * usual.seconds,
            busy_seconds=longer * usual.busy_seconds,
            full_seconds=longer * usual.full_seconds,
        )
        return cls(tokens, seconds, chips, chunk, mean)

    def take(self, index: int | Indices) -> PromptTimes:
        """Of some layouts, by their place on the first axis."""
        return replace(
            self, seconds=self.seconds[index], chip_seconds=self.chip_seconds[index], mean=self.mean.take(index)
        )

    @classmethod
    def stacked(cls, parts: Sequence[PromptTimes]) -> PromptTimes:
        """Of some layouts, and of others after them; of the same lengths."""
        seconds, chips = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("seconds", "chip_seconds")
        )
        mean = Prefill.stacked([part.mean for part in parts])
        return replace(parts[0], seconds=seconds, chip_seconds=chips, mean=mean)

    def beyond_mean(self, tokens: Array, beside: Array) -> Array:
        """Return the time that prompts of one layout take longer to the first token than the average one [s].

        Parameters
        ----------
        tokens : ndarray, shape (a,)
            New tokens of each [tokens].
        beside : ndarray, shape (a,)
            What decoding adds to each step that reads a part of it [s].

        Returns
        -------
        ndarray, shape (a,)
            Zero where all prompts are alike; less than nothing of shorter ones.
        """
        if self.tokens.size == 1:
            return np.zeros(tokens.size)
        alone, chips = (_along(self.tokens, times, tokens)[0] for times in (self.seconds, self.chip_seconds))
        return self._beyond(alone, chips, tokens, beside, self.mean.take(0))

    def of_length(self, tokens: float, beside: Array) -> Array:
        """Return that time of prompts of one length in states of several layouts, shape (n, k) [s]."""
        if self.tokens.size == 1:
            return np.zeros(beside.shape)
        at = np.array([tokens])
        alone, chips = (_along(self.tokens, times, at)[..., 0] for times in (self.seconds, self.chip_seconds))
        return self._beyond(alone, chips, at, beside, self.mean)

    def _beyond(self, alone: Array, chips: Array, tokens: Array, beside: Array, mean: Prefill) -> Array:
        chunks = np.ceil(tokens / self.chunk) if self.chunk else np.ones(tokens.size)
        average = np.maximum(mean.seconds, mean.chip_share * mean.seconds + mean.chunks * beside)
        return np.asarray(np.maximum(alone, chips + chunks * beside) - average)


def _along(lengths: Array, times: Array, at: Array) -> Array:
    """Times of shape (..., m) read between some lengths, shape (..., a) [s]; beyond the ends those of the ends."""
    if lengths.size == 1:
        return np.broadcast_to(times, (*times.shape[:-1], at.size))
    below = np.clip(np.searchsorted(lengths, at, "right") - 1, 0, lengths.size - 2)
    along = np.clip((at - lengths[below]) / (lengths[below + 1] - lengths[below]), 0.0, 1.0)
    return np.asarray(times[..., below] + along * (times[..., below + 1] - times[..., below]))
