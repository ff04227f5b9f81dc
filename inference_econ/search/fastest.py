"""The fastest layout of instances for a step, and for an output token where rounds of speculation take its place."""

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
        [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    drafted : ndarray, shape (...)
        Best draft length; 0 without speculation, and where nothing fits [1].
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
    """The fastest feasible layout of each instance.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    accelerators, batch : ndarray
        Instances [1], broadcastable to a common shape (...); an open grid is quicker than its pairs.
    layouts : Layouts
        What to choose from.
    new_tokens : int
        Tokens per sequence and step [1].
    ceiling : ndarray, broadcastable to (...)
        Slower than this does not matter [s]: such layouts may be skipped.

    Returns
    -------
    Fastest
        Exact wherever ``seconds`` is at most the ceiling.
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
    """Time per output token of each instance in its fastest layout, speculating where that helps.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    accelerators, batch : ndarray
        Instances [1], broadcastable to a common shape (...).
    layouts : Layouts
        What to choose from, for the target and, where it has a layout of its own, apart from it for a draft model.
    speculation : Speculation, optional
        Who proposes tokens.
    ceiling : ndarray, broadcastable to (...)
        Slower than this does not matter [s].

    Returns
    -------
    TokenTimes
        Exact wherever ``seconds`` is at most the ceiling.

    Raises
    ------
    InputError
        If the speculation does not go with the model.

    Notes
    -----
    Eq. (46) of Erdil (2025) with the best draft length per instance, and the best layout for it: the rounds of
    :func:`inference_econ.engine.speculation.rounds`.
    """
    if speculation is None:
        seconds = Search(setup, accelerators, batch, layouts).fastest(1, ceiling).seconds
        return TokenTimes(seconds, np.zeros(seconds.shape, dtype=np.intp))
    search = _RoundSearch(setup, accelerators, batch, layouts, speculation)
    best = search.target.fastest(1, ceiling).seconds
    drafted = np.zeros(best.shape, dtype=np.intp)
    least = limit = np.minimum(ceiling, best)
    if speculation.shortest:  # whether it pays or not
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
    """The layouts that instances have in rounds of ``drafted`` proposals, as :func:`token_seconds` finds them.

    Its ``seconds`` are those of a round without the proposals of a draft model that has a layout of its own.
    """
    if speculation is None:
        return fastest(setup, accelerators, batch, layouts)
    return _RoundSearch(setup, accelerators, batch, layouts, speculation).fastest(drafted, np.inf)


class _RoundSearch:
    """Rounds of speculation on some instances, by draft length.

    Attributes
    ----------
    target : Search
        The target's plans; they leave room for the proposer.
    lengths : list of int
        Draft lengths that may help, or that rounds must have [1]: others give no more tokens than a step.
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
        """The fastest plans for a round, with its proposals where they depend on the plan."""
        added = None
        if length and not self.proposer.independent:

            def added(plans: Plans) -> Array:
                return np.asarray(length * self.proposer.seconds(plans))

        return self.target.fastest(self.verified[length], ceiling, added)

    def seconds(self, length: int, limit: Array, proposing: Array | None) -> Array:
        """Time per token of rounds with so many proposals, exact where it is at most the limit [s]."""
        if proposing is None:
            return np.asarray(self.fastest(length, self.tokens[length] * limit).seconds / self.tokens[length])
        verify = self.fastest(length, self._spare(length, limit, proposing)).seconds
        return formulas.seconds_per_token(verify, proposing, length, self.tokens[length])

    def proposing(self, limit: Array, least: Array) -> Array | None:
        """Time of a proposal where it does not depend on the target's plan [s]: exact where it may help any round.

        ``limit`` is the time per token that counts, ``least`` what no round is shorter than [s].
        """
        target, setup = self.target, self.proposer.setup
        if not self.proposer.independent:
            return None
        if setup is None:
            return np.zeros(limit.shape)
        # Whether both have room together is checked with the target.
        own = Search(setup, target.accelerators, target.batch, target.layouts.unpinned())
        quickest = own.least(1, limit * max(self.tokens[length] / length for length in self.lengths))
        # Time above which a proposal is no help to any round, whatever the plans.
        useful = np.full(limit.shape, -np.inf)
        for length in self.lengths:
            # No round is shorter than the step of one token.
            verify = target.least(self.verified[length], self._spare(length, limit, quickest))
            with np.errstate(invalid="ignore"):
                spare = self.tokens[length] * limit - np.maximum(verify, least)
                useful = np.fmax(useful, spare / length)
        return own.fastest(1, useful).seconds

    def _spare(self, length: int, limit: Array, proposing: Array) -> Array:
        """Time that is left to verify a round's proposals [s]."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(proposing), self.tokens[length] * limit - length * proposing, -np.inf)
