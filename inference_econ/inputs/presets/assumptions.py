"""Assumptions of the cost model, with a field for each choice on which experts may disagree.

The rules of the published study are values of these fields, so two cost models can be compared as two YAML files. The
preset of the study is ``scenarios/assumptions/paper.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from inference_econ._by_identity import by_identity
from inference_econ.inputs._spec import (
    BytesPerSecond,
    Count,
    Dtype,
    Field,
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
    """Sustained shares of a chip's datasheet values, and optional parts of the work."""

    math_efficiency: Fraction
    """Share of the dense arithmetic peak that kernels sustain [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth that kernels sustain [1]."""
    narrow_math_efficiency: Fraction = 1.0
    """Factor on the sustained share of arithmetic, applied once for 8-bit and twice for 4-bit math units [1]."""
    prefetched_bytes: HeldBytes = 0
    """Weights that each chip prefetches once per layer while ranks wait for a collective [B]. Prefetched weights may
    fill the L2 cache, which has 50 MB on an H100. 0 means that memory reads and network do not overlap."""
    products: dict[Dtype, DenseKernel] = Field(default_factory=dict)
    """Efficiencies of dense matrix kernels by weight format, or the name of a file in ``assumptions/products``. Formats
    without an entry, and attention, use ``math_efficiency`` and ``hbm_efficiency``."""
    product_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Speed of dense kernels in servers, relative to ``products``, which were measured in isolation [1]. The factor may
    exceed 1, because the weights of the next product can be prefetched or cached."""
    widened_efficiency: Fraction = 1.0
    """Factor on the sustained share of bandwidth for weights that kernels convert to 16 bits before the product [1]."""
    overlap: Literal["step", "operator", "none"]
    """Overlap of arithmetic and memory traffic. ``step``: a step takes the longer of its arithmetic and memory times.
    ``operator``: each operator takes the longer of its two times. ``none``: all times are added."""
    math_unit_follows: Literal["weights", "widest", "engines", "fastest"]
    """Math unit of a matrix product.

    ``weights``: the unit of the weight format. ``widest``: the unit of the wider operand. ``engines``: as in serving
    engines. For 8-bit weights, activations are quantized. For 4-bit floats, a 4-bit unit is used if the chip has one.
    All other 4-bit weights are converted to the format of the activations. ``fastest``: the fastest unit for the format
    of any operand, which gives a bound, because some chips have very slow integer units.
    """
    activation_traffic: Literal["balanced", "unbalanced", "single_copy"]
    """Traffic of the inputs and outputs of a matrix that is split over chips; see
    :mod:`inference_econ.formulas.matmul`."""
    pointwise: Literal["free", "counted"]
    """``counted`` includes the memory traffic of norms, activation functions and sampling; ``free`` omits it."""
    embedding_flop: Literal["both", "output"]
    """Embeddings whose arithmetic is included: input and output, or only the output embedding."""

    def product(self, dtype: str) -> DenseKernel | None:
        """Measured kernel of dense products with weights of a format; None if none was measured."""
        return self.products.get(family(dtype))


class HostAssumptions(Spec):
    """CPU times for kernel launches, steps, requests, and the start of a run."""

    launch: Seconds
    """CPU time to launch one kernel [s]."""
    graph_launch: Seconds
    """Fixed time of each kernel on the chip inside a captured graph [s]."""
    cuda_graphs: bool
    """True if decode steps run as CUDA graphs. Prefill steps do not run as graphs, because their lengths differ. The
    host launches prefill kernels asynchronously, so a prefill step takes at least the time of all its launches."""
    launches: Literal["per_layer", "per_operator"]
    """Source of the number of kernel launches.

    ``per_layer``: a fixed number per layer, which never overlaps with other work. ``per_operator``: the number in each
    row of the operator table.
    """
    engine: str | None = None
    """Engine whose kernel counts are used: a catalog name, optionally followed by a space and a version (``vllm
    0.12.0``). If absent, the counts of the operator table are used."""
    launches_per_layer: NonNegative
    """Kernel launches per layer on the critical path, with ``launches: per_layer`` [1]."""
    step_overhead: Seconds
    """CPU time per step that nothing overlaps: scheduling, input preparation, sampling and detokenization [s]."""
    sequence_overhead: Seconds = 0.0
    """CPU time per step for each sequence in the step [s]."""
    request_overhead: Seconds
    """CPU time per request before its first token: network, tokenization, scheduling, and the first response [s]."""
    cached_token_overhead: Seconds = 0.0
    """CPU time per cached token of a prompt [s]. Engines receive, tokenize and look up the full text of a prompt. For
    uncached tokens, the fitted prefill time includes this time."""
    captured_tokens: NonNegative | None = 0.0
    """Tokens of the largest prefill step that runs as piecewise graphs [tokens]; None for the default of the engine. In
    a step with graphs, the host launches only the attention kernels between the graphs."""
    steps_ahead: Steps = 0
    """Number of steps that the host prepares in advance. A new prompt waits for these steps [1]."""
    warm_up: Seconds = 0.0
    """Additional latency of the first requests of a run with disaggregated pools, in which kernels are compiled or
    tuned at first use [s]. Load generators warm up aggregated servers before they measure."""
    transfer_warm_up: Seconds = 0.0
    """Additional latency of the first requests with disaggregated pools, because pools in different link domains
    connect at the first cache transfer [s]."""
    handover: Seconds = 0.0
    """CPU time of a prefill instance to transfer the KV cache of a prompt to another link domain [s]. The instance
    processes no other prompt in this time. Inside a domain, chips copy the cache over their links (UCX's
    ``cuda_ipc``)."""


class NetworkAssumptions(Spec):
    """Efficiency of links and network, and costs of collectives."""

    link_efficiency: Fraction
    """Share of the bandwidth of links and network that is sustained, in addition to the factors of the protocols
    [1]."""
    collectives: Collectives
    """Latencies and bandwidth factors of collectives, or the name of a file in ``assumptions/collectives``."""
    mesh_links: Literal["pooled", "per_peer"] = "pooled"
    """Usable links of a chip in a full mesh (:attr:`HardwareSpec.link_peers`). ``pooled``: all links, as with a switch.
    ``per_peer``: only the links to members of its group."""
    collective_overhead: Seconds
    """Time for the synchronization of ranks before each collective, in addition to the collective's own time [s]."""
    latency_factor: Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)] = 1.0
    """Factor on all latencies of collectives, including ``collective_overhead``; 1 unless a study varies it [1]."""
    hidden: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    """Share of communication that overlaps with memory reads and arithmetic of the same step [1]. The overlap is at
    most as long as the memory reads and arithmetic of the step. 0 means no overlap, the study's "conservative
    assumption"."""
    pipeline_hop: Literal["between_domains", "nearest"]
    """Links between pipeline stages: always the links between link domains, or the links inside a domain if the stages
    fit in it."""
    two_batch_overlap: Literal["never", "with_exchanges", "when_faster"]
    """Two-batch overlap: communication of one half of a batch overlaps with computation of the other half, and weights
    are read twice. ``never``: off. ``when_faster``: on in every step that the overlap makes faster. ``with_exchanges``:
    like ``when_faster``, but only if attention-DP groups exchange tokens with experts on all ranks of a stage and an
    engine supports the overlap."""
    exchange_processors: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of the chip's processors that all-to-all kernels take from the other half of a prefill batch [1]. In decode
    steps, all-to-all kernels take no processors."""
    link_domains: Literal["whole", "exact", "placed"]
    """Number of link domains that a group of ranks spans. ``whole``: ranks divided by the size of a domain, rounded up.
    ``exact``: ranks divided by the size of a domain, not rounded, but at least one. ``placed``: the number follows from
    the placement of all ranks of a stage, in which tensor-parallel and expert-parallel groups share the domains."""
    inner_group: Literal["tensor", "experts"] = "tensor"
    """Ranks on adjacent chips if experts are both split and spread: ranks that share an expert, or ranks with different
    experts."""


class LayoutAssumptions(Spec):
    """Parallelism of a model on the chips of an instance."""

    tensor_layouts: Annotated[tuple[TensorLayout, ...], Field(min_length=1, strict=False)]
    """Ways to split weight matrices: along one dimension (1D), or along both dimensions (2D)."""
    attention_scale_down_steps: Steps
    """Number of steps between one chip and all chips for attention, if attention can use fewer chips than the
    feed-forward part [1]. If the feed-forward part uses T chips, attention uses T^(j/steps) chips, with j = 0..steps. 0
    means that attention always uses all T chips.
    """
    attention_groups: Literal["idle", "data_parallel", "shared"]
    """Work of the remaining chips if an attention group is smaller than a stage. ``idle``: the remaining chips do no
    work. ``data_parallel``: further attention groups of the same size process their own sequences. ``shared``: all
    chips share the batch evenly, even within a sequence; for bounds."""
    group_copies: Literal["none", "held"] = "none"
    """Copies of dense layers and embeddings in MoE models. ``none``: one copy over all chips of a stage, including the
    routers. ``held``: one copy per attention-DP group, split over its ranks, and a full router on every rank."""
    kv_placement: Literal["spread", "by_heads"]
    """Placement of the KV cache: spread evenly over all chips of a stage, or split by heads. If heads are split over
    more chips than there are KV heads, chips store copies of heads."""
    pipeline_steps: Steps
    """Number of steps between pipeline depths that are tried: deepest^(j/steps) with j = 0..steps [1]."""
    pipeline_deepest: Literal["layers", "layers_or_batch"]
    """Deepest pipeline that is tried: one stage per layer; or one stage per request, if there are fewer requests."""
    pipeline_stages: Literal["even", "uneven"] = "even"
    """Layers per pipeline stage: equal, or different by at most one. If stages differ, the largest stage determines
    time and memory."""
    parallel_blocks: Literal["apart", "merged"]
    """All-reduces of blocks with attention and feed-forward in parallel: separate, as in the study's full model,
    or merged."""
    residual_stream: Literal["whole", "by_tokens"] = "whole"
    """Residual stream of ranks that share matrices. ``whole``: each rank has all tokens, and an all-reduce follows each
    pair of matrices. ``by_tokens``: each rank has some of the tokens, and a reduce-scatter and an all-gather replace
    the all-reduce. With ``by_tokens``, each rank computes norms only for its tokens (sequence parallelism)."""
    scale_down_repeats_embedding: bool
    """True if only the chips of attention compute the embeddings, in layouts in which attention uses fewer chips."""


class ExpertAssumptions(Spec):
    """Mixture of experts: placement, communication, load balance and kernels."""

    kernels: dict[Dtype, ExpertKernel] = Field(default_factory=dict)
    """Efficiencies of routed-expert kernels by weight format, or the name of a file in ``assumptions/kernels``. Formats
    without an entry use ``math_efficiency`` and ``hbm_efficiency``."""
    kernel_efficiency: Fraction = 1.0
    """Speed of expert kernels in servers, relative to ``kernels``, which were measured in isolation [1]."""
    dense_bound: bool = False
    """True if the chip's kernels were not measured. If true, the rates of ``kernels`` are at least the rates of a dense
    product of all tokens with the weights of the used experts."""
    math_efficiency: Fraction | None = None
    """Sustained share of arithmetic for routed experts, if different from ``chip.math_efficiency`` [1]."""
    hbm_efficiency: Fraction | None = None
    """Sustained share of bandwidth for weights of routed experts, if different from ``chip.hbm_efficiency`` [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    """Overlap of arithmetic and memory traffic of routed experts, as a share of the shorter of the two times, with
    ``overlap: operator`` [1]. For all operators except routed experts, the overlap is complete."""
    tile: NonNegative = 0.0
    """Tile size in tokens of an expert [tokens]. The last tile is half empty on average. 0 means no tiles."""
    parallel: bool
    """True if experts are spread over chips before their matrices are split."""
    parallel_min_requests_per_sparsity: NonNegative
    """Minimum number of requests in a micro-batch for expert parallelism, divided by the sparsity of the model [1]."""
    parallel_counts: Literal["requests", "tokens"]
    """Quantity that is compared with the minimum for expert parallelism: the number of requests, or of their new
    tokens."""
    sparsity: Literal["floor", "exact"]
    """Definition of the sparsity of a model: experts divided by active experts, rounded down or exact."""
    shared: Literal["routed", "apart"]
    """Treatment of shared experts: each is one more routed and active expert, or all are a separate dense part."""
    all_reduce: Literal["every_active_expert", "every_copy", "once"]
    """Outputs in the all-reduce after the feed-forward part: one per active expert, one per copy of a token that was
    sent, or one sum."""
    all_to_all_ranks: Literal["reached", "expert_parallel"]
    """Ranks in the dispatch of tokens: the number that a token can reach, or the full expert-parallel group."""
    all_to_all_traffic: Literal["as_all_reduce", "own_link"]
    """Traffic between link domains: shared by all ranks as in an all-reduce, or sent by each rank over its own link."""
    all_to_all_copies: Literal["reached", "active_experts", "by_phase"]
    """Copies of a token that are sent. ``reached``: one copy per rank that the token can reach, at most one per active
    expert. ``active_experts``: one copy per active expert. ``by_phase``: prefill sends one copy per rank that the token
    reaches on average. Decode sends one copy per active expert, because decode kernels minimize latency."""
    all_to_all_crossing: Literal["per_copy", "per_domain", "by_phase"]
    """Copies of a token that cross between link domains. ``per_copy``: all copies of the token. ``per_domain``: one
    copy per domain that the token reaches; node-limited routing allows ``active_groups`` of them
    (:class:`ExpertFeedForward`). ``by_phase``: per domain in prefill, and per copy in decode, whose kernels minimize
    latency."""
    dispatch: Literal["activations", "eight_bit", "weights"]
    """Format of tokens that are dispatched to experts: the format of the activations, 8 bits, or the format of the
    experts' weights if these are narrow floats. Combined outputs have the format of the activations."""
    activations: Literal["touched", "all"]
    """Activation traffic of experts: for the experts that receive tokens, or for all experts."""
    replicated_tokens: Literal["exchanged", "summed", "gathered"]
    """Communication in a stage with a single attention group, in which all chips have all tokens. ``exchanged``:
    experts use an all-to-all as in stages with several attention groups. ``summed``: each chip adds the output of its
    experts and its part of the shared expert to one all-reduce. ``gathered``: like ``summed``, but also for several
    groups if experts are both split and spread. With ``gathered``, the chips of a stage all-gather the tokens and
    reduce-scatter the outputs, which takes as long as an all-reduce."""
    imbalance: Annotated[int | float, Field(ge=1, le=1e3, allow_inf_nan=False)]
    """Tokens of the busiest expert-parallel rank, for which all ranks wait, divided by the mean of all ranks [1]."""
    popularity_scv: NonNegative = 0.0
    """Squared coefficient of variation of expert popularity [1]. With uneven popularity, a batch uses fewer different
    experts."""
    spread: Literal["even", "random"] = "even"
    """Load of expert-parallel ranks: equal numbers of tokens and experts, or random numbers. With ``random``, a step
    waits for the busiest rank."""
    balanced_from: NonNegative = 0
    """Minimum number of expert-parallel ranks for which a balancer places popular experts and their copies evenly, with
    ``spread: random`` [1]. 0 means that experts are never balanced."""
    balanced_scv: NonNegative = 0.0
    """Squared coefficient of variation of the ranks' shares of tokens after balancing [1]."""
    redundant: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Minimum number of redundant experts [1]. Additional copies may be needed so that the ranks divide the number of
    experts. None means no copies, so the ranks must divide the number of experts without copies."""

    def kernel(self, dtype: str) -> ExpertKernel | None:
        """Measured kernel of routed experts with weights of a format; None if none was measured."""
        return self.kernels.get(family(dtype))


class AttentionAssumptions(Spec):
    """Algorithms of attention, and efficiencies of its kernels."""

    scores: ScoresKernels = Field(default_factory=ScoresKernels)
    """Efficiencies of attention kernels by cache format, or the name of a file in ``assumptions/scores``. Formats
    without an entry, indexers, decode of recurrent states and compressed attention use ``math_efficiency`` and
    ``kv_hbm_efficiency``."""
    score_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Speed of attention kernels in servers, relative to ``scores``, which were measured in isolation [1]."""
    math_efficiency: Fraction | None = None
    """Sustained share of arithmetic for attention scores, if different from ``chip.math_efficiency`` [1]."""
    kv_hbm_efficiency: Fraction | None = None
    """Sustained share of bandwidth for the KV cache and recurrent states, if different from ``chip.hbm_efficiency``
    [1]."""
    latent_graph_launch: Seconds | None = None
    """Fixed time of a latent-attention kernel on the chip, if different from other kernels, for example because an
    engine fuses more operations [s]."""
    latent_traffic: Literal["one_matrix", "exact"]
    """Memory traffic of MLA's two up-projections: computed as for one combined matrix, or for each matrix
    separately."""
    latent: Literal["absorbed", "decompressed", "decompressed_per_step"]
    """Algorithm of MLA in decode. ``absorbed``: the latent is key and value of every head. ``decompressed``: keys and
    values of every head are cached. ``decompressed_per_step``: the latent is cached and decompressed in each step.
    Prefill decompresses cached latents once."""
    latent_down: Literal["cut", "replicated"] = "cut"
    """Down-projections of latent and compressed attention, whose results all heads share. ``cut``: split over the
    attention ranks. ``replicated``: every rank processes all tokens of its group."""
    indexer: Literal["scan", "cut", "replicated"] = "scan"
    """Work of an indexer of sparse attention. ``scan``: only the scan of index keys, split over the attention ranks.
    ``cut``: scan and projections, split over the attention ranks. ``replicated``: scan and projections in full on every
    attention rank."""
    index_keys: Literal["cache", "eight_bit"] = "cache"
    """Format of index keys: the format of the cache, or 8 bits with a 32-bit scale per 128 elements."""
    chunk_position: Literal["middle", "position"] = "middle"
    """Position of a token in its chunk, for attention within chunks. ``middle``: always the middle. ``position``: the
    actual position for new tokens of a prompt and for sequences within their first chunk. For longer sequences the
    position is uniformly distributed."""
    shared_prefix: Literal["per_sequence", "once"] = "per_sequence"
    """Reads of a shared prefix in decode steps: one per sequence, or one per attention group (cascade attention).
    Layers with a window, a selection of tokens or decompressed latents always read the prefix per sequence. The prefix
    is stored once in both cases."""
    cache: Literal["kept", "recomputed"] = "kept"
    """Keys and values of earlier tokens. ``kept``: keys and values are cached. ``recomputed``: keys and values are
    computed again in every step, one layer at a time."""
    masked_scores: Literal["skipped", "computed"] = "skipped"
    """Scores that the causal mask hides in prefill: skipped, as in fused kernels, or computed and then masked."""
    kv_reads: Literal["micro_batch", "batch"]
    """KV cache that a pipeline stage reads per micro-batch: the cache of the micro-batch, or of the full batch (early
    version of the study's code)."""

    def kernel(self, kind: Literal["grouped", "latent"], dtype: str) -> ScoresKernel | None:
        """Measured attention kernel for a kind and format of cache; None if none was measured."""
        kernels = self.scores.grouped if kind == "grouped" else self.scores.latent
        return kernels.get(dtype)


class CapacityAssumptions(Spec):
    """Contents of the GPU memory, and how their sizes are determined."""

    embeddings: Literal["both", "output"]
    """Embeddings that must fit in memory: input and output, or only the output embedding."""
    embedding_format: EmbeddingFormat = "sixteen_bit"
    """Format of embeddings if the weights are narrower than 16 bits: 16 bits, as in engines, or the format of the
    weights."""
    kv: Literal["micro_batch", "batch"]
    """KV cache that must fit in memory: the cache of one micro-batch, or of all micro-batches in the pipeline."""
    draft: bool
    """True if weights and KV cache of a draft model must fit in memory, too."""
    usable_memory: Fraction
    """Share of GPU memory that the engine may use [1]."""
    kv_block: Count
    """Block size of the KV cache [tokens]. A sequence occupies full blocks."""
    workspace_tokens: NonNegative
    """Tokens of the largest step [tokens]. Activations of this step must fit in addition to weights and KV cache."""
    state_pages: bool = False
    """True if recurrent states are stored in cache pages, each as large as a state."""
    states_held: Annotated[int, Field(ge=1, le=100)] = 1
    """States of each recurrent layer per request [1]. Prefix caching adds states."""
    state_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    """Share of the cache memory that is reserved for recurrent states [1]. The field is absent if states and keys share
    the cache memory."""
    vision_tower: bool = True
    """True if the vision tower of a multimodal model is loaded."""
    profiled_images: bool = False
    """True if the largest step includes the maximum number of largest images, at least one, as in an engine's profiling
    run."""
    compressed_padding: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)] = 1
    """Number of allocated pages divided by the number of used pages [1], for compressed caches in which groups of
    layers have pages of equal size.
    """
    reserved_bytes: HeldBytes = 0
    """Memory of each chip for the engine's contexts, libraries and graphs [B]."""
    communication_bytes: HeldBytes = 0
    """Communication buffers of each chip, if the instance has several ranks [B]."""
    sampled_logits: NonNegative = 0
    """Rows of 32-bit logits for sampling in an engine's profiling run [1]."""
    host_weights: Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)] = 0
    """Share of the layers' weights in host memory, which are read over the host link in every step, in parallel with
    other work [1]."""
    host_cache: Annotated[int | float, Field(ge=0, le=0.99, allow_inf_nan=False)] = 0
    """Maximum share of the KV cache of decoding sequences in host memory [1]. The part that does not fit on the chips
    is read over the host link in every step, in parallel with other work."""
    host_memory: str = "dram"
    """Kind of host memory: the name of a file in ``scenarios/assumptions/tiers``, or a path."""


