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

#: Who leaves when memory runs out.
Evicted = Literal["last", "fewest_tokens", "nobody"]


class ChipSupport(Spec):
    """Number formats that an engine has kernels for on some generations of chips."""

    generations: Names
    """Of chips: :attr:`HardwareSpec.generation`."""
    weights: Formats
    """Formats of weights that can be multiplied, widened on the way or not."""
    kv: Formats
    """Formats of the cache."""


class ModelSupport(Spec):
    """Abilities of an engine with some architectures of its model registry."""

    architectures: Names
    """As ``architectures`` of a Hugging Face ``config.json`` names them."""
    attention_dp: bool = False
    """Groups of ranks of one instance can attend to sequences of their own; otherwise data parallelism is replicas."""
    pipeline: bool = False
    """Layers can be cut into stages."""
    lora: bool = False
    """Adapters can be served beside it."""
    speculation: Annotated[tuple[ProposerName, ...], Field(strict=False)] = ()
    """Draft heads that it can run for the model."""
    generations: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Only on these generations of chips; on all of the engine without."""


class EngineDefaults(Spec):
    """Defaults of an engine's server, on chips of some size."""

    least_memory: Bytes | None = None
    """Only on chips with at least so much memory [B]; on all without."""
    step_tokens: Count
    """Tokens of one step, all sequences together [tokens]."""
    slots: Count | None = None
    """Requests that are under way together [1]; as many as fit without."""
    memory_fraction: Fraction | None = None
    """Share of the memory that weights and cache may take [1]; reckoned from everything else without."""
    block_tokens: Count
    """Tokens of a block of the cache [tokens]."""


class EngineMemory(Spec):
    """Memory that an engine sets aside beside weights and cache, and how much of it counts against its share."""

    reserved: Bytes
    """Of each accelerator, outside of the framework's allocator: the driver's context, libraries, workspaces [B]."""
    communication: Bytes
    """Further, where several ranks exchange what they compute: buffers of collectives [B]."""
    graphs: Bytes | None = None
    """Captured graphs that count against the share; absent where they lie outside of it [B]."""
    step_inside: bool
    """Activations of the largest step count against the share, as a profile run finds them; or lie outside of it."""
    logit_copies: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Times that sampling in the profile run holds the logits of all slots, in 32 bits [1]."""
    state_pages: bool = False
    """States of recurrent layers lie in pages of the cache, so that its pages are as wide as a state."""
    states_held: Count = 1
    """States of each recurrent layer that a request may hold at once, where nothing is told [1]."""
    profiled_images: bool = False
    """Its profile run reads images too: as many of the largest as fit the largest step, and one at least."""
    compressed_padding: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Pages of compressed caches over what they hold [1]."""
    outside: Bytes | None = None
    """Where no share is stated: what it leaves free for graphs and other small things [B]."""
    outside_per_token: Bytes | None = None
    """And further for each token of the largest step [B]."""


class CapturedSizes(Spec):
    """Batches of decode steps whose kernels are captured as graphs; others are padded to the next of them."""

    smallest: tuple[int, ...] = Field(strict=False)
    """The first sizes [1]."""
    steps: tuple[Annotated[tuple[int, int], Field(strict=False)], ...] = Field(strict=False)
    """(from, every): multiples from there on, up to the next pair or the largest [1]."""
    largest: Count
    """The largest captured batch where slots allow it [1]."""
    per_slot: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Largest size for each slot, if that is less [1]."""

    def sizes(self, slots: int) -> tuple[int, ...]:
        """Batches that are captured for a server of so many slots [1].

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
    """Whom an engine lets into the memory of its cache, and who leaves when memory runs out."""

    own_answer: Annotated[float, Field(ge=0, le=1)]
    """Share of the answer that a request may have, which must be free beside its prompt [1]."""
    other_answers: Annotated[float, Field(ge=0, le=1)]
    """Share of the tokens that all requests under way may still write that is kept free [1]."""
    evicted: Evicted
    """Who is sent back, to be read again: the one that was let in last, the one that has written least, or nobody."""


