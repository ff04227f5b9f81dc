"""Kinds of queries in scenarios, and the settings of their series."""

from __future__ import annotations

import logging
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

_LOG = logging.getLogger(__name__)
Positive = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]
#: One probability for all draft tokens, or a list.
Acceptance = Annotated[
    Annotated[Probability, Tag("one")]
    | Annotated[tuple[Probability, ...], Field(min_length=1, strict=False), Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, (list, tuple)) else "one"),
]
#: Degree of an instance, or ``any`` to search.
Degree = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["any"], Tag("word")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


#: Price of an accelerator as a quantity, or in words.
HourRate = Annotated[
    Annotated[DollarsPerHour, Tag("dollars")] | Annotated[str, AfterValidator(in_file(checked)), Tag("words")],
    Discriminator(lambda value: "words" if isinstance(value, str) and in_words(value) else "dollars"),
]


def _of_mean(value: object) -> object:
    """Time of an SLO that may be written with the word ``mean``."""
    if not isinstance(value, str):
        return value
    try:
        which, time = percentiles.promise(value)
        if which not in (None, percentiles.MEAN):
            raise InputError(percentiles.MEANS_ONLY)
    except InputError as error:
        raise PydanticCustomError("promise", "{problem}", {"problem": str(error)}) from error
    return time


#: SLO of a frontier, ``500 ms`` or ``mean:500 ms`` [s].
MeanPromise = Annotated[Seconds, Field(gt=0), BeforeValidator(_of_mean)]
GridName = Literal["paper", "whole"]
#: Published number with its digits, ``"0.50"``.
Printed = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$")]


def _current_arrangement(name: object) -> object:
    """Arrangement of a scenario by its current name; old names are logged."""
    current = OLD_ARRANGEMENTS.get(name) if isinstance(name, str) else None
    if current is None:
        return name
    _LOG.warning("note: arrangement %r is now %r; the old name works until 0.3.0", name, current)
    return current


ArrangementName = Annotated[Literal["both", "aggregated", "disaggregated"], BeforeValidator(_current_arrangement)]
ProposerName = Literal["draft", "mtp", "eagle", "ngram"]
#: Settings that select a speculation method.
PROPOSERS: tuple[ProposerName, ...] = get_args(ProposerName)


#: Old names of settings, with the new ones.
RENAMED = {"accelerators": "instance_gpus", "max_accelerators": "max_instance_gpus"}


class SamplingSpec(Spec):
    """Logarithmic scan of latency limits that selects points (the study: 1,000 over two decades)."""

    points: Annotated[int, Field(gt=0, le=1_000_000)]
    """Number of latency limits [1]."""
    decades: Annotated[int | float, Field(gt=0, le=100)]
    """Span of the limits above the fastest point [1]."""


