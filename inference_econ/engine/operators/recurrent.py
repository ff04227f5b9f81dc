"""Rows of recurrent layers in the place of attention."""

from __future__ import annotations

from collections.abc import Iterator

from inference_econ.engine.operators.scores import scores
from inference_econ.engine.operators.table import Operator, OperatorTable
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import RecurrentMixer


def rows(table: OperatorTable, spec: RecurrentMixer, summed: float) -> Iterator[Operator]:
    """Projections, and a state that is read and written once per step whatever the context."""
    weights, cache = spec.parameters(table.hidden).total, spec.cache
    yield table.projection("mixer", [(weights / table.hidden, table.hidden)], reduced=summed)
    yield scores(
        table,
        "recurrent state",
        flop=formulas.recurrence_flop(cache.state_elements),
        cached_bytes=2.0 * cache.state_bytes(table.activation_width),
        heads=spec.heads,
        by_token=False,
        # Convolution, gates, norms of queries and keys, recurrence, norm and gate of the output.
        launches=6.0,
    )
