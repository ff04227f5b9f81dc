"""Rows of the published tables, with the known facts on their collection, source and script."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.measurements import inferencex
from data.measurements.facts import OwnRuns, source_facts
from data.measurements.matches import complete_pools, with_recipes
from data.measurements.recipes import recipes
from data.measurements.speculation import resolved
from inference_econ.engine import has_experts
from inference_econ.extras.servers.measurements import Cells, Measurement, Skipped, UnusableRowError, is_number
from inference_econ.extras.servers.measurements._record import (
    MEAN_LENGTH,
    ROUNDS,
    SHORTER,
    SPREAD,
    days,
    written_format,
)
from inference_econ.extras.servers.measurements._tables import (
    KINDS,
    Kind,
    load_of,
    mark_spoilt,
    rows,
    suspect_speculation,
)
from inference_econ.inputs import catalog, version_order

#: Racks on which all runs over several machines are disaggregated, and the largest aggregated server [1].
_TOTALS, _OF_ONE_MACHINE = re.compile(r"gb[23]00.*", re.IGNORECASE), 8
_SECONDS = {"s": 1.0, "ms": 1e-3}
_LIMIT = r"{} *<= *(\d+(?:\.\d+)?) *(ms|s)\b"
_CAP = re.compile(r"max_num_seqs (\d+)|max[_ ]concurrency (\d+)")
_LENGTH = re.compile(r"mean input[^;]*says (\d+)")

Read = Callable[[Cells, Mapping[str, Any]], Measurement]


def collected(path: Path) -> list[Measurement | Skipped]:
    """Rows of a published table, with all known facts.

    Raises
    ------
    InputError
        If the file cannot be read, or its columns match no kind of table.
    """
    kind, measured = rows(path, _COLLECTED)
    if kind.final:  # its rows were written with all facts
        return mark_spoilt(measured)
    return mark_spoilt(resolved(suspect_speculation(with_recipes(complete_pools(measured), recipes()))))


# Tables of servers: InferenceX in the collection of aiconfigurator, and the collectors' runs.


def _serving(read: Read, row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Row of a server, with the facts that follow from its collector and its scripts."""
    measured = read(row, common)
    facts = source_facts()
    period = _of_run(facts.days, measured.id)
    measured = replace(
        measured, spoilt=_of_run(facts.spoilt, measured.id), days=days(period) if period else measured.days
    )
    source, written = row.text("source"), row.text("precision") or row.text("gemm_quant_mode")
    nominal = _lengths(measured)
    if not inferencex.has_nominal_lengths(source, *nominal, measured.id):
        measured = _of_one_machine(row, measured)
        # The runs of the collectors have requests of equal length.
        return (
            replace(measured, spread=0.0, **_own_settings(measured)) if "aiconfigurator" in source.lower() else measured
        )
    recorded = row.whole("attention_dp_size") or 1
    measured = _of_one_machine(row, _same_accelerators(measured, recorded))
    either = measured.dp == 1 and recorded > 1
    run = replace(
        measured,
        isl=MEAN_LENGTH * nominal[0],
        osl=MEAN_LENGTH * nominal[1],
        requests=None if measured.concurrency is None else ROUNDS * measured.concurrency,
        spread=SPREAD,
        remarks=(*measured.remarks, SHORTER),
    )
    if run.decode is not None:
        return replace(run, kv=_cache_of_pools(run, written))
    return replace(run, **_scripted(run, written, nominal, either=either))


def _of_run(texts: Mapping[str, str], name: str) -> str:
    """Fact about a run with an id, from facts by the first characters of ids; empty if there is none."""
    return next((text for start, text in texts.items() if name.startswith(start)), "")


def _lengths(row: Measurement) -> tuple[float, float]:
    """Input and output length, which all tables of servers contain [tokens]."""
    assert row.isl is not None
    assert row.osl is not None
    return row.isl, row.osl


def _same_accelerators(row: Measurement, recorded: int) -> Measurement:
    """Row of a run without repeated degrees: tp, attention-DP as recorded, and their product as ep.

    Runs of vLLM with both tp and ep repeat tp as ``attention_dp_size``, and record 64 as ``moe_ep_size``. They may or
    may not use attention-DP, which only their scripts show.
    """
    tp, ep = row.tp, row.ep
    if not (recorded == tp == row.dp and recorded > 1 and ep == recorded**2):
        return row
    remark = f"{ep} accelerators are {tp}: attention-DP, if there was any, and tp are the same ones"
    accelerators = recorded * (row.pp or 1)
    return replace(row, dp=1, ep=recorded, accelerators=accelerators, remarks=(*row.remarks, remark))