class ServingAssumptions(Spec):
    """Scheduling of prefill, and speculative decoding."""

    prefill_chunk: NonNegative
    """Maximum prompt tokens of a step, which also contains the decode batch [tokens]. 0 means that decoding pauses
    while full prompts are processed."""
    prefill_split: Literal["prompts", "context"]
    """Division of prefill among attention-DP groups. ``prompts``: each group processes its own prompts. ``context``:
    all groups share one prompt, each processes a part of its tokens, and all-gathers collect keys and values in every
    layer (context parallelism)."""
    held_steps: NonNegative | None = None
    """Maximum number of decode steps by which prefill is delayed until every attention-DP group has a prompt [1]. 0
    means no delay, and None means the default maximum of the engine."""
    prefill_factor: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)] = 1.0
    """Time of a prefill step divided by the time of its operators [1]. The factor covers other work and optimizations
    of an engine."""
    expected_tokens: Literal["draft_length", "draft_length_plus_one"]
    """Number of terms in the geometric series for the tokens per speculation round: the draft length, as in the study,
    or one more (Leviathan et al. 2023)."""
    draft_placement: Literal["own_layout", "attention_ranks"]
    """Layout of a draft model. ``own_layout``: the draft model's fastest layout on all chips of the instance.
    ``attention_ranks``: the layout of the target model's attention; each attention-DP group has a copy of the draft
    model and a part of the batch."""
    verify_context: Literal["start", "mean"]
    """Context of the draft tokens in a verification step: the context at the start of the step, or the mean context."""
    acceptance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | Literal["published"] = "published"
    """Default probability that a draft token is accepted at every position [1]. ``published`` means the published value
    for the method and the model."""
    longest_draft: Count | Literal["recipe"] = "recipe"
    """Default maximum draft length [tokens]. ``recipe`` means the length in the engine's recipe, or else the published
    length for the method and the model."""


