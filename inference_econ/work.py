"""What must be done in one step: the operator table (floor 4).

One row per kind of operator and block of layers; every entry is an array that broadcasts
over the plans. Quantities that grow with the tokens of a micro-batch are kept per token,
so that they stay on the small axes until the engine multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from inference_econ.formulas import attention as attention_formulas
from inference_econ.formulas.collectives import Kind
from inference_econ.formulas.experts import touched_fraction
from inference_econ.formulas.matmul import activation_elements_per_token
from inference_econ.plans import Plans, expert_ranks
from inference_econ.spec import counting
from inference_econ.spec.assumptions import Assumptions, TensorLayout
from inference_econ.spec.dtype import BYTES_PER_ELEMENT, check_dtype
from inference_econ.spec.model import Block, ExpertFeedForward, LatentAttention, ModelSpec

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Precision:
    """Number format of each group of tensors.

    Attributes
    ----------
    weights, experts : str
        Weights, and routed experts.
    activations, kv : str
        What flows between operators, and the cache.
    """

    weights: str
    experts: str
    activations: str
    kv: str

    @classmethod
    def of(
        cls, model: ModelSpec, weights: str | None = None, activations: str | None = None, kv: str | None = None
    ) -> Precision:
        """The formats a model is served in: given ones, or those it is published in and 16-bit activations.

        Raises
        ------
        InputError
            If a format is unknown.
        """
        for name, role in ((weights, "weights"), (activations, "activations"), (kv, "kv")):
            if name is not None:
                check_dtype(name, role)
        flowing = activations or ("fp16" if model.weights == "fp16" else "bf16")
        return cls(
            weights=weights or model.weights,
            experts=weights or model.expert_weights or model.weights,
            activations=flowing,
            kv=kv or flowing,
        )


@dataclass(frozen=True, slots=True)
class Collective:
    """Communication that an operator waits for.

    Attributes
    ----------
    kind : str
        all_reduce, all_to_all or point_to_point.
    ranks, domains : ndarray
        Participants, and link domains they are spread over [1].
    bytes_per_token : ndarray
        Tensor of one group of ranks, per token of the micro-batch [B].
    repeats : float
        Times per occurrence of the operator [1].
    """

    kind: Kind
    ranks: Array
    domains: Array
    bytes_per_token: Array
    repeats: float = 1.0


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of operator; amounts are per occurrence and per accelerator that works on it.

    Attributes
    ----------
    name : str
        For people.
    repeats : ndarray or float
        Occurrences that a token waits for, one after the other [1].
    dtype : str
        Format of the weights, which picks the maths unit.
    flop_per_token : ndarray
        [FLOP]
    weight_bytes : ndarray
        Read once per step, whatever the batch [B].
    activation_bytes_per_token : ndarray
        [B]
    kv_bytes_per_sequence : ndarray
        Cache read per sequence [B].
    collectives : mapping of str to tuple of Collective
        Waited for after the operator, for each way to cut matrices.
    on_attention_ranks : bool
        The operator runs on the attention ranks of a stage, not on all of its chips.
    """

    name: str
    repeats: Array | float
    dtype: str
    flop_per_token: Array | float = 0.0
    weight_bytes: Array | float = 0.0
    activation_bytes_per_token: Array | float = 0.0
    kv_bytes_per_sequence: Array | float = 0.0
    collectives: Mapping[TensorLayout, tuple[Collective, ...]] = field(default_factory=dict)
    on_attention_ranks: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The operator table of one step, and what all rows share.

    Attributes
    ----------
    operators : tuple of Operator
        The rows.
    tokens, sequences : ndarray
        Of one micro-batch [1].
    layers : int
        Layers that a token passes [1].
    """

    operators: tuple[Operator, ...]
    tokens: Array
    sequences: Array
    layers: int


def decode_work(
    model: ModelSpec,
    precision: Precision,
    plans: Plans,
    context: float,
    link_domain: int,
    assumptions: Assumptions,
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

    Returns
    -------
    Work
        Entries broadcast to ``plans.shape``.
    """
    table = _Table(model, precision, plans, context, link_domain, assumptions)
    operators = [row for block in model.blocks for row in (*table.attention(block), *table.feed_forward(block))]
    operators.append(table.output_embedding())
    operators.append(table.pipeline())
    return Work(tuple(operators), table.tokens, plans.micro_batch, model.layers)