#: Group of attention ranks that a new request goes to: the next one in turn, or the one with the fewest requests.
Dealing = Literal["round_robin", "least_busy"]
#: How ranks attend under data parallelism inside an instance: groups of any size, or every rank for itself.
AttentionGroups = Literal["any", "single_ranks"]

Phase = Literal["prefill", "decode", "both"]
#: Formats of activations on the wire.
WireFormat = Literal["bf16", "fp8_g128", "mxfp8", "nvfp4"]
#: Parts of a model that ranks can hold whole.
Part = Literal["attention", "embeddings", "lm_head", "router", "dense_layers", "shared_experts", "indexer"]

#: Rows of the operator table whose kernels an engine may count otherwise.
KernelPart = Literal[
    "norms", "qkv", "query and key norms", "norms over ranks", "attention", "output gate", "attention output",
    "queries", "latent down", "latent up", "latent attention", "indexer", "index scan", "mixer", "recurrent state",
    "router", "expert tokens in", "experts in", "expert activation", "experts out", "expert tokens out",
    "expert latent", "shared expert in", "shared activation", "shared expert out", "ff in", "activation function",
    "ff out", "output embedding", "sampling", "adapters",
]  # fmt: skip
#: Generations of chips that engines pick kernels by, and kernels of routed experts: compiled by Triton; CUTLASS's
#: grouped products; DeepGEMM's; those that TensorRT-LLM generates, which FlashInfer hands to others; Marlin's, which
#: widen weights on the way.
Generation = Literal["hopper", "blackwell"]
ExpertKernelName = Literal["triton", "cutlass", "deepgemm", "trtllm_gen", "marlin"]
#: Facts that the first version of a file must state.
_STATED_FIRST = frozenset(
    {
        "expert_groups", "exchanges", "redundant_experts", "overlap", "decode_context_parallel", "uneven_pipeline",
        "replicated_under_attention_dp", "replicated_on_request", "host_weights",
    }
)  # fmt: skip
#: Facts of which a version states only what is new; what it repeats takes the place of what was said before.
_ADDED = ("kernels", "models")

#: Numbers of a version that tell a series of releases, whose later ones mend the first [1].
_SERIES = 2

#: Bytes per element on the wire, scales included: 32 bits per 128 elements (fp8_g128: DeepEP, low-latency messages), or
#: as stored.
WIRE_BYTES_PER_ELEMENT: Mapping[WireFormat, float] = {
    "bf16": BYTES_PER_ELEMENT["bf16"],
    "fp8_g128": 1.0 + 4 / 128,
    "mxfp8": BYTES_PER_ELEMENT["mxfp8"],
    "nvfp4": BYTES_PER_ELEMENT["nvfp4"],
}


class Exchange(Spec):
    """One way in which tokens travel to their experts and back while attention is data-parallel."""

    name: str = Field(min_length=1)
    """Name that the engine has for it."""
    phase: Phase
    """The steps that it is meant for."""
    dispatch: dict[Dtype, WireFormat] = Field(default={})
    """Format on the way to the experts, by the format of the experts' weights; bf16 for those that are not named."""
    combine: WireFormat
    """Format on the way back."""
    copies: Literal["per_expert", "per_rank", "per_domain", "every_rank"]
    """Copies of a token that leave its rank: one for each of its experts; one for each rank, or each link domain,
    that holds some of them (inside the domain one per rank again); or every rank receives every token."""
    within_domain: bool = False
    """It exists only where all ranks of the exchange share one link domain."""
    default: bool = False
    """Used where no option asks for another, and this one is possible."""
    wide: bool = False
    """Whether the engine's own documents use it for expert groups over several nodes, or over a rack."""

    def dispatched(self, weights: Dtype) -> WireFormat:
        """The format in which tokens travel to experts that are held in ``weights``."""
        return self.dispatch.get(family(weights), "bf16")


class RedundantExperts(Spec):
    """Copies of experts that are asked for often, beyond one of each."""

    supported: bool
    """Whether experts can be held twice, and placed by their load."""
    default: int = Field(ge=0)
    """Redundant experts of a layer where nothing is asked for."""
    recommended: int | None = Field(default=None, gt=0)
    """Redundant experts of a layer in the engine's recipe for wide groups; absent without one."""