class AdapterAssumptions(Spec):
    """Low-rank adapters (LoRA) that are served with one model, with one adapter per request."""

    loras: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of adapters in memory [1]. Requests use all adapters equally often. 0 means no adapters."""
    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    """Rank of all adapters, for which engines reserve memory [1]."""


class CpuAssumptions(Spec):
    """Layers that llama.cpp keeps in host memory, and the CPU that computes them."""

    layers: Annotated[int, Field(ge=0)] = 0
    """Layers in host memory, with their KV cache; the other layers and the output embedding are on the GPU [1]."""
    memory_bandwidth: BytesPerSecond
    """Peak bandwidth of host memory [B/s]."""
    memory_efficiency: Fraction
    """Share of ``memory_bandwidth`` at which the CPU reads weights and KV cache [1]."""
    flops_per_second: FlopsPerSecond
    """Sustained arithmetic of the CPU [FLOP/s]."""
    memory_bytes: Memory | None = None
    """Host memory for CPU layers and their KV cache; None for no limit [B]."""
    copied_from: Count
    """Minimum number of tokens in a step for which the GPU computes the layers in host memory, after their weights are
    copied over the host link [tokens].
    """
    copied_together: Count
    """Maximum number of tokens that the GPU computes with one copy of the weights from host memory [tokens]."""


#: Groups of :class:`Assumptions` by field name.
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


#: Fields of experts that were renamed. A message shows the current name.
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
    # Kernels in captured graphs use host.graph_launch. Other kernels use host.launch.
    "launch": "host.launch or host.graph_launch",
}
_MOVED = {
    **{name: f"{group}.{name}" for group, spec in reversed(list(GROUPS.items())) for name in spec.fields},
    **_RENAMED,
}


def _optional(name: str, doc: str | None, kinds: Mapping[str, object], described_by: type[Spec] | None) -> type[Spec]:
    """Create a class with fields of the given types, and None as their default."""
    about = {"__annotations__": kinds, "__module__": __name__, "__doc__": doc, "described_by": described_by}
    # Worker processes read pickled objects, for which the class must be in its module under its name.
    globals()[name] = made = type(name, (Spec,), {**dict.fromkeys(kinds), **about})
    return made


def _exceptions(group: type[Spec]) -> type[Spec]:
    """Create a class with the fields of a group of assumptions. All fields are optional."""
    kinds = {name: f"({kind}) | None" for name, kind in group.__annotations__.items() if name in group.fields}
    return _optional(f"{group.__name__}Exceptions", group.__doc__, kinds, group)


if TYPE_CHECKING:
    FamilyAssumptions = Spec
else:
    #: Exceptions for one family of chips, which can set any field of any group.
    FamilyAssumptions = _optional(
        "FamilyAssumptions",
        "Assumptions that differ for one family of chips.",
        {
            name: Annotated[_exceptions(group) | None, Field(description=group.__doc__)]
            for name, group in GROUPS.items()
        },
        None,
    )


class Assumptions(SourcedSpec):
    """Complete set of assumptions about serving a model."""

    moved: ClassVar[Mapping[str, str]] = _MOVED

    extends: str | None = None
    """Preset that this file extends. Missing fields are copied from that preset."""
    chip: ChipAssumptions
    """Sustained shares of a chip's datasheet values, and optional parts of the work."""
    host: HostAssumptions
    """CPU times for kernel launches, steps, requests, and the start of a run."""
    network: NetworkAssumptions
    """Efficiency of links and network, and costs of collectives."""
    layout: LayoutAssumptions
    """Parallelism of a model on the chips of an instance."""
    experts: ExpertAssumptions
    """Mixture of experts: placement, communication, load balance and kernels."""
    attention: AttentionAssumptions
    """Algorithms of attention, and efficiencies of its kernels."""
    capacity: CapacityAssumptions
    """Contents of the GPU memory."""
    serving: ServingAssumptions
    """Scheduling of prefill, and speculative decoding."""
    adapters: AdapterAssumptions = AdapterAssumptions.model_construct()
    """Low-rank adapters (LoRA) that are served with the model."""
    cpu: CpuAssumptions
    """Layers that llama.cpp keeps in host memory, and the CPU that computes them."""
    per_family: dict[str, FamilyAssumptions] = Field(default_factory=dict)
    """Different values of any field for families of chips, by :attr:`HardwareSpec.family`."""
    calibration: Calibration | None = None
    """Measurements to which constants were fitted; absent for presets that are not fitted."""
    levels: MeasuredLevels | None = None
    """Measured corrections of the fitted constants; absent if there are none."""

    def for_chip(self, chip: HardwareSpec) -> Assumptions:
        """Copy in which the values of :attr:`per_family` for the chip's family replace the general values."""
        return _for_chip(self, chip)

    def exceptional(self, chip: HardwareSpec) -> str:
        """Key of :attr:`per_family` for a chip: its family, or for unknown families the first of its generation."""
        return chip.family if chip.family in self.per_family else generations.usual().family(chip)

    def without_exceptions(self, names: Collection[str]) -> Assumptions:
        """Copy in which :attr:`per_family` does not set the given fields. The arguments are dotted names."""
        families = {}
        for key, exceptions in self.per_family.items():
            groups: dict[str, Spec] = {}
            for name in names:
                group, _, field = name.partition(".")
                different = groups.get(group, getattr(exceptions, group))
                if different is not None:
                    groups[group] = different.model_copy(update={field: None})
            families[key] = exceptions.model_copy(update=groups)
        return self.model_copy(update={"per_family": families}) if names else self

    def changed(self, values: Mapping[str, object]) -> Assumptions:
        """Copy with some fields set, given their dotted names. The values are not validated.

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


@by_identity
def _for_chip(assumptions: Assumptions, chip: HardwareSpec) -> Assumptions:
    """Copy for a chip; the same object each time, because results are cached by the identity of assumptions."""
    exceptions = exceptions_of(assumptions, assumptions.exceptional(chip))
    return assumptions.changed(exceptions).model_copy(update={"per_family": {}}) if exceptions else assumptions


def field_names() -> tuple[str, ...]:
    """Dotted names of all fields in groups: ``chip.math_efficiency``, ..."""
    return tuple(f"{group}.{name}" for group, spec in GROUPS.items() for name in spec.fields)


def value_of(assumptions: Assumptions, name: str) -> Any:
    """Value of a field, given its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(assumptions, group), field)


def exceptions_of(assumptions: Assumptions, family: str) -> dict[str, object]:
    """Values that :attr:`per_family` sets for one family of chips, by dotted name."""
    exceptions = assumptions.per_family.get(family)
    if exceptions is None:
        return {}
    return {
        f"{group}.{name}": value
        for group in GROUPS
        if (different := getattr(exceptions, group)) is not None
        for name in GROUPS[group].fields
        if (value := getattr(different, name)) is not None
    }