class Settings(Spec):
    """Settings of one series; absent ones are taken from the scenario's ``common`` settings."""

    moved: ClassVar[Mapping[str, str]] = RENAMED

    model: str | None = None
    """Name or path of a model."""
    hardware: str | None = None
    """Name or path of hardware."""
    assumptions: str | None = None
    """Name or path of a preset."""
    engine: str | None = None
    """``vllm`` or ``vllm@0.24.0``: layouts that it can start, under its profile; ``any``: all layouts. By default,
    layouts that any known engine can start."""
    arrangement: ArrangementName | None = None
    """Services only: ``aggregated``, ``disaggregated``, or the better of the two (``both``, the default)."""
    any_group: bool | None = None
    """Services only: include disaggregated deployments that no published recipe has."""
    evidence: Literal["measured", "near"] | None = None
    """Services only: include only deployments that were measured, or that are near measured ones."""
    gpus: Count | None = None
    """Services only: maximum GPUs of one deployment [1]."""
    speculate: bool | None = None
    """Services only: false disables speculative decoding; by default the engines' recipes decide."""
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """What-ifs, ``assumptions.host.launch=0 us``."""
    weights: Dtype | None = None
    """Number format of the weights; by default the published one."""
    activations: Dtype | None = None
    """Number format of activations."""
    kv: Dtype | None = None
    """Number format of the KV cache."""
    context: Tokens | None = None
    """Decode steps only: cached tokens per sequence [tokens]."""
    contexts: Mix | None = None
    """Decode steps only: different contexts of one batch [tokens], each with its number or share of sequences [1]."""
    isl: Tokens | None = None
    """Input tokens per request [tokens]."""
    osl: Positive | None = None
    """Output tokens per request [tokens]."""
    traffic: str | None = None
    """Services only: name or path of a workload, in place of lengths."""
    price: HourRate | None = None
    """Price of an accelerator [USD/h], of a node (``23.60/node``) or a kind (``on_demand``, ``owned``); by default the
    best of its file."""
    decode_only: bool | None = None
    """Evaluate decode steps only, without prefill; always so on the published study's grid."""
    ttft: MeanPromise | None = None
    """Services only: SLO of the mean time to first token, without queueing [s]."""
    tpot: MeanPromise | None = None
    """Services only: SLO of the mean time per output token [s]."""
    e2e: MeanPromise | None = None
    """Services only: SLO of the mean time to the last token [s]."""
    cached: Tokens | None = None
    """Services only: prompt tokens in the prefix cache [tokens]."""
    shared_prefix: Tokens | None = None
    """Services only: tokens at the start of every prompt that all share [tokens]."""
    slots: Count | None = None
    """Services only: maximum concurrent requests of an instance [1]."""
    max_tokens_per_second: Positive | None = None
    """Decode steps only: demand [tokens/s]."""
    grid: GridName | None = None
    """The published study's logarithmic grid, or integers."""
    pipeline: bool | None = None
    """Try pipeline depths other than 1."""
    max_instance_gpus: Positive | None = None
    """Largest instance [1]."""
    tp: Degree | None = None
    """Fixed: chips that share the attention weights [1]. If any of tp, dp and pp is given, the others default to 1;
    ``any`` searches a degree."""
    dp: Degree | None = None
    """Fixed: attention-DP groups in a pipeline stage [1]."""
    pp: Degree | None = None
    """Fixed: pipeline stages [1]."""
    ep: Degree | None = None
    """Fixed: expert-parallel ranks of a stage [1]; by default the best."""
    dcp: Count | None = None
    """Fixed: attention ranks that split the cached tokens of a sequence in decode [1]; 1 by default."""
    batch: Positive | None = None
    """Decode steps only, fixed: sequences that an instance decodes together [1]."""
    instance_gpus: Positive | None = None
    """Fixed: chips of one instance [1]."""
    draft: str | None = None
    """Draft model for speculative decoding; at most one of this and the next three."""
    mtp: bool | None = None
    """Draft with the target's multi-token-prediction layers."""
    eagle: bool | None = None
    """Draft with an EAGLE head: one additional layer of the target."""
    ngram: bool | None = None
    """Draft the tokens that followed the last n-gram before, at no cost."""
    draft_weights: Dtype | None = None
    """Number format of the draft model or head; by default as published, or that of the target."""
    acceptance: Acceptance | None = None
    """Probability that a draft token is accepted: one for all, or for the first, second, .. one, given that all before
    it were [1]; by default as published for the method and the model."""
    max_draft: Annotated[int, Field(ge=1, le=64)] | None = None
    """Maximum draft length [tokens]; by default the number of probabilities, the value of the engine's recipe, or the
    published one."""
    draft_length: Annotated[int, Field(ge=1, le=64)] | None = None
    """Draft tokens of every round [tokens]; instead of the maximum."""
    sampling: SamplingSpec | None = None
    """Scan of the frontier of decode steps; absent for the exact frontier."""

    @property
    def counts_decode_steps(self) -> bool:
        """Whether only decode steps are evaluated: on request, and always on the published study's grid."""
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
        """Settings from text, with values as in YAML; a key with a dot is a what-if (``hardware.link_domain``).

        Raises
        ------
        SpecError
            If a key is unknown or a value is not allowed.
        """
        changes = [f"{key}={text}" for key, text in pairs.items() if "." in key]
        values = {key: scalar(text) for key, text in pairs.items() if "." not in key}
        return cls.build({**values, **({"changes": changes} if changes else {})}, origin=origin)

    def over(self, common: Settings) -> Settings:
        """These settings, with absent ones taken from ``common``."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        # Traffic, contexts and lengths replace each other.
        if self.traffic is not None:
            fields = {**dict.fromkeys(options.SAID_BY_TRAFFIC), **fields}
        elif self.context is not None or self.contexts is not None:
            fields = {**dict.fromkeys(("context", "contexts", "isl", "osl", "traffic")), **fields}
        elif self.isl is not None or self.osl is not None:
            fields = {**dict.fromkeys(("context", "contexts", "traffic")), **fields}
        # A speculation method replaces another.
        if any(getattr(self, name) for name in PROPOSERS):
            fields = {**dict.fromkeys(PROPOSERS), **fields}
        return common.replace(**fields)


def _fields(names: Sequence[str]) -> tuple[str, ...]:
    """Options that are fields of settings."""
    return tuple(name for name in names if name in Settings.model_fields)


#: Settings that apply only to services, and only to decode steps.
SERVICES_ONLY = (*_fields(options.counted_by("services")), "arrangement", "speculate")
DECODE_STEPS_ONLY = (*_fields(options.counted_by("decode_steps")), "sampling")


class Series(Spec):
    """One curve or row."""

    label: str = Field(min_length=1)
    """Name in the legend or the first column."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the common ones."""


