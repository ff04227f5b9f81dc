"""Operator table of one step.

A row describes one operator of one block of layers. Entries are arrays that broadcast over the plans. Amounts that grow
with the number of tokens are stored per token, so that the arrays are small.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, fullest_group, fullest_over_mean
from inference_econ.engine.operators.attention import compressed_rows, grouped_query_rows, latent_rows, recurrent_rows
from inference_econ.engine.operators.feed_forward import dense_rows, expert_rows
from inference_econ.engine.operators.table import (
    Collective,
    Operator,
    OperatorTable,
    adapters,
    pointwise,
    repeated,
)
from inference_econ.engine.served import Served
from inference_econ.inputs import BYTES_PER_ELEMENT, Block, TensorLayout

#: Function that yields the operators of the attention or feed-forward part of one layer. Functions for attention also
#: have the argument ``summed``, the width of the output that is all-reduced.
Rows: TypeAlias = Callable[..., Iterator[Operator]]


#: Functions that yield the operators of a mixer, by kind of attention or other mixer.
MIXERS: Mapping[str, Rows] = {
    "grouped_query": grouped_query_rows,
    "latent": latent_rows,
    "compressed": compressed_rows,
    "recurrent": recurrent_rows,
    "none": lambda *_: iter(()),
}
#: Functions that yield the operators of a feed-forward part, by kind.
FEED_FORWARDS: Mapping[str, Rows] = {"dense": dense_rows, "experts": expert_rows, "none": lambda *_: iter(())}


def mixer(table: OperatorTable, block: Block, pace: Array | float = 1.0) -> list[Operator]:
    """Operators of the attention (or another mixer) in a block of layers.

    ``pace`` is the number of layers on the critical path divided by the number of layers [1].
    """
    # If attention and feed-forward part run in parallel, one all-reduce sums both outputs.
    merged = block.parallel and block.parts == 2 and table.assumptions.layout.parallel_blocks == "merged"
    summed = 0.0 if merged else table.hidden
    kind, times = block.attention.kind, block.layers * pace
    rows = _rows(table, MIXERS[kind], block.attention, summed)
    return [row._replace(repeats=row.repeats * times, attention=kind) for row in rows]


def feed_forward(table: OperatorTable, block: Block, pace: Array | float = 1.0) -> list[Operator]:
    """Operators of the dense feed-forward part, or of the experts, in a block of layers."""
    rows = _rows(table, FEED_FORWARDS[block.feed_forward.kind], block.feed_forward)
    return repeated(rows, block.layers * pace)


def _rows(table: OperatorTable, rows_of: Rows, *of_layer: object) -> list[Operator]:
    """Operators of a part of one layer, computed once for all blocks that share this part."""
    found = next((rows for known, rows in table.known if known == (rows_of, *of_layer)), None)
    if found is None:
        found = list(rows_of(table, *of_layer))
        table.known.append(((rows_of, *of_layer), found))
    return found


#: Place of the number of occurrences in an operator.
_REPEATS = Operator._fields.index("repeats")


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Operator table of one step, with the properties that all operators share.

    Attributes
    ----------
    operators : tuple of Operator
        Operators of the step.
    tokens, sequences : ndarray
        Number of tokens and number of sequences in one micro-batch [1].
    layers : ndarray or float
        Number of layers on the critical path of a token [1]. The path has more layers than the model if the largest
        pipeline stage limits the pipeline.
    groups : ndarray or float
        Number of attention-DP groups [1].
    fullest, fullest_tokens : ndarray or float
        Number of sequences, and number of tokens, in the fullest attention-DP group, each divided by the mean of all
        groups [1].
    prefill : bool
        True for a prefill step.
    summed : ndarray or bool
        True if several chips of a stage share each matrix, so that the output is all-reduced.
    in_host_memory : tuple of Operator
        Operators of layers in host memory (``cpu.layers``). In a step of at least ``cpu.copied_from`` tokens, the chip
        computes these layers, so ``operators`` also contains their operators.
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
    in_host_memory: tuple[Operator, ...] = ()

    def tokens_of(self, operator: Operator) -> Array:
        """Number of tokens that an operator processes [1].

        If attention-DP groups process their own tokens, the result is for the fullest group, because all groups wait
        for this group.
        """
        return _filled(self.tokens, self.fullest_tokens) if operator.grouped else self.tokens

    def sequences_of(self, operator: Operator) -> Array:
        """Number of sequences that an operator processes [1]."""
        return _filled(self.sequences, self.fullest) if operator.grouped else self.sequences

    def tokens_sent(self, operator: Operator, collective: Collective) -> Array:
        """Number of tokens that a collective sends [1].

        If each rank uses its own links, the slowest rank determines the time: a rank of the fullest attention-DP group,
        or the rank that receives the most tokens.
        """
        if operator.grouped or not collective.own_link:
            return self.tokens_of(operator)
        return _filled(self.tokens, np.maximum(self.fullest_tokens / collective.busiest, 1.0))

    def collective_bytes(self, operator: Operator, layout: TensorLayout) -> Array:
        """Total size of the tensors in an operator's collectives, over all occurrences of the operator [B]."""
        total = np.zeros(())
        for collective in operator.collectives.get(layout, ()):
            size = collective.bytes_per_token * self.tokens_sent(operator, collective)
            total = total + operator.repeats * collective.repeats * np.where(collective.ranks > 1.0, size, 0.0)
        return total

    def merged(self) -> Work:
        """Join the operators that are equal except for their number of occurrences."""
        joined: dict[tuple[int, ...], Operator] = {}
        for row in self.operators:
            key = tuple(map(id, (*row[:_REPEATS], *row[_REPEATS + 1 :])))
            found = joined.get(key)
            joined[key] = row if found is None else row._replace(repeats=found.repeats + row.repeats)
        return replace(self, operators=tuple(joined.values()))

    @property
    def even(self) -> bool:
        """True if all attention-DP groups have the same number of sequences and tokens."""
        return all(isinstance(share, float) and share == 1.0 for share in (self.fullest, self.fullest_tokens))


