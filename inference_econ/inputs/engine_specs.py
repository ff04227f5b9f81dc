"""Facts that decide whether an engine can start a deployment, and its defaults."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from inference_econ.errors import InputError
from inference_econ.inputs._spec import (
    Bytes,
    Count,
    Dtype,
    Formats,
    Fraction,
    Names,
    SourcedSpec,
    Spec,
    _plain_base,
)
from inference_econ.inputs._yaml import Location
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, family
from inference_econ.inputs.layers import MixerKind
from inference_econ.inputs.scenario_kinds import ProposerName

if TYPE_CHECKING:
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.presets.assumptions import Assumptions

#: Request that is preempted when memory runs out.
Evicted = Literal["last", "fewest_tokens", "nobody"]


class ChipSupport(Spec):
    """Number formats that an engine has kernels for on some generations of chips."""

    generations: Names
    """Chip generations: :attr:`HardwareSpec.generation`."""
    weights: Formats
    """Supported weight formats, including those that are widened first."""
    kv: Formats
    """Supported KV-cache formats."""


class ModelSupport(Spec):
    """Features of an engine for some architectures of its model registry."""

    architectures: Names
    """Architectures as in ``architectures`` of a Hugging Face ``config.json``."""
    attention_dp: bool = False
    """True if an instance can have attention-DP groups; otherwise data parallelism means replicas."""
    pipeline: bool = False
    """True if layers can be split into pipeline stages."""
    lora: bool = False
    """True if LoRA adapters can be served."""
    speculation: Annotated[tuple[ProposerName, ...], Field(strict=False)] = ()
    """Speculation heads that it can run for the model."""
    generations: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Chip generations with this support; all if empty."""


class EngineDefaults(Spec):
    """Defaults of an engine's server on chips with a given memory."""

    least_memory: Bytes | None = None
    """Minimum memory of the chips [B]; all chips if absent."""
    step_tokens: Count
    """Maximum tokens of a step over all sequences [tokens]."""
    slots: Count | None = None
    """Maximum concurrent requests [1]; limited only by memory if absent."""
    memory_fraction: Fraction | None = None
    """Share of the memory for weights and cache [1]; computed from the other settings if absent."""
    block_tokens: Count
    """Tokens per block of the KV cache [tokens]."""


class EngineMemory(Spec):
    """Memory that an engine reserves in addition to weights and cache, and the part that counts against its share."""

    reserved: Bytes
    """Memory of each accelerator outside the framework's allocator: driver context, libraries, workspaces [B]."""
    communication: Bytes
    """Additional communication buffers with several ranks [B]."""
    graphs: Bytes | None = None
    """Captured graphs that count against the share; absent if they do not [B]."""
    step_inside: bool
    """Whether activations of the largest step, as a profile run measures them, count against the share."""
    logit_copies: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Copies of the 32-bit logits of all slots while sampling in the profile run [1]."""
    state_pages: bool = False
    """True if recurrent states are stored in pages of the cache, so that a page is as large as a state."""
    states_held: Count = 1
    """Default maximum number of states of each recurrent layer per request [1]."""
    state_share: Fraction | None = None
    """Share of the memory for cache that is reserved for recurrent states [1]; absent if states and keys share it."""
    profiled_images: bool = False
    """True if the profile run includes images: the number of the largest ones that fit the largest step, at least one.
    """
    compressed_padding: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Allocated over used pages of compressed caches [1]."""
    outside: Bytes | None = None
    """Memory left free for graphs and other small allocations if no share is given [B]."""
    outside_per_token: Bytes | None = None
    """Additional memory per token of the largest step [B]."""


