"""From steps to output tokens: the fastest layout of an instance, and speculative decoding (floor 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ import memory
from inference_econ.engine import Question, lower_bound, step_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.plans import Layouts, Plans

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Instances evaluated together: their arrays stay in the processor's cache.
_CHUNK = 2048


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest layout of each instance.

    Attributes
    ----------
    seconds : ndarray, shape (n,)
        Time of a step [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    depth, family, variant : ndarray, shape (n,)
        Which layout it was; only set when asked for.
    """

    seconds: Array
    depth: Indices
    family: Indices
    variant: Indices


def fastest(
    question: Question,
    accelerators: Array,
    batch: Array,
    layouts: Layouts,
    *,
    new_tokens: int = 1,
    ceiling: Array | None = None,
    reserved_bytes: float = 0.0,
) -> Fastest:
    """The fastest feasible layout of each instance.

    Parameters
    ----------
    question : Question
        What, on what, how.
    accelerators, batch : ndarray, shape (n,)
        Instances [1].
    layouts : Layouts
        What to choose from.
    new_tokens : int
        Tokens per sequence and step [1].
    ceiling : ndarray, shape (n,), optional
        Slower than this does not matter [s]: such layouts may be skipped.
    reserved_bytes : float
        Memory of an instance that is taken already [B].

    Returns
    -------
    Fastest
        Exact wherever ``seconds`` is at most the ceiling.
    """
    search = _Search(question, accelerators, batch, layouts, new_tokens, reserved_bytes)
    limit = np.full(accelerators.shape, np.inf) if ceiling is None else ceiling
    for level, depth in enumerate(layouts.depths(question.model, question.assumptions, accelerators, batch)):
        for start in range(0, accelerators.size, _CHUNK):
            part = np.arange(start, min(start + _CHUNK, accelerators.size))
            part = part[depth[part] > 0]
            bound = lower_bound(question, accelerators[part], batch[part], depth[part], new_tokens)
            part = part[(bound <= limit[part]) & (bound < search.best[part])]
            if part.size:
                search.improve(part, level, depth[part])
    return Fastest(search.best, *search.choice)


class _Search:
    """The instances of one call of :func:`fastest`, and what is known of them so far."""

    def __init__(
        self,
        question: Question,
        accelerators: Array,
        batch: Array,
        layouts: Layouts,
        new_tokens: int,
        reserved_bytes: float,
    ) -> None:
        self.question, self.accelerators, self.batch = question, accelerators, batch
        self.layouts, self.new_tokens, self.reserved_bytes = layouts, new_tokens, reserved_bytes
        self.best = np.full(accelerators.shape, np.inf)
        self.choice = np.zeros((3, accelerators.size), dtype=np.intp)

    def improve(self, part: Indices, level: int, depth: Array) -> None:
        """Evaluate the instances ``part`` at one pipeline depth and keep what is faster."""
        question = self.question
        families = self.layouts.plans(
            question.model, question.assumptions, self.accelerators[part], self.batch[part], depth
        )
        for family, one_token in enumerate(families):
            plans = one_token.verifying(self.new_tokens)
            possible = question.reasons(plans, self.reserved_bytes) == memory.FITS
            seconds = np.where(possible, step_seconds(question, plans), np.inf)
            variant = seconds.argmin(axis=0)
            found = seconds[variant, np.arange(part.size)]
            better = found < self.best[part]
            self.best[part[better]] = found[better]
            self.choice[:, part[better]] = np.broadcast_arrays(level, family, variant[better])


def chosen_plans(
    question: Question, accelerators: Array, batch: Array, layouts: Layouts, found: Fastest, new_tokens: int = 1
) -> list[Plans]:
    """The plan that :func:`fastest` chose for each instance, one :class:`Plans` of shape (1,) each."""
    depths = layouts.depths(question.model, question.assumptions, accelerators, batch)
    chosen = []
    for i, (level, family, variant) in enumerate(zip(found.depth, found.family, found.variant, strict=True)):
        one = slice(i, i + 1)
        plans = layouts.plans(
            question.model, question.assumptions, accelerators[one], batch[one], depths[level, one]
        )
        index = (np.array([variant]), np.array([0]))
        chosen.append(list(plans)[family].at(index).verifying(new_tokens))
    return chosen


@dataclass(frozen=True, slots=True)
class Draft:
    """A smaller model that proposes tokens.

    Attributes
    ----------
    question : Question
        The draft model on the same chip, with its own formats.
    acceptance : float
        Probability that a proposed token is accepted [1].
    longest : int
        Largest number of proposals per round [1].
    """

    question: Question
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
        if self.question.assumptions.expected_tokens == "draft_length":
            return [Round(n, n, formulas.expected_tokens(self.acceptance, n)) for n in range(2, self.longest + 1)]
        return [
            Round(n, n + 1, formulas.expected_tokens(self.acceptance, n + 1)) for n in range(1, self.longest + 1)
        ]


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
    seconds : ndarray, shape (n,)
        [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    drafted : ndarray, shape (n,)
        Best draft length; 0 without speculation [1].
    """

    seconds: Array
    drafted: Indices


def token_seconds(
    question: Question,
    accelerators: Array,
    batch: Array,
    layouts: Layouts,
    *,
    draft: Draft | None = None,
    ceiling: Array | None = None,
) -> TokenTimes:
    """Time per output token of each instance in its fastest layout, speculating where that helps.

    Parameters
    ----------
    question : Question
        What, on what, how.
    accelerators, batch : ndarray, shape (n,)
        Instances [1].
    layouts : Layouts
        What to choose from, for the target and apart from it for the draft.
    draft : Draft, optional
        A model that proposes tokens.
    ceiling : ndarray, shape (n,), optional
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
    limit = np.full(accelerators.shape, np.inf) if ceiling is None else ceiling
    reserved = 0.0 if draft is None else reserved_bytes(question, draft)
    plain = fastest(question, accelerators, batch, layouts, ceiling=limit, reserved_bytes=reserved)
    best, drafted = plain.seconds, np.zeros(accelerators.size, dtype=np.intp)
    if draft is None or draft.acceptance == 0.0 or not draft.rounds():
        return TokenTimes(best, drafted)
    limit = np.minimum(limit, best)
    useful = limit * max(one.tokens / one.drafted for one in draft.rounds())
    proposing = fastest(draft.question, accelerators, batch, layouts, ceiling=useful).seconds
    for one in draft.rounds():
        part = np.flatnonzero(one.drafted * proposing < one.tokens * limit)
        verify_ceiling = one.tokens * limit[part] - one.drafted * proposing[part]
        verify = fastest(
            question,
            accelerators[part],
            batch[part],
            layouts,
            new_tokens=one.verified,
            ceiling=verify_ceiling,
            reserved_bytes=reserved,
        ).seconds
        seconds = formulas.seconds_per_token(verify, proposing[part], one.drafted, one.tokens)
        better = seconds < best[part]
        best[part[better]], drafted[part[better]] = seconds[better], one.drafted
        limit[part[better]] = seconds[better]
    return TokenTimes(best, drafted)


def reserved_bytes(question: Question, draft: Draft) -> float:
    """Memory that a draft model's weights take from the target, if the assumptions count them [B]."""
    if not question.assumptions.draft_in_capacity:
        return 0.0
    return memory.weight_bytes(draft.question.model, draft.question.precision)
