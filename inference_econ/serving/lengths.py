"""Request lengths as samples of equally likely values, and prefill times by prompt length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Indices, distinct
from inference_econ.engine import Plans, Prefill, Setup, Speculation, read_prompt
from inference_econ.formulas import special
from inference_econ.inputs import Length, Requests

#: Number of prompt lengths whose prefill time is calculated; times between them are interpolated linearly [1].
_ASKED = 9
#: Number of equally likely prompts over which the prefill time is averaged [1].
_AVERAGED = 200


def levels(count: int) -> Array:
    """Midpoints of ``count`` equal intervals between 0 and 1, shape (count,) [1]."""
    return np.asarray((np.arange(count) + 0.5) / count)


def quantiles(length: Length, shares: Array) -> Array:
    """Quantiles of a length distribution [tokens].

    Parameters
    ----------
    length : Length
        Length as a number or a distribution.
    shares : ndarray, shape (...)
        Probabilities, above 0 and below 1 [1].

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
    """Quantiles of the number of uncached prompt tokens per request, at least 1 [tokens]."""
    if requests.unread is not None:
        return np.asarray(np.maximum(quantiles(requests.unread, shares), 1.0))
    return np.asarray(np.maximum(quantiles(requests.isl, shares) - requests.cached, 1.0))


def captured_ends(setup: Setup, longest: float) -> list[float]:
    """Length of the longest prompt that runs in CUDA graphs, and the next longer length [tokens].

    The prefill time jumps between these two lengths. The list is empty if no prompt exceeds the largest CUDA graph.
    """
    captured = setup.captured_tokens
    return [captured, captured + 1.0] if 1.0 <= captured < longest - 1.0 else []


@dataclass(frozen=True, slots=True, eq=False)
class PromptTimes:
    """Prefill times of prompts that run alone on an instance, by prompt length.

    Attributes
    ----------
    tokens : ndarray, shape (m,)
        Uncached tokens, ascending [tokens].
    seconds, chip_seconds : ndarray, shape (..., m)
        Time from the start of prefill to the first token, and GPU time during this period [s].
    chunk : float
        Token budget of a step; 0 if the budget is unlimited [tokens].
    mean : Prefill
        Prefill averaged over all prompts.
    """

    tokens: Array
    seconds: Array
    chip_seconds: Array
    chunk: float
    mean: Prefill

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None) -> PromptTimes:
        """Compute the prefill times of a workload's prompts on plans of shape (...)."""
        usual = read_prompt(setup, plans, requests.new_tokens, requests.cached, speculation)
        chunk = setup.assumptions.serving.prefill_chunk
        if requests.isl.scv == 0.0:
            tokens = np.array([requests.new_tokens])
            return cls(tokens, usual.seconds[..., None], (usual.chip_share * usual.seconds)[..., None], chunk, usual)
        likely = new_tokens(requests, levels(_AVERAGED))
        steps = [some for some in captured_ends(setup, likely[-1]) if some > likely[0]]
        tokens = distinct([*np.geomspace(likely[0], likely[-1], _ASKED), requests.new_tokens, *steps])
        read = [read_prompt(setup, plans, float(some), requests.cached, speculation) for some in tokens]
        seconds = np.stack([prompt.seconds for prompt in read], axis=-1)
        chips = np.stack([prompt.chip_share * prompt.seconds for prompt in read], axis=-1)
        # If a step processes several prompts, each part of the step time grows by the same factor as the mean prefill
        # time.
        longer = _along(tokens, seconds, likely).mean(axis=-1) / usual.seconds
        mean = replace(
            usual,
            seconds=longer * usual.seconds,
            busy_seconds=longer * usual.busy_seconds,
            full_seconds=longer * usual.full_seconds,
        )
        return cls(tokens, seconds, chips, chunk, mean)

    def take(self, index: int | Indices) -> PromptTimes:
        """Select layouts by their index on the first axis."""
        return replace(
            self, seconds=self.seconds[index], chip_seconds=self.chip_seconds[index], mean=self.mean.take(index)
        )

    @classmethod
    def stacked(cls, parts: Sequence[PromptTimes]) -> PromptTimes:
        """Concatenate prefill times of layouts with the same prompt lengths."""
        seconds, chips = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("seconds", "chip_seconds")
        )
        mean = Prefill.stacked([part.mean for part in parts])
        return replace(parts[0], seconds=seconds, chip_seconds=chips, mean=mean)

    def beyond_mean(self, tokens: Array, beside: Array) -> Array:
        """Additional time to first token compared with the average prompt, for one layout [s].

        Parameters
        ----------
        tokens : ndarray, shape (a,)
            Uncached tokens of each prompt [tokens].
        beside : ndarray, shape (a,)
            Decode time in each step that also processes a chunk of the prompt [s].

        Returns
        -------
        ndarray, shape (a,)
            Additional time [s]; negative for prompts with a shorter prefill than the average, and 0 if all prompts have
            one length.
        """
        if self.tokens.size == 1:
            return np.zeros(tokens.size)
        alone, chips = (_along(self.tokens, times, tokens)[0] for times in (self.seconds, self.chip_seconds))
        return self._beyond(alone, chips, tokens, beside, self.mean.take(0))

    def of_length(self, tokens: float, beside: Array) -> Array:
        """Additional time to first token of prompts with one length, by layout and batch, shape (n, k) [s]."""
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
    """Interpolate times of shape (..., m) at the lengths ``at``, shape (..., a) [s]; constant outside the range."""
    if lengths.size == 1:
        return np.broadcast_to(times, (*times.shape[:-1], at.size))
    below = np.clip(np.searchsorted(lengths, at, "right") - 1, 0, lengths.size - 2)
    along = np.clip((at - lengths[below]) / (lengths[below + 1] - lengths[below]), 0.0, 1.0)
    return np.asarray(times[..., below] + along * (times[..., below + 1] - times[..., below]))