def _of_one_machine(row: Cells, measured: Measurement) -> Measurement:
    """Return a row, unless it has the total accelerators of the workers of a disaggregated server.

    Raises
    ------
    UnusableRowError
        If the row has such a total.
    """
    if _TOTALS.fullmatch(row.text("system")) and (measured.tp or 1) > _OF_ONE_MACHINE:
        raise UnusableRowError(
            f"tp {measured.tp} of an aggregated server on {row.text('system')} is the total of a disaggregated one, "
            "whose workers are not recorded; such rows say mode 'disagg'"
        )
    return measured


def _own_settings(row: Measurement) -> dict[str, Any]:
    """Settings of the collectors' runs, which the rows do not record; launch files exist per engine version.

    SGLang adds prompts to a step until the configured number of tokens is reached.
    """
    cache = {"kv": _cache_of(row)}
    launched, isl = _own_runs(row.engine, row.engine_version), _lengths(row)[0]
    if launched is None:
        return cache
    if launched.single_prompts and not has_experts(catalog.model(row.model)):
        tokens = isl
    else:
        limit = isl + launched.step_room
        whole = math.ceil(limit / isl) * isl
        tokens = float(whole if row.engine == "sglang" else limit + (row.concurrency or 0.0))
    told = {"step_tokens": tokens, "prefill_first": launched.prefill_first, "synchronous": launched.synchronous}
    return cache | told


def _cache_of(row: Measurement) -> str | None:
    """KV-cache format that is known for a model, engine and chip from other sources than rows and scripts."""
    return source_facts().kv_formats.get(row.model, {}).get(f"{row.engine} {row.hardware}")


def _cache_of_pools(row: Measurement, written: str) -> str | None:
    """KV-cache format in the scripts of aggregated servers, or from other sources."""
    precision = written_format(written, row.model, row.hardware)
    return inferencex.usual_cache(row.model, row.engine, row.hardware, precision) or _cache_of(row)


def _own_runs(engine: str, version: str) -> OwnRuns | None:
    """Launch settings of runs with an engine version; the newest settings if no version number is recorded."""
    ways = [entry for entry in source_facts().own_runs if entry.engine == engine]
    if is_number(version):
        ways = [entry for entry in ways if version_order(entry.version or "0") <= version_order(version)]
    return ways[-1] if ways else None


def _scripted(row: Measurement, written: str, lengths: tuple[float, float], *, either: bool = False) -> dict[str, Any]:
    """Settings and layout of an instance in the scripts of InferenceX.

    ``either`` is true if the rows do not record attention-DP.
    """
    assert row.tp is not None
    assert row.dp is not None
    assert row.concurrency is not None
    script = inferencex.script(
        inferencex.Server(
            model=row.model,
            hardware=row.hardware,
            engine=row.engine,
            version=row.engine_version,
            precision=written_format(written, row.model, row.hardware),
            days=row.days,
            lengths=lengths,
            accelerators=row.tp * row.dp,
            groups=None if either else row.dp,
            ep=row.ep or 1,
            concurrency=row.concurrency,
        )
    )
    degrees = _really(row, row.tp * row.dp, script)
    groups = degrees.get("dp", row.dp)
    return degrees | {
        "ran": "" if row.engine_version else script.version,
        "kv": script.told("kv"),
        "speculation": (script.speculation or "unrecorded") if row.speculation == "unrecorded" else row.speculation,
        "wait_steps": inferencex.wait_steps(script, groups),
        "step_tokens": inferencex.step_tokens(script, lengths[0], groups),
        "most_sequences": inferencex.most_sequences(script, groups),
        "memory": script.told("memory"),
        "captured_tokens": _captured_tokens(row.engine, script),
        "held_steps": float(script.told("balance_steps") or 0.0) if groups > 1 else 0.0,
        "eager": bool(script.told("eager")),
        "warmed_up": bool(script.told("warm_up")),
    }


def _captured_tokens(engine: str, script: inferencex.Script) -> float | None:
    """Tokens of the largest captured step with prompts. In vLLM one option limits steps with and without prompts."""
    return script.told("captured_tokens") or (script.told("graph_sequences") if engine == "vllm" else None)


