"""Opinions: everything that two honest people could set differently.

Each quirk of the published model is one field here, so that "why is ours different?" is a
difference of two YAML files. The ``paper`` preset is ``scenarios/assumptions/paper.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model

from inference_econ.inputs._described import describe_as
from inference_econ.inputs._spec import Count, Dtype, Fraction, Seconds, SourcedSpec, Spec
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
    """Shares of its datasheet that a chip sustains, and the work that is counted for it."""

    math_efficiency: Fraction
    """Sustained share of the dense arithmetic peak [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth [1]."""
    narrow_math_efficiency: Fraction = 1.0
    """Factor on the share of arithmetic for each halving of the format from 16 bits on [1]."""
    prefetched_bytes: HeldBytes = 0
    """Weights that each chip reads ahead while ranks wait for collectives, once per layer, for example into its L2
    cache (50 MB of an H100); 0: reads and network take turns [B]."""
    products: dict[Dtype, DenseKernel] = Field(default_factory=dict)
    """Shares that kernels of dense products reach, by the format of the weights, or the name of a file in
    ``assumptions/products``. For formats that are not in it, and for attention, the shares above count."""
    product_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Rates that servers reach over those of ``products``, which are measured alone: weights of the next product may be
    fetched ahead, and be in a cache [1]."""
    widened_efficiency: Fraction = 1.0
    """Factor on the share of bandwidth for narrow weights that are widened to 16 bits on the way [1]."""
    overlap: Literal["step", "operator", "none"]
    """Times that hide behind each other: max of the step's arithmetic and memory time, the sum over operators of their
    max, or the sum of both."""
    math_unit_follows: Literal["weights", "widest", "engines", "fastest"]
    """The maths unit of a matrix product is that of its weights, that of the wider operand, or as engines do it:
    8-bit weights meet activations quantised on the way, 4-bit floats run on a 4-bit unit if the chip has one, and
    other 4-bit weights are widened to the activations. Or it is the fastest of all that can run the format of an
    operand, for bounds: some chips have next to no integer units."""
    activation_traffic: Literal["balanced", "unbalanced", "single_copy"]
    """Copies of a matrix's inputs and outputs that move when it is cut: see :mod:`inference_econ.formulas.matmul`."""
    pointwise: Literal["free", "counted"]
    """Traffic of norms, activation functions and sampling: free, or counted."""
    embedding_flop: Literal["both", "output"]
    """Arithmetic of the embeddings: input and output, or the output embedding only."""

    def product(self, dtype: str) -> DenseKernel | None:
        """Kernel of dense products with weights of a format; None if none was measured."""
        return self.products.get(family(dtype))


class HostAssumptions(Spec):
    """Times of the host: launches, steps, requests, the beginning of a run."""

    launch: Seconds
    """Time that the host takes to launch one kernel [s]."""
    graph_launch: Seconds
    """Fixed time of a kernel on the chip: what is left of a launch in a captured graph [s]."""
    cuda_graphs: bool
    """Decode steps are captured in graphs. Prefill steps are not, their lengths differ: the host launches ahead, and
    a step takes no less than all of its launches."""
    launches: Literal["per_layer", "per_operator"]
    """Kernel launches: a fixed number per layer that nothing hides, or those of each row of the operator table."""
    engine: str | None = None
    """Engine whose kernels are counted, a name of the catalogue, with a version behind a blank if it is not the newest
    (``vllm 0.12.0``); those of the operator table without."""
    launches_per_layer: NonNegative
    """Kernel launches that a layer waits for, where they are counted per layer [1]."""
    step_overhead: Seconds
    """Time of the host per step that nothing hides: scheduling, input preparation, sampling, detokenising [s]."""
    sequence_overhead: Seconds = 0.0
    """Time of the host per sequence of a step [s]."""
    request_overhead: Seconds
    """Time of the host per request before its first token: network, tokenising, scheduling, the first answer [s]."""
    cached_token_overhead: Seconds = 0.0
    """Time of the host per token of a prompt that was said before: engines get the whole text, make tokens of it, and
    look its blocks up. Of new tokens the time of prefill has that, as it is fitted [s]."""
    captured_tokens: NonNegative = 0.0
    """Prefill steps of up to so many tokens are captured as well, in pieces between the layers' attention, which the
    host launches [tokens]."""
    steps_ahead: Steps = 0
    """Steps that the host prepares ahead while the chip works: a new prompt waits for so many more [1]."""
    warm_up: Seconds = 0.0
    """Time that the first requests of a run of disaggregated pools wait longer: kernels are compiled or tuned when they
    are first used [s]. Load generators warm other servers up before they measure."""
    transfer_warm_up: Seconds = 0.0
    """Time that the first requests wait longer besides where prefill and decode have pools of their own, which connect
    over the network between link domains when a cache is first sent [s]."""
    handover: Seconds = 0.0
    """Time of the host of a prefill instance to hand over the cache of a prompt to another link domain, while the
    instance reads no other [s]. Inside a domain chips copy it over their links (UCX's ``cuda_ipc``)."""


class NetworkAssumptions(Spec):
    """Links, network and collectives."""

    link_efficiency: Fraction
    """Sustained share of links and network, beside the factors of the protocols [1]."""
    collectives: Collectives
    """Latency and bandwidth of collectives, or the name of a file in ``assumptions/collectives``."""
    mesh_links: Literal["pooled", "per_peer"] = "pooled"
    """Links of a group whose domain is a full mesh (:attr:`HardwareSpec.link_peers`): all of a chip's as behind a
    switch, or those to its own members, of which a pair has one."""
    collective_overhead: Seconds
    """Time that ranks wait for each other before each collective, beside its own time [s]."""
    latency_factor: Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)] = 1.0
    """Time of collectives that does not grow with their bytes, waiting included, over that of ``collectives`` and
    ``collective_overhead``: for what-ifs [1]."""
    hidden: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    """Share of collectives and hand-offs that passes behind memory reads and arithmetic of the same step, as far as
    these take so long; 0: they take turns (the study's "conservative assumption") [1]."""
    pipeline_hop: Literal["between_domains", "nearest"]
    """Links of a pipeline hand-off: those between link domains always, or those inside one while the stages fit it."""
    two_batch_overlap: Literal["never", "with_exchanges", "when_faster"]
    """Turns of two halves of a micro-batch, so that communication of one hides behind the work of the other, and
    weights are read twice: never taken; where that is faster; or only where, besides, groups of attention ranks
    exchange tokens with experts on all ranks of a stage, and an engine that is meant can take turns there."""
    exchange_processors: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of a chip's processors that the kernels of an exchange take from the work of the other half of a batch that
    reads prompts; those of decode steps leave it all of them [1]."""
    link_domains: Literal["whole", "exact", "placed"]
    """Link domains that a group of ranks is spread over: its ranks over those of a domain, rounded up or exactly, but
    at least one; or as the ranks of a stage are placed, where groups that cut it both ways share its domains."""
    inner_group: Literal["tensor", "experts"] = "tensor"
    """Experts of chips side by side where they are cut over several chips and spread as well, and ranks are placed:
    parts of the same ones, or whole ones of their own."""


class LayoutAssumptions(Spec):
    """Layout of a model over the chips of an instance."""

    tensor_layouts: Annotated[tuple[TensorLayout, ...], Field(min_length=1, strict=False)]
    """Ways to cut weight matrices: along one dimension, or along both."""
    attention_scale_down_steps: Steps
    """Steps in which attention may run on fewer accelerators than the feed-forward part: T^(j/steps), j = 0..steps; 0:
    it never does [1]."""
    attention_groups: Literal["idle", "data_parallel", "shared"]
    """Work of the other chips where attention runs on fewer than a stage has: they wait; groups of as many chips have
    sequences of their own; or they share the batch evenly down to parts of a sequence, for bounds."""
    group_copies: Literal["none", "held"] = "none"
    """Copies of the dense layers and embeddings of a mixture of experts: one that is cut over all chips of a stage, as
    its routers are; or one of each such group, cut over its ranks, and whole routers on every rank."""
    kv_placement: Literal["spread", "by_heads"]
    """Place of the cache: evenly on all chips of a stage, or with the heads, of which chips beyond the KV heads hold
    copies."""
    pipeline_steps: Steps
    """Pipeline depths tried: deepest^(j/steps)."""
    pipeline_deepest: Literal["layers", "layers_or_batch"]
    """Deepest pipeline tried: the number of layers, or of requests if there are fewer."""
    pipeline_stages: Literal["even", "uneven"] = "even"
    """Layers of the stages of a pipeline: as many in each; or stages may differ by one, and those that have one more
    set the pace, and say what fits."""
    parallel_blocks: Literal["apart", "merged"]
    """Sums of the outputs of attention and feed-forward that run side by side: one for each (the study's full model),
    or one for both."""
    residual_stream: Literal["whole", "by_tokens"] = "whole"
    """Residual stream of the ranks that cut a matrix: all hold that of all their tokens and sum what a pair of matrices
    gives (all-reduce); or each holds a part of the tokens, so that sums are scattered, and gathered again before the
    next pair, and norms work on that part only (sequence parallelism)."""
    scale_down_repeats_embedding: bool
    """Arithmetic of the embedding runs on as few accelerators as attention where that runs on fewer."""


class ExpertAssumptions(Spec):
    """Mixtures of experts: where experts are, what tokens do, what kernels reach."""

    kernels: dict[Dtype, ExpertKernel] = Field(default_factory=dict)
    """Shares that kernels of routed experts reach, by the format of the weights, or the name of a file in
    ``assumptions/kernels``. For formats that are not in it, the constants below count."""
    kernel_efficiency: Fraction = 1.0
    """Share of the rates of ``kernels``, which are measured alone, that servers reach [1]."""
    math_efficiency: Fraction | None = None
    """Share of arithmetic for routed experts, if it is another [1]."""
    hbm_efficiency: Fraction | None = None
    """Share of bandwidth for weights of routed experts, if it is another [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of the shorter of arithmetic and memory time of routed experts that hides behind the longer, under
    ``overlap: operator``; all of it for other operators [1]."""
    tile: NonNegative = 0.0
    """Tokens of one expert that are multiplied at a time: its last tile is half empty on average; 0 for no tiles
    [tokens]."""
    parallel: bool
    """Experts are spread over accelerators before matrices are cut."""
    parallel_min_requests_per_sparsity: NonNegative
    """Expert parallelism is used from this many requests per micro-batch and unit of sparsity on."""
    parallel_counts: Literal["requests", "tokens"]
    """Quantity that is held against that threshold: requests, or their new tokens."""
    sparsity: Literal["floor", "exact"]
    """Experts over active experts, as a whole number or exactly."""
    shared: Literal["routed", "apart"]
    """Shared experts: one more routed and active expert each, or a dense part of its own."""
    all_reduce: Literal["every_active_expert", "every_copy", "once"]
    """Outputs that an all-reduce of the feed-forward part carries: that of each active expert; the sum of those for
    each copy of a token that was sent; or the sum of all."""
    all_to_all_ranks: Literal["reached", "expert_parallel"]
    """Ranks in the dispatch of tokens: as many as a token can reach, or the whole expert-parallel group."""
    all_to_all_traffic: Literal["as_all_reduce", "own_link"]
    """Traffic between domains is shared by all ranks as in an all-reduce, or each rank sends over its own link."""
    all_to_all_copies: Literal["reached", "active_experts", "by_phase"]
    """Copies of a token that are sent: one per rank it reaches, at most one per active expert; one per active expert;
    or, of prompts, one per rank that it reaches on average, as several of its experts may be there, and of decode
    steps, whose kernels are for latency, one per active expert."""
    all_to_all_crossing: Literal["per_copy", "per_domain", "by_phase"]
    """A token crosses between link domains once per copy, or once per domain it reaches, of which node-limited
    routing allows ``active_groups`` (:class:`ExpertFeedForward`); or once per domain in prompts, and once per copy in
    decode steps, whose kernels are for latency."""
    dispatch: Literal["activations", "eight_bit", "weights"]
    """Tokens travel to their experts in the format of the activations; in 8 bits; or in that of the experts' weights
    if those are narrow floats, in which they are multiplied. They return as activations."""
    activations: Literal["touched", "all"]
    """Activation traffic of experts: that of the share of them that is touched, or of all tokens."""
    replicated_tokens: Literal["exchanged", "summed", "gathered"]
    """Tokens of a stage that is one group of attention ranks, whose chips all have them: experts exchange them all the
    same, or each chip adds what its experts and its part of the shared expert give to one all-reduce. Gathered: so it
    is, too, with groups whose experts are cut as well as spread: all chips of a stage gather all tokens, and what their
    experts give is added up and scattered, which takes as long as an all-reduce."""
    imbalance: Annotated[int | float, Field(ge=1, le=1e3, allow_inf_nan=False)]
    """Tokens of the busiest expert-parallel rank over the mean [1]: everybody waits for it."""
    popularity_scv: NonNegative = 0.0
    """Squared coefficient of variation of how often experts are chosen [1]. Of uneven ones a batch touches fewer."""
    spread: Literal["even", "random"] = "even"
    """Expert-parallel ranks all have as many tokens, and touched experts, or as chance has it: then a step waits for
    the rank that has most."""
    balanced_from: NonNegative = 0
    """Expert-parallel ranks from which on, under ``spread: random``, a balancer places popular experts, and copies of
    them, so that ranks have equally much to do; 0 for never [1]."""
    balanced_scv: NonNegative = 0.0
    """Squared coefficient of variation of the ranks' shares that a balancer leaves [1]."""
    redundant: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Copies of popular experts that are held beside all of them, and as many more as make their number a multiple of
    the ranks; None: there are none, and experts must divide [1]."""

    def kernel(self, dtype: str) -> ExpertKernel | None:
        """Kernel of routed experts with weights of a format; None if none was measured."""
        return self.kernels.get(family(dtype))


class AttentionAssumptions(Spec):
    """Algorithms of attention, and the shares that its kernels reach."""

    scores: ScoresKernels = Field(default_factory=ScoresKernels)
    """Shares that kernels of attention over a cache reach, or the name of a file in ``assumptions/scores``. For formats
    that are not in it, for indexers, recurrent states and compressed attention the two shares below count."""
    score_efficiency: Annotated[float, Field(gt=0, le=1.3, allow_inf_nan=False)] = 1.0
    """Rates that servers reach over those of ``scores``, which are measured alone [1]."""
    math_efficiency: Fraction | None = None
    """Share of arithmetic for attention scores, if it is another [1]."""
    kv_hbm_efficiency: Fraction | None = None
    """Share of bandwidth for cache and states, if it is another [1]."""
    latent_graph_launch: Seconds | None = None
    """Fixed time of a kernel of latent attention on the chip, if it is another than that of other kernels: an engine
    may have fused it into fewer, or into more [s]."""
    latent_traffic: Literal["one_matrix", "exact"]
    """MLA's up-projections are read as one matrix over both ranks, or each over its own."""
    latent: Literal["absorbed", "decompressed", "decompressed_per_step"]
    """Keys and values of MLA in decode: the latent is those of every head; or those of every head are cached; or the
    latent is cached and decompressed in every step. Prefill decompresses what is cached, once."""
    latent_down: Literal["cut", "replicated"] = "cut"
    """Down-projections of latent and of compressed attention, which make what all heads share, are cut over the
    attention ranks; or every rank holds them and multiplies all tokens of its group by them."""
    indexer: Literal["scan", "cut", "replicated"] = "scan"
    """Work of an indexer of sparse attention: its scan of the index keys only, cut over the attention ranks; its
    projections as well, cut too; or both whole on every attention rank, for all tokens of its group."""
    index_keys: Literal["cache", "eight_bit"] = "cache"
    """Index keys are kept and scanned in the format of the cache; or in 8 bits with a 32-bit scale per 128
    elements, whatever the cache is kept in."""
    chunk_position: Literal["middle", "position"] = "middle"
    """Place of tokens in their chunk where attention stays within chunks: the middle always; or that of new tokens of a
    prompt, and of sequences within their first chunk, as it is, and anywhere for those of longer sequences."""
    shared_prefix: Literal["per_sequence", "once"] = "per_sequence"
    """Reads of a prefix that all sequences have in common, in decode: one for each of them, or one by each group of
    attention ranks (cascade attention); layers with a window, with a selection of tokens or with decompressed latents
    read it for each. It is held once in either case."""
    cache: Literal["kept", "recomputed"] = "kept"
    """Keys and values of earlier tokens are kept; or nothing is, and every step reads all tokens of its sequences again
    as a prompt, with the keys and values of one layer at a time."""
    masked_scores: Literal["skipped", "computed"] = "skipped"
    """Scores of a prompt that the causal mask hides are never computed, as in fused kernels; or computed with all
    others and then masked."""
    kv_reads: Literal["micro_batch", "batch"]
    """Cache that a stage reads per micro-batch: of its own sequences, or of the whole batch (an early state of
    the study's code)."""

    def kernel(self, kind: Literal["grouped", "latent"], dtype: str) -> ScoresKernel | None:
        """Kernel of attention over a cache of a kind in a format; None if none was measured."""
        kernels = self.scores.grouped if kind == "grouped" else self.scores.latent
        return kernels.get(dtype)


class CapacityAssumptions(Spec):
    """Parts that have to fit into the memory, and how they are counted."""

    embeddings: Literal["both", "output"]
    """Embeddings that must fit: input and output, or the output embedding only."""
    embedding_format: EmbeddingFormat = "sixteen_bit"
    """Embeddings under weights of fewer than 16 bits: in 16 bits as engines leave them, or as the weights."""
    kv: Literal["micro_batch", "batch"]
    """KV cache that must fit: of one micro-batch, or of all that are in the pipeline."""
    draft: bool
    """The draft model's weights and cache must fit as well."""
    usable_memory: Fraction
    """Share of the memory that may be filled; the rest is head-room [1]."""
    kv_block: Count
    """Granularity of the cache [tokens]: sequences hold whole blocks."""
    workspace_tokens: NonNegative
    """Tokens of the largest step, whose activations must fit beside weights and cache [tokens]."""
    state_pages: bool = False
    """States of recurrent layers lie in pages of the cache: those are as wide, and requests hold whole ones."""
    states_held: Annotated[int, Field(ge=1, le=100)] = 1
    """States of each recurrent layer that a request may hold at once: one more where prefixes are cached [1]."""
    vision_tower: bool = True
    """The vision tower of a model that has one is loaded."""
    profiled_images: bool = False
    """The largest step reads as many of the largest images as fit it, and one at least, as an engine's profile run."""
    compressed_padding: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)] = 1
    """Pages of compressed caches over what they hold: groups of layers whose pages are all as wide [1]."""
    reserved_bytes: HeldBytes = 0
    """Memory of each accelerator that an engine takes besides: contexts, libraries, graphs that count [B]."""
    communication_bytes: HeldBytes = 0
    """Memory that an engine takes further where several ranks exchange what they compute [B]."""
    sampled_logits: NonNegative = 0
    """Rows of logits in 32 bits that sampling holds at once in an engine's profile run [1]."""
    host_weights: Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)] = 0
    """Share of the layers' weights that lies in the memory of the host, and is read over its link in every step, behind
    the step's other work [1]."""
    host_cache: Annotated[int | float, Field(ge=0, le=0.99, allow_inf_nan=False)] = 0
    """Share of the caches of decoding sequences that may lie in the memory of the host: what does not fit beside the
    weights lies there, and is read over its link in every step, behind the step's other work [1]."""
    host_memory: str = "dram"
    """The memory of the host: a tier of ``scenarios/assumptions/tiers``, or a path to one."""


