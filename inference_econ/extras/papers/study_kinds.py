"""Questions of scenarios about other publications: latent attention, chains of prefill."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._spec import BytesPerSecond, Count, Dtype, FlopsPerSecond, Seconds, Spec
from inference_econ.inputs.scenario_kinds import Positive, Printed, Series, Settings
from inference_econ.inputs.what_if import split_changes
from inference_econ.inputs.workload.traffic import Tokens

LatentVariant = Literal["absorbed", "decompressed", "decompressed_per_step"]
#: Ways to compute latent attention: the variants, and three that only notes on them have.
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
    """One implementation of latent attention, with what was printed for it."""

    label: str = Field(min_length=1)
    """Name in the first column."""
    latent_attention: LatentVariant
    """See :class:`inference_econ.inputs.presets.assumptions.Assumptions`."""
    printed: dict[Literal["kB", "MFLOP"], Printed] = Field(default_factory=dict)
    """Published cache [10^3 B] and arithmetic [10^6 FLOP] per token and layer, as text so that their digits count:
    expectations, never results."""


class Verification(Spec):
    """Steps with several new tokens per sequence: drafts that are verified, chunks of a prompt."""

    batch: Count
    """Sequences [1]."""
    context: Count
    """Cached tokens of each [tokens]."""
    new_tokens: Counts
    """New tokens of each [tokens]."""


class WholeStep(Spec):
    """A deployment of the whole model."""

    hardware: str
    """Name or path of hardware."""
    tp: Degree
    """Accelerators that share the attention weights [1]."""
    dp: Degree = 1
    """Groups of them with sequences of their own [1]."""
    ep: Degree = 1
    """Expert-parallel ranks [1]."""
    batches: Counts
    """Sequences [1]."""
    contexts: Counts
    """Cached tokens of each [tokens]."""


class MeasuredLayers(Spec):
    """Measured times of one layer of latent attention."""

    file: Literal["latent_attention_points"]
    """A file of ``scenarios/measured``."""
    device: str = Field(min_length=1)
    """Device that it was measured on, in the words of the file."""


class LatentVariantsAsk(Spec):
    """Latent attention absorbed, over a decompressed cache, and decompressed in every step."""

    kind: Literal["latent_variants"]
    """Names this kind of question."""
    model: str
    """Name or path of a model with latent attention."""
    hardware: str
    """Chip that one layer of attention is timed on."""
    assumptions: str = "deployable"
    """Name or path of a preset."""
    kv: Dtype | None = None
    """Number format of the cache."""
    rows: Annotated[tuple[LatentRow, ...], Field(min_length=1, strict=False)]
    """Implementations by cache and arithmetic per token."""
    batches: Counts
    """Sequences of a decode step [1]."""
    drawn_batches: Counts | None = None
    """Those that the figure shows [1]; all if not given."""
    contexts: Counts
    """Cached tokens of each [tokens]."""
    verification: Verification
    """Steps with more new tokens."""
    whole_step: WholeStep | None = None
    """Compare steps of the whole model as well."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers about the printed numbers."""
    measured: MeasuredLayers | None = None
    """Times to show beside ours."""
    measured_notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers about the measured times."""


class PrintedPrefill(Spec):
    """Printed values for one length of the prompt, as text so that its digits count: expectations."""

    context: Count
    """Prompt [tokens]."""
    one_process: Printed | None = None
    """Time to the first token on one process [s]."""
    all_gather: Printed | None = None
    """Time to the first token with all-gathers [s]."""
    searched: Printed | None = None
    """Time to the first token of the chain with the searched partition [s]."""
    speedup: Printed | None = None
    """All-gather over chain [1]."""


class ChainAsk(Spec):
    """Processes that share a prefill."""

    label: str = Field(min_length=1)
    """Name in tables and figures."""
    model: str
    """Name or path of a model."""
    processes: Annotated[int, Field(ge=1, le=64)]
    """How many [1]."""
    link: BytesPerSecond | None = None
    """From one to the next, one way [B/s]; absent for a single process."""
    section: str = ""
    """Where it was published: how far ours are off is said of each section."""
    printed: Annotated[tuple[PrintedPrefill, ...], Field(strict=False)] = ()
    """Published values."""

    def _check_fields(self) -> None:
        if (self.link is None) != (self.processes == 1):
            raise ValueError(f"give a link for 2 or more processes, and none for one; processes is {self.processes}")
        shared = {"all_gather", "searched", "speedup"}
        if self.processes == 1 and any(shared & printed.model_fields_set for printed in self.printed):
            raise ValueError("a single process has times of one_process only")


class RunaheadAsk(Spec):
    """Prefill over a chain of processes (KV-Runahead) against all-gathers."""

    kind: Literal["kv_runahead"]
    """Names this kind of question."""
    chains: Annotated[tuple[ChainAsk, ...], Field(min_length=1, strict=False)]
    """Chains that are compared."""
    contexts: Counts
    """Prompts [tokens]."""
    lookup: Counts
    """Prompts whose partition is searched; others are interpolated between them [tokens]."""
    kv: Dtype
    """Number format of the cache."""
    matmul: FlopsPerSecond
    """Sustained arithmetic of matrix multiplications [FLOP/s]."""
    attention: FlopsPerSecond
    """Sustained arithmetic of attention [FLOP/s]."""
    overhead: Seconds
    """Least time of a layer [s]."""
    latency: Seconds
    """Of a message between processes [s]."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Where ours differ from what was printed, and why."""

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