def _filled(amounts: Array, share: Array | float) -> Array:
    return amounts if isinstance(share, float) and share == 1.0 else np.asarray(amounts * share)


def decode_work(setup: Served, plans: Plans) -> Work:
    """Compute the operator table of a decode or prefill step.

    Parameters
    ----------
    setup : Served
        Model, chip, formats and assumptions, at the context of the sequences.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    Work
        Operator table, whose entries broadcast to ``plans.shape``.
    """
    model, assumptions = setup.model, setup.assumptions
    table = OperatorTable(setup, plans)
    pace = fullest_over_mean(model.layers, plans, assumptions.layout)
    layers = rows_of_layers(table, pace)
    embedding, *sampling = after_layers(table)
    operators = [*layers]
    count, dtype = model.unknown_parameters, setup.precision.weights
    if count:
        # Parameters of unknown parts are assumed to be read once per step and multiplied by every token. They are split
        # over the chips of a stage, or over the chips of a group that has a copy.
        held = count * BYTES_PER_ELEMENT[dtype] / (table.ranks if table.copied else table.stage)
        flop = 2.0 * count / table.stage
        operators.append(
            Operator(
                "unknown blocks", dtype, repeats=pace, flop_per_token=flop, weight_bytes=held, grouped=table.copied
            )
        )
    operators += adapters(table, layers)
    norms = list(pointwise(table, pace)) if assumptions.chip.pointwise == "counted" else []
    host_rows: tuple[Operator, ...] = ()
    if on_cpu := assumptions.cpu.layers / model.layers:
        host_rows = tuple(repeated((*operators, *norms), on_cpu))
        on_chip = np.where(table.tokens < assumptions.cpu.copied_from, 1.0 - on_cpu, 1.0)
        operators, norms = repeated(operators, on_chip), repeated(norms, on_chip)
    operators += [embedding, _pipeline(table), *norms, *sampling]
    # A step with prompt tokens is launched as a prefill step.
    prefill = plans.prefill or bool(np.any(plans.riding))
    fullest = of_tokens = fullest_group(plans, assumptions.layout)
    if prefill and not plans.prefill:
        share = plans.riding / table.tokens
        of_tokens = fullest + share * (plans.riding_fullest - fullest)
    sequences, waited = plans.micro_batch, model.layers * pace
    summed = (table.ranks == table.stage) & (table.stage > 1)
    return Work(
        tuple(operators), table.tokens, sequences, waited, prefill, table.groups, fullest, of_tokens, summed, host_rows
    )


def rows_of_layers(table: OperatorTable, pace: Array | float) -> list[Operator]:
    """Operators of all layers, without pointwise operators (norms, activation functions)."""
    return [row for b in table.model.blocks for row in (*mixer(table, b, pace), *feed_forward(table, b, pace))]


