"""Predict measured deployments with the service model: layout, number formats, load, and maximum concurrency."""

from __future__ import annotations

import math
import multiprocessing
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

import numpy as np

from inference_econ import engine, inputs
from inference_econ._types import Array
from inference_econ.answers.disaggregated import pools as disaggregated
from inference_econ.answers.disaggregated.load import pools_under_load
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.engine import Plans, Setup, Speculation, has_experts, indivisible, needed_memory, precision_on
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers.measurements import FULL_LOADS, Measurement, RecordedPool, is_number
from inference_econ.extras.servers.prediction import closed_loop as constant
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import Assumptions, catalog
from inference_econ.inputs.units import integer
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Server, Service, Services, Trace, every_service, loaded
from inference_econ.serving.services import services
from inference_econ.serving.simulation import arrivals, simulator

#: Speculation methods by their name in measurements; a draft length may follow the name.
_PROPOSERS: Mapping[str, inputs.ProposerName] = {"MTP": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle"}
_KIND = re.compile(r"(MTP|EAGLE3|EAGLE)(?:-?(\d))?(?: (?:vanilla|autoregressive)\b.*)?", re.IGNORECASE)


def speculation_of(row: Measurement) -> Speculation | None:
    """Speculation of a server with its draft length and published acceptance; None without speculation.

    Missing facts are taken from the engine's recipe for the model, or from default values of the method.

    Parameters
    ----------
    row : Measurement
        Measured server.

    Raises
    ------
    InputError
        If speculation is only suspected, or the method is unknown.
    """
    rounds = _rounds(row)
    if rounds is None:
        return None
    proposer, length, tokens, _ = rounds
    weights = head_weights(row.model, row.weights) if proposer == "mtp" else None
    fixed = Speculation.fixed(proposer, length, tokens, weights=weights)
    host = inputs.catalog.speculation_facts().host_seconds(row.engine, row.hardware, row.engine_version)
    return replace(fixed, host_seconds=host)


def assumed_rounds(row: Measurement) -> str:
    """Assumptions about unrecorded facts of speculation, as text; empty if all facts are recorded.

    Examples
    --------
    >>> from inference_econ.extras.servers import Measurement
    >>> row = Measurement(
    ...     id="a", dataset="mine", source="", engine="sglang", engine_version="", model="deepseek_v3",
    ...     hardware="h200_sxm", accelerators=8, tp=8, dp=1, pp=1, ep=1, weights=None, isl=1e3, osl=1e3,
    ...     load="concurrency", concurrency=1.0, speculation="MTP",
    ... )
    >>> assumed_rounds(row)
    '3 proposals of a round, as in the recipe of sglang; 2.59 tokens of a round, as usual'
    """
    rounds = _rounds(row)
    return "" if rounds is None else rounds[-1]


def _rounds(row: Measurement) -> tuple[inputs.ProposerName, int, float, str] | None:
    """Speculation method, draft length, tokens per round, and assumptions as text; None without speculation."""
    if not row.speculates:
        return None
    if row.speculation == "suspected":
        raise InputError("it is not recorded whether the server speculates, or with how many draft tokens")
    kind = _KIND.fullmatch(row.speculation)
    drafts = row.draft_tokens or integer((kind and kind[2]) or "0")
    if kind is None and not drafts:
        raise InputError(
            f"it speculates ({row.speculation}), but how many tokens a round proposes is not recorded; give "
            "draft_tokens in a table, or --draft-length"
        )
    target, assumed = inputs.catalog.model(row.model), []
    proposer: inputs.ProposerName = "mtp" if target.mtp_layers else "eagle"
    if kind is not None:
        proposer = _PROPOSERS[kind[1].upper()]
    usual = inputs.catalog.usual_acceptance(proposer, target)
    if drafts:
        length = drafts
    else:
        recipe = inputs.recommended_drafts(row.engine, proposer, target)
        length, whose = recipe or usual.longest, f"in the recipe of {row.engine}" if recipe else "usual"
        assumed.append(f"{length} proposals of a round, as {whose}")
    tokens = row.tokens_per_round
    if tokens is None:
        if length > len(usual.acceptance):
            raise InputError(f"no acceptance length of {row.model} with {row.speculation} is published")
        tokens = float(expected_tokens_by_position(usual.acceptance[:length]))
        assumed.append(f"{tokens:.3g} tokens of a round, as usual")
    return proposer, length, tokens, "; ".join(assumed)


def head_weights(model: str, weights: str | None) -> str | None:
    """Weight format of multi-token-prediction layers: bf16 in 4-bit checkpoints, else None (format of the target)."""
    precision = inputs.Precision.of(inputs.catalog.model(model), weights)
    narrow = min(inputs.BYTES_PER_ELEMENT[name] for name in (precision.weights, precision.experts))
    return "bf16" if narrow < 1.0 else None


#: Number of batch sizes for which a steady state is computed, per service [1].
_BATCHES = 24
#: Default max_num_seqs of vLLM's server [1]: on chips of at least the given memory, and on other chips and A100s. Other
#: engines use all memory.
_MOST_SEQUENCES, _FEWER_SEQUENCES, _LARGE_BYTES = 1024, 256, 70 * 2**30
#: Engines that admit a request only if all of its tokens fit (TensorRT-LLM's GUARANTEED_NO_EVICT).
_WHOLE_REQUESTS = ("trtllm",)
#: Engines whose memory share applies only to the KV cache, and to the memory that is left after weights.
_REST_OF_MEMORY = ("trtllm",)
#: Maximum requests per attention-DP group [1]. More requests do not change the results.
_MOST_SLOTS = 2.0**16
_GB = 1e9
#: Maximum ratio of the measured to the predicted prefill time [1]. Rows above this ratio are rejected.
_SLOW_PROMPT = 10.0
#: Largest instance that is tried if the layout is not recorded [GPUs].
_LARGEST = 64


def instance(rows: Sequence[Measurement], assumptions: inputs.Assumptions) -> tuple[Service, float]:
    """One instance of an aggregated deployment for the measured workload, and the number of instances.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements of one deployment with a known layout.
    assumptions : Assumptions
        Assumptions of the prediction.

    Raises
    ------
    InputError
        If the layout is invalid for the model, or the concurrency is unknown.
    """
    row = rows[0]
    assert row.tp is not None and row.accelerators is not None
    dp, pp, model = row.dp or 1, row.pp or 1, inputs.catalog.model(row.model)
    # For dense models, data parallelism means separate instances.
    instance = row.tp * pp * (dp if has_experts(model) else 1)
    replicas = max(row.accelerators // instance, 1)
    pool = RecordedPool(workers=replicas, tp=row.tp, dp=dp if has_experts(model) else 1, pp=pp, ep=row.ep)
    return workers(rows, pool, assumptions, _in_flight(rows) / replicas).service(0), float(replicas)


def measured_pools(rows: Sequence[Measurement], assumptions: inputs.Assumptions) -> Pools:
    """Disaggregated deployment with one prefill layout and one decode layout, without a price.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements of one disaggregated deployment.
    assumptions : Assumptions
        Assumptions of the prediction.

    Raises
    ------
    InputError
        See :func:`instance`.
    """
    row, most = rows[0], _in_flight(rows)
    assert row.prefill is not None and row.decode is not None
    # A worker must be able to run all requests, because the router may send all requests to one worker.
    reading, writing = (workers(rows, pool, assumptions, most, apart=True) for pool in (row.prefill, row.decode))
    return Pools(disaggregated.PoolLayouts(reading), disaggregated.PoolLayouts(writing), layer_by_layer=True)


def workers(
    rows: Sequence[Measurement],
    pool: RecordedPool,
    assumptions: inputs.Assumptions,
    most: float,
    *,
    apart: bool = False,
) -> Services:
    """One instance of a deployment, or one prefill or decode worker, for the measured workload.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements of one deployment.
    pool : RecordedPool
        Layout of the instance; the number of workers is ignored.
    assumptions : Assumptions
        Assumptions of the prediction.
    most : float
        Maximum concurrency of a worker; ``inf`` if not recorded [1].
    apart : bool
        True for a prefill or decode worker of a disaggregated server.

    Raises
    ------
    InputError
        If the layout is invalid for the model, or the concurrency is unknown.
    """
    row = rows[0]
    requests, model = _requests(row), inputs.catalog.model(row.model)
    single, stage = np.ones(1), pool.tp * pool.dp
    spread = float(pool.ep or 1) if has_experts(model) else 1.0
    groups, depth = single * pool.dp * pool.pp, single * pool.pp
    plans = Plans(single * stage * pool.pp, groups, depth, single * pool.tp, single * spread, whole=True)
    # Check which ways to split matrices the layout allows. At least one must be possible.
    problems = {
        cut: [problem for problem in indivisible(model, plans, cut, assumptions) if np.any(problem.where)]
        for cut in assumptions.layout.tensor_layouts
    }
    possible = tuple(cut for cut, reasons in problems.items() if not reasons)
    if not possible:
        problem = problems[assumptions.layout.tensor_layouts[-1]][0]
        degrees = {name: getattr(pool, name) for name in ("tp", "dp", "pp", "ep")}
        given = (f"{name}={degree}" for name, degree in degrees.items() if degree is not None)
        raise InputError(f"{problem.text} ({', '.join(given)})")
    setup = _setup(row, requests, _cut(assumptions, possible)).for_role(apart=apart)
    speculation = speculation_of(row)
    weights, per_request, available = _memory(row, setup, plans, speculation)
    slots = min(
        (available - weights) / per_request if available - weights >= per_request else math.inf,
        most,
        pool.slots or math.inf,
    )
    if row.most_sequences is not None:
        slots = min(slots, row.most_sequences)
    elif row.load != "concurrency":
        slots = min(slots, _most_sequences(row, setup) * pool.dp)
    if math.isinf(slots):
        raise InputError(
            "not one request fits in addition to the weights, and the number of concurrent requests is not recorded"
        )
    slots = min(slots, _MOST_SLOTS * pool.dp)
    # Steady states need two batch sizes, even if a worker runs one request at a time.
    most_slots = np.array([max(slots, 2.0)])
    built = services(setup, requests, plans, most_slots, batches=_BATCHES, speculation=speculation)
    return built if pool.slots is None else replace(built, slots=np.minimum(built.slots, pool.slots))


def _in_flight(rows: Sequence[Measurement]) -> float:
    """Largest concurrency of several measurements [1]; ``inf`` if not recorded."""
    return max((row.concurrency for row in rows if row.concurrency is not None), default=math.inf)


def candidates(row: Measurement, assumptions: inputs.Assumptions) -> list[Service]:
    """Services for every possible layout of a deployment, given its number of accelerators.

    Parameters
    ----------
    row : Measurement
        Measurement with a number of accelerators.
    assumptions : Assumptions
        Assumptions of the prediction.

    Raises
    ------
    NothingFitsError
        If no layout fits the weights and the cache of one request.
    """
    assert row.accelerators is not None
    requests, chips = _requests(row), row.accelerators
    setup = _setup(row, requests, _cut(assumptions, assumptions.layout.tensor_layouts[-1:]))
    sizes = np.array([size for size in range(1, min(chips, _LARGEST) + 1) if chips % size == 0], dtype=float)
    grid = engine.InstanceGrid(sizes, np.ones(1), engine.WholeLayouts(pipeline=True))
    layouts = every_service(setup, requests, grid, speculation_of(row))
    most = _most_sequences(row, setup) * layouts.plans.accelerators / layouts.plans.attention_ranks
    return [
        replace(service, slots=int(min(service.slots, limit)))
        for service, limit in zip((layouts.service(index) for index in range(len(layouts))), most, strict=True)
    ]


def impossible(row: Measurement, service: Service) -> str:
    """Reason why a server cannot have run as recorded; empty if the record is possible.

    Parameters
    ----------
    row : Measurement
        Measured server.
    service : Service
        Instance of its deployment; see :func:`workers`.

    Returns
    -------
    str
        Reason if the weights exceed all memory, or if the TTFT of a closed loop is too long: longer than all concurrent
        requests take one after the other at the measured speed.
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


def memory_shortage(row: Measurement, service: Service) -> str:
    """Note on a server that ran, although weights and one request exceed its memory; empty if the memory is sufficient.

    Parameters
    ----------
    row : Measurement
        Measured server.
    service : Service
        Instance of its deployment; see :func:`workers`.

    Returns
    -------
    str
        Note with the needed and the available memory.
    """
    weights, per_request, available = _memory(row, service.setup, service.plans, service.speculation)
    if weights + per_request <= available:
        return ""
    needed, present = (value / _GB for value in (weights + per_request, max(available, 0.0)))
    return f"weights and one request need {needed:,.1f} GB of the {present:,.1f} GB there are: predicted as if it ran"


def _cut(assumptions: inputs.Assumptions, cuts: tuple[inputs.TensorLayout, ...]) -> inputs.Assumptions:
    if cuts == assumptions.layout.tensor_layouts:
        return assumptions
    return assumptions.changed({"layout.tensor_layouts": cuts})


def version_told(row: Measurement) -> str:
    """Engine version of a row, as recorded or as used by scripts of that time; empty if unknown."""
    return row.engine_version or row.ran


def facts_of(row: Measurement) -> inputs.EngineVersion | None:
    """Facts on the engine version of a row; None if the engine's kernel counts are unknown."""
    if row.engine not in inputs.catalog.names("engines") or row.compiled:
        return None
    day = None if row.days is None else row.days.until
    return _facts_at(row.engine, row.engine_version or row.ran, day, old=row.prefill_first)


@cache
def _facts_at(name: str, version: str, day: date | None, *, old: bool) -> inputs.EngineVersion | None:
    """Facts on an engine version; None if the version is unknown and ``old`` is true.

    A row without an engine version gets the version of its day, or the current version if the day is unknown. The first
    version with known kernel counts applies to all earlier versions.
    """
    spec = inputs.catalog.engine(name)
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
    """Default maximum number of concurrent sequences per attention-DP group [1]."""
    if row.engine != "vllm":
        return math.inf
    chip = setup.hardware
    large = chip.hbm_bytes >= _LARGE_BYTES and chip.family != "a100"
    return _MOST_SEQUENCES if large else _FEWER_SEQUENCES


def _memory(
    row: Measurement, setup: Setup, plans: Plans, speculation: Speculation | None
) -> tuple[float, float, float]:
    """Weights, cache of one request, and available memory of an instance [B]."""
    if row.engine in _WHOLE_REQUESTS and row.isl is not None and row.osl is not None and row.context is None:
        setup = replace(setup, context=row.isl + row.osl)
    memory = needed_memory(setup, plans, speculation)
    weights, cache, available = memory.of_one_plan()
    if row.memory is not None and row.engine in _REST_OF_MEMORY:
        workspace = float(np.max(memory.workspace_bytes))
        rest = (available + workspace) / setup.assumptions.capacity.usable_memory - weights - workspace
        available = weights + row.memory * max(rest, 0.0)
    return weights, cache / float(plans.batch[0]), available


def _requests(row: Measurement) -> inputs.Requests:
    if row.isl is None:
        # Only the context is known. All request lengths with this mean context need the same work.
        assert row.context is not None
        return inputs.Requests.model_validate({"isl": max(row.context - 1.0, 1.0), "osl": 2})
    lengths = {"isl": max(row.isl, 1.0), "osl": max(row.osl or 1.0, 1.0), "cached": row.cached}
    return inputs.Requests.model_validate(lengths)


def _setup(row: Measurement, requests: inputs.Requests, assumptions: inputs.Assumptions) -> Setup:
    model, chip = inputs.catalog.model(row.model), inputs.catalog.hardware(row.hardware)
    embeddings, engines = assumptions.capacity.embedding_format, (row.engine,) if row.engine else None
    precision = precision_on(model, chip, row.weights, None, row.kv, embeddings, engines)
    # Recorded facts change the assumptions: token budget, kernel launches, copies of experts.
    changes: dict[str, float | bool | str | None] = {"serving.held_steps": row.held_steps}
    if row.step_tokens is not None and assumptions.serving.prefill_chunk:
        changes["serving.prefill_chunk"] = row.step_tokens
    if row.compiled and assumptions.host.launches == "per_operator":
        # Compiled models do not launch kernels one by one in prefill.
        changes |= {"host.launch": 0.0, "serving.prefill_factor": 1.0}
    if row.memory is not None and row.engine not in _REST_OF_MEMORY:
        changes["capacity.usable_memory"] = row.memory
    if row.eager:
        changes["host.cuda_graphs"] = False
    if row.synchronous:
        changes["host.steps_ahead"] = 0.0
    facts = facts_of(row)
    if facts is not None and facts.memory is not None and facts.memory.state_share is not None:
        changes["capacity.state_share"] = facts.memory.state_share
        changes["capacity.states_held"] = facts.memory.states_held
    if assumptions.host.engine is not None and facts is not None:
        changes["host.engine"] = f"{row.engine} {facts.version}"
    if assumptions.host.captured_tokens and row.engine in inputs.catalog.names("engines"):
        # Tokens of the largest prefill step that is captured piecewise, as configured or by default.
        graphs = facts and facts.prompt_graphs
        captured: float | None = row.captured_tokens
        if captured is None and graphs:
            read = row.step_tokens or assumptions.serving.prefill_chunk
            captured = graphs.tokens(read, model.architecture, latent=model.has_latents)
        changes["host.captured_tokens"] = captured or 0.0
    if not row.two_batch:
        changes["network.two_batch_overlap"] = "never"
    if row.even_routing:
        changes["experts.spread"] = "even"
    if row.redundant_experts is not None:
        changes["experts.redundant"] = row.redundant_experts
    assumed = assumptions.changed(changes)
    context, spread = (requests.mean_context, requests.spread) if row.context is None else (row.context, 0.0)
    return Setup(model, chip, precision, context, assumed, spread=spread).with_corrections(
        row.engine, version_told(row), "" if facts is None else facts.version
    )


#: Seed of random arrivals and lengths.
_SEED = 0
#: Minimum numbers of simulated rounds and requests of a closed loop; a shorter run is simulated completely [1].
_PLAYED_ROUNDS, _PLAYED_REQUESTS = 5, 640


@dataclass(frozen=True, slots=True)
class GeneratorRun:
    """Simulated run of a load generator.

    Attributes
    ----------
    trace : Trace
        Simulated requests.
    weights : ndarray, shape (n,)
        Number of requests of the run that each simulated request represents [1].
    requests_per_second : float
        Completed rate from the start to the last token of the run [1/s].
    """

    trace: Trace
    weights: Array
    requests_per_second: float

    def typical(self, values: Array, *, median: bool) -> float:
        """Mean or median, over the requests of a run, of ``values``, shape (n,). NaN is ignored."""
        present = ~np.isnan(values)
        values, weights = values[present], self.weights[present]
        if not median:
            return float(np.average(values, weights=weights))
        order = np.argsort(values)
        share = np.cumsum(weights[order]) / weights.sum()
        return float(np.interp(0.5, share - weights[order] / weights.sum() / 2.0, values[order]))


def closed_loop(service: Service, simulated: Server, clients: int, count: int, spread: float) -> GeneratorRun:
    """Simulate a run of a closed loop from the first request to the last.

    Parameters
    ----------
    service : Service
        Predicted instance.
    simulated : Server
        Simulated server; see :func:`inference_econ.serving.simulation.simulator.server`.
    clients : int
        Concurrent requests, all sent at the start of the run [1].
    count : int
        Requests of the run, at least the number of clients [1].
    spread : float
        Range of uniform lengths divided by their mean; 0 if all are equal [1].

    Returns
    -------
    GeneratorRun
        Simulated run. In a long run, the start, the end and some rounds are simulated. The simulated rounds represent
        all other rounds.
    """
    number = min(count, max(_PLAYED_ROUNDS * clients, _PLAYED_REQUESTS))
    random = np.random.default_rng(_SEED)
    isl, osl = (
        uniform_lengths(mean, spread, number, random)
        for mean in (service.requests.new_tokens, service.requests.osl.mean)
    )
    trace = simulator.play(service, simulated, arrivals.Loop(clients, isl, osl), warm_up=0.0, cool_down=0.0)
    ends = np.sort(trace.arrival + trace.e2e)
    weights, seconds = np.ones(number), float(ends[-1])
    if number < count:
        middle = number - 2 * clients
        weights[clients:-clients] = (count - 2 * clients) / middle
        seconds += (float(weights[clients]) - 1.0) * float(ends[middle] - ends[0])
    return GeneratorRun(trace, weights, count / seconds)


def uniform_lengths(mean: float, spread: float, count: int, random: np.random.Generator) -> arrivals.Counts:
    """Stratified uniform lengths in random order [tokens]."""
    places = (np.arange(count) + 0.5) / count - 0.5
    return random.permutation(np.maximum(np.rint(mean * (1.0 + spread * places)), 1.0).astype(np.int64))


def simulated_load(service: Service, simulated: Server, requests_per_second: float, count: int) -> tuple[Trace, float]:
    """Simulate an open-loop run with random arrivals, from the first request to the last.

    Parameters
    ----------
    service : Service
        Predicted instance.
    simulated : Server
        Simulated server for prompts of :func:`prompt_tokens`; see
        :func:`inference_econ.serving.simulation.simulator.server`.
    requests_per_second : float
        Offered rate [1/s].
    count : int
        Requests of the run [1].

    Returns
    -------
    (Trace, float)
        Simulated requests, and the duration of the run [s].
    """
    isl, osl = prompt_tokens(service), max(round(service.requests.osl.mean), 1)
    stream = arrivals.draw(count, requests_per_second, arrivals.fixed(isl), arrivals.fixed(osl), seed=_SEED)
    # Arrivals are scaled so that the run has the mean duration, count over rate.
    stretched = stream.arrival * (count / requests_per_second / float(stream.arrival[-1]))
    trace = simulator.play(service, simulated, replace(stream, arrival=stretched), warm_up=0.0, cool_down=0.0)
    return trace, float(np.max(stretched + trace.e2e))


def decode_steps(requests: inputs.Requests, spread: float, count: int) -> Array:
    """Decode steps of each request in a run with :func:`uniform_lengths`, at least 1 [1]."""
    lengths = uniform_lengths(requests.osl.mean, spread, count, np.random.default_rng(_SEED))
    return np.maximum(lengths.astype(float) - 1.0, 1.0)


def prompt_tokens(service: Service) -> int:
    """New tokens of every prompt of a run: the mean [tokens]."""
    return max(round(service.requests.new_tokens), 1)


def rounded_ends(service: Service, spread: float) -> arrivals.Counts:
    """New tokens of the shortest and the longest prompt of a run with uniform lengths [tokens]."""
    mean = service.requests.new_tokens
    return np.maximum(np.rint([mean * (1.0 - spread / 2.0), mean * (1.0 + spread / 2.0)]), 1.0).astype(np.int64)


#: Function that returns the assumptions for a measurement.
Profiles = Callable[[Measurement], Assumptions]

#: Minimum number of deployments for which several processes start, and number of deployments per task of a process [1].
_MANY_DEPLOYMENTS, _CHUNK = 100, 8
#: Number of rounds of a closed loop whose length is not recorded [1].
_ROUNDS = 10
#: Maximum length of a simulated open-loop run [requests].
_MOST_PLAYED = 5000
#: Largest concurrency of a simulated closed loop [1].
_MOST_LOOPED = 10_000
#: Maximum share of time for prefill at which queueing is negligible [1].
_IDLE = 0.1
#: Reason why a disaggregated server cannot be predicted.
_WORKERS_NOT_RECORDED = "the numbers of workers are not recorded; give prefill_num_workers and decode_num_workers"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one measurement.

    Attributes
    ----------
    measurement : Measurement
        The measurement.
    ttft_seconds, tpot_seconds, request_seconds : float or None
        Latencies [s]; None if the row lacks a required fact.
    output_tokens_per_second_per_accelerator : float or None
        Output throughput [tokens/s].
    idle : bool
        True if the prediction is a latency without load.
    skipped : str
        Reason for a missing prediction; empty if there is one.
    assumed : str
        Assumptions about unrecorded facts; empty if all facts are recorded.
    shortage : str
        Predicted memory shortage of a server that did run; empty without a shortage.
    rounds : str
        Assumptions about unrecorded facts of speculation, from recipes and default values; empty if all facts are
        recorded.
    """

    measurement: Measurement
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    request_seconds: float | None = None
    output_tokens_per_second_per_accelerator: float | None = None
    idle: bool = False
    skipped: str = ""
    assumed: str = ""
    shortage: str = ""
    rounds: str = ""

    @property
    def input_tokens_per_second_per_accelerator(self) -> float | None:
        """Input throughput [tokens/s]."""
        row, rate = self.measurement, self.output_tokens_per_second_per_accelerator
        # A row without a recorded output has one output token per request.
        return None if rate is None or row.isl is None else rate * row.isl / (row.osl or 1.0)

    @property
    def total_tokens_per_second_per_accelerator(self) -> float | None:
        """Input and output throughput [tokens/s]."""
        answers, prompts = self.output_tokens_per_second_per_accelerator, self.input_tokens_per_second_per_accelerator
        return None if answers is None or prompts is None else answers + prompts


def predict(rows: Sequence[Measurement], profiles: Profiles, *, processes: int = 1) -> list[Prediction]:
    """Predict measurements. Measurements of one deployment share the computation.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements.
    profiles : callable
        Function that returns the assumptions for a measurement.
    processes : int
        Number of processes for many deployments [1]. A single process is used if processes cannot be forked.

    Returns
    -------
    list of Prediction
        Predictions in the order of the rows. An unsupported row has a reason in place of a prediction.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    predictions: list[Prediction | None] = [None] * len(rows)
    # Thousands of rows refer to the same specs, which are not modified.
    with catalog.uncopied():
        for index, row in enumerate(rows):
            groups[_deployment(row)].append(index)
        together = [[rows[index] for index in indices] for indices in groups.values()]
        assumptions = [profiles(group[0]) for group in together]
        alone = sys.platform != "linux" or multiprocessing.current_process().daemon  # daemons cannot start processes
        if processes < 2 or len(together) < _MANY_DEPLOYMENTS or alone:
            predicted = list(map(_predict_group, together, assumptions))
        else:
            with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
                predicted = list(pool.map(_predict_group, together, assumptions, chunksize=_CHUNK))
    for indices, group in zip(groups.values(), predicted, strict=True):
        for index, prediction in zip(indices, group, strict=True):
            predictions[index] = prediction
    return [prediction for prediction in predictions if prediction is not None]


def _deployment(row: Measurement) -> tuple[object, ...]:
    """Key of the deployment of a row; rows with equal keys are predicted together."""
    facts = facts_of(row)
    return (
        row.engine, row.model, row.hardware, row.weights, row.kv, row.isl, row.osl, row.context, row.cached,
        row.accelerators, row.tp, row.dp, row.pp, row.ep, row.prefill, row.decode, row.load, row.step_tokens,
        row.compiled, row.eager, row.synchronous, row.held_steps, row.even_routing, row.two_batch,
        row.redundant_experts, row.speculation if row.speculates else "", row.draft_tokens, row.tokens_per_round,
        row.most_sequences, row.memory, row.captured_tokens, facts and facts.version,
    )  # fmt: skip


def _predict_group(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    first = rows[0]
    try:
        if reason := _unusable(first):
            return [Prediction(row, skipped=reason) for row in rows]
        predicted = (_disaggregated if first.decode is not None else _single)(rows, assumptions)
        return [replace(prediction, rounds=assumed_rounds(first)) for prediction in predicted]
    except (InputError, NothingFitsError) as error:
        return [Prediction(row, skipped=str(error)) for row in rows]


def _unusable(row: Measurement) -> str:
    if row.load == "unknown":
        return "how requests arrived is not recorded"
    if row.isl is None and row.context is None:
        return "no length is recorded"
    if row.decode is None and row.accelerators is None:
        return "the number of accelerators is not recorded"
    if row.prefill is not None and row.decode is not None:
        if None in (row.accelerators, row.prefill.workers, row.decode.workers):
            return row.unknown or _WORKERS_NOT_RECORDED
        if row.concurrency is None and row.load != "rate":
            return "pools are predicted under a constant number of requests, or at a rate of requests"
    if row.load in ("batch", "concurrency") and row.concurrency is None:
        return "the number of requests is not recorded"
    if row.load == "rate" and row.requests_per_second is None:
        return "the rate of requests is not recorded"
    return ""


def _single(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    """Predict an aggregated deployment, whose replicas share the requests evenly."""
    first = rows[0]
    if first.tp is None:
        return [_best(row, assumptions) for row in rows]
    service, replicas = instance(rows, assumptions)
    return _checked(_under_load(rows, service, replicas), service)


def _checked(predictions: Sequence[Prediction], *services: Service) -> list[Prediction]:
    """Add memory shortages to predictions, and remove predictions of impossible runs."""
    first = predictions[0].measurement
    short = next(filter(None, (memory_shortage(first, service) for service in services)), "")
    checked = []
    for prediction in predictions:
        row = prediction.measurement
        reason = next(filter(None, (impossible(row, service) for service in services)), "")
        checked.append(Prediction(row, skipped=reason) if reason else replace(prediction, shortage=short))
    return checked


def _under_load(rows: Sequence[Measurement], service: Service, replicas: float) -> list[Prediction]:
    load = rows[0].load
    if load == "batch":
        return [_batch(row, service, replicas) for row in rows]
    if load == "rate":
        return _open(rows, service, replicas)
    if load in FULL_LOADS:
        return [_steady(row, service, _most(row, service)) for row in rows]
    return _closed(rows, service, replicas)


def _closed(rows: Sequence[Measurement], service: Service, replicas: float) -> list[Prediction]:
    """Predict closed loops: by simulation if the length of the run is known, else by the steady state."""
    runs = [row for row in rows if _is_run(row)]
    if not runs:
        return [_loop(row, service, replicas) for row in rows]
    lengths = rounded_ends(service, max(row.spread or 0.0 for row in runs))
    simulated = simulator.server(service, lengths, prefill_first=rows[0].prefill_first)

    # Rows with equal runs share one simulation.
    @cache
    def run(look_steps: int, clients: int, count: int, spread: float) -> GeneratorRun:
        return closed_loop(service, replace(simulated, look_steps=look_steps), clients, count, spread)

    return [_run(row, service, run, replicas) if _is_run(row) else _loop(row, service, replicas) for row in rows]


def _is_run(row: Measurement) -> bool:
    """Check whether a closed loop can be simulated: known spread or number of requests, moderate concurrency."""
    assert row.concurrency is not None
    return (row.spread is not None or row.requests is not None) and row.concurrency <= _MOST_LOOPED


def _run(
    row: Measurement,
    service: Service,
    played: Callable[[int, int, int, float], GeneratorRun],
    replicas: float,
) -> Prediction:
    """Predict a closed-loop run from the first request to the last. All clients start simultaneously."""
    assert row.concurrency is not None
    clients = max(round(row.concurrency / replicas), 1)
    count = _ROUNDS * clients if row.requests is None else max(round(row.requests / replicas), clients)
    # If requests are admitted only every n steps, a prompt waits n / 2 steps on average.
    run = played(max(round(2.0 * row.wait_steps), 1), clients, count, row.spread or 0.0)
    median = row.statistic == "median"
    ttft = run.typical(run.trace.ttft, median=median)
    tpot = run.typical(run.trace.tpot, median=median) if service.requests.decode_steps > 0 else 0.0
    return _prediction(row, service, ttft, tpot, run.requests_per_second, idle=clients == 1)


def _loop(row: Measurement, service: Service, replicas: float) -> Prediction:
    """Predict a closed loop of unknown length by its steady state."""
    assert row.concurrency is not None
    per_replica = max(row.concurrency / replicas, 1.0)
    state = service.at(per_replica)
    ttft, tpot, rate = (float(v) for v in (state.ttft_seconds, state.tpot_seconds, state.requests_per_second))
    # Requests above the memory limit queue. In a closed loop, each is served once per round.
    wait = max(per_replica - service.most_in_flight, 0.0) / rate + row.wait_steps * tpot
    return _prediction(row, service, ttft + wait, tpot, rate, idle=per_replica <= 1.0)


def _steady(row: Measurement, service: Service, concurrency: float) -> Prediction:
    state = service.at(concurrency)
    ttft, tpot, rate = (float(v) for v in (state.ttft_seconds, state.tpot_seconds, state.requests_per_second))
    return _prediction(row, service, ttft, tpot, rate)


def _open(rows: Sequence[Measurement], service: Service, replicas: float) -> list[Prediction]:
    """Predict open-loop runs: by simulation if the run has a known and moderate length, else as an endless stream."""
    lengths = np.array([prompt_tokens(service)])
    ends = any(row.requests is not None and row.requests <= _MOST_PLAYED for row in rows)
    simulated = simulator.server(service, lengths) if ends else None
    predictions = []
    for row in rows:
        assert row.requests_per_second is not None
        rate = row.requests_per_second / replicas
        if simulated is not None and row.requests is not None and row.requests <= _MOST_PLAYED:
            # Simulated run of known length.
            count = max(round(row.requests / replicas), 2)
            trace, seconds = simulated_load(service, simulated, rate, count)
            typical = np.median if row.statistic == "median" else np.mean
            tpot = float(typical(trace.tpot)) if service.requests.decode_steps > 0 else 0.0
            seen = float(typical(trace.ttft)), tpot, count / seconds
        else:
            # TTFT and TPOT [s], and completed requests [1/s].
            load = loaded(service, rate)
            which = "p50" if row.statistic == "median" else "mean"
            ttft, tpot = load.ttft_seconds[which], load.tpot_seconds[which]
            if load.saturated:
                # A finite run under overload ends. Until then, all slots are in use.
                tpot = float(service.at(service.slots).tpot_seconds)
            seen = ttft, tpot, load.completed_per_second
        idle = rate * service.prefill_busy_seconds <= _IDLE
        predictions.append(_prediction(row, service, *seen, idle=idle))
    return predictions


def _batch(row: Measurement, service: Service, replicas: float) -> Prediction:
    """Predict a static batch: prefill of all prompts, then decode; in several rounds if memory limits the batch."""
    assert row.concurrency is not None
    batch = max(row.concurrency / replicas, 1.0)
    together = min(batch, float(service.slots))
    steps = service.requests.decode_steps
    decode = float(service.step_seconds(together))
    if row.context is not None:
        return Prediction(row, None, decode, None, batch / decode / service.accelerators)
    reading = max(service.prefill_seconds, together * float(service.shared_prefill_seconds(together)))
    whole = batch / together * (reading + steps * decode)
    output = batch * service.requests.osl.mean / whole / service.accelerators
    return Prediction(row, reading, decode if steps > 0 else None, whole, output, idle=batch <= 1.0)


def _most(row: Measurement, service: Service) -> float:
    """Largest concurrency that meets the SLOs of a row [1]; the maximum concurrency for a row without SLOs."""
    if row.load == "saturated":
        return float(service.slots)
    ttft, tpot = row.ttft_limit_seconds or math.inf, row.tpot_limit_seconds or math.inf
    states = service.states
    kept = np.flatnonzero((states.ttft_seconds <= ttft) & (states.tpot_seconds <= tpot))
    return float(states.concurrency[kept[-1]]) if kept.size else 1.0


def _best(row: Measurement, assumptions: Assumptions) -> Prediction:
    """Predict a server of unknown layout: the fastest layout if the load is full, else the largest TP degree."""
    assert row.accelerators is not None
    chosen = candidates(row, assumptions)
    if row.load in FULL_LOADS:
        states = [(_steady(row, service, _most(row, service)), service) for service in chosen]
        prediction, best = max(states, key=lambda pair: pair[0].output_tokens_per_second_per_accelerator or 0.0)
    else:
        # Nearly all measured servers use the largest possible tensor-parallel degree.
        most = max(service.plans.attention_ranks[0] for service in chosen)
        widest = [service for service in chosen if service.plans.attention_ranks[0] == most]
        states = [(_under_load([row], it, row.accelerators / it.accelerators)[0], it) for it in widest]
        prediction, best = min(states, key=lambda pair: pair[0].request_seconds or pair[0].tpot_seconds or math.inf)
    tp, pp = int(best.plans.attention_ranks[0]), int(best.plans.pp[0])
    return replace(prediction, assumed=f"layout tp={tp}, dp={best.accelerators // (tp * pp)}, pp={pp}")


def _prediction(
    row: Measurement, service: Service, ttft: float, tpot: float, rate: float, *, idle: bool = False
) -> Prediction:
    """Prediction from the completed rate and the latencies of an instance."""
    steps = service.requests.decode_steps
    output = rate * service.requests.osl.mean / service.accelerators
    request = finite_or_none(ttft + steps * tpot)
    return Prediction(row, finite_or_none(ttft), tpot if steps > 0 else None, request, output, idle=idle)


def _disaggregated(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    """Predict a disaggregated server: decode runs without prefill, and prompts queue for prefill."""
    first = rows[0]
    assert first.prefill is not None and first.decode is not None
    assert first.prefill.workers is not None and first.decode.workers is not None
    pools, instances = measured_pools(rows, assumptions), (first.prefill.workers, first.decode.workers)
    reading, writing = (pool.services.service(0) for pool in (pools.prefill, pools.decode))
    requests, predictions = pools.requests, []
    for row in rows:
        assert row.accelerators is not None
        if row.load == "rate" or row.requests is None:
            if row.load == "rate":
                assert row.requests_per_second is not None
                load = pools_under_load(pools, (0, 0), instances, row.requests_per_second).load
            else:
                assert row.concurrency is not None
                load = constant.closed_loop(pools, (0, 0), instances, row.concurrency).load
            which = "p50" if row.load == "rate" and row.statistic == "median" else "mean"
            ttft, tpot, rate = load.ttft_seconds[which], load.tpot_seconds[which], load.completed_per_second
        else:
            assert row.concurrency is not None
            # In the run, the first requests all arrive simultaneously.
            steps = decode_steps(requests, row.spread or 0.0, max(round(row.requests), 1))
            together, host = max(round(row.concurrency), 1), pools.prefill.setup.assumptions.host
            run = constant.played(pools, (0, 0), instances, together, steps)
            # Inside a link domain, pools need no connection setup.
            connects = row.accelerators > pools.prefill.setup.hardware.link_domain
            ttfts = run.ttft.copy()
            ttfts[:together] += host.warm_up + (host.transfer_warm_up if connects else 0.0)
            typical = np.median if row.statistic == "median" else np.mean
            ttft, tpot, rate = float(typical(ttfts)), float(typical(run.tpot)), steps.size / run.seconds
        output = rate * requests.osl.mean / row.accelerators
        request = finite_or_none(ttft + requests.decode_steps * tpot)
        idle = row.load != "rate" and row.concurrency is not None and row.concurrency <= 1.0
        predictions.append(Prediction(row, finite_or_none(ttft), tpot, request, output, idle=idle))
    return _checked(predictions, reading, writing)
