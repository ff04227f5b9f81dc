"""Measured deployments as services: their layout, their formats, and how many requests they run at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache

import numpy as np

from inference_econ.answers.disaggregated import pool as disaggregated
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.calibration.measurements import Measurement, Pool, is_number
from inference_econ.calibration.prediction.speculating import speculation_of
from inference_econ.engine import (
    Grid,
    Plans,
    Setup,
    Speculation,
    WholeLayouts,
    has_experts,
    indivisible,
    needed_memory,
)
from inference_econ.errors import InputError
from inference_econ.inputs import (
    Assumptions,
    EngineVersion,
    HardwareSpec,
    ModelSpec,
    Precision,
    Requests,
    TensorLayout,
    catalog,
)
from inference_econ.serving import Service, Services, every_service
from inference_econ.serving.services import services

#: Steady states per service.
_BATCHES = 24
#: Sequences that vLLM runs at most if nobody tells it more or less: its max_num_seqs of a server on chips of at least
#: that much memory, and on others, to which it counts A100s [1]. Other engines take what fits their memory.
_MOST_SEQUENCES, _FEWER_SEQUENCES, _LARGE_BYTES = 1024, 256, 70 * 2**30
#: Engines that begin a request only when there is room for all of its tokens (TensorRT-LLM's GUARANTEED_NO_EVICT);
#: others count on requests that end meanwhile.
_WHOLE_REQUESTS = ("trtllm",)
#: Engines whose share of memory is one of what the weights leave, and only the cache's.
_REST_OF_MEMORY = ("trtllm",)
#: Requests of a group of attention ranks beyond which nothing changes [1].
_MOST_SLOTS = 2.0**16
_GB = 1e9
#: How many times as long as predicted a prompt may take before a row is refused [1].
_SLOW_PROMPT = 10.0
#: Largest instance of those that are tried where the layout is not recorded [1].
_LARGEST = 64


def instance(rows: Sequence[Measurement], assumptions: Assumptions) -> tuple[Service, float]:
    """The service of a single pool, and how many instances of it there are.

    Parameters
    ----------
    rows : sequence of Measurement
        Of one deployment with a known layout.
    assumptions : Assumptions
        To predict them under.

    Raises
    ------
    InputError
        If the layout does not divide what it must, or nothing says how many requests ran.
    """
    row = rows[0]
    assert row.tp is not None and row.accelerators is not None
    dp, pp, model = row.dp or 1, row.pp or 1, _model(row.model)
    # Without experts, data parallelism means instances of their own.
    instance = row.tp * pp * (dp if has_experts(model) else 1)
    replicas = max(row.accelerators // instance, 1)
    pool = Pool(workers=replicas, tp=row.tp, dp=dp if has_experts(model) else 1, pp=pp, ep=row.ep)
    return workers(rows, pool, assumptions, _in_flight(rows) / replicas).service(0), float(replicas)


def pools(rows: Sequence[Measurement], assumptions: Assumptions) -> Pools:
    """The pools of a disaggregated server, of one layout each, without a price.

    Parameters
    ----------
    rows : sequence of Measurement
        Of one deployment with two pools.
    assumptions : Assumptions
        To predict them under.

    Raises
    ------
    InputError
        See :func:`instance`.
    """
    row, most = rows[0], _in_flight(rows)
    assert row.prefill is not None and row.decode is not None
    # By chance all requests are at one worker.
    reading, writing = (workers(rows, pool, assumptions, most, apart=True) for pool in (row.prefill, row.decode))
    return Pools(disaggregated.Pool(reading), disaggregated.Pool(writing), layer_by_layer=True)


def workers(
    rows: Sequence[Measurement], pool: Pool, assumptions: Assumptions, most: float, *, apart: bool = False
) -> Services:
    """The layout of one worker of a pool as a service.

    Parameters
    ----------
    rows : sequence of Measurement
        Of one deployment.
    pool : Pool
        Its layout; the number of workers does not count.
    assumptions : Assumptions
        To predict them under.
    most : float
        Requests at one worker at most; ``inf`` if not recorded [1].
    apart : bool
        It is one of two pools.

    Raises
    ------
    InputError
        If the layout does not divide what it must, or nothing says how many requests ran.
    """
    row = rows[0]
    requests, model = _requests(row), _model(row.model)
    single, stage = np.ones(1), pool.tp * pool.dp
    spread = float(pool.ep or 1) if has_experts(model) else 1.0
    groups, depth = single * pool.dp * pool.pp, single * pool.pp
    plans = Plans(single * stage * pool.pp, groups, depth, single * pool.tp, single * spread, whole=True)
    setup = _setup(row, requests, _cut(assumptions, _cuts(model, plans, pool, assumptions))).served(apart=apart)
    speculation = speculation_of(row)
    slots = min(_room(row, setup, plans, speculation), most, pool.slots or math.inf)
    if row.most_sequences is not None:
        slots = min(slots, row.most_sequences)
    elif row.load != "concurrency":
        slots = min(slots, _most_sequences(row, setup) * pool.dp)
    if math.isinf(slots):
        raise InputError(
            "not one request fits beside the weights, as far as is known, and how many ran is not recorded"
        )
    slots = min(slots, _MOST_SLOTS * pool.dp)
    # Steady states need two batches, also of a worker that runs one request at a time.
    most_slots = np.array([max(slots, 2.0)])
    built = services(setup, requests, plans, most_slots, batches=_BATCHES, speculation=speculation)
    return built if pool.slots is None else replace(built, slots=np.minimum(built.slots, pool.slots))


def _in_flight(rows: Sequence[Measurement]) -> float:
    """The most requests at a time in any of some rows; ``inf`` if not recorded [1]."""
    return max((row.concurrency for row in rows if row.concurrency is not None), default=math.inf)


def candidates(row: Measurement, assumptions: Assumptions) -> list[Service]:
    """Every layout that a deployment of some accelerators can have, as services.

    Parameters
    ----------
    row : Measurement
        With a number of accelerators.
    assumptions : Assumptions
        To predict it under.

    Raises
    ------
    NothingFitsError
        If no layout holds the weights and the cache of one request.
    """
    assert row.accelerators is not None
    requests, chips = _requests(row), row.accelerators
    setup = _setup(row, requests, _cut(assumptions, assumptions.layout.tensor_layouts[-1:]))
    sizes = np.array([size for size in range(1, min(chips, _LARGEST) + 1) if chips % size == 0], dtype=float)
    grid = Grid(sizes, np.ones(1), WholeLayouts(pipeline=True))
    layouts = every_service(setup, requests, grid, speculation_of(row))
    most = _most_sequences(row, setup) * layouts.plans.accelerators / layouts.plans.attention_ranks
    return [
        replace(service, slots=int(min(service.slots, limit)))
        for service, limit in zip((layouts.service(index) for index in range(len(layouts))), most, strict=True)
    ]


def impossible(row: Measurement, service: Service) -> str:
    """Why a server cannot have run as a row says, in words; empty if it can have.

    Parameters
    ----------
    row : Measurement
        What was measured.
    service : Service
        An instance of its deployment, see :func:`workers`.

    Returns
    -------
    str
        Its weights alone are more than all memory, whatever share an engine takes; or requests waited longer in a
        closed loop than all of them would take one after the other, each as fast as was measured.
    """
    setup, plans = service.setup, service.plans
    weights = _memory(row, setup, plans, service.speculation)[0]
    present = setup.hardware.hbm_bytes * service.accelerators
    if setup.assumptions.capacity.host_weights == 0.0 and weights > present:
        return f"cannot have run: weights need {weights / _GB:,.1f} GB of the {present / _GB:,.1f} GB there are"
    if row.load != "concurrency" or not (row.ttft_seconds and row.tpot_seconds and row.concurrency):
        return ""
    alone = _SLOW_PROMPT * service.prefill_seconds + (row.osl or 1.0) * row.tpot_seconds
    if row.ttft_seconds <= row.concurrency * alone:
        return ""
    return (
        f"cannot have run: {row.ttft_seconds:,.4g} s to the first token is longer than all {row.concurrency:g} "
        f"requests take one after the other, {alone:,.4g} s each at {1e3 * row.tpot_seconds:,.4g} ms per token"
    )


def shortage(row: Measurement, service: Service) -> str:
    """Words that memory does not hold the weights and one request of a server that ran; empty if it does.

    Parameters
    ----------
    row : Measurement
        What was measured.
    service : Service
        An instance of its deployment, see :func:`workers`.

    Returns
    -------
    str
        With what is needed and what there is.
    """
    weights, per_request, available = _memory(row, service.setup, service.plans, service.speculation)
    if weights + per_request <= available:
        return ""
    needed, present = (value / _GB for value in (weights + per_request, max(available, 0.0)))
    return f"weights and one request need {needed:,.1f} GB of the {present:,.1f} GB there are: predicted as if it ran"


def _cuts(model: ModelSpec, plans: Plans, pool: Pool, assumptions: Assumptions) -> tuple[TensorLayout, ...]:
    """The ways to cut matrices that a layout allows; a layout that ran allows at least one."""
    problems = {
        cut: [problem for problem in indivisible(model, plans, cut, assumptions) if np.any(problem.where)]
        for cut in assumptions.layout.tensor_layouts
    }
    possible = tuple(cut for cut, reasons in problems.items() if not reasons)
    if not possible:
        problem = problems[assumptions.layout.tensor_layouts[-1]][0]
        raise InputError(f"{problem.text} (tp={pool.tp}, dp={pool.dp}, pp={pool.pp}, ep={pool.ep})")
    return possible


def _cut(assumptions: Assumptions, cuts: tuple[TensorLayout, ...]) -> Assumptions:
    if cuts == assumptions.layout.tensor_layouts:
        return assumptions
    return assumptions.changed({"layout.tensor_layouts": cuts})


def version_told(row: Measurement) -> str:
    """The version of the engine of a row: as it says, or as scripts of its days ran; empty if nobody knows."""
    return row.engine_version or row.ran


def _told(row: Measurement, assumptions: Assumptions) -> Assumptions:
    """With what is known of the run of a row: the prompt tokens of a step, who launches kernels, copies of experts."""
    changes: dict[str, float | bool | str | None] = {"serving.held_steps": row.held_steps}
    if row.step_tokens is not None and assumptions.serving.prefill_chunk:
        changes["serving.prefill_chunk"] = row.step_tokens
    if row.compiled and assumptions.host.launches == "per_operator":
        # Nothing is launched between the kernels of a prompt, nor do they wait for it.
        changes |= {"host.launch": 0.0, "serving.prefill_factor": 1.0}
    if row.memory is not None and row.engine not in _REST_OF_MEMORY:
        changes["capacity.usable_memory"] = row.memory
    if row.eager:
        changes["host.cuda_graphs"] = False
    facts = facts_of(row)
    if assumptions.host.engine is not None and facts is not None:
        changes["host.engine"] = f"{row.engine} {facts.version}"
    if assumptions.host.captured_tokens and row.engine in catalog.names("engines"):
        changes["host.captured_tokens"] = _captured(row, facts, assumptions)
    if not row.two_batch:
        changes["network.two_batch_overlap"] = "never"
    if row.even_routing:
        changes["experts.spread"] = "even"
    if row.redundant_experts is not None:
        changes["experts.redundant"] = row.redundant_experts
    return assumptions.changed(changes)


def _captured(row: Measurement, facts: EngineVersion | None, assumptions: Assumptions) -> float:
    """Tokens of the largest step with prompts that is captured in pieces: as told, or by default [tokens]."""
    if row.captured_tokens is not None:
        return row.captured_tokens
    if facts is None or facts.prompt_graphs is None:
        return 0.0
    step = row.step_tokens or assumptions.serving.prefill_chunk
    return facts.prompt_graphs.tokens(step, latent=_model(row.model).has_latents)


def facts_of(row: Measurement) -> EngineVersion | None:
    """Facts of the engine of a row; None where nobody counted its kernels."""
    if row.engine not in catalog.names("engines") or row.compiled:
        return None
    day = None if row.days is None else row.days.until
    return _facts_at(row.engine, row.engine_version or row.ran, day, old=row.prefill_first)


@cache
def _facts_at(engine: str, version: str, day: date | None, *, old: bool) -> EngineVersion | None:
    """Facts at a version of an engine; nothing of an ``old`` one that is not known.

    A row that does not say a version, or that of something around the engine, has what held on its day, and without a
    day what holds today; where kernels were not counted yet, what holds where they first were.
    """
    spec = catalog.engine(engine)
    counted = next((entry for entry in spec.versions if entry.kernels), None)
    if counted is None:
        return None
    first = spec.at(counted.version)
    try:
        if is_number(version):
            return spec.at(version)
    except InputError:
        if old or day is None:
            return None if old else first
    try:
        facts = spec.at() if day is None else spec.on(day)
    except InputError:
        return first
    return facts if facts.kernels else first


def _most_sequences(row: Measurement, setup: Setup) -> float:
    """Sequences that an engine runs at a time by default, by group of attention ranks [1]."""
    if row.engine != "vllm":
        return math.inf
    chip = setup.hardware
    large = chip.hbm_bytes >= _LARGE_BYTES and chip.family != "a100"
    return _MOST_SEQUENCES if large else _FEWER_SEQUENCES


def _room(row: Measurement, setup: Setup, plans: Plans, speculation: Speculation | None) -> float:
    """Requests whose cache fits, at least one; all of them where the weights do not fit and yet it ran [1]."""
    weights, per_request, available = _memory(row, setup, plans, speculation)
    return (available - weights) / per_request if available - weights >= per_request else math.inf


def _memory(
    row: Measurement, setup: Setup, plans: Plans, speculation: Speculation | None
) -> tuple[float, float, float]:
    """Weights, the cache of a request, and what there is for them, of an instance [B]."""
    if row.engine in _WHOLE_REQUESTS and row.isl is not None and row.osl is not None and row.context is None:
        setup = replace(setup, context=row.isl + row.osl)
    memory = needed_memory(setup, plans, speculation)
    weights, cache, available = memory.of_one_plan()
    if row.memory is not None and row.engine in _REST_OF_MEMORY:
        workspace = float(np.max(memory.workspace_bytes))
        rest = (available + workspace) / setup.assumptions.capacity.usable_memory - weights - workspace
        available = weights + row.memory * max(rest, 0.0)
    return weights, cache / float(plans.batch[0]), available


def _requests(row: Measurement) -> Requests:
    if row.isl is None:
        # A known context: any lengths that give it.
        assert row.context is not None
        return Requests.model_validate({"isl": max(row.context - 1.0, 1.0), "osl": 2})
    return Requests.model_validate({"isl": max(row.isl, 1.0), "osl": max(row.osl or 1.0, 1.0)})


def _setup(row: Measurement, requests: Requests, assumptions: Assumptions) -> Setup:
    model = _model(row.model)
    precision = Precision.of(model, row.weights, None, row.kv, assumptions.capacity.embedding_format)
    chip, assumed = _chip(row.hardware), _told(row, assumptions)
    context, spread = (requests.mean_context, requests.spread) if row.context is None else (row.context, 0.0)
    return Setup(model, chip, precision, context, assumed, spread=spread).levelled(row.engine, version_told(row))


@cache
def _model(name: str) -> ModelSpec:
    return catalog.model(name)


@cache
def _chip(name: str) -> HardwareSpec:
    return catalog.hardware(name)