class Overlap(Spec):
    """Communication behind arithmetic."""

    kind: Literal["two_batch", "single_batch"]
    """Of another half of the batch, or of the same batch (shared experts, the down projection)."""
    phase: Phase
    """The steps that it works in."""
    default: bool
    """Whether it is on without being asked for."""
    least_tokens: int | None = Field(default=None, gt=0)
    """Tokens of a rank below which the step is not split; absent where there is no such rule."""
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Only on these generations of chips (:attr:`HardwareSpec.generation`). Any without."""
    architectures: tuple[str, ...] = Field(default=(), strict=False)
    """Only of these models (:attr:`ModelSpec.architecture`). Any without."""

    def holds(self, architecture: str | None, generation: str, *, prefill: bool) -> bool:
        """Whether steps of a phase with a model on a generation of chips can be overlapped so."""
        phase = "prefill" if prefill else "decode"
        pairs = ((self.generations, generation), (self.architectures, architecture))
        return self.phase in (phase, "both") and all(not some or value in some for some, value in pairs)


class KernelCount(Spec):
    """Number of kernels that an engine launches for a part of a layer, one after the other."""

    part: KernelPart
    """A row of the operator table."""
    kernels: Annotated[int | float, Field(ge=0, le=1e3, allow_inf_nan=False)]
    """Kernels of one occurrence; those that run beside others on a stream of their own do not count [1]."""
    formats: tuple[Dtype, ...] = Field(default=(), strict=False)
    """Only with weights in these formats; of attention and scans, with such a cache. Any without."""
    generations: tuple[str, ...] = Field(default=(), strict=False)
    """Only on these generations of chips (:attr:`HardwareSpec.generation`). Any without."""
    mixers: tuple[MixerKind, ...] = Field(default=(), strict=False)
    """Of norms: only in layers that mix tokens in these ways. In any without."""
    summed: bool = False
    """Only where all ranks of a stage share each matrix and sum what it gives, so that an all-reduce is next door."""

    def holds(self, part: str, dtype: str, mixer: str, generation: str) -> bool:
        """Whether it counts for a row of the operator table on a chip, apart from how ranks share the work."""
        pairs = ((self.formats, family(dtype)), (self.mixers, mixer), (self.generations, generation))
        return part == self.part and all(not some or value in some for some, value in pairs)


class PromptGraphs(Spec):
    """Steps with prompts that an engine captures in pieces, between the attention of layers, where nothing is told."""

    most_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the largest such step; as many as a step reads without [tokens]."""
    latent_tokens: int | None = Field(default=None, gt=0)
    """Tokens of a step of models with latent attention, if it is another [tokens]."""

    def tokens(self, read: float, *, latent: bool) -> float:
        """Tokens of the largest captured step that reads prompts, of which one reads ``read`` at most [tokens]."""
        most = self.latent_tokens if latent and self.latent_tokens is not None else self.most_tokens
        return read if most is None else float(min(most, read))


