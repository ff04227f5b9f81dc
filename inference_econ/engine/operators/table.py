"""Rows of the operator table, and the properties that all rows of a table share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, attention_groups, copied_by_groups, domains_spanned
from inference_econ.engine.protocols import Served
from inference_econ.formulas.attention import mean_attended, mean_attended_in_chunks
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.matmul import activation_elements_per_token
from inference_econ.inputs import BYTES_PER_ELEMENT, TensorLayout

OperatorKind = Literal["dense", "experts", "scores"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Efficiencies of the kernels of one operator, if they have a measured curve.

    Attributes
    ----------
    math, memory : ndarray or float
        Share of the math unit's peak, and of the memory bandwidth for cache or experts [1].
    overlap : ndarray or float
        Share of the shorter of arithmetic and memory time that overlaps with the longer [1].
    unit_share : ndarray or float
        Share of the arithmetic time that the math unit itself needs, on the measured chips [1].
    per_vector : ndarray or float
        Peak of that unit divided by the fp32 peak of the measured chips [1].
    vendor : str
        Vendor of the measured chips; empty if a curve is the same on every chip.
    dense_padding : ndarray or float
        Arithmetic of a dense product that bounds the time of experts, over the necessary arithmetic; infinite without
        a bound [1].
    """

    math: Array | float
    memory: Array | float
    overlap: Array | float
    unit_share: Array | float = 1.0
    per_vector: Array | float = 1.0
    vendor: str = ""
    dense_padding: Array | float = np.inf


@dataclass(frozen=True, slots=True)
class Collective:
    """Communication that an operator waits for.

    Attributes
    ----------
    kind : str
        all_reduce, all_to_all or point_to_point.
    ranks, domains : ndarray
        Number of participants, and of link domains that they span [1].
    bytes_per_token : ndarray
        Tensor of one group of ranks, per token of the micro-batch [B].
    repeats : float
        Times per occurrence of the operator [1].
    own_link : bool
        True if each rank sends the tensor over its own links; False if a group sends it over all of its links together.
    crossing : ndarray or float
        Bytes sent between domains divided by bytes with a destination in another domain, if ranks use their own links;
        see :func:`inference_econ.formulas.collectives.exchange_seconds_per_byte` [1].
    busiest : ndarray or float
        Bytes of the busiest receiver divided by the mean of all receivers, if ranks use their own links;
        ``bytes_per_token`` includes this factor [1].
    """

    kind: Kind
    ranks: Array
    domains: Array
    bytes_per_token: Array
    repeats: float = 1.0
    own_link: bool = False
    crossing: Array | float = 1.0
    busiest: Array | float = 1.0


