"""Facts of serving engines by version: supported chips, models and layouts, defaults, and memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from inference_econ.errors import InputError
from inference_econ.inputs._spec import (
    Bytes,
    Count,
    Dtype,
    Field,
    Formats,
    Fraction,
    Names,
    Period,
    SourcedSpec,
    SourceError,
    Spec,
    _plain_base,
)
from inference_econ.inputs._yaml import Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, family
from inference_econ.inputs.layers import MixerKind
from inference_econ.inputs.scenario_kinds import ProposerName
from inference_econ.inputs.units import integer

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.presets.assumptions import Assumptions

#: Request that a server preempts when KV-cache memory runs out.
Evicted = Literal["last", "fewest_tokens", "nobody"]


class ChipSupport(Spec):
    """Number formats for which an engine has kernels on some chip generations."""

    generations: Names
    """Chip generations: :attr:`HardwareSpec.generation`."""
    weights: Formats
    """Supported weight formats, including formats that are widened before the computation."""
    kv: Formats
    """Supported KV-cache formats."""


class ModelSupport(Spec):
    """Features of an engine for some model architectures."""

    architectures: Names
    """Architectures, as listed under ``architectures`` in a Hugging Face ``config.json``."""
    attention_dp: bool = False
    """True if an instance can have several attention-DP groups. If false, data parallelism means separate replicas."""
    pipeline: bool = False
    """True if the engine can split the layers into pipeline stages."""
    lora: bool = False
    """True if the engine can serve LoRA adapters with the model."""
    speculation: Annotated[tuple[ProposerName, ...], Field(strict=False)] = ()
    """Speculation methods that the engine supports for the model."""
    generations: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Chip generations for which the entry is valid; empty for all."""


class EngineDefaults(Spec):
    """Default settings of an engine's server on chips with a given memory."""

    least_memory: Bytes | None = None
    """Minimum memory of the chips for which the entry is valid [B]; absent for all chips."""
    step_tokens: Count
    """Maximum tokens of one step, summed over all sequences [tokens]."""
    slots: Count | None = None
    """Maximum number of concurrent requests [1]; absent if only memory limits the number."""
    memory_fraction: Fraction | None = None
    """Share of the memory for weights and KV cache [1]; absent if the engine computes the share from other settings."""
    block_tokens: Count
    """Tokens per block of the KV cache [tokens]."""


class EngineMemory(Spec):
    """Memory that an engine reserves in addition to weights and KV cache, inside or outside its memory share."""

    reserved: Bytes
    """Memory of each accelerator outside the framework's allocator: driver context, libraries and workspaces [B]."""
    communication: Bytes
    """Communication buffers, which the engine allocates if the model runs on several ranks [B]."""
    graphs: Bytes | None = None
    """Memory of captured CUDA graphs [B]; absent if the engine takes this memory from outside its memory share."""
    step_inside: bool
    """True if the memory share includes the activations of the largest step.

    The engine measures these activations in a profiling run at startup.
    """
    logit_copies: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Number of copies of the 32-bit logits that the profiling run allocates for the maximum number of sequences
    [1]."""
    state_pages: bool = False
    """True if recurrent states are stored in pages of the KV cache, each as large as a state."""
    states_held: Count = 1
    """Default limit on the number of states per recurrent layer and request [1]."""
    state_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    """Share of the cache memory that is reserved for recurrent states [1].

    The field is absent if recurrent states and attention keys share the cache memory.
    """
    profiled_images: bool = False
    """True if the profiling run also encodes the maximum number of largest images that fit in the largest step; at
    least one.
    """
    compressed_padding: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Number of allocated pages divided by the number of used pages, for caches of compressed attention [1]."""
    outside: Bytes | None = None
    """Memory that the engine leaves free for graphs and small allocations if the user sets no memory share [B]."""
    outside_per_token: Bytes | None = None
    """Additional memory that the engine leaves free for each token of the largest step [B]."""


