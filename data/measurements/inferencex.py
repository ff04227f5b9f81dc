"""Facts on how InferenceMAX and its successor InferenceX measure servers, from their scripts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from data.measurements.scripts import MeasuredRun, measured_runs
from inference_econ.extras.servers.measurements import Days
from inference_econ.inputs import catalog

#: Nominal lengths are multiples of this number [tokens].
_NOMINAL = 1024
#: Minimum share of the days of several scripts on which a setting must hold [1].
_MOST_DAYS = 2.0 / 3.0
#: Parts of image tags that are not the engine version: prefix and build.
_BUILD = re.compile(r"^v(?=\d)|[-+](?:cu|rocm).*$")
#: Names of weight formats in results, by our format names.
_PRECISIONS = {"nvfp4": "fp4", "mxfp4": "fp4", "fp4": "fp4", "int4": "int4", "bf16": "bf16", "fp16": "bf16"}


def is_run(source: str, name: str = "") -> bool:
    """True if a row is from these runs, by its source or its id."""
    return any(word in text.lower() for text in (source, name) for word in ("inferencex", "inferencemax"))


def has_nominal_lengths(source: str, isl: float, osl: float, name: str = "") -> bool:
    """True if the lengths of a row are the nominal ones in the scripts, and not those of the requests."""
    return is_run(source, name) and isl % _NOMINAL == osl % _NOMINAL == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Fields of a row about a server that a script started.

    Attributes
    ----------
    model, hardware, engine : str
        Catalog names.
    version, precision : str
        Engine version, and number format of the weights; empty if not recorded.
    days : Days or None
        Days of the measurement; None if not recorded.
    lengths : tuple of float
        Nominal input and output length [tokens].
    accelerators, ep : int
        Accelerators of the server, and expert-parallel ranks as recorded [1].
    groups : int or None
        Attention-DP groups as recorded; None if the record is ambiguous [1].
    concurrency : float
        Concurrent requests [1].
    """

    model: str
    hardware: str
    engine: str
    version: str
    precision: str
    days: Days | None
    lengths: tuple[float, float]
    accelerators: int
    groups: int | None
    ep: int
    concurrency: float


@dataclass(frozen=True, slots=True)
class Script:
    """Settings of the script of a run, as far as all matching lines of the table agree.

    Attributes
    ----------
    runs : tuple of MeasuredRun
        Matching lines of the table; empty if it has no script for such a server.
    exact : bool
        True if the scripts started such a server; false if they only used the same engine.
    remarks : tuple of str
        Notes on the interpretation of the row.
    """

    runs: tuple[MeasuredRun, ...] = ()
    exact: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def speculation(self) -> str | None:
        """Speculation method of all scripts; None if they differ, or none of them started such a server.

        If no script speculates, scripts with another layout do not either.
        """
        methods = {run.speculation for run in self.runs}
        return methods.pop() if len(methods) == 1 and (self.exact or methods == {"none"}) else None

    @property
    def version(self) -> str:
        """Engine version in all scripts that started such a server; empty if they differ or there are none."""
        versions = {version for run in self.runs for version in run.versions}
        return versions.pop() if len(versions) == 1 and self.exact else ""

    def told(self, field: str) -> Any:
        """Value of a field that was set on most days; None if no value was.

        Lines without speculation are used if there are any.
        """
        plain = [run for run in self.runs if run.speculation == "none"]
        days: dict[Any, float] = defaultdict(float)
        for run in plain or self.runs:
            days[getattr(run, field)] += (date.fromisoformat(run.until) - date.fromisoformat(run.since)).days + 1
        longest = max(days, key=lambda value: days[value], default=None)
        return longest if days and days[longest] >= _MOST_DAYS * sum(days.values()) else None


def script(server: Server) -> Script:
    """Settings in the table of scripts for a server.

    Parameters
    ----------
    server : Server
        Recorded facts about the server.

    Returns
    -------
    Script
        Settings for the version and the days of the row. If neither is recorded, settings for the newest version that
        started such a server. If no script started such a server with the version, scripts for equal request lengths
        are used. If the table does not contain the version, scripts of all versions are used.
    """
    runs = _lines(server.model, server.engine, server.hardware, server.precision)
    runs, remarks = _of_version(runs, server)
    same = tuple(run for run in runs if _began(run, server))
    as_long = tuple(run for run in runs if _has_lengths(run, server))
    return Script(same or as_long or runs, bool(same), remarks)


def usual_cache(model: str, engine: str, hardware: str, precision: str) -> str | None:
    """KV-cache format that all scripts of aggregated servers set for a model on a chip; None if they differ."""
    runs = _lines(model, engine, hardware, precision)
    kv: str | None = Script(runs).told("kv")
    return kv


