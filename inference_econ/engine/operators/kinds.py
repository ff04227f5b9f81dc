"""Rows of a layer, by the kind of its attention and of its feed-forward block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from inference_econ._types import Array
from inference_econ.engine.operators import compressed, dense, experts, grouped_query, latent, recurrent
from inference_econ.engine.operators.table import Operator, OperatorTable, repeated
from inference_econ.inputs import Block

#: Makes the rows of one layer of the table, its attention or feed-forward block, and for attention the width of the
#: output that ranks sum.
Rows: TypeAlias = Callable[..., Iterator[Operator]]


#: The rows of each kind of attention, or of mixer in its place.
MIXERS: Mapping[str, Rows] = {
    "grouped_query": grouped_query.rows,
    "latent": latent.rows,
    "compressed": compressed.rows,
    "recurrent": recurrent.rows,
    "none": lambda *_: iter(()),
}
#: The rows of each kind of feed-forward block.
FEED_FORWARDS: Mapping[str, Rows] = {"dense": dense.rows, "experts": experts.rows, "none": lambda *_: iter(())}


def mixer(table: OperatorTable, block: Block, pace: Array | float = 1.0) -> list[Operator]:
    """Projections on the attention ranks; scores, cache and state where the assumptions place them.

    ``pace`` are layers that are waited for over those that are passed [1].
    """
    # Side by side, the feed-forward part's sum carries the output of attention along.
    merged = block.parallel and block.parts == 2 and table.assumptions.layout.parallel_blocks == "merged"
    summed = 0.0 if merged else table.hidden
    kind, times = block.attention.kind, block.layers * pace
    rows = MIXERS[kind](table, block.attention, summed)
    return [replace(row, repeats=row.repeats * times, attention=kind) for row in rows]


def feed_forward(table: OperatorTable, block: Block, pace: Array | float = 1.0) -> list[Operator]:
    """Dense matrices or experts, cut over what expert parallelism leaves of the stage."""
    return repeated(FEED_FORWARDS[block.feed_forward.kind](table, block.feed_forward), block.layers * pace)