class CapturedSizes(Spec):
    """Batches of decode steps with captured graphs; other batches are padded to the next size."""

    smallest: tuple[int, ...] = Field(strict=False)
    """First sizes [1]."""
    steps: tuple[Annotated[tuple[int, int], Field(strict=False)], ...] = Field(strict=False)
    """(from, every): multiples from there on, up to the next pair or the largest [1]."""
    largest: Count
    """Largest captured batch [1]."""
    per_slot: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Largest size per slot, if that is less [1]."""

    def sizes(self, slots: int) -> tuple[int, ...]:
        """Captured batches of a server with a given number of slots [1].

        Examples
        --------
        >>> CapturedSizes(smallest=(1, 2, 4), steps=((8, 8), (32, 16)), largest=64).sizes(50)
        (1, 2, 4, 8, 16, 24, 32, 48)
        """
        most = int(min(self.largest, slots * self.per_slot))
        ends = (*(start for start, _ in self.steps), self.largest + 1)[1:]
        ranges = (range(start, end, every) for (start, every), end in zip(self.steps, ends, strict=False))
        return tuple(size for some in (self.smallest, *ranges) for size in some if size <= most)


class Admission(Spec):
    """Rule by which an engine admits requests to its KV cache, and preempts them when memory runs out."""

    own_answer: Annotated[float, Field(ge=0, le=1)]
    """Share of a request's maximum output that must be free in addition to its prompt [1]."""
    other_answers: Annotated[float, Field(ge=0, le=1)]
    """Share of the remaining output of all running requests that stays reserved [1]."""
    evicted: Evicted
    """Preempted request, which is recomputed later: the one admitted last, the one with the fewest output tokens, or
    none."""


#: Attention-DP group of a new request: round robin, or the group with the fewest requests.
Dealing = Literal["round_robin", "least_busy"]
#: Attention-DP groups within an instance: of any size, or single ranks only.
AttentionGroups = Literal["any", "single_ranks"]

Phase = Literal["prefill", "decode", "both"]
#: Formats of activations in the all-to-all.
WireFormat = Literal["bf16", "fp8_g128", "mxfp8", "nvfp4"]
#: Parts of a model that can be replicated on ranks.
Part = Literal["attention", "embeddings", "lm_head", "router", "dense_layers", "shared_experts", "indexer"]

#: Rows of the operator table for which an engine may have other kernel counts.
KernelPart = Literal[
    "norms", "qkv", "query and key norms", "norms over ranks", "attention", "output gate", "attention output",
    "queries", "latent down", "latent up", "latent attention", "indexer", "index scan", "mixer", "recurrent state",
    "router", "expert tokens in", "experts in", "expert activation", "experts out", "expert tokens out",
    "expert latent", "shared expert in", "shared activation", "shared expert out", "ff in", "activation function",
    "ff out", "output embedding", "sampling", "adapters",
]  # fmt: skip
#: Chip generations by which engines pick kernels, and kernels of routed experts: compiled by Triton, grouped products
#: of CUTLASS, DeepGEMM, kernels generated by TensorRT-LLM (also used by FlashInfer), and Marlin, which widens weights
#: first.
Generation = Literal["hopper", "blackwell"]
ExpertKernelName = Literal["triton", "cutlass", "deepgemm", "trtllm_gen", "marlin"]
#: Facts that the first version of a file must contain.
_STATED_FIRST = frozenset(
    {
        "expert_groups", "exchanges", "redundant_experts", "overlap", "decode_context_parallel", "uneven_pipeline",
        "replicated_under_attention_dp", "replicated_on_request", "host_weights",
    }
)  # fmt: skip
#: Facts to which later versions add entries; repeated entries replace earlier ones.
_ADDED = ("kernels", "models")

#: Leading numbers of a version that identify a release series; later releases in a series are fixes [1].
_SERIES = 2

#: Bytes per element in the all-to-all, including scales: 32 bits per 128 elements (fp8_g128: DeepEP, low-latency
#: messages), or as stored.
WIRE_BYTES_PER_ELEMENT: Mapping[WireFormat, float] = {
    "bf16": BYTES_PER_ELEMENT["bf16"],
    "fp8_g128": 1.0 + 4 / 128,
    "mxfp8": BYTES_PER_ELEMENT["mxfp8"],
    "nvfp4": BYTES_PER_ELEMENT["nvfp4"],
}