class CapturedSizes(Spec):
    """Batch sizes of decode steps for which graphs are captured.

    Batches without a graph are padded to the next larger size.
    """

    smallest: tuple[int, ...] = Field(strict=False)
    """Smallest captured batch sizes [1]."""
    steps: tuple[Annotated[tuple[int, int], Field(strict=False)], ...] = Field(strict=False)
    """Pairs (from, every): from the size ``from`` on, multiples of ``every`` are captured [1].

    A pair applies up to the ``from`` of the next pair, or up to ``largest``.
    """
    largest: Count
    """Largest captured batch size [1]."""
    per_slot: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Limit on the captured batch size, in addition to ``largest``, divided by the maximum number of concurrent
    requests [1]."""


class Admission(Spec):
    """Rule by which an engine admits requests to the KV cache and preempts them when memory runs out."""

    own_answer: Annotated[float, Field(ge=0, le=1)]
    """Share of a request's maximum output that must fit in free cache memory, with its prompt, to admit the request
    [1]."""
    other_answers: Annotated[float, Field(ge=0, le=1)]
    """Share of the remaining output of all running requests that must also fit in free cache memory, to admit a request
    [1]."""
    evicted: Evicted
    """Request that is preempted and recomputed later: the last admitted request, the request with the fewest output
    tokens, or none."""


#: Rule that assigns a new request to an attention-DP group: round robin, or the group with the fewest requests.
Dealing = Literal["round_robin", "least_busy"]
#: Supported sizes of attention-DP groups within an instance: any number of ranks, or single ranks only.
AttentionGroups = Literal["any", "single_ranks"]

Phase = Literal["prefill", "decode", "both"]
#: Formats of activations in an all-to-all.
WireFormat = Literal["bf16", "fp8_g128", "mxfp8", "nvfp4"]
#: Parts of a model that ranks can replicate.
Part = Literal["attention", "embeddings", "lm_head", "router", "dense_layers", "shared_experts", "indexer"]

#: Rows of the operator table for which a file of an engine can state the number of kernels.
KernelPart = Literal[
    "norms", "qkv", "query and key norms", "norms over ranks", "attention", "output gate", "attention output",
    "queries", "latent down", "latent up", "latent attention", "indexer", "index scan", "mixer", "recurrent state",
    "router", "expert tokens in", "experts in", "expert activation", "experts out", "expert tokens out",
    "expert latent", "shared expert in", "shared activation", "shared expert out", "ff in", "activation function",
    "ff out", "output embedding", "sampling", "adapters",
]  # fmt: skip
#: Generations of chips whose kernels for routed experts differ, and sources of such kernels. The sources are Triton,
#: grouped products of CUTLASS, DeepGEMM, the generator of TensorRT-LLM (also used by FlashInfer), and Marlin. Marlin
#: converts weights to a wider format first.
Generation = Literal["hopper", "blackwell"]
ExpertKernelName = Literal["triton", "cutlass", "deepgemm", "trtllm_gen", "marlin"]
#: Facts that the oldest version in a file must contain.
_STATED_FIRST = frozenset(
    {
        "expert_groups", "exchanges", "redundant_experts", "overlap", "decode_context_parallel", "uneven_pipeline",
        "replicated_under_attention_dp", "replicated_on_request", "host_weights",
    }
)  # fmt: skip
#: Facts to which a later version adds entries. If it repeats an entry, the later one is used.
_ADDED = ("kernels", "models")

#: Number of leading parts of a version number that identify a release series [1]. Later releases of a series only fix
#: bugs.
_SERIES = 2

#: Bytes per element in an all-to-all, including scales. fp8_g128 has a 32-bit scale per 128 elements (DeepEP,
#: low-latency messages).
WIRE_BYTES_PER_ELEMENT: Mapping[WireFormat, float] = {
    "bf16": BYTES_PER_ELEMENT["bf16"],
    "fp8_g128": 1.0 + 4 / 128,
    "mxfp8": BYTES_PER_ELEMENT["mxfp8"],
    "nvfp4": BYTES_PER_ELEMENT["nvfp4"],
}


class Exchange(Spec):
    """All-to-all implementation of an engine for experts with data-parallel attention."""

    name: str = Field(min_length=1)
    """Name of the implementation in the engine."""
    phase: Phase
    """Kind of steps that use the implementation."""
    dispatch: dict[Dtype, WireFormat] = Field(default={})
    """Format of dispatched tokens, by weight format of the experts; bf16 for formats not listed."""
    combine: WireFormat
    """Number format of the expert outputs that are combined."""
    copies: Literal["per_expert", "per_rank", "per_domain", "every_rank"]
    """Number of copies of a token that are sent to other ranks.

    With ``per_expert``, one copy is sent for each expert of the token. With ``per_rank``, one copy is sent to each rank
    that has an expert of the token. With ``per_domain``, one copy is sent to each other link domain, and one copy to
    each rank inside a domain. With ``every_rank``, one copy is sent to every rank.
    """
    within_domain: bool = False
    """True if the implementation requires that all ranks share one link domain."""
    default: bool = False
    """True if the engine uses this implementation by default."""
    wide: bool = False
    """True if the engine's documentation recommends this implementation for expert parallelism over several nodes or a
    rack."""


class RedundantExperts(Spec):
    """Copies of frequently selected experts (EPLB)."""

    supported: bool
    """True if the engine can give frequently selected experts additional copies."""
    default: int = Field(ge=0)
    """Default number of redundant experts per layer."""
    recommended: int | None = Field(default=None, gt=0)
    """Redundant experts per layer in the engine's recipe for wide expert parallelism; absent without a recipe."""


