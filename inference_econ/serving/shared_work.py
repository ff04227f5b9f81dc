"""Work of the chips for prompts that share a step: parts of prompts, and their work together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Plans, Setup, group_steps, prompts_of_a_step, reading_groups
from inference_econ.inputs import Requests

#: Numbers of prompts in a step whose work is calculated [1].
_SHARED = 12
#: Fewer prompts in a step than this are none [1].
TINY = 1e-6
#: Least divisor in the place of none.
LEAST = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Parts:
    """Part of a prompt that a step reads: all of it, or a chunk in the middle.

    Attributes
    ----------
    tokens, cached : float
        New tokens, and those in the cache before [tokens].
    number : int
        Of a prompt [1].
    most : float
        Parts that a group of attention ranks reads in a step [1].
    """

    tokens: float
    cached: float
    number: int
    most: float

    @classmethod
    def of(cls, setup: Setup, requests: Requests) -> Parts:
        """Of the prompts of some requests."""
        limit, tokens = setup.assumptions.serving.prefill_chunk, requests.new_tokens
        number = max(1, math.ceil(tokens / limit)) if limit else 1
        part = tokens / number
        return cls(part, requests.cached + (tokens - part) / 2.0, number, prompts_of_a_step(setup, part))


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Work of the chips for parts of prompts that share a step, over that for one by itself.

    Attributes
    ----------
    counts : ndarray, shape (m,)
        Parts of a group of attention ranks: 1, .. and as many as a step has room for [1].
    even, uneven : ndarray, shape (..., m)
        Work where every group has so many, and where one has so many and all others one less [1].
    groups : ndarray, shape (..., 1)
        Groups that step together [1].
    alone : ndarray, shape (..., 1)
        Step that reads one part [s].
    """

    counts: Array
    even: Array
    uneven: Array
    groups: Array
    alone: Array

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests) -> SharedWork:
        """Of the prompts of some requests, on plans of shape (...)."""
        parts = Parts.of(setup, requests)
        counts = np.unique(np.rint(np.geomspace(1.0, parts.most, _SHARED)))
        groups = reading_groups(setup, plans)[..., None]
        full, fewer = counts * groups, (counts - 1.0) * groups + 1.0
        columns = plans.column(full)
        even = group_steps(setup, columns, parts.tokens, parts.cached, full, counts)
        if np.all(groups == 1.0):
            alone = even[..., :1]
            return cls(counts, even / alone, even / alone, groups, alone)
        uneven = group_steps(setup, columns, parts.tokens, parts.cached, fewer, counts)
        alone = uneven[..., :1]
        return cls(counts, np.maximum(even, uneven) / alone, uneven / alone, groups, alone)

    def at(self, parts: Array) -> Array:
        """Of other numbers of parts of a stage, shape (..., k) [1]; what a step has no room for takes further steps."""
        if np.all(self.groups == 1.0):
            return self._even(parts)
        below = np.floor(parts)
        low = self._whole(below)
        return np.asarray(low + (parts - below) * (self._whole(below + 1.0) - low))

    def _even(self, parts: Array) -> Array:
        inside = np.minimum(parts, self.counts[-1])
        work = _along(np.append(0.0, self.counts), _from_zero(self.even), inside)
        return np.asarray(work * (np.maximum(parts, inside) / np.maximum(inside, TINY)))

    def _whole(self, parts: Array) -> Array:
        """Of a whole number of parts that are dealt out: the fullest group has one more than any other at most."""
        groups = self.groups
        inside = np.minimum(parts, self.counts[-1] * groups)
        most = np.ceil(inside / groups)
        first = (most - 1.0) * groups + 1.0
        counts = np.append(0.0, self.counts)
        low, high = (_along(counts, _from_zero(work), most) for work in (self.uneven, self.even))
        share = np.clip((inside - first) / np.maximum(groups - 1.0, 1.0), 0.0, 1.0)
        return np.asarray((low + share * (high - low)) * (np.maximum(parts, inside) / np.maximum(inside, TINY)))


def _from_zero(work: Array) -> Array:
    """Work of some numbers of parts, after that of none."""
    return np.concatenate([np.zeros((*work.shape[:-1], 1)), work], axis=-1)


def _along(counts: Array, work: Array, at: Array) -> Array:
    """Work of shape (..., m) between some counts, shape (..., k)."""
    above = np.clip(np.searchsorted(counts, at), 1, counts.size - 1)
    shape = (*np.broadcast_shapes(work.shape[:-1], above.shape[:-1]), counts.size)
    places = np.broadcast_to(above, (*shape[:-1], above.shape[-1]))
    low, high = (np.take_along_axis(np.broadcast_to(work, shape), places - k, axis=-1) for k in (1, 0))
    along = (at - counts[above - 1]) / (counts[above] - counts[above - 1])
    return np.asarray(low + along * (high - low))
