"""Facts on collections that their rows do not contain: how sources ran their servers, and which runs speculated."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from inference_econ.inputs import Source, _yaml
from inference_econ.inputs._spec import Count, Field, Spec
from inference_econ.inputs.models.acceptance import Method

PUBLISHED = Path(__file__).resolve().parents[1] / "published"

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
Range = Annotated[tuple[Count, Count], Field(strict=False)]


class OwnRuns(Spec):
    """Launch settings of the runs that a collection made itself, from an engine version on."""

    engine: str = Field(min_length=1)
    """Catalog name of the engine."""
    version: str | None = None
    """First engine version; absent for all versions before the next entry."""
    step_room: Count
    """Prompt tokens of a step in addition to one prompt and (except for SGLang) one token per request [tokens]."""
    prefill_first: bool = False
    """True if prompts have priority over decoding; false if both share steps."""
    single_prompts: bool = False
    """True if a step processes one prompt of dense models, whatever its token budget is."""
    synchronous: bool = False
    """True if the host prepares no step in advance."""


class SourceFacts(Spec):
    """Facts about the servers of a source that none of its rows contains."""

    within_source: dict[str, dict[str, str]]
    """Catalog name of hardware, by source and by the name in the source."""
    kv_formats: dict[str, dict[str, str]]
    """KV-cache format by model, engine and chip, if no row records it. It applies to the runs that a collection made
    itself, and to pools without a script of equal aggregated servers."""
    own_runs: Annotated[tuple[OwnRuns, ...], Field(strict=False)]
    """Launch settings of these runs by engine, the oldest version first."""
    eager: Names
    """Sources whose engines launched the kernels of decode steps one by one, without graphs."""
    even_routing: Names
    """Sources or single rows in which tokens were forced to spread evenly over experts."""
    two_batch: Names
    """Sources whose engines used two-batch overlap, which is never the default."""
    redundant_experts: dict[str, int]
    """Copies of experts in the deployments of a source, if recorded [1]."""
    equal_lengths: Names
    """Sources in which all requests have equal lengths."""
    run_sizes: dict[str, float]
    """Requests per run [1], by a part of the source's name."""
    days: dict[str, str]
    """Days of runs without a recorded day, by the first characters of the ids."""
    spoilt: dict[str, str]
    """Reason why runs are invalid, by the first characters of their ids."""


class RunPoint(Spec):
    """Servers of one layout with one workload, for a range of concurrency."""

    isl: Count
    """Nominal input length [tokens]."""
    osl: Count
    """Nominal output length [tokens]."""
    tp: Count
    """Accelerators that share the attention weights [1]."""
    dp: Count = 1
    """Attention-DP groups [1]."""
    ep: Count = 1
    """Expert-parallel ranks [1]."""
    concurrency: Range
    """Minimum and maximum concurrency [1]."""
    drafts: int = Field(default=0, ge=0)
    """Draft tokens per round [1]; 0 without speculation."""

    def _check_fields(self) -> None:
        if self.concurrency[0] > self.concurrency[1]:
            raise ValueError(f"concurrency goes from the fewest to the most requests, got {list(self.concurrency)}")


class SpeculatingRuns(Spec):
    """Runs with the scripts of one benchmark on one engine and chip, with and without speculation."""

    model: str = Field(min_length=1)
    """Catalog name."""
    hardware: str = Field(min_length=1)
    """Catalog name."""
    engine: str = Field(min_length=1)
    """Name of the engine in measurements that were read."""
    versions: Annotated[Names, Field(min_length=1)]
    """Engine versions."""
    weights: str | None = None
    """Number format of the checkpoint, as in measurements; absent for any format."""
    method: Method
    """Speculation method."""
    speculating: Annotated[tuple[RunPoint, ...], Field(strict=False, min_length=1)]
    """Points with speculation."""
    plain: Annotated[tuple[RunPoint, ...], Field(strict=False)] = ()
    """Points of the same versions without speculation."""
    source: Source
    """Scripts, with their commits."""

    def _check_fields(self) -> None:
        if any(point.drafts == 0 for point in self.speculating) or any(point.drafts > 0 for point in self.plain):
            raise ValueError("drafts are given for every point under speculating, and for none under plain")


class DraftLength(Spec):
    """Draft length in the scripts of one benchmark, for any version and workload."""

    models: Annotated[Names, Field(min_length=1)]
    """Catalog names."""
    engine: str = Field(min_length=1)
    """Name of the engine in measurements that were read."""
    hardware: Annotated[Names, Field(min_length=1)]
    """Catalog names."""
    method: Method
    """Speculation method."""
    drafts: Count
    """Draft tokens per round [1]."""
    drafts_of_attention_dp: Count | None = None
    """Draft tokens per round with attention-DP [1]; absent if the number is equal."""
    source: Source
    """Scripts, with a commit."""


class SpeculationOfRuns(Spec):
    """Speculation in the scripts of a benchmark whose results do not record it."""

    drafts: Annotated[tuple[DraftLength, ...], Field(strict=False)] = ()
    """Draft lengths of runs whose results record speculation without the draft length."""
    runs: Annotated[tuple[SpeculatingRuns, ...], Field(strict=False)]
    """Runs whose results do not record whether they speculated."""

    def draft_length(self, model: str, engine: str, hardware: str, method: str, *, attention_dp: bool) -> int | None:
        """Draft tokens per round in the scripts of InferenceX; None if unknown [1]."""
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
    """Facts in ``data/published/sources.yaml``."""
    return SourceFacts.from_document(_yaml.read_yaml(PUBLISHED / "sources.yaml"))


@cache
def speculation_of_runs() -> SpeculationOfRuns:
    """Facts in ``data/published/speculating_runs.yaml``."""
    return SpeculationOfRuns.from_document(_yaml.read_yaml(PUBLISHED / "speculating_runs.yaml"))