class _Table:
    """What the rows of one table share."""

    def __init__(
        self,
        model: ModelSpec,
        precision: Precision,
        plans: Plans,
        context: float,
        link_domain: int,
        assumptions: Assumptions,
    ) -> None:
        self.model, self.precision, self.plans, self.assumptions = model, precision, plans, assumptions
        self.hidden = float(model.hidden_size)
        self.link_domain = link_domain
        self.tokens = plans.micro_batch * plans.new_tokens
        self.stage = plans.stage
        self.weight_width = BYTES_PER_ELEMENT[precision.weights]
        self.expert_width = BYTES_PER_ELEMENT[precision.experts]
        self.activation_width = BYTES_PER_ELEMENT[precision.activations]
        self.kv_width = BYTES_PER_ELEMENT[precision.kv]
        self.context = context
        if assumptions.verify_context == "mean":
            self.context += (plans.new_tokens - 1) / 2

    def attention(self, block: Block) -> Iterator[Operator]:
        """Projections on the attention ranks; scores and cache on the whole stage."""
        spec = block.attention
        if spec.kind == "latent":
            output_width = float(spec.query_heads * spec.value_head_dim)
            down, up, _ = counting.latent_weights(spec, self.hidden)
            down_shapes, up_shapes = self._latent_shapes(spec)
            yield self._projection("latent down", block.layers, down, down_shapes)
            projected = self._latent_width(spec)
            yield self._projection("latent up", block.layers, up, up_shapes, reduced=projected, only_2d=True)
        else:
            projected = float((spec.query_heads + 2 * spec.kv_heads) * spec.head_dim)
            output_width = float(spec.query_heads * spec.head_dim)
            shapes = [(projected, self.hidden)]
            count = projected * self.hidden
            yield self._projection("qkv", block.layers, count, shapes, reduced=projected, only_2d=True)
        yield self._scores(block)
        shapes = [(self.hidden, output_width)]
        count = self.hidden * output_width
        yield self._projection("attention output", block.layers, count, shapes, reduced=self.hidden)

    def _latent_width(self, spec: LatentAttention) -> float:
        head = spec.nope_head_dim + spec.rope_head_dim
        return float(spec.query_heads * (head + spec.nope_head_dim + spec.value_head_dim))

    def _latent_shapes(self, spec: LatentAttention) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Shapes of MLA's down- and up-projections as they are read."""
        query_width = float(spec.query_heads * (spec.nope_head_dim + spec.rope_head_dim))
        key_value_width = float(spec.query_heads * (spec.nope_head_dim + spec.value_head_dim))
        latent = float(spec.kv_rank + spec.rope_head_dim)
        if spec.query_rank is None:
            return [(latent, self.hidden), (query_width, self.hidden)], [(key_value_width, float(spec.kv_rank))]
        query_rank = float(spec.query_rank)
        down = [(latent + query_rank, self.hidden)]
        if self.assumptions.latent_traffic == "one_matrix":
            return down, [(query_width + key_value_width, float(spec.kv_rank) + query_rank)]
        return down, [(query_width, query_rank), (key_value_width, float(spec.kv_rank))]

    def _projection(
        self,
        name: str,
        layers: int,
        count: float,
        shapes: list[tuple[float, float]],
        *,
        reduced: float = 0.0,
        only_2d: bool = False,
    ) -> Operator:
        """A weight matrix (or several side by side) on the attention ranks."""
        ranks = self.plans.attention_ranks
        traffic: Array | float = 0.0
        for rows, columns in shapes:
            elements = activation_elements_per_token(rows, columns, ranks, self.assumptions.activation_traffic)
            traffic = traffic + elements
        collectives = self._all_reduces(ranks, ranks, reduced, only_2d=only_2d) if reduced else {}
        return Operator(
            name,
            float(layers),
            self.precision.weights,
            flop_per_token=2.0 * count / ranks,
            weight_bytes=math.fsum(rows * columns for rows, columns in shapes) * self.weight_width / ranks,
            activation_bytes_per_token=traffic * self.activation_width / ranks,
            collectives=collectives,
            on_attention_ranks=True,
        )

    def _all_reduces(
        self, ranks: Array, owners: Array, elements: float, *, only_2d: bool
    ) -> dict[TensorLayout, tuple[Collective, ...]]:
        """Sum ``elements`` per token over the ranks that cut a matrix, for each way to cut.

        A one-dimensional cut sums over all of them, and only after the second matrix of a pair; a
        two-dimensional one over the root of their number. ``owners`` are the chips that share the sum.
        """
        domains = np.ceil(ranks / self.link_domain)
        size = elements * self.activation_width / owners
        found: dict[TensorLayout, tuple[Collective, ...]] = {}
        for layout in self.assumptions.tensor_layouts:
            if layout == "2d":
                group = np.sqrt(ranks)
                found[layout] = (Collective("all_reduce", group, np.sqrt(domains), size * group),)
            elif not only_2d:
                found[layout] = (Collective("all_reduce", ranks, domains, size * ranks),)
        return found

    def _waited_for(self, collective: Collective) -> dict[TensorLayout, tuple[Collective, ...]]:
        """The same collective however matrices are cut."""
        return dict.fromkeys(self.assumptions.tensor_layouts, (collective,))

    def _scores(self, block: Block) -> Operator:
        spec = block.attention
        limit = counting.window(spec)
        attended = self.context if limit is None else min(self.context, float(limit))
        if spec.kind == "latent":
            flop = attention_formulas.latent_flop(spec.query_heads, spec.kv_rank, spec.rope_head_dim)
        else:
            flop = attention_formulas.grouped_query_flop(spec.query_heads, spec.head_dim)
        cached = counting.cached_elements(spec) * attended * self.kv_width
        rounds = self.plans.pp if self.assumptions.kv_reads == "batch" else 1.0
        return Operator(
            "attention" if limit is None else f"attention (window {limit})",
            float(block.layers),
            self.precision.weights,
            flop_per_token=flop * attended / self.stage,
            kv_bytes_per_sequence=cached * rounds / self.stage,
        )

    def feed_forward(self, block: Block) -> Iterator[Operator]:
        """Dense matrices or experts, cut over what expert parallelism leaves of the stage."""
        spec = block.feed_forward
        if spec.kind == "dense":
            width = float(spec.intermediate_size)
            yield from self._matrices(block.layers, "ff", width, spec.input_matrices, spec.output_matrices)
            return
        routed, active, sparsity = _routed(spec, self.assumptions)
        if spec.router:
            yield self._router(block.layers, spec.experts)
        if self.assumptions.shared_experts == "apart" and spec.shared_intermediate_size is not None:
            shared = float(spec.shared_intermediate_size)
            yield from self._matrices(block.layers, "shared expert", shared, spec.input_matrices, spec.output_matrices)
        yield from self._experts(block.layers, spec, routed, active, sparsity)

    def _router(self, layers: int, experts: int) -> Operator:
        count = self.hidden * experts
        return Operator(
            "router",
            float(layers),
            self.precision.weights,
            flop_per_token=2.0 * count / self.stage,
            weight_bytes=count * self.weight_width / self.stage,
            activation_bytes_per_token=(self.hidden + experts) * self.activation_width / self.stage,
        )

    def _matrices(self, layers: int, name: str, width: float, inputs: int, outputs: int) -> Iterator[Operator]:
        """A dense feed-forward block over the whole stage."""
        for side, matrices, reduced in (("in", inputs, width), ("out", outputs, self.hidden)):
            yield self._feed_forward_side(
                f"{name} {side}", layers, width, matrices, reduced * matrices, side, ranks=self.stage
            )

    def _experts(
        self, layers: int, spec: ExpertFeedForward, routed: float, active: float, sparsity: float
    ) -> Iterator[Operator]:
        """Routed experts: dispatch, both sides over the ranks that share an expert, combine."""
        spread = expert_ranks(self.plans, spec.experts, sparsity, self.assumptions)
        ranks = np.maximum(1.0, self.stage / np.maximum(1.0, spread))
        touched = touched_fraction(sparsity, self.tokens) * routed
        width = float(spec.intermediate_size)
        copies = active if self.assumptions.expert_all_reduce == "every_active_expert" else 1.0
        exchange = self._exchange(active, spread)
        for side, matrices, output in (("in", spec.input_matrices, width), ("out", spec.output_matrices, self.hidden)):
            yield self._feed_forward_side(
                f"experts {side}",
                layers,
                width,
                matrices,
                copies * output * matrices,
                side,
                ranks=ranks,
                experts=(touched, routed / sparsity, sparsity),
                exchange=exchange,
            )

    def _exchange(self, active: float, spread: Array) -> Collective:
        """Dispatch or combine: an all-to-all of one copy of a token per rank that it reaches."""
        reached = np.minimum(active, spread)
        ranks = reached if self.assumptions.all_to_all_ranks == "reached" else spread
        copies = reached if self.assumptions.all_to_all_copies == "reached" else np.full((), active)
        size = self.hidden * self.activation_width * copies / self.stage
        return Collective("all_to_all", ranks, np.ceil(ranks / self.link_domain), size)

    def _feed_forward_side(
        self,
        name: str,
        layers: int,
        width: float,
        matrices: int,
        reduced: float,
        side: str,
        *,
        ranks: Array,
        experts: tuple[Array, float, float] | None = None,
        exchange: Collective | None = None,
    ) -> Operator:
        """One side of a feed-forward block: ``matrices`` of (hidden x width), then an all-reduce of ``reduced``."""
        elements = self.hidden * width
        traffic = activation_elements_per_token(self.hidden, width, ranks, self.assumptions.activation_traffic)
        weights: Array | float = matrices * elements
        activations: Array | float = matrices * traffic
        worked = float(matrices) * elements
        dtype, stored = self.precision.weights, self.weight_width
        if experts is not None:
            touched, copies, sparsity = experts
            dtype, stored = self.precision.experts, self.expert_width
            weights, activations = weights * touched, activations * (touched / sparsity)
            worked *= copies
        collectives = self._all_reduces(ranks, self.stage, reduced, only_2d=side == "in")
        if exchange is not None:
            for layout in self.assumptions.tensor_layouts:
                collectives[layout] = (*collectives.get(layout, ()), exchange)
        return Operator(
            name,
            float(layers),
            dtype,
            flop_per_token=2.0 * worked / self.stage,
            weight_bytes=weights * (stored / self.stage),
            activation_bytes_per_token=activations * (self.activation_width / self.stage),
            collectives=collectives,
        )

    def output_embedding(self) -> Operator:
        """Logits of every new token."""
        count = self.model.vocab_size * self.hidden
        counted = 2.0 if self.assumptions.embedding_flop == "both" else 1.0
        ranks = self.plans.attention_ranks if self.assumptions.scale_down_repeats_embedding else self.stage
        return Operator(
            "output embedding",
            1.0,
            self.precision.weights,
            flop_per_token=2.0 * counted * count / ranks,
            weight_bytes=count * self.weight_width / self.stage,
        )

    def pipeline(self) -> Operator:
        """Hand-off of the residual stream from stage to stage."""
        domains: Array = np.full((), 2.0)
        if self.assumptions.pipeline_hop == "nearest":
            domains = np.where(self.plans.accelerators <= self.link_domain, 1.0, 2.0)
        size = self.hidden * self.activation_width / self.stage
        hop = Collective("point_to_point", np.full((), 2.0), domains, size)
        return Operator(
            "pipeline hand-off", self.plans.pp - 1.0, self.precision.weights, collectives=self._waited_for(hop)
        )


def _routed(spec: ExpertFeedForward, assumptions: Assumptions) -> tuple[float, float, float]:
    """Routed and active experts, shared ones among them if they count as routed, and their sparsity."""
    extra = 0.0
    if assumptions.shared_experts == "routed" and spec.shared_intermediate_size is not None:
        extra = spec.shared_intermediate_size / spec.intermediate_size
    exact = (spec.experts + extra) / (spec.active_experts + extra)
    sparsity = float(math.floor(exact)) if assumptions.expert_sparsity == "floor" else exact
    return spec.experts + extra, spec.active_experts + extra, sparsity


def expert_thresholds(model: ModelSpec, assumptions: Assumptions) -> list[float]:
    """Micro-batches at which expert parallelism starts, over the blocks of a model [1]."""
    experts = [block.feed_forward for block in model.blocks if block.feed_forward.kind == "experts"]
    requests = assumptions.expert_parallel_min_requests_per_sparsity
    return [requests * _routed(spec, assumptions)[2] for spec in experts]
