"""Kinds of questions, and the settings that their series share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from inference_econ.errors import InputError
from inference_econ.inputs import options
from inference_econ.inputs._spec import Count, DollarsPerHour, Dtype, Seconds, Size, Spec, in_file
from inference_econ.inputs._yaml import scalar
from inference_econ.inputs.defaults import OLD_ARRANGEMENTS
from inference_econ.inputs.prices import checked, in_words
from inference_econ.inputs.workload import percentiles
from inference_econ.inputs.workload.traffic import Mix, Tokens, check_lengths

Positive = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]
#: One for all, or a list.
Acceptance = Annotated[
    Annotated[Probability, Tag("one")]
    | Annotated[tuple[Probability, ...], Field(min_length=1, strict=False), Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, (list, tuple)) else "one"),
]
#: A degree of an instance, or all that can be.
Degree = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["any"], Tag("word")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


#: A price of an accelerator as a quantity, or in words.
HourRate = Annotated[
    Annotated[DollarsPerHour, Tag("dollars")] | Annotated[str, AfterValidator(in_file(checked)), Tag("words")],
    Discriminator(lambda value: "words" if isinstance(value, str) and in_words(value) else "dollars"),
]


def _of_mean(value: object) -> object:
    """The time of a promise that is written with the word ``mean`` before it."""
    if not isinstance(value, str):
        return value
    try:
        which, time = percentiles.promise(value)
        if which not in (None, percentiles.MEAN):
            raise InputError(percentiles.MEANS_ONLY)
    except InputError as error:
        raise PydanticCustomError("promise", "{problem}", {"problem": str(error)}) from error
    return time


#: A promise of a frontier, ``500 ms`` or ``mean:500 ms`` [s].
MeanPromise = Annotated[Seconds, Field(gt=0), BeforeValidator(_of_mean)]
GridName = Literal["paper", "whole"]
#: A published number with its digits, ``"0.50"``.
Printed = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$")]


ArrangementName = Annotated[
    Literal["both", "aggregated", "disaggregated"],
    BeforeValidator(lambda name: OLD_ARRANGEMENTS.get(name, name) if isinstance(name, str) else name),
]
ProposerName = Literal["draft", "mtp", "eagle", "ngram"]
#: Settings that say who proposes tokens.
PROPOSERS: tuple[ProposerName, ...] = get_args(ProposerName)


#: Settings that are gone, and what they are now.
RENAMED = {"accelerators": "instance_gpus", "max_accelerators": "max_instance_gpus"}


class SamplingSpec(Spec):
    """Keep only the points that a logarithmic scan of latency limits visits (the study: 1,000 over two decades)."""

    points: Annotated[int, Field(gt=0, le=1_000_000)]
    """Latency limits [1]."""
    decades: Annotated[int | float, Field(gt=0, le=100)]
    """Span of the limits above the fastest point [1]."""


class Settings(Spec):
    """Settings of one series; what is absent comes from the scenario's ``common`` settings."""

    moved: ClassVar[Mapping[str, str]] = RENAMED

    model: str | None = None
    """Name or path of a model."""
    hardware: str | None = None
    """Name or path of hardware."""
    assumptions: str | None = None
    """Name or path of a preset."""
    engine: str | None = None
    """``vllm`` or ``vllm@0.24.0``: layouts that it can start, under its profile; ``any``: all layouts; by default those
    that any known engine can start."""
    arrangement: ArrangementName | None = None
    """Of services: whether instances read prompts and decode (``together``), pools do one of both (``apart``), or the
    better of the two (``both``), which is the default."""
    any_group: bool | None = None
    """Of services: try disaggregated deployments that no published recipe has, too."""
    evidence: Literal["measured", "near"] | None = None
    """Of services: only deployments that were measured, or that are near those that were."""
    gpus: Count | None = None
    """Of services: GPUs of one deployment at most [1]."""
    speculate: bool | None = None
    """Of services: false where nobody may propose tokens; by default recipes of engines say who does."""
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """What-ifs, ``assumptions.host.launch=0 us``."""
    weights: Dtype | None = None
    """Number format of the weights; by default the published one."""
    activations: Dtype | None = None
    """Number format of what flows between operators."""
    kv: Dtype | None = None
    """Number format of the cache."""
    context: Tokens | None = None
    """Cached tokens per sequence, for decode steps alone [tokens]."""
    contexts: Mix | None = None
    """Of decode steps alone: contexts of one batch that differ, each with its part of the sequences [tokens], [1]."""
    isl: Tokens | None = None
    """Input sequence length [tokens]."""
    osl: Positive | None = None
    """Output sequence length [tokens]."""
    traffic: str | None = None
    """Of services: name or path of a traffic, in place of lengths."""
    price: HourRate | None = None
    """Price of an accelerator [USD/h], of a node (``23.60/node``) or a kind (``on_demand``, ``owned``); by default the
    best of its file."""
    decode_only: bool | None = None
    """Count decode steps alone, without the prefill of requests; only so on the study's grid."""
    ttft: MeanPromise | None = None
    """Promise of services: mean time to first token, without a queue [s]."""
    tpot: MeanPromise | None = None
    """Promise of services: mean time per output token [s]."""
    e2e: MeanPromise | None = None
    """Promise of services: mean time to the last token [s]."""
    cached: Tokens | None = None
    """Of services: prompt tokens that are found in the prefix cache [tokens]."""
    shared_prefix: Tokens | None = None
    """Of services: tokens that all prompts begin with [tokens]."""
    slots: Count | None = None
    """Of services: requests in flight of an instance at most [1]."""
    max_tokens_per_second: Positive | None = None
    """Demand, for decode steps alone [tokens/s]."""
    grid: GridName | None = None
    """The study's logarithmic grid, or whole numbers."""
    pipeline: bool | None = None
    """Try pipeline depths other than 1."""
    max_instance_gpus: Positive | None = None
    """Largest instance [1]."""
    tp: Degree | None = None
    """Pinned: chips that share the attention weights [1]; beside one of the next two they are 1 if not given, and
    ``any`` tries all."""
    dp: Degree | None = None
    """Pinned: groups of them in a pipeline stage [1]."""
    pp: Degree | None = None
    """Pinned: pipeline stages [1]."""
    ep: Degree | None = None
    """Pinned: expert-parallel ranks of a stage [1]; the best by default."""
    dcp: Count | None = None
    """Pinned: attention ranks that split the tokens of a sequence's cache in decode [1]; 1 by default."""
    batch: Positive | None = None
    """Pinned, for decode steps alone: sequences decoded together by an instance [1]."""
    instance_gpus: Positive | None = None
    """Pinned: chips of one instance [1]."""
    draft: str | None = None
    """Model that proposes tokens; of this and the three below, one."""
    mtp: bool | None = None
    """The target's multi-token-prediction layers propose tokens."""
    eagle: bool | None = None
    """An EAGLE head proposes tokens: one more layer of the target."""
    ngram: bool | None = None
    """The tokens that followed the last ones before are proposed, at no cost."""
    draft_weights: Dtype | None = None
    """Number format of the draft model or head; as published, or as the target's, by default."""
    acceptance: Acceptance | None = None
    """Probability that a proposed token is accepted: one for all, or of the first, second, .. proposal, given that
    those before it were [1]; as published of the proposer and the model by default."""
    max_draft: Annotated[int, Field(ge=1, le=64)] | None = None
    """Longest draft [tokens]; by default as many as have a probability, as in the engine's recipe, or as published."""
    draft_length: Annotated[int, Field(ge=1, le=64)] | None = None
    """Proposals of every round, whether they pay or not [tokens]; instead of the longest draft."""
    sampling: SamplingSpec | None = None
    """Scan of the frontier of decode steps; exact if absent."""

    @property
    def counts_decode_steps(self) -> bool:
        """Decode steps alone: where that is asked for, and always on the published study's grid."""
        return bool(self.decode_only) or self.grid == "paper"

    def _check_fields(self) -> None:
        check_lengths(self.context, self.contexts, self.isl, self.osl)
        other = next((name for name in options.SAID_BY_TRAFFIC if getattr(self, name) is not None), None)
        if self.traffic is not None and other is not None:
            raise ValueError(f"give either traffic or {other}, not both: a traffic says that, too")
        proposers = [name for name in PROPOSERS if getattr(self, name)]
        if len(proposers) > 1:
            raise ValueError(f"give one of {', '.join(PROPOSERS)}, got {' and '.join(proposers)}")
        if proposers and self.speculate is False:
            raise ValueError(f"speculate: false and {proposers[0]} contradict each other; leave one of them out")
        if self.max_draft is not None and self.draft_length is not None:
            raise ValueError("give either max_draft or draft_length, not both")

    @classmethod
    def from_text(cls, pairs: Mapping[str, str], *, origin: str) -> Settings:
        """Settings from text, values as in YAML; a key with a dot is a what-if (``hardware.link_domain``).

        Raises
        ------
        SpecError
            If a key is unknown or a value is not allowed.
        """
        changes = [f"{key}={text}" for key, text in pairs.items() if "." in key]
        values = {key: scalar(text) for key, text in pairs.items() if "." not in key}
        return cls.build({**values, **({"changes": changes} if changes else {})}, origin=origin)

    def over(self, common: Settings) -> Settings:
        """These settings with what they leave out taken from ``common``."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        # A traffic, contexts and lengths replace each other.
        if self.traffic is not None:
            fields = {**dict.fromkeys(options.SAID_BY_TRAFFIC), **fields}
        elif self.context is not None or self.contexts is not None:
            fields = {**dict.fromkeys(("context", "contexts", "isl", "osl", "traffic")), **fields}
        elif self.isl is not None or self.osl is not None:
            fields = {**dict.fromkeys(("context", "contexts", "traffic")), **fields}
        # A proposer replaces another.
        if any(getattr(self, name) for name in PROPOSERS):
            fields = {**dict.fromkeys(PROPOSERS), **fields}
        return common.replace(**fields)


def _fields(names: Sequence[str]) -> tuple[str, ...]:
    """Options that are fields of settings."""
    return tuple(name for name in names if name in Settings.model_fields)


#: Settings that mean something for services only, and for decode steps alone only.
SERVICES_ONLY = (*_fields(options.counted_by("services")), "arrangement", "speculate")
DECODE_STEPS_ONLY = (*_fields(options.counted_by("decode_steps")), "sampling")


class Series(Spec):
    """One curve or row."""

    label: str = Field(min_length=1)
    """Name in the legend or the first column."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the common ones."""