class FrontierAsk(Spec):
    """Cost-speed frontiers of the full cost model."""

    kind: Literal["frontier"]
    """Kind of query."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Curves."""


class ToyAsk(Spec):
    """Toy model of section 2.2: its closed-form optimum (Table 1) or its frontiers (Figure 1)."""

    kind: Literal["toy_optimum", "toy_frontier"]
    """Kind of query."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Rows or curves."""
    reductions: Positive
    """All-reduces per layer [1]."""
    hop: Seconds
    """Latency between neighbors [s]."""
    base: Seconds
    """Additional time of every all-reduce [s]."""

    def _check_fields(self) -> None:
        if self.kind == "toy_optimum" and self.hop == 0:
            raise ValueError("a toy_optimum needs a hop > 0 s; without one the best instance is infinitely large")


class PublishedLatency(Spec):
    """A published latency."""

    label: str
    """Name of the model."""
    parameters: Size
    """Parameters of the model [1]."""
    latency: Annotated[Seconds, Field(gt=0)]
    """Time per token [s]."""


class SquareRootAsk(Spec):
    """Rule that latency grows with the square root of the parameter count (eq. 19), compared with measurements."""

    kind: Literal["square_root_law"]
    """Kind of query."""
    measured: Annotated[tuple[PublishedLatency, ...], Field(min_length=2, strict=False)]
    """Published latencies; the first determines the constant of the rule."""


class PanelsAsk(Spec):
    """Figures of other scenarios next to each other."""

    kind: Literal["panels"]
    """Kind of query."""
    scenarios: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    """Names of the scenarios."""


#: Settings that do not apply to a running server.
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
    """Comparison of a measured deployment with the frontier and the ideal bound."""

    kind: Literal["assess"]
    """Kind of query."""
    common: Settings
    """Model, chip and layout; ``tp``, ``dp``, ``pp``, ``ep`` or ``instance_gpus`` where known."""
    gpus: Count
    """Total number of chips measured [1]."""
    tokens_per_second: Positive
    """Measured speed per user [tokens/s]."""
    utilization: Positive | None = None
    """Measured model FLOPs utilization [1]."""
    batch: Positive | None = None
    """Alternatively: concurrent sequences [1]."""
    throughput: Positive | None = None
    """Alternatively: output tokens of the deployment [tokens/s]."""
    presets: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names or paths of further presets, each with its own verdict."""

    def _check_fields(self) -> None:
        measured = [name for name in ("utilization", "batch", "throughput") if getattr(self, name) is not None]
        if len(measured) != 1:
            raise ValueError(f"give one of utilization, batch and throughput; given: {', '.join(measured) or 'none'}")
        odd = [name for name in _NOT_OF_A_SERVER if getattr(self.common, name) is not None]
        if odd:
            raise ValueError(f"common: {', '.join(odd)} cannot be said of a measured server; leave it out")