class Overlap(Spec):
    """Overlap of communication with computation in an engine."""

    kind: Literal["two_batch", "single_batch"]
    """``two_batch``: the batch is split in two, and communication of one half overlaps with computation of the other.

    ``single_batch``: communication overlaps with other work on the same batch, such as shared experts or the down
    projection.
    """
    phase: Phase
    """Kind of steps in which the overlap is possible."""
    default: bool
    """True if the overlap is on by default."""
    least_tokens: int | None = Field(default=None, gt=0)
    """Minimum number of tokens of a rank for which the engine splits a step; absent without a minimum."""
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Chip generations (:attr:`HardwareSpec.generation`) that support the overlap; all if empty."""
    architectures: tuple[str, ...] = Field(default=(), strict=False)
    """Model architectures (:attr:`ModelSpec.architecture`) that support the overlap; all if empty."""

    def holds(self, architecture: str | None, generation: str, *, prefill: bool) -> bool:
        """True if the overlap is possible in prefill or decode steps of a model on a chip generation."""
        phase = "prefill" if prefill else "decode"
        pairs = ((self.generations, generation), (self.architectures, architecture))
        return self.phase in (phase, "both") and all(not some or value in some for some, value in pairs)


class KernelCount(Spec):
    """Number of sequential kernels that an engine launches for one part of a layer."""

    part: KernelPart
    """Operator of a layer, as named in the operator table."""
    kernels: Annotated[int | float, Field(ge=0, le=1e3, allow_inf_nan=False)]
    """Number of kernels for each execution of the operator, without kernels on parallel streams [1]."""
    formats: tuple[Dtype, ...] = Field(default=(), strict=False)
    """Formats to which the entry applies: weight formats, or cache formats for attention and scans.

    An empty tuple means all formats.
    """
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Chip generations (:attr:`HardwareSpec.generation`) to which the entry applies; empty means all."""
    mixers: tuple[MixerKind, ...] = Field(default=(), strict=False)
    """For norms, kinds of attention or mixer to which the entry applies; empty means all."""
    summed: bool = False
    """True if the entry is only for matrices that are split over all ranks of a stage, with an all-reduce of their
    outputs."""

    def holds(self, part: str, dtype: str, mixer: str, generation: str) -> bool:
        """True if the entry is valid for an operator on a chip generation. The field ``summed`` is not checked."""
        pairs = ((self.formats, family(dtype)), (self.mixers, mixer), (self.generations, generation))
        return part == self.part and all(not some or value in some for some, value in pairs)