class FrontierAsk(Spec):
    """Cost-speed frontiers of the full model."""

    kind: Literal["frontier"]
    """Names this kind of question."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """The curves."""


class ToyAsk(Spec):
    """The toy model of section 2.2: its closed-form optimum (Table 1) or its frontiers (Figure 1)."""

    kind: Literal["toy_optimum", "toy_frontier"]
    """Names this kind of question."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """The rows or curves."""
    reductions: Positive
    """All-reduces per layer [1]."""
    hop: Seconds
    """Time between neighbours [s]."""
    base: Seconds
    """Further time of every reduction [s]."""

    def _check_fields(self) -> None:
        if self.kind == "toy_optimum" and self.hop == 0:
            raise ValueError("a toy_optimum needs a hop > 0 s; without one the best instance is infinitely large")


class PublishedLatency(Spec):
    """A published latency."""

    label: str
    """Which model."""
    parameters: Size
    """Its parameters [1]."""
    latency: Annotated[Seconds, Field(gt=0)]
    """Time per token [s]."""


class SquareRootAsk(Spec):
    """The rule that latency grows with the root of the parameter count (eq. 19), against measurements."""

    kind: Literal["square_root_law"]
    """Names this kind of question."""
    measured: Annotated[tuple[PublishedLatency, ...], Field(min_length=2, strict=False)]
    """Published latencies; the first fixes the law."""


class PanelsAsk(Spec):
    """Figures of other scenarios side by side."""

    kind: Literal["panels"]
    """Names this kind of question."""
    scenarios: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    """Names of the scenarios."""


#: Settings that say nothing about a server that runs already.
_NOT_OF_A_SERVER = (
    "grid",
    "decode_only",
    *SERVICES_ONLY,
    "pipeline",
    "max_instance_gpus",
    *(name for name in DECODE_STEPS_ONLY if name != "context"),
    *_fields([option.name for option in options.GROUPS["Speculation"]]),
)


class AssessAsk(Spec):
    """A measured deployment held against the frontier and the ideal bound."""

    kind: Literal["assess"]
    """Names this kind of question."""
    common: Settings
    """Model, chip and layout; ``tp``, ``dp``, ``pp``, ``ep`` or ``instance_gpus`` as far as they are known."""
    gpus: Count
    """All chips of what was measured [1]."""
    tokens_per_second: Positive
    """Measured speed of one user [tokens/s]."""
    utilization: Positive | None = None
    """Measured: useful arithmetic over the dense peak (MFU) [1]."""
    batch: Positive | None = None
    """Or: sequences served at the same time [1]."""
    throughput: Positive | None = None
    """Or: output tokens of the deployment [tokens/s]."""
    presets: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names or paths of further presets, each of which gets its verdict."""

    def _check_fields(self) -> None:
        measured = [name for name in ("utilization", "batch", "throughput") if getattr(self, name) is not None]
        if len(measured) != 1:
            raise ValueError(f"give one of utilization, batch and throughput; given: {', '.join(measured) or 'none'}")
        odd = [name for name in _NOT_OF_A_SERVER if getattr(self.common, name) is not None]
        if odd:
            raise ValueError(f"common: {', '.join(odd)} cannot be said of a measured server; leave it out")
