"""Fastest layout of instances for a step, and for an output token with speculation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import Layouts, Plans, Proposer, Setup, Speculation
from inference_econ.formulas import speculation as formulas
from inference_econ.search._search import Fastest as Fastest
from inference_econ.search._search import Search


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Time between two tokens of one user.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Time [s]; ``inf`` if nothing fits or all layouts exceed the ceiling.
    drafted : ndarray, shape (...)
        Best draft length [1]; 0 without speculation, or if nothing fits.
    """

    seconds: Array
    drafted: Indices


def fastest(
    setup: Setup,
    accelerators: Array,
    batch: Array,
    layouts: Layouts,
    *,
    new_tokens: int = 1,
    ceiling: Array | float = np.inf,
) -> Fastest:
    """Find the fastest feasible layout of each instance.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    accelerators, batch : ndarray
        Instance sizes and batches [1], broadcastable to a common shape (...). An open grid is faster than a list of its
        pairs.
    layouts : Layouts
        Layouts from which the fastest is selected.
    new_tokens : int
        Tokens per sequence and step [1].
    ceiling : ndarray, broadcastable to (...)
        Layouts that take longer than this may be skipped [s].

    Returns
    -------
    Fastest
        Fastest layouts, exact if ``seconds`` is at most the ceiling.
    """
    return Search(setup, accelerators, batch, layouts).fastest(new_tokens, ceiling)


def token_seconds(
    setup: Setup,
    accelerators: Array,
    batch: Array,
    layouts: Layouts,
    *,
    speculation: Speculation | None = None,
    ceiling: Array | float = np.inf,
) -> TokenTimes:
    """Time per output token of each instance in its fastest layout; speculation is used where it is faster.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    accelerators, batch : ndarray
        Instance sizes and batches [1], broadcastable to a common shape (...).
    layouts : Layouts
        Layouts for the target, and for a draft model whose layout differs.
    speculation : Speculation, optional
        Speculation method.
    ceiling : ndarray, broadcastable to (...)
        Layouts that take longer than this may be skipped [s].

    Returns
    -------
    TokenTimes
        Times. Times are exact if ``seconds`` is at most the ceiling.

    Raises
    ------
    InputError
        If the model does not support the speculation method.

    Notes
    -----
    Eq. (46) of Erdil (2025). Instances have their best draft length, and the best layout for this length. See
    :func:`inference_econ.engine.speculation.rounds` for the rounds.
    """
    if speculation is None:
        seconds = Search(setup, accelerators, batch, layouts).fastest(1, ceiling).seconds
        return TokenTimes(seconds, np.zeros(seconds.shape, dtype=np.intp))
    search = _RoundSearch(setup, accelerators, batch, layouts, speculation)
    best = search.target.fastest(1, ceiling).seconds
    drafted = np.zeros(best.shape, dtype=np.intp)
    least = limit = np.minimum(ceiling, best)
    if speculation.shortest:  # speculation is required, even if it is slower
        best = np.full(best.shape, np.inf)
        limit = np.minimum(ceiling, best)
    proposing = search.proposing(limit, least) if search.lengths else None
    for length in search.lengths:
        seconds = search.seconds(length, limit, proposing)
        better = seconds < best
        best[better], drafted[better] = seconds[better], length
        limit = np.minimum(limit, best)
    return TokenTimes(best, drafted)


def fastest_round(
    setup: Setup, accelerators: Array, batch: Array, layouts: Layouts, speculation: Speculation | None, drafted: int
) -> Fastest:
    """Layouts of instances for speculation rounds of ``drafted`` draft tokens, as :func:`token_seconds` finds them.

    If a draft model has another layout than the target, ``seconds`` exclude the time to draft.
    """
    if speculation is None:
        return fastest(setup, accelerators, batch, layouts)
    return _RoundSearch(setup, accelerators, batch, layouts, speculation).fastest(drafted, np.inf)


class _RoundSearch:
    """Speculation rounds of some instances, by draft length.

    Attributes
    ----------
    target : Search
        Search for the target, with only plans that leave memory for the draft model.
    lengths : list of int
        Draft lengths that are required or may be faster [1]. All remaining lengths yield no more tokens than a plain
        step.
    """

    def __init__(
        self, setup: Setup, accelerators: Array, batch: Array, layouts: Layouts, speculation: Speculation
    ) -> None:
        self.proposer = Proposer.of(setup, speculation)
        self.target = Search(setup, accelerators, batch, layouts, self.proposer.memory)
        serving = setup.assumptions.serving
        self.verified, self.tokens = speculation.verified(serving), speculation.tokens(serving).tolist()
        least = max(speculation.shortest, 1)
        drafts = list(enumerate(self.tokens))[least:]
        self.lengths = [length for length, tokens in drafts if tokens > 1.0 or speculation.shortest]

    def fastest(self, length: int, ceiling: Array | float) -> Fastest:
        """Fastest plans for a round. The time includes drafting if this time depends on the plan."""
        added = None
        if length and not self.proposer.independent:

            def added(plans: Plans) -> Array:
                return np.asarray(length * self.proposer.seconds(plans))

        return self.target.fastest(self.verified[length], ceiling, added)

    def seconds(self, length: int, limit: Array, proposing: Array | None) -> Array:
        """Time per token of rounds with ``length`` draft tokens [s]; it is exact if it is at most the limit."""
        if proposing is None:
            return np.asarray(self.fastest(length, self.tokens[length] * limit).seconds / self.tokens[length])
        verify = self.fastest(length, self._spare(length, limit, proposing)).seconds
        return formulas.seconds_per_token(verify, proposing, length, self.tokens[length])

    def proposing(self, limit: Array, least: Array) -> Array | None:
        """Time of a draft token, or None if it depends on the target's plan [s].

        ``limit`` is the largest time per token of interest [s], ``least`` a lower bound on the time of a round [s]. The
        result is exact if some round with this draft time can be within the limit.
        """
        target, setup = self.target, self.proposer.setup
        if not self.proposer.independent:
            return None
        if setup is None:
            return np.zeros(limit.shape)
        # The search for the target checks that target and draft model fit in memory together.
        own = Search(setup, target.accelerators, target.batch, target.layouts.unpinned())
        quickest = own.least(1, limit * max(self.tokens[length] / length for length in self.lengths))
        # Above this draft time, speculation is not faster with any plan.
        useful = np.full(limit.shape, -np.inf)
        for length in self.lengths:
            # A round takes at least as long as a step for one token.
            verify = target.least(self.verified[length], self._spare(length, limit, quickest))
            with np.errstate(invalid="ignore"):
                spare = self.tokens[length] * limit - np.maximum(verify, least)
                useful = np.fmax(useful, spare / length)
        return own.fastest(1, useful).seconds

    def _spare(self, length: int, limit: Array, proposing: Array) -> Array:
        """Largest time to verify the draft tokens of a round, if the time per token is to stay within the limit [s]."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(proposing), self.tokens[length] * limit - length * proposing, -np.inf)