class Exchange(Spec):
    """One all-to-all implementation for experts with data-parallel attention."""

    name: str = Field(min_length=1)
    """Name in the engine."""
    phase: Phase
    """Steps that it is intended for."""
    dispatch: dict[Dtype, WireFormat] = Field(default={})
    """Format of the dispatch, by the format of the experts' weights; bf16 for formats not listed."""
    combine: WireFormat
    """Format of the combine."""
    copies: Literal["per_expert", "per_rank", "per_domain", "every_rank"]
    """Copies of a token that leave its rank: one per expert; one per rank, or per link domain, with some of its experts
    (within the domain one per rank again); or one to every rank."""
    within_domain: bool = False
    """True if it requires that all ranks share one link domain."""
    default: bool = False
    """True if it is the default where it is possible."""
    wide: bool = False
    """Whether the engine's documentation uses it for expert parallelism over several nodes, or over a rack."""

    def dispatched(self, weights: Dtype) -> WireFormat:
        """Format of tokens that are dispatched to experts with ``weights``."""
        return self.dispatch.get(family(weights), "bf16")


class RedundantExperts(Spec):
    """Copies of frequently chosen experts (EPLB)."""

    supported: bool
    """Whether experts can have copies, placed by their load."""
    default: int = Field(ge=0)
    """Default number of redundant experts per layer."""
    recommended: int | None = Field(default=None, gt=0)
    """Redundant experts per layer in the engine's recipe for wide expert parallelism; absent without a recipe."""


class Overlap(Spec):
    """Communication that overlaps with computation."""

    kind: Literal["two_batch", "single_batch"]
    """Overlap with the other half of the batch, or with other work on the same batch (shared experts, the down
    projection)."""
    phase: Phase
    """Steps in which it works."""
    default: bool
    """Whether it is on by default."""
    least_tokens: int | None = Field(default=None, gt=0)
    """Tokens of a rank below which the step is not split; absent without such a rule."""
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Chip generations (:attr:`HardwareSpec.generation`) that support it; all if empty."""
    architectures: tuple[str, ...] = Field(default=(), strict=False)
    """Models (:attr:`ModelSpec.architecture`) that support it; all if empty."""

    def holds(self, architecture: str | None, generation: str, *, prefill: bool) -> bool:
        """Whether it applies to steps of a phase, with a model on a chip generation."""
        phase = "prefill" if prefill else "decode"
        pairs = ((self.generations, generation), (self.architectures, architecture))
        return self.phase in (phase, "both") and all(not some or value in some for some, value in pairs)


class KernelCount(Spec):
    """Number of sequential kernels that an engine launches for a part of a layer."""

    part: KernelPart
    """Row of the operator table."""
    kernels: Annotated[int | float, Field(ge=0, le=1e3, allow_inf_nan=False)]
    """Kernels per occurrence, without those on parallel streams [1]."""
    formats: tuple[Dtype, ...] = Field(default=(), strict=False)
    """Weight formats, or for attention and scans cache formats, that it applies to; all if empty."""
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Chip generations (:attr:`HardwareSpec.generation`) that it applies to; all if empty."""
    mixers: tuple[MixerKind, ...] = Field(default=(), strict=False)
    """For norms: kinds of attention or mixer in the layers that it applies to; all if empty."""
    summed: bool = False
    """True if it applies only where all ranks of a stage share each matrix, so that an all-reduce follows."""

    def holds(self, part: str, dtype: str, mixer: str, generation: str) -> bool:
        """Whether it applies to a row of the operator table on a chip, apart from ``summed``."""
        pairs = ((self.formats, family(dtype)), (self.mixers, mixer), (self.generations, generation))
        return part == self.part and all(not some or value in some for some, value in pairs)


