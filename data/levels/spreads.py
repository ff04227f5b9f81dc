"""Standard deviations for the pooling of corrections, estimated from measured rows by an EM algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.extras.servers.levels import (
    DEPTHS,
    LEAST,
    SHARED,
    Observed,
    SharedRows,
    Solved,
    Spreads,
    block_of,
    blocks,
    solved_block,
)

#: Start value of variances [1], and number of iterations [1].
_START, _ROUNDS = 0.1, 40
#: Standard deviation of the corrections of speculation [1], as the errors of the profiles of SGLang and TensorRT-LLM.
#: Three engines are too few to estimate it.
_SPECULATION = 0.25
#: Median of the chi-square distribution with one degree of freedom [1].
_CHI_SQUARE = 0.4549


def folds(
    rows: Sequence[Observed], by: Callable[[Observed], object]
) -> Iterator[tuple[list[Observed], list[Observed]]]:
    """Groups of rows with a common property, and the other rows of their block, to which corrections are fitted."""
    for part in blocks(rows):
        names = [by(row) for row in part]
        for name in dict.fromkeys(names):
            shared, rest = (
                [row for row, other in zip(part, names, strict=True) if (other == name) is same]
                for same in (True, False)
            )
            yield shared, rest


def spreads_of(rows: Sequence[Observed]) -> Spreads:
    """Estimate the standard deviations from rows."""
    parts = [block_of(block) for block in blocks(rows)]
    spreads = Spreads(np.full((2, len(DEPTHS + SHARED)), _START), np.full(2, _START))
    for _ in range(_ROUNDS):
        solved = [solved_block(part, spreads) for part in parts]
        squares = np.concatenate([solution.effects**2 + np.diag(solution.covariance) for solution in solved])
        kinds = np.concatenate([part.kinds for part in parts])
        left = np.concatenate([_left(part, solution, spreads) for part, solution in zip(parts, solved, strict=True)])
        quantity = np.concatenate([part.quantity for part in parts])
        effects = [
            [_mean(squares[(kinds[:, 0] == kind) & (kinds[:, 1] == depth)]) for depth in range(len(DEPTHS + SHARED))]
            for kind in range(2)
        ]
        for of_kind in effects:
            of_kind[len(DEPTHS) + SHARED.index("speculation")] = _SPECULATION**2
        of_rows = [_ordinary(left[quantity == which]) for which in range(2)]
        spreads = Spreads(np.sqrt(np.maximum(effects, LEAST**2)), np.sqrt(np.maximum(of_rows, LEAST**2)))
    return spreads


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else 0.0


def _ordinary(squares: Array) -> float:
    """Variance of rows without outliers; the start value of a fit if there are no rows [1]."""
    return float(np.median(squares)) / _CHI_SQUARE if squares.size else _START**2


def _left(block: SharedRows, solved: Solved, spreads: Spreads) -> Array:
    """Squared residuals of each line, over the share of its variance that corrections do not absorb [1]."""
    left, scatter = block.errors - block.design @ solved.effects, spreads.rows[block.quantity] ** 2
    taken = np.sum(block.design @ solved.covariance * block.design, axis=1) / scatter
    return np.asarray(left**2 / np.maximum(1.0 - taken, LEAST))
