"""Levels, partly pooled: nested random effects on what measured rows are off by.

The logarithm of what steps of kind q (decode, prefill) of a row take over their prediction is the sum of effects of
what the row belongs to, a = 1 .. 4 (model on chip, version, way of serving, deployment), each normal around 0 with a
standard deviation of its own, t_qa. A row's TPOT and TTFT follow from these by slopes that predictions give, and
scatter with s_r:

    y = X u + e,    u ~ N(0, T),    e ~ N(0, S)

with a line of X for each measured latency: its slope on decode in the columns of the row's four effects on decode, and
that on prefill in those of its effects on prefill. The mean of u given y, which is its best linear unbiased prediction,
solves Henderson's mixed-model equations,

    (X' S^-1 X + T^-1) u = X' S^-1 y,

whose inverse matrix C is the covariance of u given y. Beside what it belongs to, a step that decodes has an effect of
what no row of its profile had, whatever the model: proposed tokens under an engine. Blocks that share no effect are
solved by themselves. Variances are those that repeat themselves: t_qa^2 is the mean of u^2 + C over the effects of its
kind (a step of the EM algorithm, which no likelihood falls in), and s_r^2 that of an ordinary row: the median of
squared residuals, each over its variance in units of s_r^2, over that of the chi-square distribution, so that a series
that nothing explains makes no other row uncertain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.calibration.levels.observed import QUANTITIES, SHARED, Name, Observed, Place
from inference_econ.inputs import LevelSpreads, Quantity

#: What a row belongs to, wider groups first.
DEPTHS = ("subject", "version", "way", "deployment")
#: What standard deviations do not fall below [1]: the digits of a file.
LEAST = 1e-3

#: Logarithms of levels of decode and prefill steps [1].
Levels = Mapping[Name, float]


class Spreads(NamedTuple):
    """Standard deviations that levels are pooled with [1]."""

    effects: Array
    """Of decode and prefill by depth, and of what is shared, shape (2, 5)."""
    rows: Array
    """Of TPOT and TTFT around their levels, shape (2,)."""

    @classmethod
    def read(cls, spreads: Mapping[Quantity, LevelSpreads]) -> Spreads:
        """Those of a file."""
        by_quantity = [spreads[name] for name in QUANTITIES]
        return cls(
            np.array([[getattr(spread, depth) for depth in DEPTHS + SHARED] for spread in by_quantity], dtype=float),
            np.array([spread.row for spread in by_quantity], dtype=float),
        )


class Block(NamedTuple):
    """Rows that share effects."""

    design: Array
    """Shape (lines, effects) [1]."""
    errors: Array
    """Shape (lines,) [1]."""
    quantity: Array
    """TPOT or TTFT of each line, as their places among :data:`QUANTITIES`."""
    kinds: Array
    """Kind of step and depth of each effect, shape (effects, 2)."""
    names: tuple[Name, ...]
    """Of the effects."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Effects of one block."""

    effects: Array
    covariance: Array


def known_part(place: Place, depth: int) -> tuple[object, ...]:
    """The first entries of a place."""
    return tuple(place[: depth + 1])


def _depth(part: tuple[object, ...]) -> int:
    """The place of an effect among the standard deviations."""
    return len(DEPTHS) if part == SHARED else len(part) - 1


def block_of(rows: Sequence[Observed], beside: bool = True) -> Block:
    """The mixed model of some rows that share effects; ``beside``: with those of what models share."""
    index: dict[Name, int] = {}
    lines: list[dict[int, float]] = []
    errors: list[float] = []
    quantity: list[int] = []
    for row in rows:
        effects = [
            [index.setdefault((row.group, kind, known_part(place, depth)), len(index)) for depth in range(len(DEPTHS))]
            for kind, place in enumerate(row.places)
        ]
        effects[0] += [index.setdefault(name, len(index)) for name in (row.shared if beside else ())]
        for which, error in enumerate(row.errors.tolist()):
            if np.isfinite(error):
                slopes = row.slopes[which].tolist()
                lines.append({effect: slopes[kind] for kind in range(2) for effect in effects[kind]})
                errors.append(error)
                quantity.append(which)
    design = np.zeros((len(lines), len(index)))
    for line, values in enumerate(lines):
        design[line, list(values)] = list(values.values())
    kinds = np.array([(kind, _depth(part)) for _, kind, part in index])
    return Block(design, np.array(errors), np.array(quantity, dtype=int), kinds, tuple(index))


def solved_block(block: Block, spreads: Spreads, fixed: Collection[tuple[object, ...]] = ()) -> Solved:
    """The mixed-model equations of a block; effects that are ``fixed`` are known to be 0."""
    scatter = spreads.rows[block.quantity] ** 2
    effects = np.where([part in fixed for _, _, part in block.names], 0.0, spreads.effects[tuple(block.kinds.T)])
    prior = np.maximum(effects, LEAST) ** 2
    weighted = block.design / scatter[:, None]
    covariance = np.linalg.inv(weighted.T @ block.design + np.diag(1.0 / prior))
    return Solved(covariance @ (weighted.T @ block.errors), covariance)


def blocks(rows: Iterable[Observed]) -> list[list[Observed]]:
    """Rows that share effects: of a model on a chip, and of all that an engine served with proposed tokens."""
    parts: list[tuple[set[object], list[Observed]]] = []
    for row in rows:
        names = {(row.group, row.places[0].subject), *row.shared}
        joined = [part for part in parts if part[0] & names]
        parts = [part for part in parts if not part[0] & names]
        members = [member for _, others in joined for member in others]
        parts.append((names.union(*(others for others, _ in joined)), [*members, row]))
    return [members for _, members in parts]


def pooled(
    rows: Sequence[Observed], spreads: Spreads, *, fixed: Collection[tuple[object, ...]] = (), beside: bool = True
) -> dict[Name, float]:
    """The level of everything that some rows belong to, all that is wider included, and of what they share [1].

    Parameters
    ----------
    rows : sequence of Observed
        What was measured.
    spreads : Spreads
        What levels are pooled with.
    fixed : collection of tuple
        First entries of places whose own effects are known to be 0.
    beside : bool
        Whether what models share has effects.
    """
    levels: dict[Name, float] = {}
    for part in blocks(rows):
        block = block_of(part, beside)
        effects = dict(zip(block.names, solved_block(block, spreads, fixed).effects.tolist(), strict=True))
        for group, kind, name in effects:
            wider = [name] if name == SHARED else [name[: depth + 1] for depth in range(len(name))]
            levels[group, kind, name] = sum(effects[group, kind, part] for part in wider)
    return levels


def level_of(levels: Levels, row: Observed) -> Array:
    """The levels of decode and prefill steps of a row: of the narrowest thing that it is, and of what it shares [1]."""
    sums = []
    for kind, place in enumerate(row.places):
        parts = (known_part(place, depth) for depth in reversed(range(len(DEPTHS))))
        sums.append(next((levels[row.group, kind, part] for part in parts if (row.group, kind, part) in levels), 0.0))
    sums[0] += sum(levels.get(name, 0.0) for name in row.shared)
    return np.array(sums)
