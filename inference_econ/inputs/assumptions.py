"""Opinions: everything that two honest people could set differently.

Each quirk of the published model is one field here, so that "why is ours different?" is a
difference of two YAML files. The ``paper`` preset is ``scenarios/assumptions/paper.yaml``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import Bytes, Count, Fraction, Seconds, SourcedSpec, Spec
from inference_econ.inputs.calibration import Calibration

Steps = Annotated[int, Field(ge=0, le=64)]
NonNegative = Annotated[int | float, Field(ge=0, le=1e6, allow_inf_nan=False)]
ProtocolName = Literal["LL", "LL128", "Simple"]
TensorLayout = Literal["1d", "2d"]


class ProtocolConstants(Spec):
    """One NCCL protocol under the tree algorithm."""

    base: Seconds
    """Paid once per collective [s]."""
    per_rank: Seconds
    """Per further rank inside a link domain [s]."""
    per_domain_doubling: Seconds
    """Per doubling of the number of domains [s]."""
    bandwidth_factor: Fraction
    """Share of the link that carries payload [1]."""


class AllReduceKernel(Spec):
    """An all-reduce kernel of a serving engine or of the switch, inside one link domain."""

    shape: Literal["one_shot", "two_shot", "multicast"]
    """Every rank reads all others' tensors; each reduces its part, then all gather; or the switch reduces (NVLS)."""
    base: Seconds
    """Paid once [s]."""
    per_rank: Seconds
    """Per further rank [s]."""
    bandwidth_factor: Fraction
    """Share of the link that carries payload [1]."""
    most_bytes: Bytes | None = None
    """Largest tensor it is used for [B]; none if it has no limit."""


class NcclTree(Spec):
    """NCCL's latency-plus-bandwidth model: the best of what is given is taken, by size and domains."""

    kind: Literal["nccl_tree"]
    """Names this model of collectives."""
    version: str
    """NCCL versions that ship these constants."""
    protocols: Annotated[dict[ProtocolName, ProtocolConstants], Field(min_length=1)]
    """Protocols of the tree algorithm."""
    ring: dict[ProtocolName, ProtocolConstants] = Field(default_factory=dict)
    """Protocols of the ring algorithm; ``per_domain_doubling`` is paid per domain."""
    kernels: dict[str, AllReduceKernel] = Field(default_factory=dict)
    """Other all-reduces inside a link domain."""
    network_factor: Fraction | None = None
    """Share of the network between domains that carries payload under Simple; of other protocols in proportion.
    Without it the protocols' own factors hold there too [1]."""
    exchange_per_domain_doubling: Seconds | None = None
    """What an all-to-all or a hand-off pays per doubling of the domains; without it, what the protocols pay [s]."""
    domains_overlap: bool = True
    """Traffic inside and between link domains runs at the same time."""


class Mesh(Spec):
    """Neighbours pass data on: TPU tori and the Groq LPU in the published study."""

    kind: Literal["mesh"]
    """Names this model of collectives."""
    hop: Seconds
    """Time between neighbours [s]."""


class Free(Spec):
    """Communication takes no time: for bounds."""

    kind: Literal["free"]
    """Names this model of collectives."""


Collectives = Annotated[NcclTree | Mesh | Free, Field(discriminator="kind")]


class FamilyAssumptions(Spec):
    """What is assumed differently for one family of chips."""

    math_efficiency: Fraction | None = None
    """See :class:`Assumptions`."""
    hbm_efficiency: Fraction | None = None
    """See :class:`Assumptions`."""
    launch: Seconds | None = None
    """See :class:`Assumptions`."""
    graph_launch: Seconds | None = None
    """See :class:`Assumptions`."""
    step_overhead: Seconds | None = None
    """See :class:`Assumptions`."""
    collective_overhead: Seconds | None = None
    """See :class:`Assumptions`."""
    request_overhead: Seconds | None = None
    """See :class:`Assumptions`."""
    collectives: Collectives | None = None
    """See :class:`Assumptions`."""


