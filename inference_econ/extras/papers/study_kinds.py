"""Scenarios on other publications: latent attention, prefill chains, decode steps, sampling and families."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from inference_econ.inputs._spec import BytesPerSecond, Count, Dtype, Field, FlopsPerSecond, Seconds, Spec
from inference_econ.inputs.options import split_changes
from inference_econ.inputs.scenario_kinds import Positive, Printed, Series, Settings
from inference_econ.inputs.workload.traffic import Tokens

LatentVariant = Literal["absorbed", "decompressed", "decompressed_per_step"]
#: Implementations of latent attention: the variants, and three implementations in published notes.
Implementation = Literal[
    "absorbed",
    "decompressed",
    "decompressed_per_step",
    "absorbed_unfused",
    "absorbed_copied",
    "absorbed_multiplied",
]
Degree = Annotated[int, Field(ge=1, le=4096)]
Counts = Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]


class LatentRow(Spec):
    """Implementation of latent attention with published values."""

    label: str = Field(min_length=1)
    """Name in the first column."""
    latent_attention: LatentVariant
    """See :class:`inference_econ.inputs.presets.assumptions.Assumptions`."""
    printed: dict[Literal["kB", "MFLOP"], Printed] = Field(default_factory=dict)
    """Published cache [10^3 B] and work [10^6 FLOP] per token and layer.

    The values are text to preserve digits. Printed values are used for comparison only.
    """


class Verification(Spec):
    """Decode steps that verify draft tokens, or steps with a chunk of a prompt: several new tokens per sequence."""

    batch: Count
    """Number of sequences [1]."""
    context: Count
    """Cached tokens per sequence [tokens]."""
    new_tokens: Counts
    """New tokens per sequence [tokens]."""


class WholeStep(Spec):
    """Deployment of the full model."""

    hardware: str
    """Name or path of hardware."""
    tp: Degree
    """Tensor-parallel degree [1]."""
    dp: Degree = 1
    """Attention-DP degree [1]."""
    ep: Degree = 1
    """Expert-parallel ranks [1]."""
    batches: Counts
    """Numbers of sequences [1]."""
    contexts: Counts
    """Cached tokens per sequence [tokens]."""


class MeasuredLayers(Spec):
    """Measured times of one layer of latent attention."""

    file: Literal["latent_attention_points"]
    """Name of the file in ``scenarios/measured``."""
    devices: dict[str, str] = Field(min_length=1)
    """Names of measured devices in the file, by name or path of the chip."""


class LatentVariantsAsk(Spec):
    """Scenario that compares variants of latent attention: absorbed, decompressed cache, decompressed per step."""

    kind: Literal["latent_variants"]
    """Kind of scenario."""
    model: str
    """Name or path of a model with latent attention."""
    hardware: str
    """Name or path of the chip on which one layer is timed."""
    assumptions: str = "deployable"
    """Name or path of a preset."""
    kv: Dtype | None = None
    """Number format of the cache."""
    rows: Annotated[tuple[LatentRow, ...], Field(min_length=1, strict=False)]
    """Implementations to compare by cache and work per token."""
    batches: Counts
    """Sequences of a decode step [1]."""
    drawn_batches: Counts | None = None
    """Batches in the figure [1]; all by default."""
    contexts: Counts
    """Cached tokens per sequence [tokens]."""
    verification: Verification
    """Steps with several new tokens."""
    whole_step: WholeStep | None = None
    """Deployment for steps of the full model."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers on published numbers."""
    measured: MeasuredLayers | None = None
    """Measured times to show."""
    measured_notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers on measured times."""


class PrintedPrefill(Spec):
    """Published values for one prompt length, as text to preserve digits, for comparison only."""

    context: Count
    """Prompt length [tokens]."""
    one_process: Printed | None = None
    """TTFT on one copy of the model [s]."""
    all_gather: Printed | None = None
    """TTFT with all-gather [s]."""
    searched: Printed | None = None
    """TTFT of the chain with an optimized partition [s]."""
    speedup: Printed | None = None
    """Time of all-gather over time of the chain [1]."""


class ChainAsk(Spec):
    """Prefill chain: processes that share the prefill of a prompt."""

    label: str = Field(min_length=1)
    """Name in tables and figures."""
    model: str
    """Name or path of a model."""
    processes: Annotated[int, Field(ge=1, le=64)]
    """Number of processes [1]."""
    link: BytesPerSecond | None = None
    """Bandwidth between processes, one way [B/s]; absent for a single process."""
    section: str = ""
    """Section of the publication, by which errors are grouped."""
    printed: Annotated[tuple[PrintedPrefill, ...], Field(strict=False)] = ()
    """Published values."""

    def _check_fields(self) -> None:
        if (self.link is None) != (self.processes == 1):
            raise ValueError(f"give a link for 2 or more processes, and none for one; processes is {self.processes}")
        shared = {"all_gather", "searched", "speedup"}
        if self.processes == 1 and any(shared & printed.model_fields_set for printed in self.printed):
            raise ValueError("a single process has times of one_process only")


class RunaheadAsk(Spec):
    """Scenario that compares prefill chains (KV-Runahead) with all-gather context parallelism."""

    kind: Literal["kv_runahead"]
    """Kind of scenario."""
    chains: Annotated[tuple[ChainAsk, ...], Field(min_length=1, strict=False)]
    """Compared chains."""
    contexts: Counts
    """Prompt lengths [tokens]."""
    lookup: Counts
    """Prompt lengths for which a partition is optimized; partitions of other lengths are interpolated [tokens]."""
    kv: Dtype
    """Number format of the cache."""
    matmul: FlopsPerSecond
    """Sustained arithmetic of matrix multiplications [FLOP/s]."""
    attention: FlopsPerSecond
    """Sustained arithmetic of attention [FLOP/s]."""
    overhead: Seconds
    """Minimum time of a layer [s]."""
    latency: Seconds
    """Latency of a message between processes [s]."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes on differences from published values."""

    def _check_fields(self) -> None:
        longest = max(chain.processes for chain in self.chains)
        for name, prompts in (("contexts", self.contexts), ("lookup", self.lookup)):
            if list(prompts) != sorted(set(prompts)):
                raise ValueError(f"{name} must ascend, got {', '.join(map(str, prompts))}")
            if prompts[0] < longest:
                raise ValueError(f"a prompt of {prompts[0]} tokens does not split over {longest} processes")
        for chain in self.chains:
            for printed in chain.printed:
                if printed.context not in self.contexts:
                    raise ValueError(f"printed context {printed.context} of {chain.label!r} is none of the contexts")
        labels = [chain.label for chain in self.chains]
        if len(set(labels)) < len(labels):
            raise ValueError("two chains have the same label; a label names one chain")