class PromptGraphs(Spec):
    """Captured graphs of the operators between attention layers in prefill steps, which engines use by default."""

    most_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the largest step that is captured [tokens]; absent if steps of all sizes are captured."""
    latent_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the largest step that is captured for models with latent attention, if different [tokens]."""
    eager: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Model architectures without captured prefill steps."""

    def tokens(self, read: float, architecture: str | None, *, latent: bool) -> float:
        """Tokens of the largest captured prefill step if the steps of the server have at most ``read`` tokens [tokens].

        The result is 0 if no prefill step of the architecture is captured.
        """
        if architecture in self.eager:
            return 0.0
        most = self.latent_tokens if latent and self.latent_tokens is not None else self.most_tokens
        return read if most is None else float(min(most, read))


class EngineFacts(Spec):
    """Facts of an engine at one version; the default of a field means "unknown"."""

    expert_groups: Literal["dp_x_tp", "any"] = "dp_x_tp"
    """Possible distributions of experts over the ranks of a stage.

    With ``dp_x_tp``, experts are spread over all ranks, and no expert is split. With ``any``, experts may be spread
    over groups of ranks, and split over the ranks of a group.
    """
    inside: Literal["experts", "tensor"] | None = None
    """Ranks that are on adjacent chips if experts are split over groups of ranks; absent if experts are never split.

    Adjacent chips have the ranks of one group (``tensor``), or ranks of different groups (``experts``).
    """
    exchanges: tuple[Exchange, ...] = Field(default=(), strict=False)
    """All-to-all implementations for experts with data-parallel attention."""
    redundant_experts: RedundantExperts = RedundantExperts.model_construct(supported=False, default=0)
    """Support for copies of frequently selected experts."""
    overlap: tuple[Overlap, ...] = Field(default=(), strict=False)
    """Communication that the engine can overlap with computation."""
    decode_context_parallel: Literal["none", "within_tp", "beside_tp"] = "none"
    """Ranks that can split the cached tokens of a sequence in decode.

    The split uses ranks of the tensor-parallel group (``within_tp``), or additional ranks (``beside_tp``).
    """
    uneven_pipeline: Literal["refused", "before_last", "last_stage", "last_stages", "first_stages"] = "refused"
    """Stages that get the remaining layers if the number of stages does not divide the number of layers.

    ``before_last``: one more layer each for the stages before the last one. ``last_stage``: all for the last stage.
    ``last_stages`` or ``first_stages``: one more layer each for the last or the first stages.
    """
    replicated_under_attention_dp: tuple[Part, ...] = Field(default=(), strict=False)
    """Parts of the model that every rank has in full if attention is data-parallel over single ranks."""
    replicated_on_request: tuple[Part, ...] = Field(default=(), strict=False)
    """Further parts that every rank has in full with certain options, or in wide expert parallelism."""
    host_weights: Literal["none", "in_step", "prefetched"] = "none"
    """Time at which weights in host memory are read: when needed (``in_step``), or in advance (``prefetched``)."""
    kernels: tuple[KernelCount, ...] = Field(default=(), strict=False)
    """Kernels of a decode step by part of the model.

    The last matching entry applies. Parts without an entry have the number of kernels in the operator table. A version
    adds its entries to those of earlier versions.
    """
    prompt_graphs: PromptGraphs | None = None
    """Prefill steps that are captured by default; absent if the host launches all kernels of prefill steps."""
    expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of routed experts that the engine or its recipes select, by chip generation and weight format.

    The mapping is empty if the kernels are unknown.
    """
    exchanged_expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of routed experts with data-parallel attention, for formats where they differ from ``expert_kernels``."""
    chips: tuple[ChipSupport, ...] = Field(default=(), strict=False)
    """Chips that run the engine, with the supported formats. Unverified chips are omitted."""
    beside_mxfp4: Dtype | None = None
    """Format of all weights except experts, in the engine's checkpoints of models with MXFP4 experts.

    The field is absent if these weights have the format of the published checkpoint.
    """
    models: tuple[ModelSupport, ...] = Field(default=(), strict=False)
    """Supported architectures among the models of the catalog.

    A version adds its entries to those of earlier versions; the last entry of an architecture applies.
    """
    attention_groups: AttentionGroups = "any"
    """Size of attention-DP groups within an instance: any number of ranks, or single ranks."""
    stages_over: Literal["nodes"] | None = None
    """``nodes`` if the documentation recommends one pipeline stage per node, with tensor parallelism inside each stage.

    The field is absent if the documentation recommends no number of stages.
    """
    defaults: tuple[EngineDefaults, ...] = Field(default=(), strict=False)
    """Default settings of the server. The first entry whose memory limit the chip meets applies."""
    memory: EngineMemory | None = None
    """Memory that the engine reserves in addition to weights and KV cache; absent if unknown."""
    captured: CapturedSizes | None = None
    """Batch sizes of decode steps for which graphs are captured; absent if unknown."""
    connectors: tuple[str, ...] = Field(default=(), strict=False)
    """KV-cache connectors for disaggregated serving, named as in the options; the default or most common one first."""
    speculation: tuple[ProposerName, ...] = Field(default=(), strict=False)
    """Speculation methods that work with any model; see also :attr:`ModelSupport.speculation`."""
    async_scheduling: bool | None = None
    """True if the host prepares the next step while the current one runs, by default; absent if unknown."""
    async_drafts: bool | None = None
    """True if the host also prepares steps with draft heads ahead, by default; absent if unknown."""
    shared_expert_fusion: bool | None = None
    """True if shared experts run as additional routed experts by default; absent if unknown."""
    admission: Admission | None = None
    """Admission and preemption rule; absent if unknown."""
    dealing: Dealing | None = None
    """Default assignment of requests to attention-DP groups; absent if unknown."""
    decoding_in_step_tokens: bool | None = None
    """True if the limit on the tokens of a step includes decode tokens; absent if unknown."""

    held_steps: int | None = Field(default=None, gt=0)
    """Maximum number of decode steps for which prefill waits until each attention-DP group has a prompt [1].

    The value is the default of the engine's option; absent if the engine cannot delay prefill.
    """

    @property
    def keeps_caches(self) -> bool:
        """True if the engine is known to have no KV-cache transfer.

        Without KV-cache transfer, an engine cannot run disaggregated pools.
        """
        return "connectors" in self.model_fields_set and not self.connectors

    def support(self, architecture: str | None, generation: str) -> ModelSupport | None:
        """Support for a model architecture on a chip generation; None if the engine lacks support."""
        for entry in reversed(self.models):
            if architecture in entry.architectures:
                return entry if not entry.generations or generation in entry.generations else None
        return None

    def defaults_on(self, memory: float) -> EngineDefaults | None:
        """Default settings of the server on a chip with a given memory [B]; None if unknown."""
        return next((entry for entry in self.defaults if memory >= (entry.least_memory or 0.0)), None)

    def kernels_on(self, generation: str) -> ChipSupport | None:
        """Supported number formats on a chip generation; None if the engine does not run there."""
        return next((chip for chip in self.chips if generation in chip.generations), None)

    def _check_fields(self) -> None:
        if (self.expert_groups == "any") != (self.inside is not None):
            raise ValueError(
                "inside says how groups lie where experts are cut as well: "
                "it belongs to 'expert_groups: any', and only there"
            )


class EngineVersion(EngineFacts):
    """Facts of an engine at one version.

    For each version, the file of an engine only states facts that differ from the previous version.
    """

    version: str = Field(pattern=r"\d")
    """Version number, or the month of a description if the system has no versions."""
    date: Period | None = None
    """Release date; absent if unknown."""

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the facts that this version sets."""
        return tuple(name for name in EngineFacts.fields if name in self.model_fields_set)