def _lines(model: str, engine: str, hardware: str, precision: str) -> tuple[MeasuredRun, ...]:
    """Lines of the table for a weight format."""
    dtype = _PRECISIONS.get(precision, precision.partition("_")[0])
    return _scripts().get((_published().get(model, model), engine, hardware, dtype), ())


def _of_version(runs: Sequence[MeasuredRun], server: Server) -> tuple[tuple[MeasuredRun, ...], tuple[str, ...]]:
    """Lines for the version and the days of a server, as far as there are any, and notes on the interpretation."""
    if server.version:
        names = {server.version, _BUILD.sub("", server.version)}
        runs = tuple(run for run in runs if not names.isdisjoint(run.versions)) or runs
    if server.days is not None:
        return _within(runs, *(day.isoformat() for day in (server.days.since, server.days.until))) or tuple(runs), ()
    if server.version or not runs:
        return tuple(runs), ()
    began = [run for run in runs if _began(run, server)]
    newest = max(began or runs, key=lambda run: (run.until, run.since)).versions[-1]
    remark = f"no version and no date is recorded: what the scripts told {server.engine} {newest}, the newest they ran"
    return tuple(run for run in runs if newest in run.versions), (remark,)


def _within(runs: Iterable[MeasuredRun], since: str, until: str) -> tuple[MeasuredRun, ...]:
    """Lines for some days, limited to these days."""
    return tuple(
        run.model_copy(update={"since": max(run.since, since), "until": min(run.until, until)})
        for run in runs
        if run.since <= until and since <= run.until
    )


def _began(run: MeasuredRun, server: Server) -> bool:
    """True if a script started such a server."""
    low, high = run.concurrency or (0, server.concurrency)
    return (
        _has_lengths(run, server)
        and (not run.tp or server.accelerators in run.tp)
        and (not run.ep or server.ep in run.ep)
        and (server.groups is None or run.dp_attention in (None, server.groups > 1))
        and low <= server.concurrency <= high
    )


def _has_lengths(run: MeasuredRun, server: Server) -> bool:
    isl, osl = server.lengths
    return not run.lengths or f"{isl:.0f}/{osl:.0f}" in run.lengths


@cache
def _published() -> dict[str, str]:
    """Model of a checkpoint, by the file of the checkpoint."""
    checkpoints = catalog.measured_names().checkpoints
    return {file: model for model, files in checkpoints.items() for file in files.values()}


@cache
def _scripts() -> dict[tuple[str, str, str, str], tuple[MeasuredRun, ...]]:
    """Lines of the table by model, engine, chip and precision."""
    scripts: dict[tuple[str, str, str, str], list[MeasuredRun]] = defaultdict(list)
    for run in measured_runs():
        scripts[run.model, run.engine, run.chip, run.precision].append(run)
    return {key: tuple(runs) for key, runs in scripts.items()}


def step_tokens(known: Script, isl: float, groups: int) -> float | None:
    """Prompt tokens per step of one attention-DP group, for nominal prompts of ``isl`` tokens [tokens].

    SGLang divides the tokens of a step between its groups. Full prompts in a step have at most ``prefill_tokens``.
    """
    if known.told("single_prompts"):
        return isl
    tokens = known.told("step_tokens")
    if tokens is None:
        return None
    if known.told("engine") != "sglang":
        return float(tokens)
    return float(min(tokens / groups, known.told("prefill_tokens") or _WHOLE_PROMPTS))


#: Default of SGLang's ``max_prefill_tokens`` [tokens].
_WHOLE_PROMPTS = 16384.0


def most_sequences(known: Script, groups: int) -> float | None:
    """Maximum concurrent requests over all groups [1]."""
    most = known.told("sequences")
    if most is None:
        return None
    return float(most if known.told("engine") == "sglang" else most * groups)


def wait_steps(known: Script, groups: int) -> float:
    """Mean number of steps that a prompt waits, according to the settings in the scripts.

    Parameters
    ----------
    known : Script
        Known settings of the script.
    groups : int
        Attention-DP groups [1].

    Returns
    -------
    float
        [1]

    Notes
    -----
    A prompt arrives at a random time between two polls of the scheduler, so it waits half an interval on average. If
    prompts wait for others to fill a step, they wait for the maximum time, as the runs of Llama 70B at concurrency 4
    and 128 show. The delay of prefill with attention-DP groups follows from the load (``serving.held_steps``).
    """
    if groups > 1 and known.told("balance_steps") is not None:
        return 0.0
    gather = known.told("gather_steps")
    if gather is not None:
        return float(gather)
    return (known.told("look_steps") or 0.0) / 2.0