class ServingAssumptions(Spec):
    """Steps that prompts and speculation share with decoding."""

    prefill_chunk: NonNegative
    """Prompt tokens that are read in one step, together with the tokens of the decode batch; 0: prompts are read
    whole and alone, and decoding waits [tokens]."""
    prefill_split: Literal["prompts", "context"]
    """Groups of attention ranks read prompts of their own; or they share one prompt, each a part of its tokens, and
    gather keys and values in every layer (context parallelism)."""
    held_steps: NonNegative | None = None
    """Decode steps for which groups of attention ranks hold a prompt back at most, until each of them has one, so that
    they read together; 0: prompts are read as they come. None: as long as an engine that is asked holds them [1]."""
    prefill_factor: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)] = 1.0
    """Time of a step that reads prompts, over what its operators take: what an engine does besides, or does better
    [1]."""
    expected_tokens: Literal["draft_length", "draft_length_plus_one"]
    """Series of accepted tokens: over the drafted ones (the study), or one more (Leviathan et al. 2023)."""
    draft_placement: Literal["own_layout", "attention_ranks"]
    """Layout of a draft model: the fastest for it on all chips of the instance, or that of the target's attention, of
    which groups of so many chips each hold a copy and work on a part of the batch."""
    verify_context: Literal["start", "mean"]
    """Context seen by the proposed tokens of one verification: as at its start, or on average."""
    acceptance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | Literal["published"] = "published"
    """Probability that a proposed token is accepted, at every position, where the question does not say; or as
    published of the proposer and the model [1]."""
    longest_draft: Count | Literal["recipe"] = "recipe"
    """Proposals of a round at most where the question does not say; or as in the engine's recipe, and without one as
    published of the proposer and the model [1]."""


