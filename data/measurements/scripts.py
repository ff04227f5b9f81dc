"""Settings of engines in the scripts of measured runs, which the results do not record."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from data.measurements.facts import PUBLISHED
from inference_econ.inputs import _yaml
from inference_econ.inputs._spec import Count, Date, Field, Fraction, Spec

Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
Counts = Annotated[tuple[Count, ...], Field(strict=False)]
Range = Annotated[tuple[Count, Count], Field(strict=False)]


class MeasuredRun(Spec):
    """Settings of a script: the runs that it made, and the options of the engine.

    A field without a value has the default of the engine.
    """

    model: str = Field(min_length=1)
    """Catalog name."""
    engine: str = Field(min_length=1)
    """Serving engine."""
    chip: str = Field(min_length=1)
    """Catalog name."""
    precision: Literal["fp4", "int4", "fp8", "bf16"]
    """Weight format, as named in results."""
    versions: Texts
    """Engine versions, which are the tags of its images."""
    since: Date
    """First day on which the script had these settings."""
    until: Date
    """Day on which the script, the image or the selection of runs changed."""
    lengths: Texts = ()
    """Nominal input and output lengths, as ``1024/8192``; empty for any."""
    tp: Counts = ()
    """Accelerators of the server in the arguments of the scripts; empty for any [1]."""
    ep: Counts = ()
    """Expert-parallel ranks in the arguments of the scripts; empty if any or not set [1]."""
    dp_attention: bool | None = None
    """True if the scripts were started with attention-DP; None if not set."""
    concurrency: Range | None = None
    """Minimum and maximum concurrency of these runs; None for any [1]."""
    speculation: str = "none"
    """Method of speculative decoding."""
    checkpoint: str = Field(min_length=1)
    """Hugging Face id of the served checkpoint."""
    attention_groups: Count
    """Actual number of attention-DP groups [1]."""
    expert_ranks: Count
    """Actual number of expert-parallel ranks; 1 if experts are split [1]."""
    kv: Literal["fp8"] | None = None
    """KV-cache format; None for the default of the engine, which is 16 bits unless the checkpoint contains scales."""
    step_tokens: Count | None = None
    """Configured maximum tokens per step: of all groups together in SGLang, of each group in other engines [tokens]."""
    prefill_tokens: Count | None = None
    """Maximum tokens of full prompts in a step, an additional limit of SGLang [tokens]."""
    single_prompts: bool = False
    """True if a step has tokens for one nominal prompt only, in addition to one token per request and a few more."""
    sequences: Count | None = None
    """Maximum concurrent requests: of all groups together in SGLang, of each group in other engines [1]."""
    graph_sequences: Count | None = None
    """Requests of the largest decode step that was captured as a graph [1]."""
    memory: Fraction | None = None
    """Share of memory: for weights and cache (SGLang), for all (vLLM, ATOM), or for the cache after weights
    (TensorRT-LLM) [1]."""
    look_steps: Count | None = None
    """Decode steps between two polls for new requests (SGLang's scheduler-recv-interval) [1]."""
    stream_steps: Count | None = None
    """Number of tokens that are sent together [1]."""
    continuous_steps: Count | None = None
    """Consecutive decode steps before new prompts are admitted (SGLang's num-continuous-decode-steps) [1]."""
    balance_steps: Count | None = None
    """Maximum number of decode steps that prompts wait until every attention-DP group has a prompt [1]."""
    gather_steps: Count | None = None
    """Maximum number of decode steps that prompts wait for others to fill a step (TensorRT-LLM's
    batch_wait_timeout_iters) [1]."""
    gather_share: Fraction | None = None
    """Share of ``step_tokens`` at which prompts no longer wait [1]."""
    captured_tokens: Count | None = None
    """Tokens of the largest prefill step that was captured piecewise [tokens]."""
    asynchronous: bool | None = None
    """True if the host prepares a step during the one before; None if the script does not set it."""
    prefix_cache: bool = False
    """True if common prefixes of prompts were cached."""
    eager: bool = False
    """True if the kernels of decode steps were launched one by one."""
    warm_up: bool = False
    """True if unmeasured requests preceded the measured ones: twice the concurrency."""
    source: str = Field(pattern=r".+ @ [0-9a-f]{7,40}$")
    """Path of the script in the repository of InferenceX, and the first commit with these settings."""

    def _check_fields(self) -> None:
        if self.since > self.until:
            raise ValueError(f"since {self.since} is after until {self.until}; exchange them")
        if self.concurrency is not None and self.concurrency[0] > self.concurrency[1]:
            raise ValueError("concurrency must be the fewest and the most requests, as '4 64'")


class MeasuredRuns(Spec):
    """Table of all scripts, in the order of its file."""

    runs: Annotated[tuple[MeasuredRun, ...], Field(strict=False)]
    """Lines of the table."""


#: Columns whose cells have several values, separated by spaces.
_LISTS = ("versions", "lengths", "tp", "ep", "concurrency")
#: Columns that contain text, even if it looks like a number.
_TEXTS = ("versions", "lengths", "since", "until", "source", "checkpoint")


def read(path: Path) -> tuple[MeasuredRun, ...]:
    """Read the table: a CSV file with a column for each field of :class:`MeasuredRun`; blank cells are omitted.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        Lists every mistake with its line.
    """
    return MeasuredRuns.from_document(_yaml.csv_document(path, "runs", _value)).runs


def _value(column: str, text: str) -> object:
    if column in _LISTS:
        return [part if column in _TEXTS else _yaml.scalar(part) for part in text.split()]
    return text if column in _TEXTS else _yaml.scalar(text)


@cache
def measured_runs() -> tuple[MeasuredRun, ...]:
    """Lines of ``data/published/runs.csv`` in their order."""
    return read(PUBLISHED / "runs.csv")