class EngineSpec(SourcedSpec):
    """Serving engine with its versions, the oldest first. The file states all facts for the oldest version.

    Every fact has its own source, under the key ``versions.N.FIELD``.
    """

    versions: tuple[EngineVersion, ...] = Field(min_length=1, strict=False)
    """Known versions with their facts, the oldest first."""

    def _check_fields(self) -> None:
        missing = _STATED_FIRST - set(self.versions[0].stated)
        if missing:
            raise ValueError(f"the first version states everything; missing: {', '.join(sorted(missing))}")
        numbers = [version.version for version in self.versions]
        if [version_order(number) for number in numbers] != sorted({version_order(number) for number in numbers}):
            raise ValueError(f"versions go from the oldest to the newest, each once; got {', '.join(numbers)}")
        for _, problem in _unsourced(self.model_dump(exclude_none=True, exclude_unset=True)):
            raise SourceError(problem)
        for number in numbers:
            self.at(number)._check_fields()

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        return [*super()._further_mistakes(data), *_unsourced({key: _plain_base(value) for key, value in data.items()})]

    def at(self, version: str | None = None) -> EngineVersion:
        """All facts of the engine at a version.

        Parameters
        ----------
        version : str, optional
            ``0.11.0``; by default, the newest version. A version between two recorded versions has the facts of the
            older version.

        Raises
        ------
        InputError
            If the text is not a version, is older than all known versions, or belongs to a later release series.

        Examples
        --------
        >>> from inference_econ.inputs import catalog
        >>> catalog.engine("vllm").at("0.10.1").decode_context_parallel
        'none'
        """
        newest = self.versions[-1].version if version is None else version
        self.check(newest)
        past = [entry for entry in self.versions if version_order(entry.version) <= version_order(newest)]
        if not past:
            first = self.versions[0]
            raise InputError(
                f"{self.name} {newest}: nothing is known of versions before {first.version}; "
                f"known: {', '.join(entry.version for entry in self.versions)}"
            )
        stated = {name: getattr(entry, name) for entry in past for name in entry.stated}
        stated |= {name: tuple(fact for entry in past for fact in getattr(entry, name)) for name in _ADDED}
        # The facts of each version are valid, and `_check_fields` checks their combinations.
        return EngineVersion.model_construct(version=past[-1].version, date=past[-1].date, **stated)

    def check(self, version: str) -> None:
        """Reject invalid versions, and versions of a later release series than all known ones.

        Raises
        ------
        InputError
            If the version is rejected, for example ``0.34`` if the newest known one is ``0.33``. The message names the
            newest one.
        """
        newest = self.versions[-1]
        if not re.match(r"[a-z]?\d", version):
            raise InputError(f"{self.name}: {version!r} is not a version; write for example {newest.version}")
        if version_order(version)[:_SERIES] > version_order(newest.version)[:_SERIES]:
            of = f" ({newest.date})" if newest.date else ""
            raise InputError(
                f"{self.name} {version}: nothing is known of versions after {newest.version}{of}; leave the "
                "version out for what holds there"
            )

    def on(self, day: date) -> EngineVersion:
        """All facts of the engine on a date.

        Parameters
        ----------
        day : date
            Date. The newest version that was released by this date applies. A version that is dated only by month is
            assumed to be released on the first day.

        Raises
        ------
        InputError
            If all versions are newer.

        Examples
        --------
        >>> from datetime import date
        >>> from inference_econ.inputs import catalog
        >>> catalog.engine("vllm").on(date(2025, 9, 30)).version
        '0.10.2'
        """
        out = [entry.version for entry in self.versions if entry.date is not None and entry.date <= day.isoformat()]
        if not out:
            first = self.versions[0]
            raise InputError(
                f"{self.name} of {day}: nothing is known of versions before {first.version} ({first.date})"
            )
        return self.at(out[-1])