#: What decode steps can be asked over.
StepAxis = Literal["context", "batch", "shared_prefix"]


class StepsAsk(Spec):
    """Decode steps of one deployment under settings that differ, over its context, its batch or its shared prefix."""

    kind: Literal["steps"]
    """Names this kind of question."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series: model, hardware, formats, degrees, ``batch``, ``context``, ``shared_prefix``."""
    over: StepAxis
    """Quantity that differs along a line."""
    values: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=200, strict=False)]
    """Its values: tokens, or sequences [1]."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Series that are compared; the others are held against the first."""
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


class SamplingRuleAsk(Spec):
    """Rounds of speculative sampling, whose tokens are compared with the target's distribution and with the formula."""

    kind: Literal["sampling_rule"]
    """Names this kind of question."""
    target: Annotated[tuple[float, ...], Field(max_length=10_000, strict=False)] | None = None
    """Probability of each token under the target [1]; random distributions by default, others at each position."""
    draft: Annotated[tuple[float, ...], Field(max_length=10_000, strict=False)] | None = None
    """Probability of each token under the draft [1]."""
    vocabulary: Annotated[int, Field(ge=2, le=10_000)] = 20
    """Tokens of random distributions [1]."""
    draft_length: Annotated[int, Field(ge=1, le=64)] = 4
    """Draft tokens per round [1]."""
    rounds: Annotated[int, Field(ge=2, le=100_000_000)] = 1_000_000
    """Rounds that are drawn [1]."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the random numbers."""

    def _check_fields(self) -> None:
        if (self.target is None) is not (self.draft is None):
            raise ValueError("target and draft are given together, or neither: random distributions are drawn then")


#: More members take minutes.
_MOST_MEMBERS = 64


class FamilyChoice(Spec):
    """One way to have a part of a family."""

    label: str = Field(min_length=1)
    """Name in tables."""
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """What-ifs, ``hardware.hbm_bytes_per_second=4.8 TB/s`` or ``model.kv_heads=16``; none for what is."""
    dollars: Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)] = 0.0
    """Of chips: what it adds to the price of an accelerator [USD/h]."""


class FamilyPart(Spec):
    """A part that members of a family differ in."""

    name: str = Field(min_length=1)
    """Heading of the column."""
    choices: Annotated[tuple[FamilyChoice, ...], Field(min_length=1, strict=False)]
    """The ways to have it, that of the base first."""


class FamilyAsk(Spec):
    """The best of a family: every combination of some choices, at equal parameters or within a price."""

    kind: Literal["chip", "architecture"]
    """Names this kind of question: variants of the chip, or of the model."""
    common: Settings
    """Settings that all have in common; its model and hardware are what is varied."""
    axes: Annotated[tuple[FamilyPart, ...], Field(min_length=1, strict=False)]
    """Axes that members differ in."""
    speeds: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]
    """Speeds of a user that costs are stated at; members are ranked by the first [tokens/s]."""
    budget: Positive | None = None
    """Of chips: members whose price is higher are left out [USD/h]."""
    equal_parameters: bool | None = None
    """Of architectures: the hidden size makes the layers of all have as many parameters as those of the base; yes by
    default."""
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