class EngineFacts(Spec):
    """Facts of an engine; the defaults of the fields mean that nothing is known."""

    expert_groups: Literal["dp_x_tp", "any"] = "dp_x_tp"
    """Experts are spread over all ranks of a stage, or over any part of them, with each expert cut over the rest."""
    inside: Literal["experts", "tensor"] | None = None
    """The group whose ranks are neighbours where experts are spread and cut: the experts' group, or the ranks that
    share an expert. Absent where experts are never cut."""
    exchanges: tuple[Exchange, ...] = Field(default=(), strict=False)
    """Ways of tokens to their experts under data-parallel attention."""
    redundant_experts: RedundantExperts = RedundantExperts(supported=False, default=0)
    """Copies of busy experts."""
    overlap: tuple[Overlap, ...] = Field(default=(), strict=False)
    """Communication that can hide."""
    decode_context_parallel: Literal["none", "within_tp", "beside_tp"] = "none"
    """Decoding with the cache of a sequence cut over ranks: over those of the tensor-parallel group, or over more."""
    uneven_pipeline: Literal["refused", "before_last", "last_stage", "last_stages", "first_stages"] = "refused"
    """Where the layers go that stages do not divide: one each to the stages before the last; all to the last; one
    each to the last ones; one each to the first ones."""
    replicated_under_attention_dp: tuple[Part, ...] = Field(default=(), strict=False)
    """Parts that every rank holds whole where attention is data-parallel on single ranks."""
    replicated_on_request: tuple[Part, ...] = Field(default=(), strict=False)
    """Parts that options, or the exchange of wide groups, make whole on every rank besides."""
    host_weights: Literal["none", "in_step", "prefetched"] = "none"
    """Weights that wait in host memory: read when they are needed, or fetched ahead behind other layers."""
    kernels: tuple[KernelCount, ...] = Field(default=(), strict=False)
    """Kernels of a decode step by part, the last that holds for a row; parts that are not named have as many as the
    operator table says. Those of a version stand beside those of versions before, and come after them."""
    prompt_graphs: PromptGraphs | None = None
    """Steps with prompts that are captured by default; absent where the host launches all kernels of such steps."""
    expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of routed experts that it picks, or that its recipes tell it to, by generation of chips and format of the
    weights; nothing where nobody looked."""
    exchanged_expert_kernels: dict[Generation, dict[Dtype, ExpertKernelName]] = Field(default={})
    """Kernels of experts where ranks with sequences of their own exchange tokens, of formats that have others then."""
    chips: tuple[ChipSupport, ...] = Field(default=(), strict=False)
    """Chips that it runs on, and formats that it has kernels for there. Those that nobody verified are left out."""
    models: tuple[ModelSupport, ...] = Field(default=(), strict=False)
    """Architectures of its registry, of those that are shipped here. Those of a version stand beside those of versions
    before; of an architecture that is named again, the last counts."""
    attention_groups: AttentionGroups = "any"
    """Ranks of a group under data-parallel attention inside an instance: any number, or each rank is one."""
    stages_over: Literal["nodes"] | None = None
    """Stages of a pipeline that its documents recommend, with tensor parallelism inside of each; absent where
    they do not say."""
    defaults: tuple[EngineDefaults, ...] = Field(default=(), strict=False)
    """Defaults of its server; the first that the memory of a chip allows counts."""
    memory: EngineMemory | None = None
    """Memory that it sets aside beside weights and cache; absent where nobody looked."""
    captured: CapturedSizes | None = None
    """Batches whose decode steps are captured as graphs; absent where nobody looked."""
    connectors: tuple[str, ...] = Field(default=(), strict=False)
    """Ways of a cache from a prefill to a decode server, as options name them, the default or most used first."""
    speculation: tuple[ProposerName, ...] = Field(default=(), strict=False)
    """Proposers of tokens of any model, beside the heads of :attr:`ModelSupport.speculation`."""
    async_scheduling: bool | None = None
    """Whether a step is prepared while the one before runs, where nothing is told; absent where nobody looked."""
    shared_expert_fusion: bool | None = None
    """Whether shared experts are computed as further routed ones, where nothing is told."""
    admission: Admission | None = None
    """Whom it lets into memory, and who leaves when that runs out; absent where nobody looked."""
    dealing: Dealing | None = None
    """Group of attention ranks that a new request goes to where nothing is told; absent where nobody looked."""
    decoding_in_step_tokens: bool | None = None
    """Whether tokens of requests that decode count among those that its option for the tokens of a step limits; absent
    where nobody looked."""

    held_steps: int | None = Field(default=None, gt=0)
    """Decode steps for which it can be told to hold a prompt back at most, until each group of attention ranks has one;
    of the option that turns this on if it is given no number, absent where there is no such option [1]."""

    @property
    def keeps_caches(self) -> bool:
        """Whether it is known to hand no cache to another server, so that its pools cannot be apart."""
        return "connectors" in self.model_fields_set and not self.connectors

    def support(self, architecture: str | None, generation: str) -> ModelSupport | None:
        """Support of a model on a generation of chips; None if it has no such model there."""
        for entry in reversed(self.models):
            if architecture in entry.architectures:
                return entry if not entry.generations or generation in entry.generations else None
        return None

    def defaults_on(self, memory: float) -> EngineDefaults | None:
        """Defaults of its server on a chip with so much memory [B]; None where nobody looked."""
        return next((entry for entry in self.defaults if memory >= (entry.least_memory or 0.0)), None)

    def kernels_on(self, generation: str) -> ChipSupport | None:
        """The formats that it has kernels for on a generation of chips; None if it does not run there."""
        return next((chip for chip in self.chips if generation in chip.generations), None)

    def _check_fields(self) -> None:
        if (self.expert_groups == "any") != (self.inside is not None):
            raise ValueError(
                "inside says how groups lie where experts are cut as well: "
                "it belongs to 'expert_groups: any', and only there"
            )

    def exchange(self, phase: Literal["prefill", "decode"], *, wide: bool, one_domain: bool = False) -> Exchange:
        """The exchange of a phase: that of wide groups, or the default.

        Parameters
        ----------
        phase : str
            ``prefill`` or ``decode``.
        wide : bool
            Whether the engine's recipe for wide groups is followed.
        one_domain : bool, optional
            Whether all ranks share one link domain: only then what exists inside one is possible, and is preferred.

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
    """Facts that are new with a version; those that are absent are as before."""

    version: str = Field(pattern=r"\d")
    """As the engine counts, or the month that a system was described in."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """When it came out; absent where what was read does not say."""

    @property
    def stated(self) -> tuple[str, ...]:
        """The facts that this version states itself."""
        return tuple(name for name in EngineFacts.model_fields if name in self.model_fields_set)


class EngineSpec(SourcedSpec):
    """A serving engine: its versions from the oldest on, the first of which states everything.

    Every statement has a source of its own: ``versions.N.FIELD``.
    """

    versions: tuple[EngineVersion, ...] = Field(min_length=1, strict=False)
    """Facts that each version brought, as far as somebody looked."""

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
        """Everything that holds at a version.

        Parameters
        ----------
        version : str, optional
            ``0.11.0``; one that lies between two of the file is as the older. The newest of the file without it.

        Raises
        ------
        InputError
            If it is no version, older than all that is known, or of a later series than these.

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
        """Refuse what is no version, and versions of a later series (``0.34`` after ``0.33``) than all that are known.

        Raises
        ------
        InputError
            With the newest version that is known.
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
        """Everything that holds at the newest version of a day.

        Parameters
        ----------
        day : date
            Versions that came out until then count; of those whose month alone is known, from its first day on.

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
    """Numbers of a version: ``0.4.6.post5`` comes after ``0.4.6``, and a candidate counts as what it is one for."""
    final = re.split(r"\.?(?:rc|dev|a\d|b\d)", version, maxsplit=1)[0]
    return tuple(int(number) for number in re.findall(r"\d+", final))


