"""Questions of scenarios about other publications: latent attention, chains of prefill."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import BytesPerSecond, Count, Dtype, FlopsPerSecond, Seconds, Spec
from inference_econ.inputs.asks import Printed

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
    """See :class:`inference_econ.inputs.assumptions.Assumptions`."""
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


class Chain(Spec):
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
    chains: Annotated[tuple[Chain, ...], Field(min_length=1, strict=False)]
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