@dataclass(frozen=True, slots=True)
class Adapted:
    """Matrices with low-rank adapters, on one accelerator: input and output widths.

    Attributes
    ----------
    shrunk, expanded : ndarray or float
        Sum of the input widths of all matrices, and of their output widths: the weights of an adapter of rank 1 [1].
    share : ndarray or float
        Share of the tokens of a micro-batch that the accelerator processes [1].
    """

    shrunk: Array | float
    expanded: Array | float
    share: Array | float


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of operator, with amounts per occurrence and per accelerator that runs it.

    Attributes
    ----------
    name : str
        Name for users.
    dtype : str
        Format of the weights, which determines the math unit.
    kind : str
        dense, experts or scores; assumptions may give each its own efficiencies.
    repeats : ndarray or float
        Sequential occurrences on the path of a token [1].
    flop_per_token, flop_per_sequence : ndarray
        Arithmetic [FLOP].
    weight_bytes : ndarray
        Weights, read once per step at any batch [B].
    activation_bytes_per_token : ndarray
        Traffic of activations [B].
    kv_bytes_per_sequence : ndarray
        Cache read per sequence [B].
    shared_kv_bytes : ndarray
        Cache read once per step at any batch: a prefix that all sequences share [B].
    collectives : mapping of str to tuple of Collective
        Collectives after the operator, for each way to split matrices.
    on_attention_ranks : bool
        True if the operator runs on the attention ranks of a stage, and not on all chips of the stage.
    launches : float
        Kernels per occurrence [1].
    padding, kv_padding : ndarray or float
        Computed arithmetic divided by necessary arithmetic (above 1 with partly filled tiles), and the same ratio for
        cache reads [1].
    rates : Rates or None
        Efficiencies of its kernels; None without a measured curve.
    grouped : bool
        True if each attention-DP group works on its own sequences, and all groups wait for the fullest.
    mixer : str
        For norms, the kind of attention in their layers.
    attention : str
        Kind of attention that the operator belongs to, for which assumptions may set another launch time.
    parts : float
        Parts of a layer per occurrence: all norms of a layer are one row [1].
    adapted : Adapted or None
        Matrices that may have adapters.
    """

    name: str
    dtype: str
    kind: OperatorKind = "dense"
    repeats: Array | float = 1.0
    flop_per_token: Array | float = 0.0
    flop_per_sequence: Array | float = 0.0
    weight_bytes: Array | float = 0.0
    activation_bytes_per_token: Array | float = 0.0
    kv_bytes_per_sequence: Array | float = 0.0
    shared_kv_bytes: Array | float = 0.0
    collectives: Mapping[TensorLayout, tuple[Collective, ...]] = field(default_factory=dict)
    on_attention_ranks: bool = False
    launches: float = 1.0
    padding: Array | float = 1.0
    kv_padding: Array | float = 1.0
    rates: Rates | None = None
    grouped: bool = False
    mixer: str = ""
    attention: str = ""
    parts: float = 1.0
    adapted: Adapted | None = None

    @property
    def part(self) -> str:
        """Name without the text in brackets: the key of the kernel counts of engines."""
        name = self.name.partition(" (")[0]
        return f"latent {name}" if self.attention == "latent" and name == "attention" else name


def repeated(rows: Iterable[Operator], times: Array | float) -> list[Operator]:
    """Rows of equal layers, which a token passes ``times`` times."""
    return [replace(row, repeats=row.repeats * times) for row in rows]


class OperatorTable:
    """Properties that the rows of one table share: the model, the plans and the distribution of work.

    Attributes
    ----------
    hidden : float
        Width of the residual stream [1].
    tokens : ndarray
        New tokens of one micro-batch, including prompt tokens in the same step [1].
    stage, ranks, groups : ndarray
        Chips of a stage, chips that share the attention weights, and attention-DP groups [1].
    context : float
        Tokens in the cache of a sequence before the step [tokens].
    spread : float
        Width of the distribution of contexts around ``context``, or of the steps of a chunked prefill; at most twice
        the context [tokens].
    read_once : float
        Tokens of the context that an attention-DP group reads once for all of its sequences [tokens].
    """

    def __init__(self, setup: Served, plans: Plans) -> None:
        self.model, self.precision, self.plans = setup.model, setup.precision, plans
        self.assumptions, self.link_domain = setup.assumptions, setup.hardware.link_domain
        self.hidden, assumptions, precision = float(setup.model.hidden_size), setup.assumptions, setup.precision
        self.tokens = plans.micro_batch * plans.new_tokens + plans.riding
        self.stage, self.ranks = plans.stage, plans.attention_ranks
        self.groups = attention_groups(plans, assumptions.layout)
        self.copied = copied_by_groups(setup.model, assumptions.layout)
        self.activation_width = BYTES_PER_ELEMENT[precision.activations]
        self.kv_width = BYTES_PER_ELEMENT[precision.kv]
        self.context, self.spread = setup.context, min(setup.spread, 2.0 * setup.context)
        once = assumptions.attention.shared_prefix == "once" and not plans.prefill and plans.dcp == 1
        self.read_once = min(setup.shared_prefix, setup.context) if once else 0.0

    def projection(
        self,
        name: str,
        shapes: Iterable[tuple[float, float]],
        *,
        count: float | None = None,
        reduced: float = 0.0,
        only_2d: bool = False,
        launches: float = 1.0,
        output: bool = False,
        whole: bool = False,
        adapters: int = 1,
    ) -> Operator:
        """Row of one weight matrix, or of several in parallel, on the attention ranks.

        ``shapes`` are the matrices that are read from memory. ``count`` is the number of weights that are multiplied,
        by default all. ``reduced`` elements per token are all-reduced afterwards. ``output`` projections may have
        another format. ``whole`` matrices are not split: every rank multiplies all tokens of its group by them.
        ``adapters`` is the number of matrices in each shape that have separate adapters: three for queries, keys and
        values, 0 for none.
        """
        ranks = np.ones_like(self.ranks) if whole else self.ranks
        dtype = self.precision.attention_output if output else self.precision.attention
        read = [(float(rows), float(columns)) for rows, columns in shapes]
        elements = math.fsum(rows * columns for rows, columns in read)
        traffic: Array | float = 0.0
        for rows, columns in read:
            traffic = traffic + self.moved_elements(rows, columns, ranks)
        owners = ranks * self.groups
        inputs, outputs = adapters * math.fsum(columns for _, columns in read), math.fsum(rows for rows, _ in read)
        # An adapter is split like its matrix, on one side only.
        shrunk, expanded = (inputs / ranks, outputs) if output else (inputs, outputs / ranks)
        return Operator(
            name,
            dtype,
            flop_per_token=2.0 * (elements if count is None else count) / owners,
            weight_bytes=elements * BYTES_PER_ELEMENT[dtype] / ranks,
            activation_bytes_per_token=traffic * self.activation_width / owners,
            collectives=self.all_reduces(ranks, owners, reduced, only_2d=only_2d) if reduced else {},
            on_attention_ranks=True,
            launches=launches,
            grouped=True,
            adapted=Adapted(shrunk, expanded, 1.0 / self.groups) if adapters else None,
        )

    def moved_elements(self, rows: float, columns: float, ranks: Array) -> Array:
        """Elements per token that a matrix moves on all ranks that split it [1]."""
        return activation_elements_per_token(rows, columns, ranks, self.assumptions.chip.activation_traffic)

    def all_reduces(
        self, ranks: Array, owners: Array, elements: Array | float, *, only_2d: bool, stride: Array | float = 1.0
    ) -> dict[TensorLayout, tuple[Collective, ...]]:
        """All-reduces of ``elements`` per token over the ranks that split a matrix, for each way to split.

        A one-dimensional split sums over all ranks after the second matrix of a pair. It uses one all-reduce, or two
        exchanges of half the traffic if each rank keeps its own tokens. A two-dimensional split sums over groups of
        sqrt(ranks). ``owners`` are the chips that share the sum; members of a group lie ``stride`` chips apart.
        """
        domains = self.domains(ranks, stride)
        size = elements * self.activation_width / owners
        by_layout: dict[TensorLayout, tuple[Collective, ...]] = {}
        for layout in self.assumptions.layout.tensor_layouts:
            if layout == "2d":
                group = np.sqrt(ranks)
                by_layout[layout] = (Collective("all_reduce", group, np.sqrt(domains), size * group),)
            elif not only_2d and self.by_tokens:
                by_layout[layout] = (Collective("all_to_all", ranks, domains, size * ranks, repeats=2.0),)
            elif not only_2d:
                by_layout[layout] = (Collective("all_reduce", ranks, domains, size * ranks),)
        return by_layout

    @property
    def by_tokens(self) -> bool:
        """True if each rank has the residual stream of a part of its group's tokens."""
        return self.assumptions.layout.residual_stream == "by_tokens"

    @property
    def stream_owners(self) -> Array | float:
        """Chips of a stage that work on residual streams of different tokens [1]."""
        return self.groups * self.ranks if self.by_tokens else self.groups

    @property
    def summed(self) -> npt.NDArray[np.bool_] | None:
        """Plans in which all chips of a stage have all tokens, so that outputs of experts are summed; None for none."""
        if self.assumptions.experts.replicated_tokens == "exchanged":
            return None
        return np.asarray(self.ranks == self.stage)

    def attended(self, limit: float = math.inf) -> float:
        """Past tokens that a new token attends to, at most ``limit``.

        Masked tokens are included if the assumptions compute their scores.
        """
        if self.plans.prefill and self.assumptions.attention.masked_scores == "computed":
            return min(self.context + self.plans.new_tokens, limit)
        if self.plans.prefill or self.assumptions.serving.verify_context == "mean":
            return mean_attended(self.context, self.plans.new_tokens, limit)
        return min(self.context, limit)

    def read(self, limit: float = math.inf) -> float:
        """Tokens of the KV cache that a sequence reads in a decode step, or reads and writes in a prefill step."""
        if self.plans.prefill:
            return min(self.context, limit) + self.plans.new_tokens
        return self.attended(limit)

    def attended_in_chunk(self, chunk: float) -> float:
        """Mean number of past tokens in the same chunk that a new token attends to [tokens].

        The number grows with the position within a chunk, and drops to zero at every border. For contexts without a
        spread, the mean over a chunk is used.
        """
        if self.assumptions.attention.chunk_position == "middle":
            return self.attended(chunk / 2)
        if not self.plans.prefill and not self.spread and self.context >= chunk:
            return (chunk - 1) / 2
        several = self.plans.prefill or self.assumptions.serving.verify_context == "mean"
        new = self.plans.new_tokens if several else 1.0
        return mean_attended_in_chunks(self.context - self.spread / 2, self.spread + new, chunk)

    def read_in_chunk(self, chunk: float) -> float:
        """Tokens of the KV cache in a chunk that a sequence reads or writes in a step, see :meth:`read` [tokens]."""
        if self.assumptions.attention.chunk_position == "middle":
            return self.read(chunk / 2)
        new = self.plans.new_tokens
        if not self.plans.prefill:
            return self.attended_in_chunk(chunk)
        starts = self.context - self.spread / 2 + new * np.arange(round(self.spread / new) + 1)
        return float(np.mean(starts % chunk)) + new

    def domains(self, ranks: Array, stride: Array | float = 1.0) -> Array:
        """Link domains spanned by a group of ranks whose members lie ``stride`` chips apart [1]."""
        if self.assumptions.network.link_domains == "placed":
            return domains_spanned(ranks, stride, self.stage, self.link_domain)
        if self.assumptions.network.link_domains == "whole":
            return np.asarray(np.ceil(ranks / self.link_domain))
        return np.maximum(ranks / self.link_domain, 1.0)

    def cache_share(self, heads: float, *, by_token: bool = True) -> Array:
        """Share of the cache of a stage's sequences that one chip stores and reads.

        In the published study the cache is spread evenly. Otherwise each attention-DP group stores its own sequences,
        and every rank stores the heads that it computes. Ranks in excess of the heads store copies, or with decode
        context parallelism other tokens if the cache is ``by_token``.
        """
        if self.assumptions.layout.kv_placement == "spread":
            return 1.0 / self.stage
        return 1.0 / (self.groups * np.minimum(self.ranks, heads * self.plans.dcp if by_token else heads))

    def waited_for(self, collective: Collective) -> dict[TensorLayout, tuple[Collective, ...]]:
        """Assign one collective to every way to split matrices."""
        return dict.fromkeys(self.assumptions.layout.tensor_layouts, (collective,))


