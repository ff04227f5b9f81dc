"""Work of one step: the operator table.

One row per kind of operator and block of layers; every entry is an array that broadcasts
over the plans. Quantities that grow with the tokens of a micro-batch are kept per token,
so that they stay on the small axes until the engine multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, fullest_group, fullest_over_mean
from inference_econ.engine.operators import (
    attention as compressed,
)
from inference_econ.engine.operators import (
    attention as grouped_query,
)
from inference_econ.engine.operators import (
    attention as latent,
)
from inference_econ.engine.operators import (
    attention as recurrent,
)
from inference_econ.engine.operators import (
    feed_forward as dense,
)
from inference_econ.engine.operators import (
    feed_forward as experts,
)
from inference_econ.engine.operators.table import (
    Collective,
    Operator,
    OperatorTable,
    adapters,
    held_bytes,
    pointwise,
    repeated,
)
from inference_econ.engine.protocols import Served
from inference_econ.inputs import BYTES_PER_ELEMENT, Block, TensorLayout

#: Makes the rows of one layer of the table, its attention or feed-forward block, and for attention the width of the
#: output that ranks sum.
Rows: TypeAlias = Callable[..., Iterator[Operator]]


#: The rows of each kind of attention, or of mixer in its place.
MIXERS: Mapping[str, Rows] = {
    "grouped_query": grouped_query.grouped_query_rows,
    "latent": latent.latent_rows,
    "compressed": compressed.compressed_rows,
    "recurrent": recurrent.recurrent_rows,
    "none": lambda *_: iter(()),
}
#: The rows of each kind of feed-forward block.
FEED_FORWARDS: Mapping[str, Rows] = {
    "dense": dense.dense_rows,
    "experts": experts.expert_rows,
    "none": lambda *_: iter(()),
}


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
    groups : ndarray or float
        Groups of attention ranks that work on sequences of their own [1].
    fullest, fullest_tokens : ndarray or float
        Sequences, and tokens, of the fullest of them over the mean [1].
    prefill : bool
        The step reads prompts.
    summed : ndarray or bool
        All chips of a stage share each matrix, several of them, and sum what it gives.
    """

    operators: tuple[Operator, ...]
    tokens: Array
    sequences: Array
    layers: Array | float
    prefill: bool
    groups: Array | float = 1.0
    fullest: Array | float = 1.0
    fullest_tokens: Array | float = 1.0
    summed: npt.NDArray[np.bool_] | bool = False

    def tokens_of(self, operator: Operator) -> Array:
        """Tokens that count for a row: if all groups were as full as the fullest, where each works on its own [1]."""
        return _filled(self.tokens, self.fullest_tokens) if operator.grouped else self.tokens

    def sequences_of(self, operator: Operator) -> Array:
        """Sequences of an operator [1]."""
        return _filled(self.sequences, self.fullest) if operator.grouped else self.sequences

    def tokens_sent(self, operator: Operator, collective: Collective) -> Array:
        """Tokens that a collective sends [1].

        Where each rank sends over its own links, it ends with the last of the fullest group's ranks, which send most,
        and of the one that receives most.
        """
        if operator.grouped or not collective.own_link:
            return self.tokens_of(operator)
        return _filled(self.tokens, np.maximum(self.fullest_tokens / collective.busiest, 1.0))

    def collective_bytes(self, operator: Operator, layout: TensorLayout) -> Array:
        """Tensors that a row's collectives reduce or exchange, all its occurrences, before an algorithm copies [B]."""
        total = np.zeros(())
        for collective in operator.collectives.get(layout, ()):
            size = collective.bytes_per_token * self.tokens_sent(operator, collective)
            total = total + operator.repeats * collective.repeats * np.where(collective.ranks > 1.0, size, 0.0)
        return total

    @property
    def even(self) -> bool:
        """All groups have as many tokens."""
        return all(isinstance(share, float) and share == 1.0 for share in (self.fullest, self.fullest_tokens))


def _filled(amounts: Array, share: Array | float) -> Array:
    return amounts if isinstance(share, float) and share == 1.0 else np.asarray(amounts * share)


