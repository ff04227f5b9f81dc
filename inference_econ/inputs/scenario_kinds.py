"""Kinds of queries in scenarios, and the settings of their series."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from inference_econ.errors import InputError
from inference_econ.inputs import options
from inference_econ.inputs._spec import (
    AfterValidator,
    BeforeValidator,
    Count,
    Discriminator,
    DollarsPerHour,
    Dtype,
    Field,
    Seconds,
    Size,
    Spec,
    Tag,
    in_file,
)
from inference_econ.inputs._yaml import scalar
from inference_econ.inputs.options import OLD_ARRANGEMENTS
from inference_econ.inputs.prices import checked, in_words
from inference_econ.inputs.workload import percentiles
from inference_econ.inputs.workload.traffic import Mix, Tokens, check_lengths

_LOG = logging.getLogger(__name__)
Positive = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]
#: One acceptance probability for all draft tokens, or one per position.
Acceptance = Annotated[
    Annotated[Probability, Tag("one")]
    | Annotated[tuple[Probability, ...], Field(min_length=1, strict=False), Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, (list, tuple)) else "one"),
]
#: Degree of parallelism, or ``any`` to search over it.
Degree = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["any"], Tag("word")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


#: Price of an accelerator-hour, or a kind of price.
HourRate = Annotated[
    Annotated[DollarsPerHour, Tag("dollars")] | Annotated[str, AfterValidator(in_file(checked)), Tag("words")],
    Discriminator(lambda value: "words" if isinstance(value, str) and in_words(value) else "dollars"),
]


def _of_mean(value: object) -> object:
    """Remove the prefix ``mean:`` from the text of a latency SLO."""
    if not isinstance(value, str):
        return value
    try:
        which, time = percentiles.promise(value)
        if which not in (None, percentiles.MEAN):
            raise InputError(percentiles.MEANS_ONLY)
    except InputError as error:
        raise ValueError(error) from error
    return time


#: SLO on the mean of a latency: ``500 ms`` or ``mean:500 ms`` [s].
MeanPromise = Annotated[Seconds, Field(gt=0), BeforeValidator(_of_mean)]
GridName = Literal["paper", "whole"]
#: Published number as text, because a text keeps its digits: ``"0.50"``.
Printed = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$")]


def _current_arrangement(name: object) -> object:
    """Current name for a value of ``arrangement``. For an old name, a note is logged."""
    current = OLD_ARRANGEMENTS.get(name) if isinstance(name, str) else None
    if current is None:
        return name
    _LOG.warning("note: arrangement %r is now %r; the old name works until 0.3.0", name, current)
    return current


ArrangementName = Annotated[Literal["both", "aggregated", "disaggregated"], BeforeValidator(_current_arrangement)]
ProposerName = Literal["draft", "mtp", "eagle", "ngram"]
#: Settings that select a speculation method.
PROPOSERS: tuple[ProposerName, ...] = get_args(ProposerName)


#: New names of renamed settings, by old name.
RENAMED = {"accelerators": "instance_gpus", "max_accelerators": "max_instance_gpus"}


class SamplingSpec(Spec):
    """Latency limits with a constant ratio between neighbors. Each limit selects a point of the frontier.

    The published study uses 1,000 limits over two powers of ten.
    """

    points: Annotated[int, Field(gt=0, le=1_000_000)]
    """Number of latency limits [1]."""
    decades: Annotated[int | float, Field(gt=0, le=100)]
    """Ratio of the highest latency limit to the lowest latency of the frontier, in powers of ten [1]."""


class Settings(Spec):
    """Settings of one :class:`Series`. Missing settings are taken from ``common`` of the scenario."""

    moved: ClassVar[Mapping[str, str]] = RENAMED

    model: str | None = None
    """Name or path of a model."""
    hardware: str | None = None
    """Name or path of hardware."""
    assumptions: str | None = None
    """Name or path of a preset."""
    engine: str | None = None
    """Engine, ``vllm`` or ``vllm@0.24.0``. Only layouts that the engine can start are searched, with the profile of the
    engine.

    With ``any``, all layouts are searched. By default, all layouts that at least one known engine can start are
    searched.
    """
    arrangement: ArrangementName | None = None
    """Arrangement of prefill and decode: ``aggregated``, ``disaggregated``, or the better of the two (``both``, the
    default).

    Valid only for frontiers of services.
    """
    any_group: bool | None = None
    """True to include disaggregated deployments that no published recipe has. Valid only for frontiers of services."""
    evidence: Literal["measured", "near"] | None = None
    """Restriction of the search to deployments that were measured, or that are similar to measured ones.

    Valid only for frontiers of services.
    """
    gpus: Count | None = None
    """Maximum number of GPUs of one deployment [1]. Valid only for frontiers of services."""
    speculate: bool | None = None
    """False to disable speculative decoding.

    By default, the recipes of the engines decide. Valid only for frontiers of services.
    """
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """Fields of specifications to override: ``assumptions.host.launch=0 us``."""
    weights: Dtype | None = None
    """Number format of the weights; by default the published one."""
    activations: Dtype | None = None
    """Number format of activations."""
    kv: Dtype | None = None
    """Number format of the KV cache."""
    context: Tokens | None = None
    """Cached tokens per sequence [tokens]. Valid only for frontiers of decode steps."""
    contexts: Mix | None = None
    """Different contexts in one batch [tokens], each with its number or share of sequences [1].

    Valid only for frontiers of decode steps.
    """
    isl: Tokens | None = None
    """Input tokens per request [tokens]."""
    osl: Positive | None = None
    """Output tokens per request [tokens]."""
    traffic: str | None = None
    """Name or path of a workload, which replaces lengths. Valid only for frontiers of services."""
    price: HourRate | None = None
    """Price of an accelerator-hour [USD/h] or a node-hour (``23.60/node``), or a kind of price (``on_demand``,
    ``owned``).

    The default is a typical price in the chip's file.
    """
    decode_only: bool | None = None
    """True to evaluate only decode steps, without prefill. ``grid: paper`` also evaluates only decode steps."""
    ttft: MeanPromise | None = None
    """SLO on the mean time to first token, without queueing [s]. Valid only for frontiers of services."""
    tpot: MeanPromise | None = None
    """SLO on the mean time per output token [s]. Valid only for frontiers of services."""
    e2e: MeanPromise | None = None
    """SLO on the mean time to the last token [s]. Valid only for frontiers of services."""
    cached: Tokens | None = None
    """Prompt tokens in the prefix cache [tokens]. Valid only for frontiers of services."""
    shared_prefix: Tokens | None = None
    """Tokens at the start of every prompt that are equal for all requests [tokens].

    Valid only for frontiers of services.
    """
    slots: Count | None = None
    """Maximum concurrent requests of an instance [1]. Valid only for frontiers of services."""
    max_tokens_per_second: Positive | None = None
    """Demand: maximum output rate [tokens/s]. Valid only for frontiers of decode steps."""
    grid: GridName | None = None
    """Grid of layouts and batches: the published study's logarithmic grid (``paper``), or integers (``whole``)."""
    pipeline: bool | None = None
    """True to search pipeline depths above 1."""
    max_instance_gpus: Positive | None = None
    """Maximum number of accelerators in one instance [1]."""
    tp: Degree | None = None
    """Tensor-parallel degree, or ``any`` to search all degrees [1].

    If tp, dp or pp is set, the degrees that are not set are 1.
    """
    dp: Degree | None = None
    """Attention-DP groups per pipeline stage, or ``any`` to search all numbers [1]."""
    pp: Degree | None = None
    """Number of pipeline stages, or ``any`` to search all numbers [1]."""
    ep: Degree | None = None
    """Expert-parallel ranks of a stage [1]; by default, the best number of ranks."""
    dcp: Count | None = None
    """Attention ranks that split the cached tokens of a sequence in decode [1]; 1 by default."""
    batch: Positive | None = None
    """Number of sequences that an instance decodes together [1]. Valid only for frontiers of decode steps."""
    instance_gpus: Positive | None = None
    """Number of accelerators in one instance [1]."""
    draft: str | None = None
    """Draft model for speculative decoding. At most one of ``draft``, ``mtp``, ``eagle`` and ``ngram`` can be set."""
    mtp: bool | None = None
    """True to draft with the multi-token-prediction layers of the target model."""
    eagle: bool | None = None
    """True to draft with an EAGLE head, which is one additional layer of the target model."""
    ngram: bool | None = None
    """True to use as drafts the tokens that followed an earlier occurrence of the last n-gram. N-gram drafts take no
    time."""
    draft_weights: Dtype | None = None
    """Number format of the draft model or draft head.

    By default, a draft model has its published format, and a head has the format of the target model.
    """
    acceptance: Acceptance | None = None
    """Acceptance probability of a draft token, if all earlier draft tokens are accepted [1]: a single value, or one per
    position. By default, the published values for the method and the model are used.
    """
    max_draft: Annotated[int, Field(ge=1, le=64)] | None = None
    """Maximum draft length [tokens].

    The default is the number of values in ``acceptance``, or else the length in the engine's recipe, or else the
    published length.
    """
    draft_length: Annotated[int, Field(ge=1, le=64)] | None = None
    """Fixed number of draft tokens in every speculation round, instead of ``max_draft`` [tokens]."""
    sampling: SamplingSpec | None = None
    """Latency limits that select points of the frontier of decode steps; absent for the exact frontier."""

    @property
    def counts_decode_steps(self) -> bool:
        """True if only decode steps are evaluated: with ``decode_only``, or with the grid of the published study."""
        return bool(self.decode_only) or self.grid == "paper"

    def _check_fields(self) -> None:
        check_lengths(self.context, self.contexts, self.isl, self.osl)
        other = next((name for name in options.SAID_BY_TRAFFIC if getattr(self, name) is not None), None)
        if self.traffic is not None and other is not None:
            raise ValueError(f"give either traffic or {other}, not both: the workload sets it")
        proposers = [name for name in PROPOSERS if getattr(self, name)]
        if len(proposers) > 1:
            raise ValueError(f"give one of {', '.join(PROPOSERS)}, got {' and '.join(proposers)}")
        if proposers and self.speculate is False:
            raise ValueError(f"speculate: false and {proposers[0]} contradict each other; leave one of them out")
        if self.max_draft is not None and self.draft_length is not None:
            raise ValueError("give either max_draft or draft_length, not both")

    @classmethod
    def from_text(cls, pairs: Mapping[str, str], *, origin: str) -> Settings:
        """Create settings from text values in YAML syntax.

        A key with a dot overrides a field (``hardware.link_domain``).

        Raises
        ------
        SpecError
            If a key is unknown or a value is not allowed.
        """
        changes = [f"{key}={text}" for key, text in pairs.items() if "." in key]
        values = {key: scalar(text) for key, text in pairs.items() if "." not in key}
        return cls.build({**values, **({"changes": changes} if changes else {})}, origin=origin)

    def over(self, common: Settings) -> Settings:
        """Settings of a series, in which missing settings are taken from ``common``."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        # A workload, contexts and lengths exclude each other. One that the series sets removes those in ``common``.
        if self.traffic is not None:
            fields = {**dict.fromkeys(options.SAID_BY_TRAFFIC), **fields}
        elif self.context is not None or self.contexts is not None:
            fields = {**dict.fromkeys(("context", "contexts", "isl", "osl", "traffic")), **fields}
        elif self.isl is not None or self.osl is not None:
            fields = {**dict.fromkeys(("context", "contexts", "traffic")), **fields}
        # A speculation method that the series sets removes the one in ``common``.
        if any(getattr(self, name) for name in PROPOSERS):
            fields = {**dict.fromkeys(PROPOSERS), **fields}
        merged = common.model_copy(update=fields)
        try:
            merged._check_fields()
        except ValueError:
            return common.replace(**fields)  # which raises the error with all its parts
        return merged


def _fields(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the options that are also fields of :class:`Settings`."""
    return tuple(name for name in names if name in Settings.fields)


