"""Rows of what is neither a matrix nor attention: norms and activation functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.operators.table import Operator, OperatorTable, repeated
from inference_econ.inputs import BYTES_PER_ELEMENT


def pointwise(table: OperatorTable, pace: Array | float) -> Iterator[Operator]:
    """Norms and activation functions of every layer: memory traffic and launches, no arithmetic to speak of.

    ``pace`` are layers that are waited for over those that are passed [1].
    """
    for block in table.model.blocks:
        rows = [_norms(table, 1 if block.parallel else block.parts, block.attention.kind)]
        rows += (_activation(table, name, *sizes) for name, sizes in block.feed_forward.activated.items())
        yield from repeated(rows, block.layers * pace)
    if table.model.residual_span is not None:
        yield _residual_attention(table, pace, table.model.residual_span)
    streams = table.model.residual_streams
    if streams > 1:
        # Before each part of a layer: what enters it, what it adds to each copy, and how copies are mixed; then once
        # what leaves the last layer, unless a mixing of that layer says so.
        yield _mixing(table, 2.0 * table.model.layers * pace, streams, outputs=streams * (streams + 2))
        if table.model.residual_fold:
            yield _mixing(table, pace, streams, outputs=streams)


def _norms(table: OperatorTable, count: int, mixer: str) -> Operator:
    """A norm before each part, fused with the residual sum: two vectors read, two written.

    Every rank of a group works on all of the group's tokens, or on its part of them.
    """
    return Operator(
        "norms",
        table.precision.activations,
        activation_bytes_per_token=4.0 * count * table.hidden * table.activation_width / table.stream_owners,
        launches=float(count),
        grouped=True,
        mixer=mixer,
        parts=float(count),
    )


def _residual_attention(table: OperatorTable, pace: Array | float, span: int) -> Operator:
    """Entries of earlier layers that are read before each part, by the kernel that norms what they add up to.

    A layer has one entry for each whole or begun span before it (SGLang 0.5.23, ``prev_valid_blocks`` of Kimi-K3).
    """
    entries = sum(-(-layer // span) for layer in range(table.model.layers))
    moved = 2.0 * entries * table.hidden * table.activation_width / table.stream_owners
    dtype = table.precision.activations
    return Operator(
        "residual attention", dtype, "dense", pace, activation_bytes_per_token=moved, launches=0.0, grouped=True
    )


def _mixing(table: OperatorTable, repeats: Array | float, streams: int, outputs: int) -> Operator:
    """A matrix over all copies of the residual stream, whose other copies are read and written beside the norms'.

    Every rank of a group works on all of the group's tokens; of the matrix each chip of a stage holds a part, or each
    of a group that holds copies.
    """
    dtype, count = table.precision.weights, float(outputs * streams * table.hidden)
    parts = table.ranks if table.copied else table.stage
    return Operator(
        "residual streams",
        dtype,
        repeats=repeats,
        flop_per_token=2.0 * count / table.stage,
        weight_bytes=np.asarray(count * BYTES_PER_ELEMENT[dtype] / parts),
        activation_bytes_per_token=2.0 * (streams - 1) * table.hidden * table.activation_width / table.stream_owners,
        grouped=True,
    )


def _activation(table: OperatorTable, name: str, width: float, matrices: int) -> Operator:
    """Operator that reads, gates and writes what comes out of the input matrices once; of a shared expert apart."""
    moved = (matrices + 1.0) * width * table.activation_width / table.stage
    return Operator(name, table.precision.activations, activation_bytes_per_token=moved)