#: Quantities that decode steps can vary.
StepAxis = Literal["context", "batch", "shared_prefix"]


class StepsAsk(Spec):
    """Scenario with decode steps of one deployment under different settings, over context, batch or shared prefix."""

    kind: Literal["steps"]
    """Kind of scenario."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series: model, hardware, formats, parallelism degrees, ``batch``, ``context``, ``shared_prefix``.
    """
    over: StepAxis
    """Quantity that varies along a line."""
    values: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=200, strict=False)]
    """Values of the quantity that varies: tokens, or sequences [1]."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Compared series; ratios are relative to the first series."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""

    def _check_fields(self) -> None:
        if list(self.values) != sorted(set(self.values)):
            raise ValueError(f"values must ascend, got {', '.join(f'{value:g}' for value in self.values)}")
        if self.over != "shared_prefix" and self.values[0] < 1:
            raise ValueError(f"a {self.over} is at least 1, got {self.values[0]:g}")
        for name, settings in (("common", self.common), *((series.label, series.settings) for series in self.series)):
            if getattr(settings, self.over) is not None:
                raise ValueError(f"{self.over} is what differs along a line; leave it out of the settings of {name!r}")


class PointSeries(Series):
    """Settings of one frontier whose points are compared."""

    speed: Positive | None = None
    """User speed at which the cost is computed if the demand varies [tokens/s]."""
    part: str = ""
    """Kind of improvement. A second table shows the product of the cost factors of all series of one kind."""
    year: Positive | None = None
    """Time from which the settings were available, for a chart over time [years]."""


class PointsAsk(Spec):
    """Scenario with points of frontiers over user speed, total demand, or speed preference of a buyer (eq. 45)."""

    kind: Literal["points"]
    """Kind of scenario."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series."""
    over: Literal["speed", "max_tokens_per_second", "exponent"]
    """Quantity that varies: user speed [tokens/s], total demand [tokens/s], or speed-preference exponent [1]."""
    values: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=50, strict=False)]
    """Ascending values of the quantity that varies."""
    series: Annotated[tuple[PointSeries, ...], Field(min_length=1, strict=False)]
    """Compared frontiers."""
    cumulative: bool = False
    """True if each series also has the settings of the series before it."""
    measured: bool = False
    """True to show measured servers that are similar to the last series."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""

    def _check_fields(self) -> None:
        if list(self.values) != sorted(set(self.values)):
            raise ValueError(f"values must ascend, got {', '.join(f'{value:g}' for value in self.values)}")
        if any((series.speed is None) is (self.over == "max_tokens_per_second") for series in self.series):
            raise ValueError("a series has a speed if values are demands, and only then")
        if self.over != "speed" and (self.cumulative or self.measured):
            raise ValueError("cumulative and measured apply to values that are speeds")


class SamplingRuleAsk(Spec):
    """Scenario that compares simulated speculative sampling with the target's distribution and the formula."""

    kind: Literal["sampling_rule"]
    """Kind of scenario."""
    target: Annotated[tuple[float, ...], Field(max_length=10_000, strict=False)] | None = None
    """Target probability of each token [1]; by default, random distributions that differ by position."""
    draft: Annotated[tuple[float, ...], Field(max_length=10_000, strict=False)] | None = None
    """Draft probability of each token [1]."""
    vocabulary: Annotated[int, Field(ge=2, le=10_000)] = 20
    """Vocabulary size of random distributions [1]."""
    draft_length: Annotated[int, Field(ge=1, le=64)] = 4
    """Draft tokens per speculation round [1]."""
    rounds: Annotated[int, Field(ge=2, le=100_000_000)] = 1_000_000
    """Number of sampled speculation rounds [1]."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the random numbers."""

    def _check_fields(self) -> None:
        if (self.target is None) is not (self.draft is None):
            raise ValueError("target and draft are given together, or neither: random distributions are drawn then")