def _really(row: Measurement, ranks: int, script: inferencex.Script) -> dict[str, Any]:
    """Actual degrees in a script; the rows record the requested ones."""
    groups, ep = script.told("attention_groups"), script.told("expert_ranks")
    remarks = [*row.remarks, *script.remarks]
    degrees: dict[str, Any] = {}
    if script.exact and groups and ranks % groups == 0 and groups != row.dp:
        degrees |= {"tp": ranks // groups, "dp": groups}
        remarks.append(f"attention-DP is {groups}: so the script of that version")
    if script.exact and ep and ep <= ranks and ep != (row.ep or 1):
        degrees["ep"] = ep
        remarks.append(f"ep is {ep}: so the script of that version")
    return degrees | {"remarks": tuple(remarks)}


# Other tables.


def _inferencemax(read: Read, row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Row of a nightly run, with the settings in its script."""
    measured = read(row, common)
    if not inferencex.is_run(row.text("source")):
        return measured
    if measured.decode is not None:
        return replace(measured, kv=_cache_of_pools(measured, row.text("precision")))
    lengths = (row.needed("isl"), row.needed("osl"))
    return replace(measured, **_scripted(measured, row.text("precision"), lengths))


def _poisson(read: Read, row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Row of a server under random arrivals, with the requests of its run."""
    facts, measured = source_facts(), read(row, common)
    sizes = (size for name, size in facts.run_sizes.items() if name in row.text("source"))
    eager = f"{measured.dataset} {measured.engine}" in facts.eager
    return replace(measured, requests=next(sizes, None), eager=eager)


def _point(read: Read, row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Row of a collected point, with the facts in its notes and on its source."""
    facts, source, notes = source_facts(), row.text("source_id"), row.text("notes")
    hardware, length = facts.within_source.get(source, {}).get(row.text("hardware")), _LENGTH.search(notes)
    changes: dict[str, str] = {} if hardware is None else {"hardware": hardware}
    if length is not None and not row.text("isl"):
        changes["isl"] = length[1]
    measured = read(Cells(row.cells | changes), common)
    cap = _CAP.search(notes) if measured.load == "rate" and measured.concurrency is None else None
    if "average KV length" in notes and (measured.tpot_seconds or measured.output_tokens_per_second_per_accelerator):
        measured = replace(measured, context=measured.isl)
    known: dict[str, Any] = {} if cap is None else {"concurrency": float(cap[1] or cap[2])}
    return replace(
        measured,
        spread=0.0 if source in facts.equal_lengths else None,
        compiled=measured.compiled or _built_ahead(row),
        eager=source in facts.eager,
        even_routing=not {source, row.text("id")}.isdisjoint(facts.even_routing),
        two_batch=source in facts.two_batch,
        redundant_experts=facts.redundant_experts.get(source),
        **known,
        **_limits(row),
    )


def _built_ahead(row: Cells) -> bool:
    """True if a submission to MLPerf uses the engine of TensorRT, which is built ahead of time."""
    text = row.text("engine") or row.text("notes")
    return row.text("source_id").startswith("mlperf") and "tensorrt" in text.lower()


def _limits(row: Cells) -> dict[str, Any]:
    """SLOs of a limited load, from notes like ``p99 TTFT<=2 s, TPOT<=200 ms`` [s]."""
    limits: dict[str, Any] = {}
    for name in ("ttft", "tpot") if load_of(row.text("batch_kind")) == "limited" else ():
        match = re.search(_LIMIT.format(name), row.text("notes"), re.IGNORECASE)
        if match is not None:
            limits[f"{name}_limit_seconds"] = float(match[1]) * _SECONDS[match[2].lower()]
    return limits


_WITH_FACTS: Mapping[str, Callable[[Read, Cells, Mapping[str, Any]], Measurement]] = {
    "whole servers": _serving,
    "InferenceMAX runs": _inferencemax,
    "disaggregated InferenceMAX runs": _inferencemax,
    "Poisson load": _poisson,
    "points": _point,
}


def _kind(kind: Kind) -> Kind:
    """Kind of table whose rows get the facts on their collection."""
    with_facts = _WITH_FACTS[kind.title]
    return replace(kind, read=lambda row, common: with_facts(kind.read, row, common))


_COLLECTED: Sequence[Kind] = tuple(
    kind if kind.final else _kind(kind) for kind in KINDS if kind.final or kind.title in _WITH_FACTS
)