def _unsourced(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Statements of versions that have no source of their own."""
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
    """Assumptions of the capacity check for a server with a given largest step, slots and share of the memory.

    Parameters
    ----------
    facts : EngineFacts
        Of the engine at a version.
    hardware : HardwareSpec
        Whose memory it divides.
    step_tokens : float
        Tokens of the largest step [tokens].
    slots : float or None
        Requests that are under way together [1].
    share : float or None
        Of the memory that it may take [1]; what its rule leaves without.

    Returns
    -------
    dict of str to float
        By dotted name; nothing where the engine's memory is not known.

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
        "capacity.profiled_images": kept.step_inside and kept.profiled_images,
    }


def with_engine(
    assumptions: Assumptions, facts: EngineFacts, hardware: HardwareSpec, fixed: Collection[str] = ()
) -> Assumptions:
    """Assumptions for a server that is started without options, in which its engine divides the memory.

    Fields that are ``fixed`` keep their values, and all do where the engine's defaults are not known.
    """
    usual = facts.defaults_on(hardware.hbm_bytes)
    if usual is None:
        return assumptions
    capacity = divided(facts, hardware, step_tokens=usual.step_tokens, slots=usual.slots, share=usual.memory_fraction)
    return assumptions.changed({name: value for name, value in capacity.items() if name not in fixed})
