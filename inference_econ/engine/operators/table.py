"""Operators of the operator table, and the properties that all operators of a table share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, attention_groups, copied_by_groups, domains_spanned
from inference_econ.engine.served import Served
from inference_econ.formulas.attention import mean_attended, mean_attended_in_chunks
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.matmul import activation_elements_per_token
from inference_econ.inputs import BYTES_PER_ELEMENT, TensorLayout

OperatorKind = Literal["dense", "experts", "scores"]


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Measured efficiencies of the kernels of one operator.

    Attributes
    ----------
    math, memory : ndarray or float
        Share of the math unit's peak, and share of peak memory bandwidth for the KV cache or for expert weights [1].
    overlap : ndarray or float
        Overlapped time of arithmetic and memory traffic, as a share of the shorter of both times [1].
    unit_share : ndarray or float
        Share of the arithmetic time on the measured chips that the math unit needs at its sustained rate [1].
    per_vector : ndarray or float
        Peak of the math unit divided by the fp32 peak, on the measured chips [1].
    vendor : str
        Vendor of the measured chips; empty if the efficiencies apply to chips of all vendors.
    dense_padding : ndarray or float
        Arithmetic of a dense product over all tokens and experts, divided by the necessary arithmetic of the experts
        [1]. The time of experts is at most the time of this dense product; infinite without this limit.
    """

    math: Array | float
    memory: Array | float
    overlap: Array | float
    unit_share: Array | float = 1.0
    per_vector: Array | float = 1.0
    vendor: str = ""
    dense_padding: Array | float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """Collective communication after an operator, which the next operator waits for.

    Attributes
    ----------
    kind : str
        Kind of collective: all_reduce, all_to_all or point_to_point.
    ranks, domains : ndarray
        Number of ranks, and number of link domains over which the ranks extend [1].
    bytes_per_token : ndarray
        Size of the tensor of one group of ranks, per token of the micro-batch [B].
    repeats : float
        Number of collectives per occurrence of the operator [1].
    own_link : bool
        True if each rank sends its tensor over its own links; False if a group sends one tensor over all of its links.
    crossing : ndarray or float
        If ``own_link`` is True: bytes sent between link domains, divided by bytes with a destination in another domain
        [1]. See :func:`inference_econ.formulas.collectives.exchange_seconds_per_byte`.
    busiest : ndarray or float
        If ``own_link`` is True: bytes of the busiest receiver, divided by the mean of all receivers [1].
        ``bytes_per_token`` includes this factor.
    """

    kind: Kind
    ranks: Array
    domains: Array
    bytes_per_token: Array
    repeats: float = 1.0
    own_link: bool = False
    crossing: Array | float = 1.0
    busiest: Array | float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """Sizes of an operator's matrices that have low-rank adapters, on one accelerator.

    Attributes
    ----------
    shrunk, expanded : ndarray or float
        Sum of the input widths, and sum of the output widths, over all matrices [1]. The total of both is the number of
        weights in an adapter of rank 1.
    share : ndarray or float
        Share of the tokens of a micro-batch that the accelerator processes [1].
    """

    shrunk: Array | float
    expanded: Array | float
    share: Array | float


class Operator(NamedTuple):
    """One operator of a step; amounts are per occurrence and per accelerator that runs the operator.

    Attributes
    ----------
    name : str
        Name of the operator for users.
    dtype : str
        Number format of the weights, which determines the math unit.
    kind : str
        Kind of operator: ``dense``, ``experts`` or ``scores`` (attention). Assumptions may set efficiencies for each
        kind.
    repeats : ndarray or float
        Number of occurrences of the operator through which a token passes [1].
    flop_per_token, flop_per_sequence : ndarray
        Arithmetic per token, and arithmetic per sequence [FLOP].
    weight_bytes : ndarray
        Weight traffic [B]; weights are read once per step at any batch.
    activation_bytes_per_token : ndarray
        Memory traffic of activations per token [B].
    kv_bytes_per_sequence : ndarray
        KV-cache traffic per sequence [B].
    shared_kv_bytes : ndarray
        Traffic of KV cache that is read once per step at any batch, because all sequences share it [B].
    collectives : mapping of str to tuple of Collective
        Collectives after the operator, by split of weight matrices (``1d``, ``2d``).
    on_attention_ranks : bool
        True if only the attention ranks of a stage run the operator; False if all chips of the stage run it.
    launches : float
        Number of kernels per occurrence [1].
    padding, kv_padding : ndarray or float
        Actual divided by necessary arithmetic, and actual divided by necessary cache reads [1]; above 1 if tiles are
        partly filled.
    rates : Rates or None
        Efficiencies of the operator's kernels; None without a measured curve.
    grouped : bool
        True if each attention-DP group processes its own sequences; all groups then wait for the fullest group.
    mixer : str
        Kind of attention in the same layers, for norms; empty for other operators.
    attention : str
        Kind of attention to which the operator belongs; assumptions may set a launch time for each kind.
    parts : float
        Number of sublayers per occurrence [1]; above 1 for norms, because all norms of a layer are one operator.
    adapted : Adapted or None
        Sizes of the matrices that may have low-rank adapters; None without such matrices.
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
    collectives: Mapping[TensorLayout, tuple[Collective, ...]] = MappingProxyType({})
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
        """Name without the text in brackets, which is the key in an engine's kernel counts."""
        name = self.name.partition(" (")[0]
        return f"latent {name}" if self.attention == "latent" and name == "attention" else name


