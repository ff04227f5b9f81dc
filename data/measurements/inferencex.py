"""How InferenceMAX and its successor InferenceX measure servers: what their scripts do, and their rows do not say."""

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

#: There are no other lengths than multiples of this [tokens].
_NOMINAL = 1024
#: Share of the days of some scripts on which what most of them say held [1].
_MOST_DAYS = 2.0 / 3.0
#: What images say of their build beside the version of the engine, and what may stand before that.
_BUILD = re.compile(r"^v(?=\d)|[-+](?:cu|rocm).*$")
#: What results call the width and kind of weights, by our name of a format.
_PRECISIONS = {"nvfp4": "fp4", "mxfp4": "fp4", "fp4": "fp4", "int4": "int4", "bf16": "bf16", "fp16": "bf16"}


def is_run(source: str, name: str = "") -> bool:
    """Return whether a row is of these runs, by its source or its id."""
    return any(word in text.lower() for text in (source, name) for word in ("inferencex", "inferencemax"))


def has_nominal_lengths(source: str, isl: float, osl: float, name: str = "") -> bool:
    """Return whether the lengths of a row are those that the scripts are told, not those of the requests."""
    return is_run(source, name) and isl % _NOMINAL == osl % _NOMINAL == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Fields of a row about a server that a script began.

    Attributes
    ----------
    model, hardware, engine : str
        Names in the catalogue.
    version, precision : str
        Of the engine, and of the weights: a number format; empty if not recorded.
    days : Days or None
        Between which it was measured; None if not recorded.
    lengths : tuple of float
        Nominal input and output length [tokens].
    accelerators, ep : int
        Of the server, and expert-parallel ranks as recorded [1].
    groups : int or None
        Of its attention as recorded, None if that may mean anything [1].
    concurrency : float
        Requests at a time [1].
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
    """Settings of the script of a run, as far as the lines of the table that can be meant agree on them.

    Attributes
    ----------
    runs : tuple of MeasuredRun
        These lines; none if the table has no script for such a server.
    exact : bool
        They are of scripts that began such a server, not only others with the same engine.
    remarks : tuple of str
        What was read into the row.
    """

    runs: tuple[MeasuredRun, ...] = ()
    exact: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def speculation(self) -> str | None:
        """The method that all scripts had, of which some began such a server; None if they differ, or none did.

        Where no script speculates, none of another layout does.
        """
        methods = {run.speculation for run in self.runs}
        return methods.pop() if len(methods) == 1 and (self.exact or methods == {"none"}) else None

    @property
    def version(self) -> str:
        """The version of the engine that they all began such a server with; empty if they differ, or none did."""
        versions = {version for run in self.runs for version in run.versions}
        return versions.pop() if len(versions) == 1 and self.exact else ""

    def told(self, field: str) -> Any:
        """The value of a field that held on most days, None if there is none or none held so long.

        Without speculation, if the lines of some scripts are.
        """
        plain = [run for run in self.runs if run.speculation == "none"]
        days: dict[Any, float] = defaultdict(float)
        for run in plain or self.runs:
            days[getattr(run, field)] += (date.fromisoformat(run.until) - date.fromisoformat(run.since)).days + 1
        longest = max(days, key=lambda value: days[value], default=None)
        return longest if days and days[longest] >= _MOST_DAYS * sum(days.values()) else None


def script(server: Server) -> Script:
    """Fields that the table of scripts has of a server.

    Parameters
    ----------
    server : Server
        What the row says.

    Returns
    -------
    Script
        Of the version of the row, and of its days; without either of the newest version that began such a server. Where
        no script began such a server with that version, of those for requests as long, and where the table lacks the
        version, of all versions.
    """
    runs = _lines(server.model, server.engine, server.hardware, server.precision)
    runs, remarks = _of_version(runs, server)
    same = tuple(run for run in runs if _began(run, server))
    as_long = tuple(run for run in runs if _has_lengths(run, server))
    return Script(same or as_long or runs, bool(same), remarks)


def usual_cache(model: str, engine: str, hardware: str, precision: str) -> str | None:
    """The format of the cache that all scripts of aggregated servers set for a model on a chip, None if they differ."""
    runs = _lines(model, engine, hardware, precision)
    kv: str | None = Script(runs).told("kv")
    return kv


def _lines(model: str, engine: str, hardware: str, precision: str) -> tuple[MeasuredRun, ...]:
    """Lines of the table for weights of some precision."""
    dtype = _PRECISIONS.get(precision, precision.partition("_")[0])
    return _scripts().get((_published().get(model, model), engine, hardware, dtype), ())


def _of_version(runs: Sequence[MeasuredRun], server: Server) -> tuple[tuple[MeasuredRun, ...], tuple[str, ...]]:
    """Lines for the version and the days of a server, as far as there are any, and what was read into it."""
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
    """Lines for some days, cut to these."""
    return tuple(
        run.model_copy(update={"since": max(run.since, since), "until": min(run.until, until)})
        for run in runs
        if run.since <= until and since <= run.until
    )


def _began(run: MeasuredRun, server: Server) -> bool:
    """Return whether a script began such a server."""
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
    """The file of a checkpoint to the model it is one of."""
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
    """Prompt tokens of a step of a group of attention ranks, for nominal prompts of ``isl`` tokens [tokens].

    SGLang spreads the tokens of a step over its groups, and takes no more whole prompts than ``prefill_tokens``.
    """
    if known.told("single_prompts"):
        return isl
    tokens = known.told("step_tokens")
    if tokens is None:
        return None
    if known.told("engine") != "sglang":
        return float(tokens)
    return float(min(tokens / groups, known.told("prefill_tokens") or _WHOLE_PROMPTS))


#: SGLang's ``max_prefill_tokens`` where nobody tells it [tokens].
_WHOLE_PROMPTS = 16384.0


def most_sequences(known: Script, groups: int) -> float | None:
    """Requests that run at a time at most in all groups together [1]."""
    most = known.told("sequences")
    if most is None:
        return None
    return float(most if known.told("engine") == "sglang" else most * groups)


def wait_steps(known: Script, groups: int) -> float:
    """Steps that a prompt waits on average, as the scripts tell the engine.

    Parameters
    ----------
    known : Script
        What is known of the script.
    groups : int
        Of attention ranks with sequences of their own [1].

    Returns
    -------
    float
        [1]

    Notes
    -----
    A prompt comes at any time between two looks, and waits half of that. Where it waits for others to fill a step, it
    waits as long as it may: so the runs of Llama 70B, at 4 requests at a time as at 128. How long groups that hold
    prompts back wait for each other follows from the load (``serving.held_steps``).
    """
    if groups > 1 and known.told("balance_steps") is not None:
        return 0.0
    gather = known.told("gather_steps")
    if gather is not None:
        return float(gather)
    return (known.told("look_steps") or 0.0) / 2.0
