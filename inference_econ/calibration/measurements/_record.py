"""Record of one measurement, in the catalogue's names and in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from inference_econ.calibration.measurements._dates import Days

#: How requests arrived.
#:
#: - batch: all at once, served until the last one ends.
#: - concurrency: a new one whenever one ends, so that their number stays (closed loop).
#: - rate: at random times (open loop).
#: - saturated: more than the server can take, which runs as many at a time as it can.
#: - limited: as many as the server can take and keep its promises of latency.
Load = Literal["batch", "concurrency", "rate", "saturated", "limited", "unknown"]
#: Loads that take all that a server has to give.
FULL_LOADS: tuple[Load, ...] = ("saturated", "limited")

#: Fields that are measured.
RESULTS = (
    *("ttft_seconds", "tpot_seconds", "request_seconds"),
    *(f"{tokens}_tokens_per_second_per_accelerator" for tokens in ("output", "input", "total")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal workers of a disaggregated server that do prefill, or decode.

    Attributes
    ----------
    workers : int or None
        How many; None if not recorded [1].
    tp, dp, pp : int
        Accelerators of one worker that share the attention weights, groups of them with sequences of their own, and
        pipeline stages [1].
    ep : int or None
        Expert-parallel ranks of one worker; None if not recorded [1].
    slots : int or None
        Requests that one worker was told to run at a time at most; None if not recorded [1].
    """

    workers: int | None
    tp: int
    dp: int
    pp: int
    ep: int | None
    slots: int | None = None

    @property
    def accelerators(self) -> int | None:
        """Accelerators of all workers; None if their number is not recorded [1]."""
        return None if self.workers is None else self.workers * self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured point of one deployment. What is None was not measured, or not recorded.

    Attributes
    ----------
    id : str
        Of the row, or its number.
    dataset, source : str
        Name of the file, and where the row came from.
    engine, engine_version : str
        Serving engine (vllm, sglang, trtllm, ...); empty if not recorded.
    ran : str
        Version of the engine that scripts of its days ran, where the row names none; empty if not known.
    days : Days or None
        Between which it was measured; None if not recorded.
    model, hardware : str
        Names in the catalogue.
    accelerators : int or None
        Of the whole deployment, replicas included [1].
    tp, dp, pp, ep : int or None
        Layout: accelerators that share the attention weights, groups of them with sequences of their own
        (attention-DP, or replicas), pipeline stages, expert-parallel ranks [1].
    prefill, decode : Pool or None
        The two pools of a disaggregated server, whose tp, dp, pp and ep are None.
    weights, kv : str or None
        Number formats; None: as published with the model.
    isl, osl : float or None
        Mean input and output length [tokens].
    context : float or None
        Tokens in the cache, where these are recorded instead of lengths [tokens].
    load : str
        How requests arrived; see :data:`Load`.
    concurrency : float or None
        Requests of the whole deployment at a time; for a rate, the most that are let in [1].
    requests_per_second : float or None
        Offered rate [1/s].
    requests : float or None
        Of the whole run, whose first ones find an empty server and whose last ones leave it; None if not recorded [1].
    spread : float or None
        Of output lengths: longest less shortest, over the mean, if they are uniform; 0 if all are equal, None if not
        recorded [1].
    prefill_first : bool
        The engine lets decoding wait until it has read all prompts that have come; others read beside decoding.
    compiled : bool
        The model was compiled as a whole: no interpreter launches the kernels of a prompt one by one.
    eager : bool
        Kernels of decode steps were launched one by one, without graphs.
    even_routing : bool
        Tokens were spread over experts evenly by force.
    redundant_experts : int or None
        Copies of experts that were held beside all of them; None if not recorded [1].
    two_batch : bool
        Two halves of a batch took turns.
    captured_tokens : int or None
        Tokens of the largest step with prompts that the engine was told to capture in pieces; None for what it does by
        itself [tokens].
    held_steps : float
        Decode steps for which groups of attention ranks were told to hold a prompt back at most, until each of them has
        one [1].
    wait_steps : float
        Decode steps that a prompt waits on average where the engine was told to look seldom at what has come, or to
        wait for more prompts [1].
    warmed_up : bool
        Requests that were not measured went before the run, so that no kernel was used for the first time in it.
    step_tokens : float or None
        Prompt tokens that the engine was told to read in a step at most; None for what it does by itself [tokens].
    most_sequences : float or None
        Requests that the engine was told to run at a time at most, in all groups together; None if nobody said [1].
    memory : float or None
        Share of memory that the engine was told to take, as it counts itself; None if nobody said [1].
    statistic : str
        Of the latencies: median or mean.
    ttft_seconds, tpot_seconds, request_seconds : float or None
        To the first token (of a batch: of all its prompts), between tokens, and from beginning to end (of a batch:
        of its last request) [s].
    output_tokens_per_second_per_accelerator : float or None
        [tokens/s]
    input_tokens_per_second_per_accelerator : float or None
        [tokens/s]
    total_tokens_per_second_per_accelerator : float or None
        Of input and output together [tokens/s].
    ttft_limit_seconds, tpot_limit_seconds : float or None
        Promises that a limited load had to keep [s].
    speculation : str
        "none", "unrecorded", or what was recorded ("MTP3"); "suspected" where it may, or may not, have been.
    tokens_per_round : float or None
        Mean acceptance length that is published for such speculation, the target's own token included; None without
        speculation, or where nothing is published [1].
    spoilt : str
        By which run of the same configuration this one cannot be what it should have been, in words; empty if by none.
    quality, tier : str
        As given in the file.
    remarks : tuple of str
        What was read into the row.
    unknown : str
        Why the row cannot be predicted: what it leaves open; empty if nothing that is needed.
    """

    id: str
    dataset: str
    source: str
    engine: str
    engine_version: str
    ran: str = ""
    days: Days | None = None
    model: str
    hardware: str
    accelerators: int | None
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    ep: int | None = None
    prefill: Pool | None = None
    decode: Pool | None = None
    weights: str | None
    kv: str | None = None
    isl: float | None
    osl: float | None
    context: float | None = None
    load: Load
    concurrency: float | None
    requests_per_second: float | None = None
    requests: float | None = None
    spread: float | None = None
    prefill_first: bool = False
    compiled: bool = False
    eager: bool = False
    held_steps: float = 0.0
    even_routing: bool = False
    redundant_experts: int | None = None
    two_batch: bool = False
    wait_steps: float = 0.0
    warmed_up: bool = False
    step_tokens: float | None = None
    most_sequences: float | None = None
    memory: float | None = None
    captured_tokens: int | None = None
    statistic: str = "median"
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    request_seconds: float | None = None
    output_tokens_per_second_per_accelerator: float | None = None
    input_tokens_per_second_per_accelerator: float | None = None
    total_tokens_per_second_per_accelerator: float | None = None
    ttft_limit_seconds: float | None = None
    tpot_limit_seconds: float | None = None
    speculation: str = "unrecorded"
    tokens_per_round: float | None = None
    spoilt: str = ""
    quality: str = ""
    tier: str = ""
    remarks: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def speculates(self) -> bool:
        """Whether a plain decode step does not stand for it: it speculates, or is suspected of it."""
        return self.speculation not in ("none", "unrecorded")

    @property
    def mean_context(self) -> float | None:
        """Mean number of cached tokens during decode; None if no length is recorded [tokens]."""
        if self.context is not None or self.isl is None:
            return self.context
        return self.isl + (self.osl or 0.0) / 2

    @property
    def closed_loop_rate(self) -> float | None:
        """Output tokens of an accelerator that a closed loop of the measured latencies completes [tokens/s].

        Each of the requests in flight takes its mean TTFT, and its mean TPOT for every token after the first. None
        where requests come at a rate, or something is not recorded.
        """
        ttft, tpot, requests, chips = self.ttft_seconds, self.tpot_seconds, self.concurrency, self.accelerators
        if self.load != "concurrency" or ttft is None or not (tpot and requests and chips and self.osl):
            return None
        return requests * self.osl / (ttft + (self.osl - 1.0) * tpot) / chips


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is no usable measurement.

    Attributes
    ----------
    id : str
        Of the row, or its number.
    dataset : str
        Name of the file.
    reason : str
        Why, for people.
    line : int or None
        Of the file, from 1, on which the row begins; None if it is no CSV file.
    """

    id: str
    dataset: str
    reason: str
    line: int | None = field(default=None, compare=False)
