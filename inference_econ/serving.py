"""From steps to output tokens: the fastest layout of an instance, and speculative decoding (floor 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ import memory
from inference_econ.engine import Question, attention_floor, lower_bound, step_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.plans import Layouts, Plans
from inference_econ.spec.assumptions import TensorLayout

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Instances evaluated together: their arrays stay in the processor's cache.
_CHUNK = 2048
_OPEN_CHUNK = 4096
#: Instances whose bounds are taken together.
_BLOCK = 16384


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest layout of each instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Time of a step [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    depth, family, variant : ndarray, shape (...)
        Which layout it was, by position in the lists of depths, cuts and variants.
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
    ceiling: Array | float = np.inf,
    reserved_bytes: float = 0.0,
) -> Fastest:
    """The fastest feasible layout of each instance.

    Parameters
    ----------
    question : Question
        What, on what, how.
    accelerators, batch : ndarray
        Instances [1], broadcastable to a common shape (...); an open grid is quicker than its pairs.
    layouts : Layouts
        What to choose from.
    new_tokens : int
        Tokens per sequence and step [1].
    ceiling : ndarray, broadcastable to (...)
        Slower than this does not matter [s]: such layouts may be skipped.
    reserved_bytes : float
        Memory of an instance that is taken already [B].

    Returns
    -------
    Fastest
        Exact wherever ``seconds`` is at most the ceiling.
    """
    shape = np.broadcast_shapes(accelerators.shape, batch.shape)
    search = _Search(question, accelerators, batch, shape, layouts, new_tokens, reserved_bytes)
    limit = np.broadcast_to(ceiling, shape)
    columns = max(1, _BLOCK // max(1, int(np.prod(shape[:-1]))))
    depths = layouts.depths(question.model, question.assumptions, accelerators, batch)
    for start in range(0, shape[-1], columns):
        for level, depth in enumerate(depths):
            search.improve_block(level, depth, slice(start, start + columns), limit)
    return Fastest(search.best, *search.choice)


class _Search:
    """The instances of one call of :func:`fastest`, and what is known of them so far."""

    def __init__(
        self,
        question: Question,
        accelerators: Array,
        batch: Array,
        shape: tuple[int, ...],
        layouts: Layouts,
        new_tokens: int,
        reserved_bytes: float,
    ) -> None:
        self.question, self.layouts = question, layouts
        self.accelerators, self.batch = accelerators, batch
        self.new_tokens, self.reserved_bytes = new_tokens, reserved_bytes
        self.best = np.full(shape, np.inf)
        self.choice = np.zeros((3, *shape), dtype=np.intp)

    def improve_block(self, level: int, depth: Array, columns: slice, limit: Array) -> None:
        """Look at some columns of instances at one pipeline depth."""
        sizes, batches, depths = (
            array[..., columns] if array.shape[-1] > 1 else array for array in (self.accelerators, self.batch, depth)
        )
        best = self.best[..., columns]
        if depths.min() == depths.max():
            depths = depths.ravel()[:1].reshape([1] * best.ndim)
        instances = Plans.of(sizes, batches, depths, self.new_tokens)
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = (depths > 0) & self.question.could_fit(instances, self.reserved_bytes)
            floor = self._floor(sizes, batches, depths) if depths.size == 1 else 0.0
            bound = lower_bound(self.question, instances, floor)
        wanted = fits & (bound <= limit[..., columns]) & (bound < best)
        if not wanted.any():
            return
        if depths.size == 1 and best.ndim == 2:
            # One depth for all: what depends on the size alone is worth keeping on its own axis.
            rows = np.flatnonzero(wanted.any(axis=1))
            for part in np.array_split(rows, -(-rows.size * best.shape[1] // _OPEN_CHUNK)):
                index = np.ix_(part, np.flatnonzero(wanted[part].any(axis=0)))
                self._improve(Plans.of(sizes[part], batches[:, index[1][0]], depths, self.new_tokens), index, level, columns)
            return
        points = np.nonzero(np.broadcast_to(wanted, best.shape))
        for start in range(0, points[0].size, _CHUNK):
            index = tuple(axis[start : start + _CHUNK] for axis in points)
            size, batch, pp = (np.broadcast_to(array, best.shape)[index] for array in (sizes, batches, depths))
            self._improve(Plans.of(size, batch, pp, self.new_tokens), index, level, columns)

    def _floor(self, sizes: Array, batches: Array, depths: Array) -> Array:
        """What attention costs at least, by size, for the smallest batch of a block."""
        smallest = batches.min(axis=-1, keepdims=True)
        instances = Plans.of(sizes, smallest, depths, self.new_tokens)
        return attention_floor(self.question, self.layouts.variants(self.question.model, self.question.assumptions, instances))

    def _improve(self, instances: Plans, index: tuple[Indices, ...], level: int, columns: slice) -> None:
        """Evaluate instances in all their variants and cuts, and keep what is faster."""
        question = self.question
        plans = self.layouts.variants(question.model, question.assumptions, instances)
        best, choice = self.best[..., columns], self.choice[..., columns]
        each = zip(question.assumptions.tensor_layouts, step_seconds(question, plans), strict=True)
        for family, (layout, seconds) in enumerate(each):
            possible = question.reasons(plans, layout, self.reserved_bytes) == memory.FITS
            if not possible.all():
                seconds = np.where(possible, seconds, np.inf)
            found = seconds.min(axis=0)
            better = found < best[index]
            if better.any():
                improved = tuple(np.broadcast_to(axis, better.shape)[better] for axis in index)
                best[improved] = found[better]
                variant = seconds[:, better].argmin(axis=0)
                choice[(slice(None), *improved)] = np.broadcast_arrays(level, family, variant)


@dataclass(frozen=True, slots=True)
class Chosen:
    """One plan, cut in one way."""

    plans: Plans
    """Of shape (1,)."""
    layout: TensorLayout
    """How its matrices are cut."""


def chosen_plans(
    question: Question, accelerators: Array, batch: Array, layouts: Layouts, found: Fastest, new_tokens: int = 1
) -> list[Chosen]:
    """The plan that :func:`fastest` chose for each of n instances."""
    depths = layouts.depths(question.model, question.assumptions, accelerators, batch)
    chosen = []
    for i, (level, family, variant) in enumerate(zip(found.depth, found.family, found.variant, strict=True)):
        one = slice(i, i + 1)
        pp = np.broadcast_to(depths[level], accelerators.shape)[one]
        instance = Plans.of(accelerators[one], batch[one], pp, new_tokens)
        variants = layouts.variants(question.model, question.assumptions, instance)
        plans = variants.at((np.array([variant]), np.array([0])))
        chosen.append(Chosen(plans, question.assumptions.tensor_layouts[family]))
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
    seconds : ndarray, shape (...)
        [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    drafted : ndarray, shape (...)
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
    ceiling: Array | float = np.inf,
) -> TokenTimes:
    """Time per output token of each instance in its fastest layout, speculating where that helps.

    Parameters
    ----------
    question : Question
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
    shape = np.broadcast_shapes(accelerators.shape, batch.shape)
    reserved = 0.0 if draft is None else reserved_bytes(question, draft)
    best = fastest(question, accelerators, batch, layouts, ceiling=ceiling, reserved_bytes=reserved).seconds
    drafted = np.zeros(shape, dtype=np.intp)
    rounds = [] if draft is None or draft.acceptance == 0.0 else draft.rounds()
    if draft is None or not rounds:
        return TokenTimes(best, drafted)
    limit = np.minimum(ceiling, best)
    useful = limit * max(one.tokens / one.drafted for one in rounds)
    proposing = fastest(draft.question, accelerators, batch, layouts, ceiling=useful).seconds
    for one in rounds:
        with np.errstate(invalid="ignore"):
            spare = np.where(np.isfinite(proposing), one.tokens * limit - one.drafted * proposing, -np.inf)
        verify = fastest(
            question,
            accelerators,
            batch,
            layouts,
            new_tokens=one.verified,
            ceiling=spare,
            reserved_bytes=reserved,
        ).seconds
        seconds = formulas.seconds_per_token(verify, proposing, one.drafted, one.tokens)
        better = seconds < best
        best[better], drafted[better] = seconds[better], one.drafted
        limit = np.minimum(limit, best)
    return TokenTimes(best, drafted)


def reserved_bytes(question: Question, draft: Draft) -> float:
    """Memory that a draft model's weights take from the target, if the assumptions count them [B]."""
    if not question.assumptions.draft_in_capacity:
        return 0.0
    return memory.weight_bytes(draft.question.model, draft.question.precision)