def repeated(rows: Iterable[Operator], times: Array | float) -> list[Operator]:
    """Copy the operators of one layer for ``times`` equal layers through which a token passes."""
    return [row._replace(repeats=row.repeats * times) for row in rows]


class OperatorTable:
    """Properties that the operators of one table share: model, plans and distribution of work.

    Attributes
    ----------
    hidden : float
        Width of the residual stream [1].
    tokens : ndarray
        New tokens of one micro-batch, including prompt tokens in the same step [1].
    stage, ranks, groups : ndarray
        Number of chips in a pipeline stage, number of chips that share the attention weights, and number of
        attention-DP groups [1].
    context : float
        Tokens in the cache of a sequence before the step [tokens].
    spread : float
        Width of the range of contexts around ``context``, at most twice the context [tokens]. In chunked prefill, this
        is the range of contexts over all chunks.
    read_once : float
        Tokens of a shared prefix that an attention-DP group reads once for all of its sequences [tokens].
    by_tokens : bool
        True if each rank stores the residual stream of only a part of its group's tokens.
    stream_owners : ndarray
        Number of chips in a stage that process residual streams of different tokens [1].
    summed : ndarray or None
        True for plans in which every chip of a stage has all tokens, so that the outputs of experts are all-reduced.
        The value is None if no plan all-reduces the outputs of experts.
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
        self.by_tokens = assumptions.layout.residual_stream == "by_tokens"
        self.stream_owners = self.groups * self.ranks if self.by_tokens else self.groups
        exchanged = assumptions.experts.replicated_tokens == "exchanged"
        self.summed = None if exchanged else np.asarray(self.ranks == self.stage)
        #: Rows of parts of layers that were computed so far, with the part.
        self.known: list[tuple[tuple[object, ...], list[Operator]]] = []

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
        """Create the operator of one weight matrix, or of several parallel matrices, on the attention ranks.

        ``shapes`` are the shapes of the matrices that are read from memory. ``count`` is the number of weights by which
        each token is multiplied; by default, all weights. ``reduced`` is the number of elements per token in the
        all-reduce after the product. ``output`` is True for an output projection, which may have another format. If
        ``whole`` is True, the matrices are not split: every rank multiplies them by all tokens of its group.
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
        # Only one of the two adapter matrices is split, in the same way as the weight matrix.
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
        """Number of activation elements that a matrix product reads and writes per token, summed over its ranks [1]."""
        return activation_elements_per_token(rows, columns, ranks, self.assumptions.chip.activation_traffic)

    def all_reduces(
        self, ranks: Array, owners: Array, elements: Array | float, *, only_2d: bool, stride: Array | float = 1.0
    ) -> dict[TensorLayout, tuple[Collective, ...]]:
        """All-reduces of ``elements`` per token over the ranks that split a matrix, for 1D and 2D splits.

        With a 1D split, the outputs of all ranks are summed after the second matrix of a pair. The sum is one
        all-reduce. If each rank stores only its own tokens, a reduce-scatter and an all-gather replace the all-reduce,
        each with half of the traffic. With a 2D split, groups of sqrt(ranks) ranks sum their outputs.

        ``owners`` is the number of chips over which the tokens and the matrix are split. Consecutive members of a group
        are ``stride`` chips apart.
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

    def attended(self, limit: float = math.inf) -> float:
        """Mean number of past tokens to which a new token attends, at most ``limit`` [tokens].

        Masked tokens are included if attention kernels compute their scores, according to the assumptions.
        """
        if self.plans.prefill and self.assumptions.attention.masked_scores == "computed":
            return min(self.context + self.plans.new_tokens, limit)
        if self.plans.prefill or self.assumptions.serving.verify_context == "mean":
            return mean_attended(self.context, self.plans.new_tokens, limit)
        return min(self.context, limit)

    def read(self, limit: float = math.inf) -> float:
        """KV-cache tokens that a sequence reads in a decode step, or reads and writes in a prefill step [tokens]."""
        if self.plans.prefill:
            return min(self.context, limit) + self.plans.new_tokens
        return self.attended(limit)

    def attended_in_chunk(self, chunk: float) -> float:
        """Mean number of past tokens in the same chunk to which a new token attends [tokens].

        The number grows with the position in a chunk, and drops to zero at each chunk border. If all contexts are
        equal, the result is the mean over the positions in a chunk.
        """
        if self.assumptions.attention.chunk_position == "middle":
            return self.attended(chunk / 2)
        if not self.plans.prefill and not self.spread and self.context >= chunk:
            return (chunk - 1) / 2
        several = self.plans.prefill or self.assumptions.serving.verify_context == "mean"
        new = self.plans.new_tokens if several else 1.0
        return mean_attended_in_chunks(self.context - self.spread / 2, self.spread + new, chunk)

    def read_in_chunk(self, chunk: float) -> float:
        """KV-cache tokens of a chunk that a sequence reads or writes in a step [tokens]; see :meth:`read`."""
        if self.assumptions.attention.chunk_position == "middle":
            return self.read(chunk / 2)
        new = self.plans.new_tokens
        if not self.plans.prefill:
            return self.attended_in_chunk(chunk)
        starts = self.context - self.spread / 2 + new * np.arange(round(self.spread / new) + 1)
        return float(np.mean(starts % chunk)) + new

    def domains(self, ranks: Array, stride: Array | float = 1.0) -> Array:
        """Number of link domains over which a group of ranks extends, if its members are ``stride`` chips apart [1]."""
        if self.assumptions.network.link_domains == "placed":
            return domains_spanned(ranks, stride, self.stage, self.link_domain)
        if self.assumptions.network.link_domains == "whole":
            return np.asarray(np.ceil(ranks / self.link_domain))
        return np.maximum(ranks / self.link_domain, 1.0)

    def cache_share(self, heads: float, *, by_token: bool = True) -> Array:
        """Share of a stage's KV cache that one chip stores and reads [1].

        In the published study, all chips of a stage have equal shares. Otherwise, an attention-DP group stores only its
        sequences, and a rank only its heads. If there are more ranks than heads, the additional ranks store copies.
        With decode context parallelism, the additional ranks store other tokens of the same sequences if ``by_token``
        is True.
        """
        if self.assumptions.layout.kv_placement == "spread":
            return 1.0 / self.stage
        return 1.0 / (self.groups * np.minimum(self.ranks, heads * self.plans.dcp if by_token else heads))

    def waited_for(self, collective: Collective) -> dict[TensorLayout, tuple[Collective, ...]]:
        """Return one collective for all splits of weight matrices (1D, 2D)."""
        return dict.fromkeys(self.assumptions.layout.tensor_layouts, (collective,))


#: Number of adapter kernels per matrix, if the engine's specification has none [1]: one shrinks the input, one expands
#: the result.
_KERNELS = 2.0


def distinct(adapters: int, sequences: Array) -> Array:
    """Expected number of different adapters that some sequences use, if all adapters are equally likely [1].

    Examples
    --------
    >>> distinct(4, np.array([1.0, 2.0, 100.0])).round(2)
    array([1.  , 1.75, 4.  ])
    """
    return np.asarray(adapters * (1.0 - (1.0 - 1.0 / adapters) ** sequences))


def adapters(table: OperatorTable, rows: Iterable[Operator]) -> Iterator[Operator]:
    """Operators of low-rank adapters; none if no adapters are served."""
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
            # The output is read again, because the result of the adapter is added to it.
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
    """Yield norms and activation functions of all layers, with memory traffic and kernel launches but no arithmetic.

    A rank processes the residual streams of all tokens of its group, or of a part of these tokens. ``pace`` is the
    number of layers on the critical path divided by the number of layers [1].
    """
    model, dtype, width = table.model, table.precision.activations, table.activation_width
    for block in model.blocks:
        # The norm before each part of a layer is fused with the residual sum. The kernel reads two vectors and writes
        # two vectors.
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
        # Each activation function reads the output of the input matrices once and writes its result once.
        activations = (
            Operator(name, dtype, activation_bytes_per_token=(matrices + 1.0) * columns * width / table.stage)
            for name, (columns, matrices) in block.feed_forward.activated.items()
        )
        yield from repeated((norms, *activations), block.layers * pace)
    if model.residual_span is not None:
        # Number of earlier residual entries that the norm kernels read and sum: before each part of a layer, one entry
        # for each full or started span of earlier layers (SGLang 0.5.23, ``prev_valid_blocks`` of Kimi-K3).
        entries = sum(-(-layer // model.residual_span) for layer in range(model.layers))
        moved = 2.0 * entries * table.hidden * width / table.stream_owners
        yield Operator(
            "residual attention", dtype, "dense", pace, activation_bytes_per_token=moved, launches=0.0, grouped=True
        )
    streams = model.residual_streams
    if streams > 1:
        # Before each part of a layer, a matrix computes the weights of three sums: the input of the part, its
        # contribution to each copy of the residual stream, and the mix of the copies. After the last layer, the model
        # may specify an additional mix.
        yield _mixing(table, 2.0 * model.layers * pace, streams, outputs=streams * (streams + 2))
        if model.residual_fold:
            yield _mixing(table, pace, streams, outputs=streams)


def _mixing(table: OperatorTable, repeats: Array | float, streams: int, outputs: int) -> Operator:
    """Operator of a matrix on all copies of the residual stream, with the memory traffic of the additional copies.

    Every rank of a group processes all of the group's tokens. The matrix is split over the chips of a stage, or over
    the chips of a group that has a copy of the matrix.
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