class AdapterAssumptions(Spec):
    """Adapters of low rank (LoRA) that one model is served with, each request with one of them."""

    loras: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Adapters that have room beside the model, and that requests ask for evenly; 0: none are served [1]."""
    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    """Rank of all of them: the largest, for which engines keep room [1]."""


#: The groups of :class:`Assumptions`, by the name of their field.
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
}


#: Where fields are that had another place and name before there were groups.
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
    # Of steps that are captured in graphs only the second counts.
    "launch": "host.launch or host.graph_launch",
}
_MOVED = {
    **{name: f"{group}.{name}" for group, spec in reversed(list(GROUPS.items())) for name in spec.model_fields},
    **_RENAMED,
}


def _exceptions(group: type[Spec]) -> Any:
    """The fields of a group, each of which may be left out."""
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
    # Processes that share work find a class by its name in its module.
    globals().update({exceptions.__name__: exceptions for exceptions in _EXCEPTIONS.values()})
    #: What is assumed differently for one family of chips: any field of any group.
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
    """One consistent set of opinions about how a model is served."""

    moved: ClassVar[Mapping[str, str]] = _MOVED

    extends: str | None = None
    """Preset that this file changes; everything not written here is taken from it."""
    chip: ChipAssumptions
    """Shares that a chip sustains, and the work that is counted for it."""
    host: HostAssumptions
    """Launches, steps, requests, the beginning of a run."""
    network: NetworkAssumptions
    """Links between chips, the network between domains, collectives over both."""
    layout: LayoutAssumptions
    """Layout of a model over chips."""
    experts: ExpertAssumptions
    """Mixtures of experts."""
    attention: AttentionAssumptions
    """Attention and its cache."""
    capacity: CapacityAssumptions
    """Parts that have to fit into the memory."""
    serving: ServingAssumptions
    """Steps that make up a service."""
    adapters: AdapterAssumptions = AdapterAssumptions()
    """Adapters beside the model."""
    per_family: dict[str, FamilyAssumptions] = Field(default_factory=dict)
    """Exceptions by :attr:`HardwareSpec.family`: any field of any group."""
    calibration: Calibration | None = None
    """The measurements that constants were fitted to, if they were."""
    levels: MeasuredLevels | None = None
    """Differences of measured servers from what the constants say, if they are known."""

    def for_chip(self, chip: HardwareSpec) -> Assumptions:
        """Return these assumptions with the exceptions of a chip's family applied."""
        exceptions = exceptions_of(self, self.exceptional(chip))
        return self.changed(exceptions).model_copy(update={"per_family": {}}) if exceptions else self

    def exceptional(self, chip: HardwareSpec) -> str:
        """Return the key of :attr:`per_family` that counts for a chip: its family, or one that is served like it."""
        return chip.family if chip.family in self.per_family else generations.usual().family(chip)

    def without_exceptions(self, names: Collection[str]) -> Assumptions:
        """A copy in which no family of chips has a value of its own for some fields, by their dotted names."""
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
        """A copy with some fields set by their dotted names; for values that code makes, which need no validation.

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
    """The dotted names of all fields that are in a group: ``chip.math_efficiency``, .."""
    return tuple(f"{group}.{name}" for group, spec in GROUPS.items() for name in spec.model_fields)


def value_of(assumptions: Assumptions, name: str) -> Any:
    """The value of a field by its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(assumptions, group), field)


def exceptions_of(assumptions: Assumptions, family: str) -> dict[str, object]:
    """Assumptions that differ for one family of chips, by dotted name."""
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
