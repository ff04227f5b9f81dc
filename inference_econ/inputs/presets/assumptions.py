"""Assumptions of the cost model: every choice on which experts may differ.

Each peculiarity of the published study's model is a field, so that two models can be compared as two YAML files. The
``paper`` preset is ``scenarios/assumptions/paper.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model

from inference_econ.inputs._described import describe_as
from inference_econ.inputs._spec import (
    BytesPerSecond,
    Count,
    Dtype,
    FlopsPerSecond,
    Fraction,
    Memory,
    Seconds,
    SourcedSpec,
    Spec,
)
from inference_econ.inputs.dtype import EmbeddingFormat, family
from inference_econ.inputs.presets import generations
from inference_econ.inputs.presets.calibration import Calibration, MeasuredLevels
from inference_econ.inputs.presets.curves import Collectives, DenseKernel, ExpertKernel, ScoresKernel, ScoresKernels

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec

Steps = Annotated[int, Field(ge=0, le=64)]
NonNegative = Annotated[int | float, Field(ge=0, le=1e6, allow_inf_nan=False)]
HeldBytes = Annotated[int | float, Field(ge=0, le=1e12, allow_inf_nan=False)]
TensorLayout = Literal["1d", "2d"]


class ChipAssumptions(Spec):
    """Sustained shares of a chip's datasheet values, and the work that is included."""

    math_efficiency: Fraction
    """Sustained share of the dense arithmetic peak [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth [1]."""
    narrow_math_efficiency: Fraction = 1.0
    """Factor on the share of arithmetic for each halving of the format below 16 bits [1]."""
    prefetched_bytes: HeldBytes = 0
    """Weights that each chip prefetches while ranks wait for collectives, once per layer, for example into its L2 cache
    (50 MB of an H100); 0 for no overlap of reads and network [B]."""
    products: dict[Dtype, DenseKernel] = Field(default_factory=dict)
    """Efficiencies of dense matrix kernels by weight format, or the name of a file in ``assumptions/products``. The
    shares above apply to other formats and to attention."""
    product_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Rates in servers over those of ``products``, which are measured in isolation; may exceed 1, because weights of
    the next product can be prefetched or cached [1]."""
    widened_efficiency: Fraction = 1.0
    """Factor on the share of bandwidth for narrow weights that are widened to 16 bits [1]."""
    overlap: Literal["step", "operator", "none"]
    """Overlap of arithmetic and memory traffic. ``step``: maximum of both over the step; ``operator``: sum of the
    maximum of each operator; ``none``: sum of both."""
    math_unit_follows: Literal["weights", "widest", "engines", "fastest"]
    """Math unit of a matrix product. ``weights``: that of the weights; ``widest``: that of the wider operand.
    ``engines``: activations are quantized for 8-bit weights, 4-bit floats use a 4-bit unit if the chip has one, and
    other 4-bit weights are widened to the activations. ``fastest``: the fastest unit for the format of any operand, for
    bounds, because some chips have very slow integer units."""
    activation_traffic: Literal["balanced", "unbalanced", "single_copy"]
    """Traffic of inputs and outputs of a split matrix: see :mod:`inference_econ.formulas.matmul`."""
    pointwise: Literal["free", "counted"]
    """Whether traffic of norms, activation functions and sampling is included."""
    embedding_flop: Literal["both", "output"]
    """Arithmetic of the embeddings: input and output, or only the output embedding."""

    def product(self, dtype: str) -> DenseKernel | None:
        """Kernel of dense products with weights of a format; None if none was measured."""
        return self.products.get(family(dtype))


class HostAssumptions(Spec):
    """CPU times: kernel launches, steps, requests, and the start of a run."""

    launch: Seconds
    """CPU time to launch one kernel [s]."""
    graph_launch: Seconds
    """Fixed time of a kernel on the chip in a captured graph [s]."""
    cuda_graphs: bool
    """Whether decode steps are captured in CUDA graphs. Prefill steps are not, because their lengths differ; the host
    launches their kernels asynchronously, and a step takes at least the time of all launches."""
    launches: Literal["per_layer", "per_operator"]
    """Kernel launches: a fixed number per layer without overlap, or the launches of each row of the operator table."""
    engine: str | None = None
    """Engine whose kernel counts are used: a catalog name, optionally with a space and a version (``vllm 0.12.0``);
    without it, the counts of the operator table."""
    launches_per_layer: NonNegative
    """Kernel launches per layer on the critical path, if launches are counted per layer [1]."""
    step_overhead: Seconds
    """CPU time per step that does not overlap: scheduling, input preparation, sampling, detokenization [s]."""
    sequence_overhead: Seconds = 0.0
    """CPU time per sequence of a step [s]."""
    request_overhead: Seconds
    """CPU time per request before its first token: network, tokenization, scheduling, the first response [s]."""
    cached_token_overhead: Seconds = 0.0
    """CPU time per cached token of a prompt: engines receive, tokenize and look up the full text. For new tokens this
    time is part of the fitted prefill time [s]."""
    captured_tokens: NonNegative = 0.0
    """Tokens of the largest prefill step that is captured piecewise, between the attention of layers, which the host
    launches [tokens]."""
    steps_ahead: Steps = 0
    """Steps that the host prepares in advance; a new prompt waits for these steps [1]."""
    warm_up: Seconds = 0.0
    """Additional latency of the first requests of a run with disaggregated pools, while kernels are compiled or tuned
    at first use [s]. Load generators warm up other servers before they measure."""
    transfer_warm_up: Seconds = 0.0
    """Further latency of the first requests with disaggregated pools, which connect over the network between link
    domains at the first cache transfer [s]."""
    handover: Seconds = 0.0
    """CPU time of a prefill instance to transfer the KV cache of a prompt to another link domain, during which it
    processes no other prompt [s]. Inside a domain, chips copy it over their links (UCX's ``cuda_ipc``)."""


class NetworkAssumptions(Spec):
    """Links, network and collectives."""

    link_efficiency: Fraction
    """Sustained share of links and network, in addition to the factors of the protocols [1]."""
    collectives: Collectives
    """Latency and bandwidth of collectives, or the name of a file in ``assumptions/collectives``."""
    mesh_links: Literal["pooled", "per_peer"] = "pooled"
    """Links of a group in a full mesh (:attr:`HardwareSpec.link_peers`). ``pooled``: all links of a chip, as with a
    switch; ``per_peer``: only links to members of the group."""
    collective_overhead: Seconds
    """Synchronization time of ranks before each collective, in addition to its own time [s]."""
    latency_factor: Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)] = 1.0
    """Factor on the part of collective time that does not grow with bytes, including ``collective_overhead``; for
    what-ifs [1]."""
    hidden: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    """Share of collectives and transfers that overlaps with memory reads and arithmetic of the same step, limited by
    their duration; 0 for no overlap (the study's "conservative assumption") [1]."""
    pipeline_hop: Literal["between_domains", "nearest"]
    """Links of transfers between pipeline stages: always those between link domains, or those inside a domain if the
    stages fit in it."""
    two_batch_overlap: Literal["never", "with_exchanges", "when_faster"]
    """Two-batch overlap: communication of one half of a micro-batch overlaps with work of the other half, and weights
    are read twice. ``never``; ``when_faster``; ``with_exchanges``: where it is faster, attention-DP groups exchange
    tokens with experts on all ranks of a stage, and an engine supports it."""
    exchange_processors: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of a chip's processors that all-to-all kernels take from the other half of a prefill batch; 0 in decode
    steps [1]."""
    link_domains: Literal["whole", "exact", "placed"]
    """Link domains that a group of ranks spans. ``whole``: ranks over ranks per domain, rounded up; ``exact``: the same
    without rounding, at least one; ``placed``: from the placement of all ranks of a stage, where tensor-parallel and
    expert-parallel groups share the domains."""
    inner_group: Literal["tensor", "experts"] = "tensor"
    """Adjacent chips if experts are both split and spread and ranks are placed: those that share an expert, or those
    with different experts."""


class LayoutAssumptions(Spec):
    """Layout of a model over the chips of an instance."""

    tensor_layouts: Annotated[tuple[TensorLayout, ...], Field(min_length=1, strict=False)]
    """Ways to split weight matrices: along one dimension, or along both."""
    attention_scale_down_steps: Steps
    """Number of steps by which attention may run on fewer accelerators than the feed-forward part: T^(j/steps), j =
    0..steps; 0 for never [1]."""
    attention_groups: Literal["idle", "data_parallel", "shared"]
    """Work of the other chips if attention runs on a part of a stage. ``idle``: none; ``data_parallel``: groups of the
    same size have their own sequences; ``shared``: all share the batch evenly, down to parts of a sequence, for bounds.
    """
    group_copies: Literal["none", "held"] = "none"
    """Copies of dense layers and embeddings of MoE models. ``none``: one copy over all chips of a stage, including the
    routers; ``held``: one copy per attention-DP group, split over its ranks, and full routers on every rank."""
    kv_placement: Literal["spread", "by_heads"]
    """Placement of the KV cache: evenly on all chips of a stage, or by heads, with copies on chips in excess of the KV
    heads."""
    pipeline_steps: Steps
    """Pipeline depths to try: deepest^(j/steps)."""
    pipeline_deepest: Literal["layers", "layers_or_batch"]
    """Deepest pipeline to try: the number of layers, or of requests if there are fewer."""
    pipeline_stages: Literal["even", "uneven"] = "even"
    """Layers of pipeline stages: equal, or different by at most one. Uneven stages are limited by the largest one, in
    time and memory."""
    parallel_blocks: Literal["apart", "merged"]
    """All-reduces of parallel attention and feed-forward blocks: one for each (the study's full model), or one for
    both."""
    residual_stream: Literal["whole", "by_tokens"] = "whole"
    """Residual stream of the ranks that split a matrix. ``whole``: each rank has all tokens, with an all-reduce after
    each pair of matrices. ``by_tokens``: each rank has a part of the tokens, with reduce-scatter and all-gather, and
    norms work on that part only (sequence parallelism)."""
    scale_down_repeats_embedding: bool
    """Whether arithmetic of the embedding runs on the accelerators of attention only, if these are fewer."""


class ExpertAssumptions(Spec):
    """Mixtures of experts: placement, communication, load balance and kernels."""

    kernels: dict[Dtype, ExpertKernel] = Field(default_factory=dict)
    """Efficiencies of routed-expert kernels by weight format, or the name of a file in ``assumptions/kernels``. The
    constants below apply to other formats."""
    kernel_efficiency: Fraction = 1.0
    """Rates in servers over those of ``kernels``, which are measured in isolation [1]."""
    math_efficiency: Fraction | None = None
    """Sustained share of arithmetic for routed experts, if different [1]."""
    hbm_efficiency: Fraction | None = None
    """Sustained share of bandwidth for weights of routed experts, if different [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of the shorter of arithmetic and memory time of routed experts that overlaps with the longer, under
    ``overlap: operator``; other operators overlap fully [1]."""
    tile: NonNegative = 0.0
    """Tile size of an expert's tokens; the last tile is half empty on average; 0 for no tiles [tokens]."""
    parallel: bool
    """Whether experts are spread over accelerators before matrices are split."""
    parallel_min_requests_per_sparsity: NonNegative
    """Requests per micro-batch and unit of sparsity from which expert parallelism is used."""
    parallel_counts: Literal["requests", "tokens"]
    """Quantity that is compared with that threshold: requests, or their new tokens."""
    sparsity: Literal["floor", "exact"]
    """Experts over active experts, rounded down or exact."""
    shared: Literal["routed", "apart"]
    """Shared experts: one more routed and active expert each, or a separate dense part."""
    all_reduce: Literal["every_active_expert", "every_copy", "once"]
    """Outputs in the all-reduce of the feed-forward part: one per active expert; one per copy of a token that was sent;
    or one sum."""
    all_to_all_ranks: Literal["reached", "expert_parallel"]
    """Ranks in the dispatch of tokens: the number that a token can reach, or the full expert-parallel group."""
    all_to_all_traffic: Literal["as_all_reduce", "own_link"]
    """Traffic between domains: shared by all ranks as in an all-reduce, or sent by each rank over its own link."""
    all_to_all_copies: Literal["reached", "active_experts", "by_phase"]
    """Copies of a token that are sent. ``reached``: one per rank it reaches, at most one per active expert;
    ``active_experts``: one per active expert. ``by_phase``: in prefill one per rank that it reaches on average, and in
    decode, whose kernels minimize latency, one per active expert."""
    all_to_all_crossing: Literal["per_copy", "per_domain", "by_phase"]
    """Copies of a token that cross between link domains. ``per_copy``: all; ``per_domain``: one per domain it reaches,
    of which node-limited routing allows ``active_groups`` (:class:`ExpertFeedForward`). ``by_phase``: per domain in
    prefill, and per copy in decode, whose kernels minimize latency."""
    dispatch: Literal["activations", "eight_bit", "weights"]
    """Format of tokens in the dispatch to experts: that of the activations; 8 bits; or that of the experts' weights if
    these are narrow floats. The combine uses the format of activations."""
    activations: Literal["touched", "all"]
    """Activation traffic of experts: for the share of experts that is touched, or for all tokens."""
    replicated_tokens: Literal["exchanged", "summed", "gathered"]
    """Tokens of a stage with a single attention group, whose chips all have them. ``exchanged``: experts use an
    all-to-all anyway. ``summed``: each chip adds the output of its experts and its part of the shared expert to one
    all-reduce. ``gathered``: as ``summed``, and also with several groups if experts are both split and spread: all
    chips of a stage all-gather the tokens and reduce-scatter the outputs, which takes the time of an all-reduce."""
    imbalance: Annotated[int | float, Field(ge=1, le=1e3, allow_inf_nan=False)]
    """Tokens of the busiest expert-parallel rank over the mean; the other ranks wait for it [1]."""
    popularity_scv: NonNegative = 0.0
    """Squared coefficient of variation of expert popularity [1]; a batch touches fewer experts if popularity is uneven.
    """
    spread: Literal["even", "random"] = "even"
    """Load of expert-parallel ranks: equal tokens and touched experts, or random, in which case a step waits for the
    busiest rank."""
    balanced_from: NonNegative = 0
    """Number of expert-parallel ranks from which a balancer places popular experts and their copies evenly, under
    ``spread: random``; 0 for never [1]."""
    balanced_scv: NonNegative = 0.0
    """Squared coefficient of variation of the ranks' shares that remains after balancing [1]."""
    redundant: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Minimum number of redundant experts; further copies make the number of experts a multiple of the ranks. None for
    no copies: experts must divide [1]."""

    def kernel(self, dtype: str) -> ExpertKernel | None:
        """Kernel of routed experts with weights of a format; None if none was measured."""
        return self.kernels.get(family(dtype))


class AttentionAssumptions(Spec):
    """Algorithms of attention, and efficiencies of its kernels."""

    scores: ScoresKernels = Field(default_factory=ScoresKernels)
    """Efficiencies of attention kernels by cache format, or the name of a file in ``assumptions/scores``. The two
    shares below apply to other formats, indexers, recurrent states and compressed attention."""
    score_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Rates in servers over those of ``scores``, which are measured in isolation [1]."""
    math_efficiency: Fraction | None = None
    """Sustained share of arithmetic for attention scores, if different [1]."""
    kv_hbm_efficiency: Fraction | None = None
    """Sustained share of bandwidth for cache and states, if different [1]."""
    latent_graph_launch: Seconds | None = None
    """Fixed time of a latent-attention kernel on the chip, if different from other kernels, for example because an
    engine fuses more or less [s]."""
    latent_traffic: Literal["one_matrix", "exact"]
    """Traffic of MLA's up-projections: one matrix over both ranks, or each over its own."""
    latent: Literal["absorbed", "decompressed", "decompressed_per_step"]
    """MLA in decode. ``absorbed``: the latent is the key and value of every head; ``decompressed``: keys and values of
    every head are cached; ``decompressed_per_step``: the latent is cached and decompressed in each step. Prefill
    decompresses cached latents once."""
    latent_down: Literal["cut", "replicated"] = "cut"
    """Down-projections of latent and compressed attention, which compute what all heads share: split over the attention
    ranks, or replicated, with every rank multiplying all tokens of its group."""
    indexer: Literal["scan", "cut", "replicated"] = "scan"
    """Work of an indexer of sparse attention. ``scan``: only the scan of index keys, split over the attention ranks;
    ``cut``: projections too, also split; ``replicated``: both in full on every attention rank, for all tokens of its
    group."""
    index_keys: Literal["cache", "eight_bit"] = "cache"
    """Format of index keys: that of the cache, or 8 bits with a 32-bit scale per 128 elements."""
    chunk_position: Literal["middle", "position"] = "middle"
    """Position of tokens in their chunk, for attention within chunks: always the middle; or the actual one for new
    tokens of a prompt and for sequences within their first chunk, and uniformly distributed for longer sequences."""
    shared_prefix: Literal["per_sequence", "once"] = "per_sequence"
    """Reads of a prefix that all sequences share, in decode: one per sequence, or one per attention group (cascade
    attention). Layers with a window, a selection of tokens or decompressed latents always read it per sequence. It is
    stored once in either case."""
    cache: Literal["kept", "recomputed"] = "kept"
    """Keys and values of earlier tokens: cached, or recomputed in every step, one layer at a time."""
    masked_scores: Literal["skipped", "computed"] = "skipped"
    """Scores that the causal mask hides in prefill: skipped, as in fused kernels, or computed and then masked."""
    kv_reads: Literal["micro_batch", "batch"]
    """Cache that a stage reads per micro-batch: that of its own sequences, or of the full batch (an early version of
    the study's code)."""

    def kernel(self, kind: Literal["grouped", "latent"], dtype: str) -> ScoresKernel | None:
        """Kernel of attention over a cache of a kind in a format; None if none was measured."""
        kernels = self.scores.grouped if kind == "grouped" else self.scores.latent
        return kernels.get(dtype)


class CapacityAssumptions(Spec):
    """Contents of the memory, and how their size is determined."""

    embeddings: Literal["both", "output"]
    """Embeddings that must fit: input and output, or only the output embedding."""
    embedding_format: EmbeddingFormat = "sixteen_bit"
    """Format of embeddings with weights below 16 bits: 16 bits, as in engines, or that of the weights."""
    kv: Literal["micro_batch", "batch"]
    """KV cache that must fit: that of one micro-batch, or of all micro-batches in the pipeline."""
    draft: bool
    """Whether weights and cache of the draft model must fit as well."""
    usable_memory: Fraction
    """Share of the memory that may be used; the rest is head-room [1]."""
    kv_block: Count
    """Block size of the KV cache [tokens]; sequences occupy full blocks."""
    workspace_tokens: NonNegative
    """Tokens of the largest step, whose activations must fit in addition to weights and cache [tokens]."""
    state_pages: bool = False
    """Whether recurrent states are stored in pages of the cache, which are then as large as a state."""
    states_held: Annotated[int, Field(ge=1, le=100)] = 1
    """States of each recurrent layer per request; one more with prefix caching [1]."""
    vision_tower: bool = True
    """Whether the vision tower of a model is loaded."""
    profiled_images: bool = False
    """Whether the largest step includes the number of largest images that fit it, at least one, as in an engine's
    profile run."""
    compressed_padding: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)] = 1
    """Allocated over used pages of compressed caches, because groups of layers have equal pages [1]."""
    reserved_bytes: HeldBytes = 0
    """Further memory of each accelerator that an engine uses: contexts, libraries, graphs [B]."""
    communication_bytes: HeldBytes = 0
    """Communication buffers with several ranks [B]."""
    sampled_logits: NonNegative = 0
    """Rows of 32-bit logits for sampling in an engine's profile run [1]."""
    host_weights: Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)] = 0
    """Share of the layers' weights that is stored in host memory, and read over the host link in every step, in
    parallel with other work [1]."""
    host_cache: Annotated[int | float, Field(ge=0, le=0.99, allow_inf_nan=False)] = 0
    """Share of the KV cache of decoding sequences that may be stored in host memory. The part that does not fit on the
    accelerators is read over the host link in every step, in parallel with other work [1]."""
    host_memory: str = "dram"
    """Host memory: name of a tier in ``scenarios/assumptions/tiers``, or a path."""


