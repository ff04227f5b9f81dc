"""Facts of collections that their rows do not say: how sources ran their servers, and which runs speculated."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from inference_econ.inputs import Source, _yaml
from inference_econ.inputs._spec import Count, Spec
from inference_econ.inputs.models.acceptance import Method

PUBLISHED = Path(__file__).resolve().parents[1] / "published"

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
Range = Annotated[tuple[Count, Count], Field(strict=False)]


class OwnRuns(Spec):
    """How a collection launched the engine of its own runs, from some version on."""

    engine: str = Field(min_length=1)
    """Name in the catalogue."""
    version: str | None = None
    """First version; all before the next entry without it."""
    step_room: Count
    """Prompt tokens of a step beyond one prompt and, but for SGLang, a token of each request [tokens]."""
    prefill_first: bool = False
    """Prompts come before decoding; otherwise they are read beside it."""
    single_prompts: bool = False
    """A step reads one prompt of models without experts, whatever room it has."""


class SourceFacts(Spec):
    """Facts about the servers of a source that stand in none of its rows."""

    within_source: dict[str, dict[str, str]]
    """Source to what a name of hardware means there, as a catalogue name."""
    kv_formats: dict[str, dict[str, str]]
    """Model to engine and chip to the format of the KV cache where no row records it: in the own runs of a collection,
    and in pools without a script of aggregated servers alike."""
    own_runs: Annotated[tuple[OwnRuns, ...], Field(strict=False)]
    """How such runs were launched, by engine, from the oldest version on."""
    eager: Names
    """Sources whose engines launched the kernels of decode steps one by one, without graphs."""
    even_routing: Names
    """Sources, or single rows, whose tokens were spread over experts evenly by force."""
    two_batch: Names
    """Sources whose engines let two halves of a batch take turns, which none does by itself."""
    redundant_experts: dict[str, int]
    """Copies of experts that the deployments of a source hold, where that is recorded [1]."""
    equal_lengths: Names
    """Sources whose requests are all equally long."""
    run_sizes: dict[str, float]
    """Part of a source's name to the requests of each of its runs [1]."""


class RunPoint(Spec):
    """Servers of one layout under one traffic, for some numbers of requests at a time."""

    isl: Count
    """Nominal input length [tokens]."""
    osl: Count
    """Nominal output length [tokens]."""
    tp: Count
    """Accelerators that share the attention weights [1]."""
    dp: Count = 1
    """Groups of them with sequences of their own [1]."""
    ep: Count = 1
    """Expert-parallel ranks [1]."""
    concurrency: Range
    """The fewest and the most requests at a time [1]."""
    drafts: int = Field(default=0, ge=0)
    """Proposals of a round [1]; 0 without speculation."""

    @model_validator(mode="after")
    def _ranges_ascend(self) -> Self:
        if self.concurrency[0] > self.concurrency[1]:
            raise ValueError(f"concurrency goes from the fewest to the most requests, got {list(self.concurrency)}")
        return self


class SpeculatingRuns(Spec):
    """Runs of the scripts of one benchmark on one engine and chip, with speculation and without."""

    model: str = Field(min_length=1)
    """Catalogue name."""
    hardware: str = Field(min_length=1)
    """Catalogue name."""
    engine: str = Field(min_length=1)
    """As measurements call it after reading."""
    versions: Annotated[Names, Field(min_length=1)]
    """Of the engine."""
    weights: str | None = None
    """Number format of the checkpoint as measurements name it; any if absent."""
    method: Method
    """Who proposed."""
    speculating: Annotated[tuple[RunPoint, ...], Field(strict=False, min_length=1)]
    """Points with speculation."""
    plain: Annotated[tuple[RunPoint, ...], Field(strict=False)] = ()
    """Points of the same versions without it."""
    source: Source
    """The scripts, with their commits."""

    @model_validator(mode="after")
    def _drafts_belong_to_speculation(self) -> Self:
        if any(point.drafts == 0 for point in self.speculating) or any(point.drafts > 0 for point in self.plain):
            raise ValueError("drafts are given for every point under speculating, and for none under plain")
        return self


class DraftLength(Spec):
    """Tokens that a round proposes in the scripts of one benchmark, whatever the version and the traffic."""

    models: Annotated[Names, Field(min_length=1)]
    """Catalogue names."""
    engine: str = Field(min_length=1)
    """As measurements call it after reading."""
    hardware: Annotated[Names, Field(min_length=1)]
    """Catalogue names."""
    method: Method
    """Who proposes."""
    drafts: Count
    """Proposals of a round [1]."""
    drafts_of_attention_dp: Count | None = None
    """Number where attention is data-parallel [1]; no other one if absent."""
    source: Source
    """The scripts, with a commit."""


class SpeculationOfRuns(Spec):
    """Speculation in the scripts of a benchmark whose results do not record it."""

    drafts: Annotated[tuple[DraftLength, ...], Field(strict=False)] = ()
    """Draft lengths of runs whose results say that they speculate, but not how far ahead."""
    runs: Annotated[tuple[SpeculatingRuns, ...], Field(strict=False)]
    """Runs whose results do not say whether they speculated."""

    def draft_length(self, model: str, engine: str, hardware: str, method: str, *, attention_dp: bool) -> int | None:
        """Proposals of a round in the scripts of InferenceX; None if they are not known [1]."""
        for entry in self.drafts:
            if (
                (entry.engine, entry.method) == (engine, method)
                and model in entry.models
                and hardware in entry.hardware
            ):
                return (entry.drafts_of_attention_dp if attention_dp else None) or entry.drafts
        return None


@cache
def source_facts() -> SourceFacts:
    """Facts of ``data/published/sources.yaml``."""
    return SourceFacts.from_document(_yaml.read_yaml(PUBLISHED / "sources.yaml"))


@cache
def speculation_of_runs() -> SpeculationOfRuns:
    """Facts of ``data/published/speculating_runs.yaml``."""
    return SpeculationOfRuns.from_document(_yaml.read_yaml(PUBLISHED / "speculating_runs.yaml"))