#: Adapter kernels per matrix if the engine specifies no number: one shrinks the input, one expands it [1].
_KERNELS = 2.0


def distinct(adapters: int, sequences: Array) -> Array:
    """Expected number of different adapters of some sequences, with equal probabilities [1].

    Examples
    --------
    >>> distinct(4, np.array([1.0, 2.0, 100.0])).round(2)
    array([1.  , 1.75, 4.  ])
    """
    return np.asarray(adapters * (1.0 - (1.0 - 1.0 / adapters) ** sequences))


def adapters(table: OperatorTable, rows: Iterable[Operator]) -> Iterator[Operator]:
    """Rows of low-rank adapters; no rows if no adapters are served."""
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
            # The output is read again, to be added to.
            activation_bytes_per_token=(beside.shrunk + 2.0 * beside.expanded) * beside.share * width,
            on_attention_ranks=row.on_attention_ranks,
            launches=_KERNELS,
            grouped=row.grouped,
        )


def held_bytes(table: OperatorTable, rows: Iterable[Operator]) -> Array | float:
    """Memory of all adapters of an instance, with copies [B]."""
    assumed = table.assumptions.adapters
    beside = [(row.repeats, row.adapted) for row in rows if row.adapted is not None]
    elements = sum(repeats * (widths.shrunk + widths.expanded) for repeats, widths in beside)
    return assumed.loras * assumed.rank * BYTES_PER_ELEMENT[table.precision.activations] * elements * table.stage


