"""What must be done in one step: the operator table.

One row per kind of operator and block of layers; every entry is an array that broadcasts
over the plans. Quantities that grow with the tokens of a micro-batch are kept per token,
so that they stay on the small axes until the engine multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.layouts.stages import fullest_over_mean
from inference_econ.engine.operators.attention import mixer
from inference_econ.engine.operators.feed_forward import feed_forward
from inference_econ.engine.operators.pointwise import pointwise
from inference_econ.engine.operators.table import Collective, Operator, OperatorTable
from inference_econ.inputs import BYTES_PER_ELEMENT, Assumptions, ModelSpec, Precision

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Work:
    """The operator table of one step, and what all rows share.

    Attributes
    ----------
    operators : tuple of Operator
        The rows.
    tokens, sequences : ndarray
        Of one micro-batch [1].
    layers : ndarray or float
        Layers that a token waits for [1]: more than it passes where a fuller stage of the pipeline sets the pace.
    prefill : bool
        The step reads prompts.
    """

    operators: tuple[Operator, ...]
    tokens: Array
    sequences: Array
    layers: Array | float
    prefill: bool


def decode_work(
    model: ModelSpec,
    precision: Precision,
    plans: Plans,
    context: float,
    link_domain: int,
    assumptions: Assumptions,
    spread: float = 0.0,
    shared_prefix: float = 0.0,
) -> Work:
    """The operator table of one decode step.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    precision : Precision
        Number formats.
    plans : Plans
        Deployments, shape (...).
    context : float
        Tokens in the cache of each sequence [tokens].
    link_domain : int
        Accelerators that share the fast link [1].
    assumptions : Assumptions
        How work is laid out and counted.
    spread : float
        Tokens that the contexts of sequences are spread over evenly around ``context`` [tokens].
    shared_prefix : float
        Tokens of the context that all sequences have in common [tokens].

    Returns
    -------
    Work
        Entries broadcast to ``plans.shape``.
    """
    table = OperatorTable(model, precision, plans, context, link_domain, assumptions, spread, shared_prefix)
    pace = fullest_over_mean(model.layers, plans, assumptions.layout)
    layers = [row for block in model.blocks for row in (*mixer(table, block), *feed_forward(table, block))]
    operators = [*_paced(layers, pace), _output_embedding(table), _pipeline(table)]
    if assumptions.chip.pointwise == "counted":
        operators += [*_paced(pointwise(table), pace), _sampling(table)]
    return Work(tuple(operators), table.tokens, plans.micro_batch, model.layers * pace, plans.prefill)


def _paced(rows: Iterable[Operator], pace: Array | float) -> Iterable[Operator]:
    """Rows of layers, as often as they are waited for while the fullest stage of a pipeline sets the pace."""
    if isinstance(pace, float):
        return rows
    return [replace(row, repeats=row.repeats * pace) for row in rows]


def _output_embedding(table: OperatorTable) -> Operator:
    """Logits of every new token, or of the last one of a prompt."""
    count = table.model.vocab_size * table.hidden
    counted = 2.0 if table.assumptions.chip.embedding_flop == "both" else 1.0
    ranks = table.ranks if table.assumptions.layout.scale_down_repeats_embedding else table.stage
    flop, prefill = 2.0 * counted * count / ranks, table.plans.prefill
    return Operator(
        "output embedding",
        1.0,
        table.precision.embeddings,
        flop_per_token=0.0 if prefill else flop,
        flop_per_sequence=flop if prefill else 0.0,
        weight_bytes=count * BYTES_PER_ELEMENT[table.precision.embeddings] / table.stage,
    )


def _sampling(table: OperatorTable) -> Operator:
    """Logits in 32 bits: written, then read for the largest and for the sum. One rank per group samples."""
    moved = 3.0 * table.model.vocab_size * BYTES_PER_ELEMENT["fp32"] / table.groups
    share = 1.0 / table.plans.new_tokens if table.plans.prefill else 1.0
    return Operator("sampling", 1.0, table.precision.activations, activation_bytes_per_token=moved * share)


def _pipeline(table: OperatorTable) -> Operator:
    """Hand-off of the residual stream from stage to stage."""
    domains: Array = np.full((), 2.0)
    if table.assumptions.network.pipeline_hop == "nearest":
        domains = np.where(table.plans.accelerators <= table.link_domain, 1.0, 2.0)
    hop = Collective("point_to_point", np.full((), 2.0), domains, table.hidden * table.activation_width / table.stage)
    repeats = table.plans.pp - 1.0
    return Operator(
        "pipeline hand-off", repeats, table.precision.weights, collectives=table.waited_for(hop), launches=0.0
    )
