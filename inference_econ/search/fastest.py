"""Layouts with the shortest decode step, or with the shortest time per output token under speculative decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import Layouts, Plans, Proposer, Setup, Speculation
from inference_econ.formulas import speculation as formulas
from inference_econ.search._search import Fastest as Fastest
from inference_econ.search._search import Search


@dataclass(frozen=True, slots=True, eq=False)
class TokenTimes:
    """Time between two tokens of one user.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Time [s]; ``inf`` if no layout fits in memory or all layouts exceed the time limit.
    drafted : ndarray, shape (...)
        Fastest number of draft tokens per round [1]; 0 without speculation, or if no layout fits in memory.
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
        Instance sizes and batches [1], broadcastable to a common shape (...). An open grid (``numpy.ix_``) is faster
        than a list of all pairs.
    layouts : Layouts
        Layouts from which the fastest is selected.
    new_tokens : int
        Tokens per sequence and step [1].
    ceiling : ndarray, broadcastable to (...)
        Time limit; layouts with a longer step time may be skipped [s].

    Returns
    -------
    Fastest
        Fastest layouts; each layout is exact if its ``seconds`` do not exceed ``ceiling``.
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
    """Time per output token of each instance in its fastest layout, with speculation where this is faster.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    accelerators, batch : ndarray
        Instance sizes and batches [1], broadcastable to a common shape (...).
    layouts : Layouts
        Layouts of the target model, and of a draft model whose layout differs from the target's layout.
    speculation : Speculation, optional
        Speculation method.
    ceiling : ndarray, broadcastable to (...)
        Time limit; layouts with a longer step time may be skipped [s].

    Returns
    -------
    TokenTimes
        Times per output token; each time is exact if it does not exceed ``ceiling``.

    Raises
    ------
    InputError
        If the model does not support the speculation method.

    Notes
    -----
    Eq. (46) of Erdil (2025). Each instance has its fastest draft length, and the fastest layout for this length.
    :func:`inference_econ.engine.speculation.rounds` computes speculation rounds.
    """
    if speculation is None:
        seconds = Search(setup, accelerators, batch, layouts).fastest(1, ceiling).seconds
        return TokenTimes(seconds, np.zeros(seconds.shape, dtype=np.intp))
    search = _RoundSearch(setup, accelerators, batch, layouts, speculation)
    # Speculation may be required, even if it is slower.
    required = speculation.shortest > 0
    best = np.full(search.target.shape, np.inf) if required else search.target.fastest(1, ceiling).seconds
    drafted = np.zeros(best.shape, dtype=np.intp)
    limit = np.minimum(ceiling, best)
    proposing = search.proposing(limit, 0.0 if required else limit) if search.lengths else None
    for length in search.lengths:
        seconds = search.seconds(length, limit, proposing)
        better = seconds < best
        best[better], drafted[better] = seconds[better], length
        limit = np.minimum(limit, best)
    return TokenTimes(best, drafted)


def fastest_round(
    setup: Setup, accelerators: Array, batch: Array, layouts: Layouts, speculation: Speculation | None, drafted: int
) -> Fastest:
    """Fastest layouts of instances for speculation rounds with ``drafted`` draft tokens; see :func:`token_seconds`.

    If the draft model has a different layout from the target model, ``seconds`` exclude the drafting time.
    """
    if speculation is None:
        return fastest(setup, accelerators, batch, layouts)
    return _RoundSearch(setup, accelerators, batch, layouts, speculation).fastest(drafted, np.inf)


class _RoundSearch:
    """Search for the fastest layouts of instances for speculation rounds, by draft length.

    Attributes
    ----------
    target : Search
        Search for plans of the target model that leave memory for the draft model.
    lengths : list of int
        Draft lengths to evaluate [1]. All other lengths yield no more tokens per round than a step without speculation.
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
        """Fastest plans for a round; the time includes drafting if the drafting time depends on the target's plan."""
        added = None
        if length and not self.proposer.independent:

            def added(plans: Plans) -> Array:
                return np.asarray(length * self.proposer.seconds(plans))

        return self.target.fastest(self.verified[length], ceiling, added)

    def seconds(self, length: int, limit: Array, proposing: Array | None) -> Array:
        """Time per token of rounds with ``length`` draft tokens [s]; a time up to ``limit`` is exact."""
        if proposing is None:
            return np.asarray(self.fastest(length, self.tokens[length] * limit).seconds / self.tokens[length])
        verify = self.fastest(length, self._spare(length, limit, proposing)).seconds
        return formulas.seconds_per_token(verify, proposing, length, self.tokens[length])

    def proposing(self, limit: Array, least: Array | float) -> Array | None:
        """Time to draft one token [s]; None if this time depends on the target's plan.

        ``limit`` is the longest relevant time per output token [s], and ``least`` is a lower bound on the time of a
        round [s]. The result is exact if a round with this drafting time may meet ``limit``.
        """
        target, setup = self.target, self.proposer.setup
        if not self.proposer.independent:
            return None
        if setup is None:
            return np.zeros(limit.shape)
        # The search for the target checks that target and draft model fit in memory together.
        own = Search(setup, target.accelerators, target.batch, target.layouts.unpinned())
        quickest = own.least(1, limit * max(self.tokens[length] / length for length in self.lengths))
        # If the drafting time exceeds ``useful``, speculation is not faster with any plan.
        useful = np.full(limit.shape, -np.inf)
        for length in self.lengths:
            # A round takes at least as long as a step for one token.
            verify = target.least(self.verified[length], self._spare(length, limit, quickest))
            with np.errstate(invalid="ignore"):
                spare = self.tokens[length] * limit - np.maximum(verify, least)
                useful = np.fmax(useful, spare / length)
        return own.fastest(1, useful).seconds

    def _spare(self, length: int, limit: Array, proposing: Array) -> Array:
        """Longest verification time of a round for which the time per output token is at most ``limit`` [s]."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(proposing), self.tokens[length] * limit - length * proposing, -np.inf)