class ServingAssumptions(Spec):
    """Scheduling of prefill, and speculative decoding."""

    prefill_chunk: NonNegative
    """Maximum prompt tokens of a step, which are processed together with the decode batch; 0 for prefill of full
    prompts while decoding waits [tokens]."""
    prefill_split: Literal["prompts", "context"]
    """Prefill with attention-DP groups: each group processes its own prompts; or all share one prompt, each with a part
    of its tokens, and all-gather keys and values in every layer (context parallelism)."""
    held_steps: NonNegative | None = None
    """Maximum decode steps by which attention-DP groups delay a prefill until each has a prompt; 0 for no delay, None
    for the engine's maximum [1]."""
    prefill_factor: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)] = 1.0
    """Time of a prefill step over that of its operators, from other work or optimizations of an engine [1]."""
    expected_tokens: Literal["draft_length", "draft_length_plus_one"]
    """Number of tokens in the series of accepted tokens: the draft length (the study), or one more (Leviathan et al.
    2023)."""
    draft_placement: Literal["own_layout", "attention_ranks"]
    """Layout of a draft model: its fastest on all chips of the instance; or that of the target's attention, with one
    copy and a part of the batch per group of chips."""
    verify_context: Literal["start", "mean"]
    """Context of the draft tokens in a verification: as at its start, or the mean."""
    acceptance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | Literal["published"] = "published"
    """Default probability that a draft token is accepted at every position; or as published for the method and the
    model [1]."""
    longest_draft: Count | Literal["recipe"] = "recipe"
    """Default maximum draft length; or that of the engine's recipe, otherwise as published for the method and the model
    [1]."""