#: Settings that are valid only for services, and settings that are valid only for decode steps.
SERVICES_ONLY = (*_fields(options.counted_by("services")), "arrangement", "speculate")
DECODE_STEPS_ONLY = (*_fields(options.counted_by("decode_steps")), "sampling")


class Series(Spec):
    """One curve of a figure, or one row of a table."""

    label: str = Field(min_length=1)
    """Name of the series in the legend or the first column."""
    settings: Settings = Field(default_factory=Settings)
    """Settings of the series, which override the common settings."""


class FrontierAsk(Spec):
    """Query for cost-speed frontiers of the full cost model."""

    kind: Literal["frontier"]
    """Kind of query."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Curves of the figure, one per frontier."""


class ToyAsk(Spec):
    """Query for the optimum (Table 1) or frontiers (Figure 1) of the model in section 2.2 of the published study."""

    kind: Literal["toy_optimum", "toy_frontier"]
    """Kind of query."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Rows of the table (``toy_optimum``), or curves of the figure (``toy_frontier``)."""
    reductions: Positive
    """All-reduces per layer [1]."""
    hop: Seconds
    """Latency between neighboring accelerators [s]."""
    base: Seconds
    """Additional time per all-reduce [s]."""

    def _check_fields(self) -> None:
        if self.kind == "toy_optimum" and self.hop == 0:
            raise ValueError("a toy_optimum needs a hop > 0 s; without one the best instance is infinitely large")