def after_layers(table: OperatorTable) -> tuple[Operator, ...]:
    """Operators after the last layer, which run once per step: logits and sampling."""
    # Logits are computed for every new token, or for the last token of a prompt.
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
    # Logits have 32 bits. They are written once, and read twice: for the maximum and for the sum. In each group, one
    # rank samples tokens.
    moved = 3.0 * table.model.vocab_size * BYTES_PER_ELEMENT["fp32"] / table.groups
    share: Array | float = 1.0 / plans.new_tokens if plans.prefill else 1.0
    if mixed:
        share = 1.0 - plans.riding / table.tokens
    activations = table.precision.activations
    return embedding, Operator("sampling", activations, activation_bytes_per_token=moved * share, grouped=True)


def _pipeline(table: OperatorTable) -> Operator:
    """Operator that transfers the residual stream from one pipeline stage to the next stage."""
    domains: Array = np.full((), 2.0)
    if table.assumptions.network.pipeline_hop == "nearest":
        domains = np.where(table.plans.accelerators <= table.link_domain, 1.0, 2.0)
    hop = Collective("point_to_point", np.full((), 2.0), domains, table.hidden * table.activation_width / table.stage)
    repeats = table.plans.pp - 1.0
    return Operator(
        "pipeline hand-off", table.precision.weights, repeats=repeats, collectives=table.waited_for(hop), launches=0.0
    )


#: Contexts as pairs: cached tokens, and number or share of sequences with this context.
Contexts = tuple[tuple[float, float], ...]


def mean_context(contexts: Contexts) -> float:
    """Mean context length over sequences [tokens].

    Examples
    --------
    >>> mean_context(((500.0, 16), (32000.0, 2)))
    4000.0
    """
    return sum(length * count for length, count in contexts) / sum(count for _, count in contexts)


def mixed_work(works: Sequence[Work], contexts: Contexts, groups: int) -> Work:
    """Operator table of a step of sequences with different contexts.

    Parameters
    ----------
    works : sequence of Work
        Operator tables of the step, one for each context; in each table, all sequences have this context.
    contexts : tuple of (float, float)
        Pairs of a context [tokens] and the number or share of sequences with this context [1].
    groups : int
        Number of attention-DP groups that share the sequences [1].

    Returns
    -------
    Work
        Operator table of the step. Arithmetic and cache traffic per sequence are means over sequences, computed
        separately for each kind of layer. If attention-DP groups wait for each other, the means are over the group with
        the most cached tokens.
    """
    shares = np.array([count for _, count in contexts], dtype=float)
    shares = shares / shares.sum()
    longer = fullest_tokens(contexts, groups)
    chip, host = (
        tuple(_mixed(row, shares, longer) for row in zip(*rows, strict=True))
        for rows in ([work.operators for work in works], [work.in_host_memory for work in works])
    )
    return replace(works[0], operators=chip, in_host_memory=host)


def fullest_tokens(contexts: Contexts, groups: int) -> float:
    """Cached tokens in the fullest attention-DP group per sequence, divided by the mean of all sequences [1].

    Sequences are assigned in order of length, the longest first, to the group with the fewest tokens. The tokens of the
    fullest group are then divided by the mean number of sequences per group, rounded up. If contexts are given as
    shares, all groups are assumed to be equal.
    """
    if groups == 1 or sum(count for _, count in contexts) <= 1.0:
        return 1.0
    lengths = sorted((length for length, count in contexts for _ in range(round(count))), reverse=True)
    held = [0.0] * groups
    for length in lengths:
        heapq.heapreplace(held, held[0] + length)
    most = -(-len(lengths) // groups)
    return max(held) / most / (sum(lengths) / len(lengths))


def _mixed(rows: Sequence[Operator], shares: npt.NDArray[np.float64], longer: float) -> Operator:
    """Operator with the mean arithmetic and cache traffic of sequences with different contexts."""
    first = rows[0]
    columns = ((row.flop_per_token, row.flop_per_sequence, row.kv_bytes_per_sequence) for row in rows)
    amounts = (tuple(float(np.ravel(value)[0]) for value in column) for column in columns)
    if first.kind != "scores" or len(set(amounts)) == 1:
        return first
    changed: dict[str, Array] = {}
    for amount, padding in (
        ("flop_per_token", "padding"),
        ("flop_per_sequence", "padding"),
        ("kv_bytes_per_sequence", "kv_padding"),
    ):
        needed = [np.asarray(getattr(row, amount)) for row in rows]
        taken = sum(s * n * getattr(row, padding) for s, n, row in zip(shares, needed, rows, strict=True))
        mean = sum(s * n for s, n in zip(shares, needed, strict=True))
        changed[amount] = np.asarray(mean * longer)
        if np.any(mean):
            changed[padding] = np.asarray(taken / mean)
    return first._replace(**changed)  # type: ignore[arg-type]