def decode_work(setup: Served, plans: Plans) -> Work:
    """The operator table of one decode step, or of one that reads prompts.

    Parameters
    ----------
    setup : Served
        What, on what, how, at the context of the sequences.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    Work
        Entries broadcast to ``plans.shape``.
    """
    model, assumptions = setup.model, setup.assumptions
    table = OperatorTable(setup, plans)
    pace = fullest_over_mean(model.layers, plans, assumptions.layout)
    layers = rows_of_layers(table, pace)
    embedding, *sampling = after_layers(table)
    operators = [*layers]
    count, dtype = model.unknown_parameters, setup.precision.weights
    if count:
        # What is unknown of the model is read once per step and multiplied with every token. It is cut over the chips
        # of a stage, or over those of a group that holds copies.
        held = count * BYTES_PER_ELEMENT[dtype] / (table.ranks if table.copied else table.stage)
        flop = 2.0 * count / table.stage
        operators.append(
            Operator(
                "unknown blocks", dtype, repeats=pace, flop_per_token=flop, weight_bytes=held, grouped=table.copied
            )
        )
    operators += [*adapters(table, layers), embedding, _pipeline(table)]
    if assumptions.chip.pointwise == "counted":
        operators += pointwise(table, pace)
    operators += sampling
    # A step with prompt tokens beside its sequences is launched as one that reads prompts.
    prefill = plans.prefill or bool(np.any(plans.riding))
    fullest = of_tokens = fullest_group(plans, assumptions.layout)
    if prefill and not plans.prefill:
        share = plans.riding / table.tokens
        of_tokens = fullest + share * (plans.riding_fullest - fullest)
    sequences, waited = plans.micro_batch, model.layers * pace
    summed = (table.ranks == table.stage) & (table.stage > 1)
    return Work(tuple(operators), table.tokens, sequences, waited, prefill, table.groups, fullest, of_tokens, summed)


def rows_of_layers(table: OperatorTable, pace: Array | float) -> list[Operator]:
    """Rows of all layers, without what is pointwise."""
    return [row for b in table.model.blocks for row in (*mixer(table, b, pace), *feed_forward(table, b, pace))]


def adapter_bytes(setup: Served, plans: Plans) -> Array | float:
    """Room of adapters of low rank in the memory of an instance [B], shape (...)."""
    pace = fullest_over_mean(setup.model.layers, plans, setup.assumptions.layout)
    table = OperatorTable(setup, plans)
    return held_bytes(table, rows_of_layers(table, pace))


def after_layers(table: OperatorTable) -> tuple[Operator, ...]:
    """Operators that a step has once, behind its last layer."""
    # Logits of every new token, or of the last one of a prompt.
    count, plans, dtype = table.model.vocab_size * table.hidden, table.plans, table.precision.embeddings
    counted = 2.0 if table.assumptions.chip.embedding_flop == "both" else 1.0
    ranks = table.ranks if table.assumptions.layout.scale_down_repeats_embedding else table.stage
    flop = 2.0 * counted * count / ranks
    mixed = bool(np.any(plans.riding))
    apart = plans.prefill or mixed
    embedding = Operator(
        "output embedding",
        dtype,
        flop_per_token=0.0 if apart else flop,
        flop_per_sequence=flop * (1.0 if plans.prefill else plans.new_tokens) if apart else 0.0,
        weight_bytes=count * BYTES_PER_ELEMENT[dtype] / (table.ranks if table.copied else table.stage),
        grouped=table.copied,
    )
    if table.assumptions.chip.pointwise != "counted":
        return (embedding,)
    # Logits in 32 bits: written, then read for the largest and for the sum. One rank per group samples.
    moved = 3.0 * table.model.vocab_size * BYTES_PER_ELEMENT["fp32"] / table.groups
    share: Array | float = 1.0 / plans.new_tokens if plans.prefill else 1.0
    if mixed:
        share = 1.0 - plans.riding / table.tokens
    activations = table.precision.activations
    return embedding, Operator("sampling", activations, activation_bytes_per_token=moved * share, grouped=True)


def _pipeline(table: OperatorTable) -> Operator:
    """Hand-off of the residual stream from stage to stage."""
    domains: Array = np.full((), 2.0)
    if table.assumptions.network.pipeline_hop == "nearest":
        domains = np.where(table.plans.accelerators <= table.link_domain, 1.0, 2.0)
    hop = Collective("point_to_point", np.full((), 2.0), domains, table.hidden * table.activation_width / table.stage)
    repeats = table.plans.pp - 1.0
    return Operator(
        "pipeline hand-off", table.precision.weights, repeats=repeats, collectives=table.waited_for(hop), launches=0.0
    )