class Assumptions(SourcedSpec):
    """One consistent set of opinions about how a model is served."""

    extends: str | None = None
    """Preset that this file changes; everything not written here is taken from it."""

    # Rates of the chip
    math_efficiency: Fraction
    """Sustained share of the dense arithmetic peak [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth [1]."""
    attention_math_efficiency: Fraction | None = None
    """The share of arithmetic for attention scores, if it is another [1]."""
    expert_math_efficiency: Fraction | None = None
    """The share of arithmetic for routed experts, if it is another [1]."""
    narrow_math_efficiency: Fraction = 1.0
    """Factor on the share of arithmetic for each halving of the format from 16 bits on [1]."""
    block_math_efficiency: Fraction = 1.0
    """Factor on the share of arithmetic for 8-bit weights with a scale per block of 128 on chips with 4-bit floats,
    whose units scale other blocks: such products are scaled beside them [1]."""
    expert_hbm_efficiency: Fraction | None = None
    """The share of bandwidth for weights of routed experts, if it is another [1]."""
    kv_hbm_efficiency: Fraction | None = None
    """The share of bandwidth for cache and states, if it is another [1]."""
    widened_efficiency: Fraction = 1.0
    """Factor on the share of bandwidth for narrow weights that are widened to 16 bits on the way [1]."""
    link_efficiency: Fraction
    """Sustained share of links and network, beside the factors of the protocols [1]."""
    launch: Seconds
    """Time that the host takes to launch one kernel [s]."""
    graph_launch: Seconds
    """Fixed time of a kernel on the chip: what is left of a launch in a captured graph [s]."""
    cuda_graphs: bool
    """Decode steps are captured in graphs. Prefill steps are not, their lengths differ: the host launches ahead, and
    a step takes no less than all of its launches."""
    launches: Literal["per_layer", "per_operator"]
    """A fixed number of launches per layer that nothing hides; or the kernels of each row of the operator table."""
    launches_per_layer: NonNegative
    """Kernel launches that a layer waits for, where they are counted per layer [1]."""
    step_overhead: Seconds
    """Time of the host per step that nothing hides: scheduling, input preparation, sampling, detokenising [s]."""
    sequence_overhead: Seconds = 0.0
    """The same per sequence of a step [s]."""
    request_overhead: Seconds
    """Time of the host per request before its first token: network, tokenising, scheduling, the first answer [s]."""
    steps_ahead: Steps = 0
    """Steps that the host prepares ahead while the chip works: a new prompt waits for so many more [1]."""
    warm_up: Seconds = 0.0
    """What requests wait longer with which a run begins: kernels are compiled or tuned when they are first used [s]."""
    transfer_warm_up: Seconds = 0.0
    """The same where prefill and decode have pools of their own, which connect over the network between link domains
    when a cache is first sent [s]."""
    overlap: Literal["step", "operator", "none"]
    """What hides behind what: max of the step's arithmetic and memory time, the sum over operators of their
    max, or the sum of both."""
    math_unit_follows: Literal["weights", "widest", "engines"]
    """The maths unit of a matrix product is that of its weights, that of the wider operand, or as engines do it:
    8-bit weights meet activations quantised on the way, 4-bit floats run on a 4-bit unit if the chip has one, and
    other 4-bit weights are widened to the activations."""
    per_family: dict[str, FamilyAssumptions] = Field(default_factory=dict)
    """Exceptions by :attr:`HardwareSpec.family`."""

    # Network
    collectives: Collectives
    """Latency and bandwidth of collectives, or the name of a file in ``assumptions/collectives``."""
    collective_overhead: Seconds
    """Time that ranks wait for each other before each collective, beside its own time [s]."""
    pipeline_hop: Literal["between_domains", "nearest"]
    """A pipeline hand-off is priced between link domains always, or inside a domain while the stages fit one."""
    two_batch_overlap: Literal["never", "when_faster"]
    """Two halves of a micro-batch take turns, so that communication of one hides behind the work of the other;
    weights are read twice."""

    # How work is laid out
    tensor_layouts: Annotated[tuple[TensorLayout, ...], Field(min_length=1, strict=False)]
    """Ways to cut weight matrices: along one dimension, or along both."""
    attention_scale_down_steps: Steps
    """Attention may run on fewer accelerators than the feed-forward part: T^(j/steps), j = 0..steps; 0: never."""
    attention_groups: Literal["idle", "data_parallel"]
    """Where attention runs on fewer chips than a stage has, the others wait, or groups of as many chips work on
    sequences of their own."""
    kv_placement: Literal["spread", "by_heads"]
    """The cache lies evenly on all chips of a stage, or with the heads: chips beyond the KV heads hold copies."""
    pipeline_steps: Steps
    """Pipeline depths tried: deepest^(j/steps)."""
    pipeline_deepest: Literal["layers", "layers_or_batch"]
    """Deepest pipeline tried: the number of layers, or of requests if there are fewer."""
    expert_parallel: bool
    """Experts are spread over accelerators before matrices are cut."""
    expert_parallel_min_requests_per_sparsity: NonNegative
    """Expert parallelism is used from this many requests per micro-batch and unit of sparsity on."""
    expert_parallel_counts: Literal["requests", "tokens"]
    """What is held against that threshold: requests, or their new tokens."""
    link_domains: Literal["whole", "exact"]
    """Link domains that ranks are spread over: rounded up, or exactly, but at least one."""

    # What must be done
    activation_traffic: Literal["balanced", "unbalanced", "single_copy"]
    """How often a matrix's inputs and outputs move when it is cut: see :mod:`inference_econ.formulas.matmul`."""
    parallel_blocks: Literal["apart", "merged"]
    """Where attention and feed-forward run side by side, each sums its output apart (the study's full model), or
    one sum serves both."""
    expert_sparsity: Literal["floor", "exact"]
    """Experts over active experts, as a whole number or exactly."""
    shared_experts: Literal["routed", "apart"]
    """A shared expert counts as one more routed and active expert, or is a dense part of its own."""
    expert_all_reduce: Literal["every_active_expert", "once"]
    """An all-reduce of the feed-forward part carries the output of each active expert, or their sum."""
    all_to_all_ranks: Literal["reached", "expert_parallel"]
    """Ranks in the dispatch of tokens: as many as a token can reach, or the whole expert-parallel group."""
    all_to_all_traffic: Literal["as_all_reduce", "own_link"]
    """Traffic between domains is shared by all ranks as in an all-reduce, or each rank sends over its own link."""
    all_to_all_copies: Literal["reached", "active_experts"]
    """Copies of a token that are sent: one per rank it reaches, or one per active expert."""
    expert_activations: Literal["touched", "all"]
    """Activation traffic of experts is counted for the share of them that is touched, or for all tokens."""
    replicated_tokens: Literal["exchanged", "summed"]
    """Where one group of attention ranks is the whole stage, all of its chips have all tokens: experts exchange them
    all the same, or each chip adds what its experts and its part of the shared expert give to one all-reduce."""
    expert_imbalance: Annotated[int | float, Field(ge=1, le=1e3, allow_inf_nan=False)]
    """Tokens of the busiest expert-parallel rank over the mean [1]: everybody waits for it."""
    expert_tile: NonNegative = 0.0
    """Tokens of one expert that are multiplied at a time: its last tile is half empty on average; 0 for no tiles
    [tokens]."""
    expert_overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    """Under ``overlap: operator``, share of the shorter of arithmetic and memory time of routed experts that hides
    behind the longer; all of it for other operators [1]."""
    expert_popularity_scv: NonNegative = 0.0
    """How unevenly experts are chosen: squared coefficient of variation [1]. Fewer are touched by a batch."""
    expert_spread: Literal["even", "random"] = "even"
    """Expert-parallel ranks all have as many tokens, and touched experts, or as chance has it: then a step waits for
    the rank that has most."""
    expert_dispatch: Literal["activations", "eight_bit"]
    """Tokens travel to their experts in the format of the activations, or in 8 bits; they return as activations."""
    all_to_all_crossing: Literal["per_copy", "per_domain"]
    """A token crosses between link domains once per copy, or once per domain it reaches, of which node-limited
    routing allows ``active_groups`` (:class:`ExpertFeedForward`)."""
    latent_traffic: Literal["one_matrix", "exact"]
    """MLA's up-projections are read as one matrix over both ranks, or each over its own."""
    latent_attention: Literal["absorbed", "decompressed", "decompressed_per_step"]
    """MLA in decode: the latent is key and value of every head; or keys and values of every head are cached; or
    the latent is cached and decompressed in every step. Prefill decompresses what is cached, once."""
    pointwise: Literal["free", "counted"]
    """Traffic of norms, activation functions and sampling costs nothing, or is counted."""
    embedding_flop: Literal["both", "output"]
    """Arithmetic of the embeddings: input and output, or the output embedding only."""
    scale_down_repeats_embedding: bool
    """Where attention runs on fewer accelerators, the embedding's arithmetic does so too."""
    kv_reads: Literal["micro_batch", "batch"]
    """Cache that a stage reads per micro-batch: of its own sequences, or of the whole batch (an early state of
    the study's code)."""
    verify_context: Literal["start", "mean"]
    """Context seen by the proposed tokens of one verification: as at its start, or on average."""

    # What must fit
    embedding_capacity: Literal["both", "output"]
    """Embeddings that must fit: input and output, or the output embedding only."""
    kv_capacity: Literal["micro_batch", "batch"]
    """KV cache that must fit: of one micro-batch, or of all that are in the pipeline."""
    usable_memory: Fraction
    """Share of the memory that may be filled; the rest is head-room [1]."""
    kv_block: Count
    """Granularity of the cache [tokens]: sequences hold whole blocks."""
    prefill_chunk: NonNegative
    """Prompt tokens that are read in one step, together with the tokens of the decode batch; 0: prompts are read
    whole and alone, and decoding waits [tokens]."""
    prefill_split: Literal["prompts", "context"]
    """Groups of attention ranks read prompts of their own; or they share one prompt, each a part of its tokens, and
    gather keys and values in every layer (context parallelism)."""
    workspace_tokens: NonNegative
    """Tokens of the largest step, whose activations must fit beside weights and cache [tokens]."""
    draft_in_capacity: bool
    """The draft model's weights and cache must fit as well."""

    # Speculation
    expected_tokens: Literal["draft_length", "draft_length_plus_one"]
    """Series of accepted tokens: over the drafted ones (the study), or one more (Leviathan et al. 2023)."""

    # Where the constants come from
    calibration: Calibration | None = None
    """The measurements that they were fitted to, if they were."""

    def for_family(self, family: str) -> Assumptions:
        """These assumptions with the exceptions of one family of chips applied."""
        exceptions = self.per_family.get(family)
        if exceptions is None:
            return self
        changes = {
            name: value for name in FamilyAssumptions.model_fields if (value := getattr(exceptions, name)) is not None
        }
        return self.model_copy(update={**changes, "per_family": {}})