class PromptGraphs(Spec):
    """Prefill steps that an engine captures piecewise, between the attention of layers, by default."""

    most_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the largest captured step; without it, the maximum step [tokens]."""
    latent_tokens: int | None = Field(default=None, gt=0)
    """The same for models with latent attention, if different [tokens]."""

    def tokens(self, read: float, *, latent: bool) -> float:
        """Tokens of the largest captured prefill step if steps have at most ``read`` tokens [tokens]."""
        most = self.latent_tokens if latent and self.latent_tokens is not None else self.most_tokens
        return read if most is None else float(min(most, read))


class EngineFacts(Spec):
    """Facts of an engine; defaults of the fields mean "unknown"."""

    expert_groups: Literal["dp_x_tp", "any"] = "dp_x_tp"
    """``dp_x_tp``: experts are spread over all ranks of a stage. ``any``: over a part of them, with each expert split
    over the rest."""
    inside: Literal["experts", "tensor"] | None = None
    """Group with adjacent ranks if experts are both spread and split: the expert-parallel group, or the ranks that
    share an expert. Absent if experts are never split."""
    exchanges: tuple[Exchange, ...] = Field(default=(), strict=False)
    """All-to-all implementations for data-parallel attention."""
    redundant_experts: RedundantExperts = RedundantExperts(supported=False, default=0)
    """Copies of frequently chosen experts."""
    overlap: tuple[Overlap, ...] = Field(default=(), strict=False)
    """Communication that can overlap with computation."""
    decode_context_parallel: Literal["none", "within_tp", "beside_tp"] = "none"
    """Ranks that can split the cached tokens of a sequence in decode: those of the tensor-parallel group, or additional
    ones."""
    uneven_pipeline: Literal["refused", "before_last", "last_stage", "last_stages", "first_stages"] = "refused"
    """Placement of the layers that remain if stages do not divide them: one each before the last stage; all in the
    last; one each in the last ones; or one each in the first ones."""
    replicated_under_attention_dp: tuple[Part, ...] = Field(default=(), strict=False)
    """Parts that every rank replicates if attention is data-parallel over single ranks."""
    replicated_on_request: tuple[Part, ...] = Field(default=(), strict=False)
    """Further parts that options, or the all-to-all of wide expert parallelism, replicate on every rank."""
    host_weights: Literal["none", "in_step", "prefetched"] = "none"
    """Weights in host memory: read when needed, or prefetched during other layers."""
    kernels: tuple[KernelCount, ...] = Field(default=(), strict=False)
    """Kernels of a decode step by part; the last matching entry applies. Parts not listed have the counts of the
    operator table. Entries of a version are added after those of earlier versions."""
    prompt_graphs: PromptGraphs | None = None
    """Prefill steps that are captured by default; absent if the host launches all of their kernels."""
    expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of routed experts that it selects, or that its recipes set, by chip generation and weight format; empty
    if unknown."""
    exchanged_expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of routed experts with data-parallel attention, for formats with other kernels in that case."""
    chips: tuple[ChipSupport, ...] = Field(default=(), strict=False)
    """Chips that it runs on, with the supported formats; unverified ones are omitted."""
    models: tuple[ModelSupport, ...] = Field(default=(), strict=False)
    """Supported architectures among the shipped models. Entries of a version are added to those of earlier versions;
    the last entry of an architecture applies."""
    attention_groups: AttentionGroups = "any"
    """Size of attention-DP groups within an instance: any number of ranks, or single ranks."""
    stages_over: Literal["nodes"] | None = None
    """Pipeline stages that its documentation recommends, with tensor parallelism inside each; absent without a
    recommendation."""
    defaults: tuple[EngineDefaults, ...] = Field(default=(), strict=False)
    """Defaults of its server; the first entry that the memory of a chip allows applies."""
    memory: EngineMemory | None = None
    """Memory that it reserves in addition to weights and cache; absent if unknown."""
    captured: CapturedSizes | None = None
    """Batches whose decode steps are captured as graphs; absent if unknown."""
    connectors: tuple[str, ...] = Field(default=(), strict=False)
    """KV-cache connectors from prefill to decode instances, as options name them, the default or most common first."""
    speculation: tuple[ProposerName, ...] = Field(default=(), strict=False)
    """Speculation methods for any model, in addition to :attr:`ModelSupport.speculation`."""
    async_scheduling: bool | None = None
    """Whether the next step is prepared during the current one by default; absent if unknown."""
    shared_expert_fusion: bool | None = None
    """Whether shared experts are computed as additional routed ones by default."""
    admission: Admission | None = None
    """Admission and preemption rule; absent if unknown."""
    dealing: Dealing | None = None
    """Default assignment of requests to attention-DP groups; absent if unknown."""
    decoding_in_step_tokens: bool | None = None
    """Whether decode tokens count against the option for the maximum tokens of a step; absent if unknown."""

    held_steps: int | None = Field(default=None, gt=0)
    """Maximum decode steps by which it can delay a prefill until each attention-DP group has a prompt; the default of
    the option once it is on, absent without such an option [1]."""

    @property
    def keeps_caches(self) -> bool:
        """Whether it is known to lack KV-cache transfer, so that it cannot run disaggregated pools."""
        return "connectors" in self.model_fields_set and not self.connectors

    def support(self, architecture: str | None, generation: str) -> ModelSupport | None:
        """Support of a model on a chip generation; None if it is not supported."""
        for entry in reversed(self.models):
            if architecture in entry.architectures:
                return entry if not entry.generations or generation in entry.generations else None
        return None

    def defaults_on(self, memory: float) -> EngineDefaults | None:
        """Defaults of its server on a chip with a given memory [B]; None if unknown."""
        return next((entry for entry in self.defaults if memory >= (entry.least_memory or 0.0)), None)

    def kernels_on(self, generation: str) -> ChipSupport | None:
        """Supported formats on a chip generation; None if it does not run there."""
        return next((chip for chip in self.chips if generation in chip.generations), None)

    def _check_fields(self) -> None:
        if (self.expert_groups == "any") != (self.inside is not None):
            raise ValueError(
                "inside says how groups lie where experts are cut as well: "
                "it belongs to 'expert_groups: any', and only there"
            )

    def exchange(self, phase: Literal["prefill", "decode"], *, wide: bool, one_domain: bool = False) -> Exchange:
        """All-to-all implementation of a phase: that of wide expert parallelism, or the default.

        Parameters
        ----------
        phase : str
            ``prefill`` or ``decode``.
        wide : bool
            Whether the engine's recipe for wide expert parallelism is used.
        one_domain : bool, optional
            Whether all ranks share one link domain. Implementations that require this are then preferred.

        Raises
        ------
        InputError
            If the engine has none.
        """
        possible = [
            exchange
            for exchange in self.exchanges
            if exchange.phase in (phase, "both") and (one_domain or not exchange.within_domain)
        ]
        possible.sort(key=lambda exchange: not exchange.within_domain)
        chosen = [exchange for exchange in possible if (exchange.wide if wide else exchange.default)]
        if not chosen:
            names = ", ".join(exchange.name for exchange in self.exchanges) or "none"
            kind = "for wide groups" if wide else "by default"
            raise InputError(f"no exchange of tokens {kind} in {phase}; the engine has: {names}")
        return chosen[0]


class EngineVersion(EngineFacts):
    """Facts that a version changes; absent facts are those of the version before."""

    version: str = Field(pattern=r"\d")
    """Version number, or the month in which a system was described."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """Release date; absent if unknown."""

    @property
    def stated(self) -> tuple[str, ...]:
        """Facts that this version states itself."""
        return tuple(name for name in EngineFacts.model_fields if name in self.model_fields_set)


class EngineSpec(SourcedSpec):
    """A serving engine with its versions from the oldest on; the first one contains all facts.

    Every fact has its own source: ``versions.N.FIELD``.
    """

    versions: tuple[EngineVersion, ...] = Field(min_length=1, strict=False)
    """Facts by version, as far as known."""

    def _check_fields(self) -> None:
        missing = _STATED_FIRST - set(self.versions[0].stated)
        if missing:
            raise ValueError(f"the first version states everything; missing: {', '.join(sorted(missing))}")
        numbers = [version.version for version in self.versions]
        if [version_order(number) for number in numbers] != sorted({version_order(number) for number in numbers}):
            raise ValueError(f"versions go from the oldest to the newest, each once; got {', '.join(numbers)}")
        for _, problem in _unsourced(self.model_dump(exclude_none=True, exclude_unset=True)):
            raise PydanticCustomError("sources", "{problem}", {"problem": problem})

    @classmethod
    def _further_mistakes(cls, data: Mapping[str, Any]) -> list[tuple[Location, str]]:
        return [*super()._further_mistakes(data), *_unsourced({key: _plain_base(value) for key, value in data.items()})]

    def at(self, version: str | None = None) -> EngineVersion:
        """All facts of a version.

        Parameters
        ----------
        version : str, optional
            ``0.11.0``; a version between two of the file has the facts of the older one. By default the newest.

        Raises
        ------
        InputError
            If it is not a version, is older than all known ones, or belongs to a later series.

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
        return EngineVersion(version=past[-1].version, date=past[-1].date, **stated)

    def check(self, version: str) -> None:
        """Reject invalid versions, and versions of a later series than all known ones (``0.34`` after ``0.33``).

        Raises
        ------
        InputError
            Names the newest known version.
        """
        newest = self.versions[-1]
        if not re.search(r"\d", version):
            raise InputError(f"{self.name}: {version!r} is no version; write for example {newest.version}")
        if version_order(version)[:_SERIES] > version_order(newest.version)[:_SERIES]:
            of = f" ({newest.date})" if newest.date else ""
            raise InputError(
                f"{self.name} {version}: nothing is known of versions after {newest.version}{of}; leave the "
                "version out for what holds there"
            )

    def on(self, day: date) -> EngineVersion:
        """All facts of the newest version on a date.

        Parameters
        ----------
        day : date
            Versions released until then are included; those with only a month, from its first day on.

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
    """Sort key of a version: ``0.4.6.post5`` is after ``0.4.6``, and a release candidate equals its release."""
    final = re.split(r"\.?(?:rc|dev|a\d|b\d)", version, maxsplit=1)[0]
    return tuple(int(number) for number in re.findall(r"\d+", final))


def _unsourced(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Facts of versions without a source."""
    versions, sources = data.get("versions"), data.get("sources")
    if not isinstance(versions, (list, tuple)) or not isinstance(sources, Mapping):
        return
    for index, version in enumerate(versions):
        for name in version if isinstance(version, Mapping) else ():
            path = f"versions.{index}.{name}"
            if name in EngineFacts.model_fields and path not in sources:
                problem = f"{path} has no source; add '{path}: {{ref: ..., where: ..., kind: ...}}' to sources"
                yield ("versions", index, str(name)), problem


def divided(
    facts: EngineFacts, hardware: HardwareSpec, *, step_tokens: float, slots: float | None, share: float | None
) -> dict[str, float]:
    """Capacity assumptions for a server with a given largest step, slots and share of the memory.

    Parameters
    ----------
    facts : EngineFacts
        Facts of an engine version.
    hardware : HardwareSpec
        Chip with the memory.
    step_tokens : float
        Tokens of the largest step [tokens].
    slots : float or None
        Maximum concurrent requests [1].
    share : float or None
        Share of the memory that it may use [1]; by default from the engine's rule.

    Returns
    -------
    dict of str to float
        Values by dotted name; empty if the engine's memory is unknown.

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
    """Assumptions for a server started without options, in which the engine divides the memory.

    ``fixed`` fields are not changed, and none are if the engine's defaults are unknown.
    """
    usual = facts.defaults_on(hardware.hbm_bytes)
    if usual is None:
        return assumptions
    capacity = divided(facts, hardware, step_tokens=usual.step_tokens, slots=usual.slots, share=usual.memory_fraction)
    return assumptions.changed({name: value for name, value in capacity.items() if name not in fixed})