def version_order(version: str) -> tuple[int, ...]:
    """Sort key of a version. ``0.4.6.post5`` comes after ``0.4.6``; a release candidate has the key of its release.

    Versions that differ only by zeros at the end are the same: ``0.10`` and ``0.10.0``.
    """
    final = re.split(r"\.?(?:rc|dev|a\d|b\d)", version, maxsplit=1)[0]
    return tuple(map(integer, re.findall(r"[0-9]+", re.sub(r"(\.0+)+$", "", final))))


def _unsourced(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Location and error message of each fact of a version that has no source."""
    versions, sources = data.get("versions"), data.get("sources")
    if not isinstance(versions, (list, tuple)) or not isinstance(sources, Mapping):
        return
    for index, version in enumerate(versions):
        for name in version if isinstance(version, Mapping) else ():
            path = f"versions.{index}.{name}"
            if name in EngineFacts.fields and path not in sources:
                problem = f"{path} has no source; add '{path}: {{ref: ..., where: ..., kind: ...}}' to sources"
                yield ("versions", index, str(name)), problem


def divided(
    facts: EngineFacts, hardware: HardwareSpec, *, step_tokens: float, slots: float | None, share: float | None
) -> dict[str, float | None]:
    """Memory settings of a server as assumptions, given its largest step, maximum concurrency and memory share.

    Parameters
    ----------
    facts : EngineFacts
        Facts of an engine version.
    hardware : HardwareSpec
        Chip whose memory the server uses.
    step_tokens : float
        Tokens of the largest step [tokens].
    slots : float or None
        Maximum concurrent requests [1].
    share : float or None
        Share of the memory that the server may use [1]; None to compute it by the rule of the engine.

    Returns
    -------
    dict of str to float
        Values of assumptions by dotted field name; empty if the memory use of the engine is unknown.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> facts, chip = catalog.engine("vllm").at(), catalog.hardware("h100_sxm")
    >>> assumed = divided(facts, chip, step_tokens=8192, slots=1024, share=0.92)
    >>> assumed["capacity.usable_memory"], assumed["capacity.workspace_tokens"]
    (0.92, 8192)
    """
    kept = facts.memory
    if kept is None:
        return {}
    if share is None:
        left = (kept.outside or 0.0) + (kept.outside_per_token or 0.0) * step_tokens
        share = max(1.0 - left / hardware.hbm_bytes, 0.0)
    return {
        "capacity.usable_memory": share,
        "capacity.workspace_tokens": step_tokens if kept.step_inside else 0,
        "capacity.sampled_logits": kept.logit_copies * (slots or 0.0) if kept.step_inside else 0,
        "capacity.reserved_bytes": kept.reserved + (kept.graphs or 0.0),
        "capacity.communication_bytes": kept.communication,
        "capacity.compressed_padding": kept.compressed_padding,
        "capacity.state_pages": kept.state_pages,
        "capacity.states_held": kept.states_held,
        "capacity.state_share": kept.state_share,
        "capacity.profiled_images": kept.step_inside and kept.profiled_images,
    }


def with_engine(
    assumptions: Assumptions, facts: EngineFacts, hardware: HardwareSpec, fixed: Collection[str] = ()
) -> Assumptions:
    """Assumptions with the settings of a server that is started without options.

    The default step size, concurrency and memory share of the engine are used (:func:`divided`), and its captured
    prefill steps. Fields in ``fixed`` are not changed. If the engine's defaults are unknown, its memory is not changed.
    """
    settings: dict[str, Any] = {"host.captured_tokens": None} if assumptions.host.captured_tokens else {}
    usual = facts.defaults_on(hardware.hbm_bytes)
    if usual is not None:
        step, slots, share = usual.step_tokens, usual.slots, usual.memory_fraction
        settings |= divided(facts, hardware, step_tokens=step, slots=slots, share=share)
    return assumptions.changed({name: value for name, value in settings.items() if name not in fixed})
