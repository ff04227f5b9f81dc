"""Operators of dense feed-forward blocks and of experts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import expert_ranks, expert_slots
from inference_econ.engine.operators.table import Adapted, Collective, Operator, OperatorTable, Rates
from inference_econ.formulas.experts import expected_largest, touched_fraction
from inference_econ.formulas.grouped_matmul import padded_share
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    WIRE_BYTES_PER_ELEMENT,
    DenseFeedForward,
    ExpertAssumptions,
    ExpertFeedForward,
    ExpertKernel,
    GroupedKernel,
    ModelSpec,
    WireFormat,
    family,
)


def dense_rows(table: OperatorTable, spec: DenseFeedForward) -> Iterator[Operator]:
    """Operators of a dense feed-forward block, split over a stage, or over each attention-DP group if it has a copy."""
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
    """Operators of the input and output matrices of a block for all tokens, split over ``ranks`` chips.

    ``summing`` is the number of chips in the all-reduce of the output; it is smaller than ``ranks`` if another operator
    all-reduces the output. If ``grouped`` is True, each attention-DP group has a copy of the block for its own tokens.
    """
    for side, matrices, output in sides(spec, width, table.hidden):
        weights = matrices * table.hidden * width
        moved = matrices * table.moved_elements(table.hidden, width, ranks)
        inputs, outputs = matrices * (table.hidden if side == "in" else width), matrices * output
        # Only one side of an adapter is split, and it is split like its matrix.
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
    """Input and output matrices of a feed-forward block, each with name, number of matrices, and output width."""
    return ("in", spec.input_matrices, width), ("out", spec.output_matrices, hidden)


#: Format of tokens in the all-to-all to experts, by the narrow float format of the experts' weights.
_WIRE_FORMATS: Mapping[str, WireFormat] = {"fp8": "fp8_g128", "fp8_block": "fp8_g128", "nvfp4": "nvfp4"}


def expert_rows(table: OperatorTable, spec: ExpertFeedForward) -> Iterator[Operator]:
    """Operators of an MoE block: router, shared expert, and routed experts on the expert-parallel ranks."""
    if spec.router:
        # Two kernels: the matrix, and the selection of experts.
        yield _shared_matrix(table, "router", spec.experts, launches=2.0)
    if spec.latent_size is not None:
        yield _shared_matrix(table, "expert latent", 2.0 * spec.latent_size)
    if table.assumptions.experts.shared == "apart" and spec.shared_intermediate_size is not None:
        width, dtype = float(spec.shared_intermediate_size), table.precision.shared_experts
        # The shared expert runs on the chips that compute attention. Each attention-DP group has a copy.
        together = table.assumptions.layout.attention_groups == "idle"
        ranks = table.stage if together else table.ranks
        # If the experts have an all-reduce, it includes the output of the shared expert.
        summing = ranks if table.summed is None else np.where(table.summed, 1.0, ranks)
        apart = not together
        yield from both_sides(table, "shared expert", spec, width, dtype, ranks, summing, grouped=apart)
    yield from _routed_experts(table, spec)


def _shared_matrix(table: OperatorTable, name: str, width: float, launches: float = 1.0) -> Operator:
    """Operator of a small matrix on the residual stream, such as a router.

    The matrix is split over the chips of a stage, or each chip has a full copy.

    With copies, each rank of an attention-DP group multiplies the matrix by all tokens of the group.
    """
    count = table.hidden * width
    parts, work = (1.0, table.groups) if table.copied else (table.stage, table.stage)
    return Operator(
        name,
        table.precision.weights,
        flop_per_token=2.0 * count / work,
        weight_bytes=np.asarray(count * BYTES_PER_ELEMENT[table.precision.weights] / parts),
        activation_bytes_per_token=(table.hidden + width) * table.activation_width / work,
        launches=launches,
        grouped=table.copied,
    )


def _routed_experts(table: OperatorTable, spec: ExpertFeedForward) -> Iterator[Operator]:
    """Operators of routed experts: dispatch, input and output matrices on ranks that share an expert, and combine."""
    assumptions = table.assumptions
    different, active, kept = _routed(spec, assumptions.experts)
    spread = expert_ranks(table.plans, spec.experts, kept, assumptions.experts)
    ranks = np.maximum(1.0, table.stage / np.maximum(1.0, spread))
    routed: Array | float = different
    sparsity: Array | float = kept
    if assumptions.experts.redundant is not None:
        # The number includes copies of experts.
        routed = expert_slots(different, spread, assumptions.experts)
        sparsity = kept * routed / different
    touched = touched_fraction(sparsity, table.tokens, assumptions.experts.popularity_scv) * routed
    hidden = table.hidden if spec.latent_size is None else float(spec.latent_size)
    width = float(spec.intermediate_size)
    moved = touched if assumptions.experts.activations == "touched" else routed
    # Tokens of the busiest rank, relative to the mean. A single rank has no imbalance.
    busiest = np.where(spread > 1.0, assumptions.experts.imbalance, 1.0) if assumptions.experts.imbalance > 1 else 1.0
    if assumptions.experts.spread == "random":
        busiest = busiest * _busiest_tokens(table, routed, active, spread)
        # All ranks are assumed to use the same number of their experts as the busiest rank. This number varies
        # binomially.
        held, share = routed / spread, touched / routed
        most = held * share + expected_largest(spread) * np.sqrt(held * share * (1.0 - share))
        touched = np.asarray(spread * np.minimum(most, held))
    summing, exchanging = ranks, spread
    summed = table.summed
    if summed is not None:
        if assumptions.experts.replicated_tokens == "gathered":
            summed = summed | (spread < table.stage)
        summing, exchanging = np.where(summed, table.stage, ranks), np.where(summed, 1.0, spread)
    # Distances in chips between ranks that share an expert, and between ranks with different experts.
    stride = (1.0, ranks) if assumptions.network.inner_group == "tensor" else (spread, 1.0)
    copies: Array | float = active if assumptions.experts.all_reduce == "every_active_expert" else 1.0
    if assumptions.experts.all_reduce == "every_copy":
        copies = np.minimum(active, exchanging)
    dtype = table.precision.experts
    kernel = assumptions.experts.kernel(dtype)
    curve = None if kernel is None else _curve(kernel, np.asarray(exchanging) > 1.0, prompts=table.plans.prefill)
    rows = np.maximum(table.tokens * active * busiest, 1.0) / touched
    # Kernels without a measured curve compute partly filled tiles as if they were full.
    tiled = 1.0 + assumptions.experts.tile / 2.0 / rows if assumptions.experts.tile else 1.0
    dense = touched / active if assumptions.experts.dense_bound else math.inf
    vendor = kernel.unit.vendor if kernel is not None and kernel.unit is not None else ""
    for side, matrices, output in sides(spec, width, hidden):
        collectives = table.all_reduces(
            summing, table.stage, copies * output * matrices, only_2d=side == "in", stride=stride[0]
        )
        sent = _dispatched_width(table) if side == "in" else table.activation_width
        exchange = _exchange(table, spec, active, exchanging, hidden * sent * busiest, stride[1])
        exchange = replace(exchange, busiest=busiest)
        for layout in assumptions.layout.tensor_layouts:
            collectives[layout] = (*collectives.get(layout, ()), exchange)
        elements = matrices * hidden * width
        traffic = matrices * table.moved_elements(hidden, width, ranks) * (moved / sparsity * busiest)
        shape = (hidden, matrices * width / ranks) if side == "in" else (width / ranks, hidden)
        if curve is not None:
            # Separate kernels sort tokens by expert and quantize the tokens, or add up the outputs.
            passed = np.asarray(curve.passes * traffic) * (table.activation_width / table.stage)
            yield Operator(f"expert tokens {side}", table.precision.activations, activation_bytes_per_token=passed)
        yield Operator(
            f"experts {side}",
            dtype,
            "experts",
            flop_per_token=2.0 * (elements * (routed / sparsity) * busiest) / table.stage,
            weight_bytes=elements * touched * (BYTES_PER_ELEMENT[dtype] / table.stage),
            activation_bytes_per_token=0.0 if curve is not None else traffic * (table.activation_width / table.stage),
            collectives=collectives,
            # A second kernel sorts tokens by expert, or adds up the outputs.
            launches=2.0 if curve is None else 1.0,
            padding=tiled if curve is None else curve.padding(rows, *shape),
            rates=None if curve is None else replace(curve.rates(vendor, rows, *shape), dense_padding=dense),
        )


def _dispatched_width(table: OperatorTable) -> float:
    """Size of an element in the dispatch to experts [B]."""
    kind, dtype = table.assumptions.experts.dispatch, table.precision.experts
    if kind == "eight_bit":
        return min(table.activation_width, 1.0)
    if kind == "weights" and family(dtype) in _WIRE_FORMATS:
        return min(table.activation_width, WIRE_BYTES_PER_ELEMENT[_WIRE_FORMATS[family(dtype)]])
    return table.activation_width


class _Curve(NamedTuple):
    """Constants of the grouped expert kernel for each plan, see :class:`inference_econ.inputs.ExpertKernel`."""

    math: Array | float
    memory: Array | float
    overlap: Array | float
    extra_tokens: Array | float
    extra_elements: Array | float
    passes: Array | float
    unit: Array | float
    per_vector: Array | float

    @classmethod
    def of(cls, kernel: GroupedKernel) -> _Curve:
        """Constants from the specification of a kernel."""
        extra = kernel.extra_tokens, kernel.extra_elements, kernel.passes
        unit = (kernel.unit.efficiency, kernel.unit.per_vector) if kernel.unit else (1.0, 1.0)
        return cls(kernel.math_efficiency, kernel.hbm_efficiency, kernel.overlap, *extra, *unit)

    def padding(self, tokens: Array, depth: Array | float, width: Array | float) -> Array:
        """Arithmetic time with partly filled tiles divided by the time without, for given tokens per expert [1]."""
        return padded_share(tokens, width, depth, extra_tokens=self.extra_tokens, extra_elements=self.extra_elements)

    def rates(self, vendor: str, tokens: Array, depth: Array | float, width: Array | float) -> Rates:
        """Efficiencies on the chips of a vendor; the math unit also computes the empty rows of partly filled tiles."""
        tiles = self.math * padded_share(tokens, width, depth, extra_tokens=self.extra_tokens, extra_elements=0.0)
        share = np.minimum(tiles / (self.unit * self.padding(tokens, depth, width)), 1.0)
        return Rates(self.math, self.memory, self.overlap, share, self.per_vector, vendor)


def _curve(kernel: ExpertKernel, exchanged: npt.NDArray[np.bool_], *, prompts: bool) -> _Curve:
    """Constants of the grouped expert kernel for each plan.

    Engines may use a different kernel if ranks exchange tokens by all-to-all.
    """
    curve = _Curve.of(kernel)
    if kernel.exchanged is None or not exchanged.any():
        return curve
    other = _Curve.of(kernel.exchanged.prompts if prompts else kernel.exchanged.decode)
    return _Curve(*(np.where(exchanged, theirs, ours) for ours, theirs in zip(curve, other, strict=True)))


def _busiest_tokens(table: OperatorTable, routed: Array | float, active: float, spread: Array) -> Array:
    """Tokens of the busiest rank divided by the mean of all ranks [1].

    Ranks have different numbers of tokens because tokens select experts at random, and because some experts are
    popular.
    """
    assumed, mean = table.assumptions.experts, np.maximum(table.tokens, 1.0) * active / spread
    uneven: Array = np.asarray(assumed.popularity_scv * spread / routed)
    if assumed.balanced_from:
        uneven = np.where(spread >= assumed.balanced_from, np.minimum(assumed.balanced_scv, uneven), uneven)
    variation = np.sqrt(1.0 / mean + uneven)
    return np.asarray(np.minimum(1.0 + expected_largest(spread) * variation, spread))


def _exchange(
    table: OperatorTable,
    spec: ExpertFeedForward,
    active: float,
    spread: Array,
    token_bytes: Array | float,
    stride: Array | float,
) -> Collective:
    """Dispatch or combine: an all-to-all that sends a copy of each token to every rank with an expert of the token."""
    reached = np.minimum(active, spread)
    ranks = reached if table.assumptions.experts.all_to_all_ranks == "reached" else spread
    # Number of copies of a token, including copies that stay on the token's own rank.
    kind, prefill = table.assumptions.experts.all_to_all_copies, table.plans.prefill
    copies: Array = np.full((), active)
    if kind == "reached":
        copies = np.asarray(np.minimum(active, spread))
    elif kind == "by_phase" and prefill:
        copies = np.asarray(spread * touched_fraction(spread, active))
    size = token_bytes * copies / table.stage
    domains = table.domains(ranks, stride)
    own_link = table.assumptions.experts.all_to_all_traffic == "own_link"
    crossing: Array | float = 1.0
    once = table.assumptions.experts.all_to_all_crossing
    if once == "per_domain" or (once == "by_phase" and prefill):
        # Number of link domains that have experts of a token, if the experts of a token are drawn evenly from all
        # domains. With node-limited routing, the number is up to 16 % too high if a domain has several expert groups or
        # a part of a group.
        of_token = domains * touched_fraction(domains, active)
        if spec.routing_groups is not None and spec.active_groups is not None:
            # A domain has one or more complete expert groups, or a part of a group.
            of_token = np.minimum(of_token, spec.active_groups * np.maximum(domains / spec.routing_groups, 1.0))
        crossing = np.minimum(of_token / copies, 1.0)
    return Collective("all_to_all", ranks, domains, size, own_link=own_link, crossing=crossing)


def largest_sparsity(model: ModelSpec, assumed: ExpertAssumptions) -> float:
    """Number of experts divided by active experts, in the block of the model with the largest ratio [1].

    The ratio of dense models is 1.
    """
    return max([1.0, *(_routed(spec, assumed)[2] for spec in model.mixtures)])


def expert_thresholds(model: ModelSpec, assumed: ExpertAssumptions) -> list[float]:
    """Micro-batch sizes above which expert parallelism is used, for each MoE block of a model [1]."""
    requests = assumed.parallel_min_requests_per_sparsity
    return [requests * _routed(spec, assumed)[2] for spec in model.mixtures]


def _routed(spec: ExpertFeedForward, assumed: ExpertAssumptions) -> tuple[float, float, float]:
    """Number of experts, number of active experts per token, and ratio of both numbers [1].

    Shared experts are included in both numbers if the assumptions treat them as routed experts.
    """
    extra = 0.0
    if assumed.shared == "routed" and spec.shared_intermediate_size is not None:
        extra = spec.shared_intermediate_size / spec.intermediate_size
    exact = (spec.experts + extra) / (spec.active_experts + extra)
    sparsity = float(math.floor(exact)) if assumed.sparsity == "floor" else exact
    return spec.experts + extra, spec.active_experts + extra, sparsity
