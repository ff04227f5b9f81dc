"""Measured deployments as services: layout, number formats, and maximum concurrency."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

import numpy as np

from inference_econ import engine, inputs
from inference_econ._types import Array
from inference_econ.answers.disaggregated import pools as disaggregated
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.engine import Plans, Setup, Speculation, has_experts, indivisible, needed_memory, precision_on
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import Measurement, RecordedPool, is_number
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs.units import integer
from inference_econ.serving import Server, Service, Services, Trace, every_service
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
    """Weight format of multi-token-prediction layers: 16 bits in 4-bit checkpoints, else that of the target."""
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
#: Maximum ratio of a measured prefill time to the predicted one; rows above it are rejected [1].
_SLOW_PROMPT = 10.0
#: Largest instance that is tried if the layout is not recorded [GPUs].
_LARGEST = 64


def instance(rows: Sequence[Measurement], assumptions: inputs.Assumptions) -> tuple[Service, float]:
    """One instance of an aggregated deployment under its workload, and the number of instances.

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


def pools(rows: Sequence[Measurement], assumptions: inputs.Assumptions) -> Pools:
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
    # In the worst case, all requests are on one worker.
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
    """One instance of a deployment under its workload.

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
        True if the instance runs only prefill or only decode.

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
    setup = _setup(row, requests, _cut(assumptions, _cuts(model, plans, pool, assumptions))).for_role(apart=apart)
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
    """Reason why a server cannot have run as recorded; empty if it can.

    Parameters
    ----------
    row : Measurement
        Measured server.
    service : Service
        Instance of its deployment; see :func:`workers`.

    Returns
    -------
    str
        Reason if the weights exceed all memory, or if requests of a closed loop waited too long: longer than all of
        them take one after the other at the measured speed.
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
    """Note on a server that ran, although weights and one request exceed its memory; empty if they fit.

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


def _cuts(
    model: inputs.ModelSpec, plans: Plans, pool: RecordedPool, assumptions: inputs.Assumptions
) -> tuple[inputs.TensorLayout, ...]:
    """Ways to split matrices that a layout allows, at least one."""
    problems = {
        cut: [problem for problem in indivisible(model, plans, cut, assumptions) if np.any(problem.where)]
        for cut in assumptions.layout.tensor_layouts
    }
    possible = tuple(cut for cut, reasons in problems.items() if not reasons)
    if not possible:
        problem = problems[assumptions.layout.tensor_layouts[-1]][0]
        raise InputError(f"{problem.text} (tp={pool.tp}, dp={pool.dp}, pp={pool.pp}, ep={pool.ep})")
    return possible


def _cut(assumptions: inputs.Assumptions, cuts: tuple[inputs.TensorLayout, ...]) -> inputs.Assumptions:
    if cuts == assumptions.layout.tensor_layouts:
        return assumptions
    return assumptions.changed({"layout.tensor_layouts": cuts})


def version_told(row: Measurement) -> str:
    """Engine version of a row, as recorded or as used by scripts of that time; empty if unknown."""
    return row.engine_version or row.ran


def facts_of(row: Measurement) -> inputs.EngineVersion | None:
    """Facts on the engine of a row; None if its kernel counts are unknown."""
    if row.engine not in inputs.catalog.names("engines") or row.compiled:
        return None
    day = None if row.days is None else row.days.until
    return _facts_at(row.engine, row.engine_version or row.ran, day, old=row.prefill_first)


@cache
def _facts_at(name: str, version: str, day: date | None, *, old: bool) -> inputs.EngineVersion | None:
    """Facts on an engine version; None if the version is unknown and ``old``.

    A row without an engine version gets the version of its day, or the current version if the day is unknown. The first
    version with known kernel counts applies to earlier ones.
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
        # Only the context is known: any lengths with this mean context give the same work.
        assert row.context is not None
        return inputs.Requests.model_validate({"isl": max(row.context - 1.0, 1.0), "osl": 2})
    lengths = {"isl": max(row.isl, 1.0), "osl": max(row.osl or 1.0, 1.0), "cached": row.cached}
    return inputs.Requests.model_validate(lengths)


def _setup(row: Measurement, requests: inputs.Requests, assumptions: inputs.Assumptions) -> Setup:
    model, chip = inputs.catalog.model(row.model), inputs.catalog.hardware(row.hardware)
    embeddings, engines = assumptions.capacity.embedding_format, (row.engine,) if row.engine else None
    precision = precision_on(model, chip, row.weights, None, row.kv, embeddings, engines)
    # Changes of assumptions for recorded facts: token budget, kernel launches, copies of experts.
    changes: dict[str, float | bool | str | None] = {"serving.held_steps": row.held_steps}
    if row.step_tokens is not None and assumptions.serving.prefill_chunk:
        changes["serving.prefill_chunk"] = row.step_tokens
    if row.compiled and assumptions.host.launches == "per_operator":
        # Compiled models launch no single kernels in prefill.
        changes |= {"host.launch": 0.0, "serving.prefill_factor": 1.0}
    if row.memory is not None and row.engine not in _REST_OF_MEMORY:
        changes["capacity.usable_memory"] = row.memory
    if row.eager:
        changes["host.cuda_graphs"] = False
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
            captured = graphs.tokens(row.step_tokens or assumptions.serving.prefill_chunk, latent=model.has_latents)
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
#: Minimum number of rounds and requests of a simulated closed loop, if the run has as many [1].
_PLAYED_ROUNDS, _PLAYED_REQUESTS = 5, 640


@dataclass(frozen=True, slots=True)
class GeneratorRun:
    """Simulated run of a load generator.

    Attributes
    ----------
    trace : Trace
        Simulated requests.
    weights : ndarray, shape (n,)
        Requests of the run that each simulated one represents [1].
    requests_per_second : float
        Completed rate from the start to the last token of the run [1/s].
    """

    trace: Trace
    weights: Array
    requests_per_second: float

    def typical(self, values: Array, *, median: bool) -> float:
        """Mean or median over the run of a value per request, shape (n,). NaN is ignored."""
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
        One instance.
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
        Simulated run. For a long run, it consists of the start, the end, and some rounds that represent the others.
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


def played(service: Service, simulated: Server, requests_per_second: float, count: int) -> tuple[Trace, float]:
    """Simulate a run of random arrivals from the first request to the last.

    Parameters
    ----------
    service : Service
        One instance.
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
    # Arrivals are scaled to the mean duration of such a run.
    stretched = stream.arrival * (count / requests_per_second / float(stream.arrival[-1]))
    trace = simulator.play(service, simulated, replace(stream, arrival=stretched), warm_up=0.0, cool_down=0.0)
    return trace, float(np.max(stretched + trace.e2e))


def decode_steps(requests: inputs.Requests, spread: float, count: int) -> Array:
    """Decode steps of the requests of a run with :func:`uniform_lengths`, at least 1 each [1]."""
    lengths = uniform_lengths(requests.osl.mean, spread, count, np.random.default_rng(_SEED))
    return np.maximum(lengths.astype(float) - 1.0, 1.0)


def prompt_tokens(service: Service) -> int:
    """New tokens of every prompt of a run: the mean [tokens]."""
    return max(round(service.requests.new_tokens), 1)


def ends(service: Service, spread: float) -> arrivals.Counts:
    """New tokens of the shortest and the longest prompt of a run with uniform lengths [tokens]."""
    mean = service.requests.new_tokens
    return np.maximum(np.rint([mean * (1.0 - spread / 2.0), mean * (1.0 + spread / 2.0)]), 1.0).astype(np.int64)