class AdapterAssumptions(Spec):
    """Low-rank adapters (LoRA) served with one model; each request uses one of them."""

    loras: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of adapters in memory, which requests use equally often; 0 for none [1]."""
    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    """Rank of all adapters: the maximum, for which engines reserve memory [1]."""


class CpuAssumptions(Spec):
    """Layers that llama.cpp keeps in host memory, and the CPU that computes them."""

    layers: Annotated[int, Field(ge=0)] = 0
    """Layers in host memory, with their KV cache; the other layers and the output embedding are on the GPU [1]."""
    memory_bandwidth: BytesPerSecond
    """Peak bandwidth of host memory [B/s]."""
    memory_efficiency: Fraction
    """Share of that bandwidth at which the CPU reads weights and KV cache [1]."""
    flops_per_second: FlopsPerSecond
    """Sustained arithmetic of the CPU [FLOP/s]."""
    memory_bytes: Memory | None = None
    """Host memory for these layers and their KV cache; None for no limit [B]."""
    copied_from: Count
    """Tokens of a step from which the GPU computes these layers, with weights that are copied over the host link
    [tokens]."""
    copied_together: Count
    """Tokens that share one copy of the weights [tokens]."""


#: Groups of :class:`Assumptions`, by field name.
GROUPS: Mapping[str, type[Spec]] = {
    "chip": ChipAssumptions,
    "host": HostAssumptions,
    "network": NetworkAssumptions,
    "layout": LayoutAssumptions,
    "experts": ExpertAssumptions,
    "attention": AttentionAssumptions,
    "capacity": CapacityAssumptions,
    "serving": ServingAssumptions,
    "adapters": AdapterAssumptions,
    "cpu": CpuAssumptions,
}


#: New names of fields that existed before there were groups.
_OF_EXPERTS = (
    "math_efficiency hbm_efficiency overlap tile parallel parallel_min_requests_per_sparsity parallel_counts sparsity "
    "all_reduce dispatch activations imbalance popularity_scv spread"
)
_RENAMED = {
    **{f"expert_{name}": f"experts.{name}" for name in _OF_EXPERTS.split()},
    "shared_experts": "experts.shared",
    "attention_math_efficiency": "attention.math_efficiency",
    "latent_attention": "attention.latent",
    "embedding_capacity": "capacity.embeddings",
    "kv_capacity": "capacity.kv",
    "draft_in_capacity": "capacity.draft",
    # Only the second applies to steps that are captured in graphs.
    "launch": "host.launch or host.graph_launch",
}
_MOVED = {
    **{name: f"{group}.{name}" for group, spec in reversed(list(GROUPS.items())) for name in spec.model_fields},
    **_RENAMED,
}


def _exceptions(group: type[Spec]) -> Any:
    """Class with the fields of a group, all optional."""
    fields: dict[str, Any] = {}
    for name, field in group.model_fields.items():
        metadata = (
            (*field.metadata, Field(discriminator=field.discriminator)) if field.discriminator else field.metadata
        )
        inner: Any = Annotated[field.annotation, *metadata] if metadata else field.annotation
        fields[name] = (inner | None, Field(default=None, json_schema_extra=partial(describe_as, group, name)))
    return create_model(f"{group.__name__}Exceptions", __base__=Spec, __doc__=group.__doc__, **fields)


if TYPE_CHECKING:
    FamilyAssumptions = Spec
else:
    _EXCEPTIONS = {name: _exceptions(group) for name, group in GROUPS.items()}
    # Pickling in worker processes finds a class by its name in its module.
    globals().update({exceptions.__name__: exceptions for exceptions in _EXCEPTIONS.values()})
    #: Exceptions for one family of chips: any field of any group.
    FamilyAssumptions = create_model(
        "FamilyAssumptions",
        __base__=Spec,
        __doc__="What is assumed differently for one family of chips.",
        **{
            name: (_EXCEPTIONS[name] | None, Field(default=None, description=group.__doc__))
            for name, group in GROUPS.items()
        },
    )


class Assumptions(SourcedSpec):
    """Consistent set of assumptions about serving a model."""

    moved: ClassVar[Mapping[str, str]] = _MOVED

    extends: str | None = None
    """Preset that this file extends; fields that are not given are copied from it."""
    chip: ChipAssumptions
    """Sustained shares of a chip's datasheet values, and the work that is included."""
    host: HostAssumptions
    """CPU times: kernel launches, steps, requests, and the start of a run."""
    network: NetworkAssumptions
    """Links between chips, the network between domains, and collectives over both."""
    layout: LayoutAssumptions
    """Layout of a model over chips."""
    experts: ExpertAssumptions
    """Mixtures of experts."""
    attention: AttentionAssumptions
    """Attention and its cache."""
    capacity: CapacityAssumptions
    """Contents of the memory."""
    serving: ServingAssumptions
    """Scheduling of prefill, and speculative decoding."""
    adapters: AdapterAssumptions = AdapterAssumptions()
    """Low-rank adapters."""
    cpu: CpuAssumptions
    """Layers in host memory."""
    per_family: dict[str, FamilyAssumptions] = Field(default_factory=dict)
    """Exceptions by :attr:`HardwareSpec.family`: any field of any group."""
    calibration: Calibration | None = None
    """Measurements that constants were fitted to, if any."""
    levels: MeasuredLevels | None = None
    """Measured corrections of the fitted constants, if any."""

    def for_chip(self, chip: HardwareSpec) -> Assumptions:
        """These assumptions with the exceptions of a chip's family applied."""
        exceptions = exceptions_of(self, self.exceptional(chip))
        return self.changed(exceptions).model_copy(update={"per_family": {}}) if exceptions else self

    def exceptional(self, chip: HardwareSpec) -> str:
        """Key of :attr:`per_family` for a chip: its family, or a similar one."""
        return chip.family if chip.family in self.per_family else generations.usual().family(chip)

    def without_exceptions(self, names: Collection[str]) -> Assumptions:
        """Copy without exceptions for some fields, by their dotted names."""
        families = {}
        for key, exceptions in self.per_family.items():
            groups: dict[str, Spec] = {}
            for name in names:
                group, _, field = name.partition(".")
                different = groups.get(group, getattr(exceptions, group))
                if different is not None:
                    groups[group] = different.model_copy(update={field: None})
            families[key] = exceptions.model_copy(update=groups)
        return self.model_copy(update={"per_family": families})

    def changed(self, values: Mapping[str, object]) -> Assumptions:
        """Copy with some fields set by their dotted names; values are not validated.

        Examples
        --------
        >>> from inference_econ.inputs import catalog
        >>> catalog.assumptions("paper").changed({"host.launch": 0.0}).host.launch
        0.0
        """
        groups: dict[str, dict[str, object]] = {}
        for name, value in values.items():
            group, _, field = name.partition(".")
            groups.setdefault(group, {})[field] = value
        return self.model_copy(
            update={group: getattr(self, group).model_copy(update=fields) for group, fields in groups.items()}
        )


def field_names() -> tuple[str, ...]:
    """Dotted names of all fields in groups: ``chip.math_efficiency``, .."""
    return tuple(f"{group}.{name}" for group, spec in GROUPS.items() for name in spec.model_fields)


def value_of(assumptions: Assumptions, name: str) -> Any:
    """Value of a field by its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(assumptions, group), field)


def exceptions_of(assumptions: Assumptions, family: str) -> dict[str, object]:
    """Exceptions for one family of chips, by dotted name."""
    exceptions = assumptions.per_family.get(family)
    if exceptions is None:
        return {}
    return {
        f"{group}.{name}": value
        for group in GROUPS
        if (different := getattr(exceptions, group)) is not None
        for name in GROUPS[group].model_fields
        if (value := getattr(different, name)) is not None
    }
