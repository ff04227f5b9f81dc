"""Rows of adapters of low rank (LoRA): two thin matrices beside each matrix, of every adapter that a step meets.

They go beside the projections of attention and the feed-forward blocks that every token goes through, shared experts
included; routed experts, routers and embeddings have none. Hu et al. (2021), section 4.1: y = W x + B A x.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.operators.table import Operator, OperatorTable
from inference_econ.inputs import BYTES_PER_ELEMENT

#: Kernels beside a matrix where no engine says otherwise: what comes in is shrunk, and then expanded [1].
_KERNELS = 2.0


def distinct(adapters: int, sequences: Array) -> Array:
    """Adapters that some sequences ask for, each of them any of all [1].

    Examples
    --------
    >>> distinct(4, np.array([1.0, 2.0, 100.0])).round(2)
    array([1.  , 1.75, 4.  ])
    """
    return np.asarray(adapters * (1.0 - (1.0 - 1.0 / adapters) ** sequences))


def adapters(table: OperatorTable, rows: Iterable[Operator]) -> Iterator[Operator]:
    """Rows beside those of layers; none where no adapters are served."""
    assumed = table.assumptions.adapters
    if not assumed.loras:
        return
    width = BYTES_PER_ELEMENT[table.precision.activations]
    for row in rows:
        beside = row.adapted
        if beside is None:
            continue
        elements = assumed.rank * (beside.shrunk + beside.expanded)
        sequences = np.maximum(table.plans.micro_batch * beside.share, 1.0)
        yield Operator(
            f"adapters ({row.name})",
            table.precision.activations,
            repeats=row.repeats,
            flop_per_token=2.0 * elements * beside.share,
            weight_bytes=distinct(assumed.loras, sequences) * elements * width,
            # What goes out is read again, to be added to.
            activation_bytes_per_token=(beside.shrunk + 2.0 * beside.expanded) * beside.share * width,
            on_attention_ranks=row.on_attention_ranks,
            launches=_KERNELS,
            grouped=row.grouped,
        )


def held_bytes(table: OperatorTable, rows: Iterable[Operator]) -> Array | float:
    """Room of all adapters in the memory of an instance, copies included [B]."""
    assumed = table.assumptions.adapters
    beside = [(row.repeats, row.adapted) for row in rows if row.adapted is not None]
    elements = sum(repeats * (widths.shrunk + widths.expanded) for repeats, widths in beside)
    return assumed.loras * assumed.rank * BYTES_PER_ELEMENT[table.precision.activations] * elements * table.stage