class PublishedLatency(Spec):
    """Published latency of a model."""

    label: str
    """Name of the model."""
    parameters: Size
    """Number of parameters [1]."""
    latency: Annotated[Seconds, Field(gt=0)]
    """Time per token [s]."""


class SquareRootAsk(Spec):
    """Comparison of published latencies with eq. 19, by which latency grows with the square root of the parameters."""

    kind: Literal["square_root_law"]
    """Kind of query."""
    measured: Annotated[tuple[PublishedLatency, ...], Field(min_length=2, strict=False)]
    """Published latencies. The first latency sets the constant of eq. 19."""


class PanelsAsk(Spec):
    """Query for a figure that combines the figures of other scenarios."""

    kind: Literal["panels"]
    """Kind of query."""
    scenarios: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    """Names of the scenarios with the combined figures."""


#: Settings that are not valid for a server that is already running.
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
    """Comparison of a measured deployment with the predicted frontier and the ideal bound."""

    kind: Literal["assess"]
    """Kind of query."""
    common: Settings
    """Model, chip and layout. Set ``tp``, ``dp``, ``pp``, ``ep`` or ``instance_gpus`` if known."""
    gpus: Count
    """Number of accelerators of the measured deployment [1]."""
    tokens_per_second: Positive
    """Measured speed per user [tokens/s]."""
    utilization: Positive | None = None
    """Measured model FLOPs utilization [1]; set this field, ``batch`` or ``throughput``."""
    batch: Positive | None = None
    """Measured concurrent sequences [1]; set this field, ``utilization`` or ``throughput``."""
    throughput: Positive | None = None
    """Measured output rate of the deployment [tokens/s]; set this field, ``utilization`` or ``batch``."""
    presets: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names or paths of additional presets. The comparison is repeated with each preset."""

    def _check_fields(self) -> None:
        measured = [name for name in ("utilization", "batch", "throughput") if getattr(self, name) is not None]
        if len(measured) != 1:
            raise ValueError(f"give one of utilization, batch and throughput; given: {', '.join(measured) or 'none'}")
        odd = [name for name in _NOT_OF_A_SERVER if getattr(self.common, name) is not None]
        if odd:
            raise ValueError(f"common: {', '.join(odd)} cannot be said of a measured server; leave it out")