def pointwise(table: OperatorTable, pace: Array | float) -> Iterator[Operator]:
    """Norms and activation functions of every layer: memory traffic and launches, with negligible arithmetic.

    A rank of a group processes the residual streams of all tokens of the group, or of a part of these tokens. ``pace``
    is the ratio of layers on the critical path to layers passed [1].
    """
    model, dtype, width = table.model, table.precision.activations, table.activation_width
    for block in model.blocks:
        # A norm before each part, fused with the residual sum: two vectors read, two written.
        count = 1 if block.parallel else block.parts
        norms = Operator(
            "norms",
            dtype,
            activation_bytes_per_token=4.0 * count * table.hidden * width / table.stream_owners,
            launches=float(count),
            grouped=True,
            mixer=block.attention.kind,
            parts=float(count),
        )
        # The output of the input matrices is read, gated and written once.
        activations = (
            Operator(name, dtype, activation_bytes_per_token=(matrices + 1.0) * columns * width / table.stage)
            for name, (columns, matrices) in block.feed_forward.activated.items()
        )
        yield from repeated((norms, *activations), block.layers * pace)
    if model.residual_span is not None:
        # Entries of earlier layers that the norm kernel reads and sums before each part: one for each full or started
        # span before a layer (SGLang 0.5.23, ``prev_valid_blocks`` of Kimi-K3).
        entries = sum(-(-layer // model.residual_span) for layer in range(model.layers))
        moved = 2.0 * entries * table.hidden * width / table.stream_owners
        yield Operator(
            "residual attention", dtype, "dense", pace, activation_bytes_per_token=moved, launches=0.0, grouped=True
        )
    streams = model.residual_streams
    if streams > 1:
        # Before each part of a layer: its input, its contribution to each copy, and the mix of the copies. Once more
        # after the last layer, unless a mix of that layer is specified.
        yield _mixing(table, 2.0 * model.layers * pace, streams, outputs=streams * (streams + 2))
        if model.residual_fold:
            yield _mixing(table, pace, streams, outputs=streams)


def _mixing(table: OperatorTable, repeats: Array | float, streams: int, outputs: int) -> Operator:
    """Row of a matrix on all copies of the residual stream, with the memory traffic of the additional copies.

    Every rank of a group processes all of the group's tokens. Each chip of a stage, or of a group with a copy, stores a
    part of the matrix.
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
