"""Rows of dense feed-forward blocks, and the matrices that experts have like them."""

from __future__ import annotations

from collections.abc import Iterator

from inference_econ._types import Array
from inference_econ.engine.operators.table import Adapted, Operator, OperatorTable
from inference_econ.inputs import BYTES_PER_ELEMENT, DenseFeedForward, ExpertFeedForward


def rows(table: OperatorTable, spec: DenseFeedForward) -> Iterator[Operator]:
    """Both sides, cut over all chips of a stage, or over those of a group that holds copies."""
    width, dtype = float(spec.intermediate_size), table.precision.weights
    cut = table.ranks if table.copied else table.stage
    yield from both_sides(table, "ff", spec, width, dtype, cut, cut, grouped=table.copied)


def both_sides(
    table: OperatorTable,
    name: str,
    spec: DenseFeedForward | ExpertFeedForward,
    width: float,
    dtype: str,
    ranks: Array,
    summing: Array,
    *,
    grouped: bool,
) -> Iterator[Operator]:
    """Both sides of a block that every token goes through, cut over ``ranks`` of the chips of a stage.

    ``summing`` of them sum the output, all of them but where another operator does it. ``grouped`` if each group of
    attention ranks holds a copy for its own tokens.
    """
    for side, matrices, output in sides(spec, width, table.hidden):
        weights = matrices * table.hidden * width
        moved = matrices * table.moved_elements(table.hidden, width, ranks)
        inputs, outputs = matrices * (table.hidden if side == "in" else width), matrices * output
        # An adapter is cut like its matrix, and only on the side that is cut.
        shrunk, expanded = (inputs, outputs / ranks) if side == "in" else (inputs / ranks, outputs)
        yield Operator(
            f"{name} {side}",
            dtype,
            flop_per_token=2.0 * weights / table.stage,
            weight_bytes=weights * (table.stage / ranks) * (BYTES_PER_ELEMENT[dtype] / table.stage),
            activation_bytes_per_token=moved * (table.activation_width / table.stage),
            collectives=table.all_reduces(summing, table.stage, output * matrices, only_2d=side == "in"),
            grouped=grouped,
            adapted=Adapted(shrunk, expanded, ranks / table.stage),
        )


def sides(
    spec: DenseFeedForward | ExpertFeedForward, width: float, hidden: float
) -> tuple[tuple[str, int, float], tuple[str, int, float]]:
    """Both sides of a block: name, matrices, and the width of what comes out."""
    return ("in", spec.input_matrices, width), ("out", spec.output_matrices, hidden)
