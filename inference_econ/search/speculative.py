"""From steps to output tokens: speculative decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import memory
from inference_econ.engine.layouts.grids import Layouts
from inference_econ.engine.memory import NOTHING, Taken
from inference_econ.engine.setup import Setup
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.search.fastest import Search


@dataclass(frozen=True, slots=True)
class Draft:
    """A smaller model that proposes tokens.

    Attributes
    ----------
    setup : Setup
        The draft model on the same chip, with its own formats.
    acceptance : float
        Probability that a proposed token is accepted [1].
    longest : int
        Largest number of proposals per round [1].
    """

    setup: Setup
    acceptance: float
    longest: int

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if not 0.0 <= self.acceptance <= 1.0:
            raise InputError(f"acceptance must be a probability from 0 to 1, got {self.acceptance:g}")
        if not 1 <= self.longest <= 64:
            raise InputError(f"the longest draft must be from 1 to 64 tokens, got {self.longest}")

    def rounds(self) -> list[Round]:
        """Draft lengths to try, with what each verifies and yields.

        The study's series runs over the drafted tokens, so that a single one gains nothing and lengths start at
        two; Leviathan et al. (2023) verify one more, and start at one.
        """
        if self.setup.assumptions.serving.expected_tokens == "draft_length":
            return [Round(n, n, formulas.expected_tokens(self.acceptance, n)) for n in range(2, self.longest + 1)]
        return [Round(n, n + 1, formulas.expected_tokens(self.acceptance, n + 1)) for n in range(1, self.longest + 1)]


@dataclass(frozen=True, slots=True)
class Round:
    """One round of speculation.

    Attributes
    ----------
    drafted, verified : int
        Passes of the draft model, and tokens that the target checks at once [1].
    tokens : float
        Expected tokens gained [1].
    """

    drafted: int
    verified: int
    tokens: float


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Time between two tokens of one user.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    drafted : ndarray, shape (...)
        Best draft length; 0 without speculation [1].
    """

    seconds: Array
    drafted: Indices


def token_seconds(
    setup: Setup,
    accelerators: Array,
    batch: Array,
    layouts: Layouts,
    *,
    draft: Draft | None = None,
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
        What to choose from, for the target and apart from it for the draft.
    draft : Draft, optional
        A model that proposes tokens.
    ceiling : ndarray, broadcastable to (...)
        Slower than this does not matter [s].

    Returns
    -------
    TokenTimes
        Exact wherever ``seconds`` is at most the ceiling.

    Notes
    -----
    Eq. (46) of Erdil (2025) with the best draft length per instance; both models run on the same chips, one
    after the other.
    """
    target = Search(setup, accelerators, batch, layouts, memory_taken(setup, draft))
    best = target.fastest(1, ceiling).seconds
    drafted = np.zeros(best.shape, dtype=np.intp)
    rounds = [] if draft is None or draft.acceptance == 0.0 else draft.rounds()
    if draft is None or not rounds:
        return TokenTimes(best, drafted)
    limit = np.minimum(ceiling, best)
    # What both need together is checked with the target.
    proposer = Search(draft.setup, accelerators, batch, layouts.unpinned(), NOTHING)
    proposing = proposer.fastest(1, _useful(target, proposer, rounds, limit)).seconds
    for one in rounds:
        verify = target.fastest(one.verified, _spare(one, limit, proposing)).seconds
        seconds = formulas.seconds_per_token(verify, proposing, one.drafted, one.tokens)
        better = seconds < best
        best[better], drafted[better] = seconds[better], one.drafted
        limit = np.minimum(limit, best)
    return TokenTimes(best, drafted)


def _spare(one: Round, limit: Array, proposing: Array) -> Array:
    """Time that is left to verify a round's proposals [s]."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(proposing), one.tokens * limit - one.drafted * proposing, -np.inf)


def _useful(target: Search, proposer: Search, rounds: list[Round], limit: Array) -> Array:
    """Time above which a proposal is no help to any round, whatever the plans [s]."""
    quickest = proposer.least(1, limit * max(one.tokens / one.drafted for one in rounds))
    useful = np.full(limit.shape, -np.inf)
    for one in rounds:
        # No round is shorter than the step of one token, and that is at least the limit.
        verify = np.maximum(target.least(one.verified, _spare(one, limit, quickest)), limit)
        with np.errstate(invalid="ignore"):
            useful = np.fmax(useful, (one.tokens * limit - verify) / one.drafted)
    return useful


def memory_taken(setup: Setup, draft: Draft | None) -> Taken:
    """What a draft model takes from the target's memory, if the assumptions count it: weights and cache."""
    if draft is None or not setup.assumptions.capacity.draft:
        return NOTHING
    helper = draft.setup
    return Taken(
        memory.weight_bytes(helper.model, helper.precision),
        memory.kv_bytes_per_sequence(helper.model, helper.precision, helper.context, helper.assumptions),
    )
