"""Settings that the scripts of measured runs told the engines, which the results do not say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from data.measurements.facts import PUBLISHED
from inference_econ.inputs import _yaml, csv_table
from inference_econ.inputs._spec import Count, Date, Fraction, Spec

Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
Counts = Annotated[tuple[Count, ...], Field(strict=False)]
Range = Annotated[tuple[Count, Count], Field(strict=False)]


class MeasuredRun(Spec):
    """Settings of a script: the runs that it made, and what it told the engine.

    A field without a value says nothing: the engine did what it does by itself.
    """

    model: str = Field(min_length=1)
    """Name in the catalogue."""
    engine: str = Field(min_length=1)
    """Serving engine."""
    chip: str = Field(min_length=1)
    """Name in the catalogue."""
    precision: Literal["fp4", "int4", "fp8", "bf16"]
    """Width and kind of the weights, as results name them."""
    versions: Texts
    """Versions of the engine: the tags of its images."""
    since: Date
    """Day from which the script was as it is here."""
    until: Date
    """Day on which script, image or choice of runs changed."""
    lengths: Texts = ()
    """Nominal input and output lengths, as ``1024/8192``; empty: any."""
    tp: Counts = ()
    """Accelerators of the server, as the scripts were started; empty: any [1]."""
    ep: Counts = ()
    """Expert-parallel ranks, as the scripts were started; empty: any, or not asked for [1]."""
    dp_attention: bool | None = None
    """True if the scripts were started with attention that is data-parallel; None: not asked for."""
    concurrency: Range | None = None
    """Fewest and most requests at a time of these runs; None: any [1]."""
    speculation: str = "none"
    """Method of speculative decoding."""
    checkpoint: str = Field(min_length=1)
    """Repository of Hugging Face that was served."""
    attention_groups: Count
    """Groups of attention ranks with sequences of their own, really [1]."""
    expert_ranks: Count
    """Expert-parallel ranks, really; 1: experts were cut [1]."""
    kv: Literal["fp8"] | None = None
    """Format of the cache; None: that of the engine, 16 bits unless the checkpoint brings scales."""
    step_tokens: Count | None = None
    """Tokens of a step at most, as told; of all groups together in SGLang, of each in other engines [tokens]."""
    prefill_tokens: Count | None = None
    """Tokens of whole prompts in a step at most, a limit that SGLang has beside that of chunks [tokens]."""
    single_prompts: bool = False
    """A step has room for the nominal prompt, one token for each request, and a few more: for one prompt."""
    sequences: Count | None = None
    """Requests that run at a time at most; of all groups together in SGLang, of each in other engines [1]."""
    graph_sequences: Count | None = None
    """Requests of the largest step without prompts that was captured as a graph [1]."""
    memory: Fraction | None = None
    """Share of memory: for weights and cache (SGLang), for all (vLLM, ATOM), of what weights leave for the cache
    (TensorRT-LLM) [1]."""
    look_steps: Count | None = None
    """Decode steps between looks at what has come (SGLang's scheduler-recv-interval) [1]."""
    stream_steps: Count | None = None
    """Tokens that are sent together [1]."""
    continuous_steps: Count | None = None
    """Decode steps in a row before prompts are looked at (SGLang's num-continuous-decode-steps) [1]."""
    balance_steps: Count | None = None
    """Most decode steps that prompts wait until every group of attention ranks has one [1]."""
    gather_steps: Count | None = None
    """Decode steps that prompts wait at most for others to fill a step (TensorRT-LLM's batch_wait_timeout_iters)
    [1]."""
    gather_share: Fraction | None = None
    """Share of ``step_tokens`` that prompts must fill to be read earlier than that [1]."""
    captured_tokens: Count | None = None
    """Tokens of the largest step with prompts that was captured in pieces [tokens]."""
    asynchronous: bool | None = None
    """True if the host prepares a step while the one before runs, where the script says so."""
    prefix_cache: bool = False
    """True if prompts that begin alike were read once."""
    eager: bool = False
    """Kernels of decode steps were launched one by one."""
    warm_up: bool = False
    """True if twice as many requests as there are at a time went before those that were measured."""
    source: str = Field(pattern=r".+ @ [0-9a-f]{7,40}$")
    """Path of the script in the repository of InferenceX, and the commit from which it holds."""

    @model_validator(mode="after")
    def _check_spans(self) -> Self:
        if self.since > self.until:
            raise ValueError(f"since {self.since} is after until {self.until}; exchange them")
        if self.concurrency is not None and self.concurrency[0] > self.concurrency[1]:
            raise ValueError("concurrency must be the fewest and the most requests, as '4 64'")
        return self


class MeasuredRuns(Spec):
    """The table of all scripts, in the order of its file."""

    runs: Annotated[tuple[MeasuredRun, ...], Field(strict=False)]
    """Its lines."""


#: Columns whose cells are several values with spaces between them.
_LISTS = ("versions", "lengths", "tp", "ep", "concurrency")
#: Columns that stay text whatever they look like.
_TEXTS = ("versions", "lengths", "since", "until", "source", "checkpoint")


def read(path: Path) -> tuple[MeasuredRun, ...]:
    """Read the table: CSV with a column for each field of :class:`MeasuredRun`; a blank cell says nothing.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        With every mistake, each with its line.
    """
    return MeasuredRuns.from_document(csv_table.document(path, "runs", _value)).runs


def _value(column: str, text: str) -> object:
    if column in _LISTS:
        return [part if column in _TEXTS else _yaml.scalar(part) for part in text.split()]
    return text if column in _TEXTS else _yaml.scalar(text)


@cache
def measured_runs() -> tuple[MeasuredRun, ...]:
    """Return the lines of ``data/published/runs.csv``, in their order."""
    return read(PUBLISHED / "runs.csv")