#: Maximum number of members of a family; more would take minutes [1].
_MOST_MEMBERS = 64


class FamilyChoice(Spec):
    """One choice for a part in which members of a family differ."""

    label: str = Field(min_length=1)
    """Name in tables."""
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """Changed numbers, such as ``hardware.hbm_bytes_per_second=4.8 TB/s`` or ``model.kv_heads=16``; none for the base.
    """
    dollars: Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)] = 0.0
    """For chips: change of the price of an accelerator-hour [USD/h]."""


class FamilyPart(Spec):
    """Part of the model or chip in which members of a family differ."""

    name: str = Field(min_length=1)
    """Column heading."""
    choices: Annotated[tuple[FamilyChoice, ...], Field(min_length=1, strict=False)]
    """Choices; the first choice belongs to the base."""


class FamilyAsk(Spec):
    """Scenario that ranks a family: all combinations of choices, with equal parameters or up to a price."""

    kind: Literal["chip", "architecture"]
    """Kind of scenario: variants of the chip, or of the model."""
    common: Settings
    """Settings of all members; the choices change their model or hardware."""
    axes: Annotated[tuple[FamilyPart, ...], Field(min_length=1, strict=False)]
    """Parts in which members differ."""
    speeds: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]
    """User speeds for which costs are computed [tokens/s]. The first speed ranks the members."""
    budget: Positive | None = None
    """For chips: maximum price of a member [USD/h]."""
    equal_parameters: bool | None = None
    """For architectures: true to adjust the hidden size so that layers have as many parameters as the base
    (default)."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""

    def _check_fields(self) -> None:
        members = math.prod(len(axis.choices) for axis in self.axes)
        if members > _MOST_MEMBERS:
            raise ValueError(f"the axes have {members} combinations; at most {_MOST_MEMBERS} are answered at once")
        if self.common.counts_decode_steps:
            raise ValueError("families are of services; leave decode_only and the study's grid out of common")
        if self.kind == "architecture":
            if self.budget is not None or any(choice.dollars for axis in self.axes for choice in axis.choices):
                raise ValueError("budget and dollars apply to chips; an architecture has parameters")
        elif self.equal_parameters is not None:
            raise ValueError("equal_parameters applies to architectures; a chip has a price and a budget")
        varied = "hardware" if self.kind == "chip" else "model"
        for axis in self.axes:
            for choice in axis.choices:
                others = [name for name, changes in split_changes(choice.changes).items() if changes and name != varied]
                if others:
                    raise ValueError(f"{choice.label!r} changes {others[0]}; a {self.kind} study varies {varied} alone")
