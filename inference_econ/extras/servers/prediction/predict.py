"""Predict measurements of servers with the ordinary service model."""

from __future__ import annotations

import math
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from inference_econ.answers.disaggregated.load import closed_loop, played, pools_under_load
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers.measurements import FULL_LOADS, Measurement
from inference_econ.extras.servers.prediction import deployed
from inference_econ.inputs import Assumptions, catalog
from inference_econ.serving import Service, loaded
from inference_econ.serving.simulation import simulator

#: Function that returns the assumptions for a measurement.
Profiles = Callable[[Measurement], Assumptions]

#: Minimum number of deployments for several processes, and deployments per batch of a process [1].
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
        Predicted memory shortage of a server that did run; empty if it fits.
    rounds : str
        Assumptions about unrecorded facts of speculation, from recipes and default values; empty if all are recorded.
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
        Returns the assumptions for a measurement.
    processes : int
        Processes for many deployments [1]; one if processes cannot be forked.

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
    facts = deployed.facts_of(row)
    return (
        row.engine, row.model, row.hardware, row.weights, row.kv, row.isl, row.osl, row.context, row.cached,
        row.accelerators, row.tp, row.dp, row.pp, row.ep, row.prefill, row.decode, row.load, row.step_tokens,
        row.compiled, row.eager, row.held_steps, row.even_routing, row.two_batch, row.redundant_experts,
        row.speculation if row.speculates else "", row.draft_tokens, row.tokens_per_round,
        row.most_sequences, row.memory, row.captured_tokens, facts and facts.version,
    )  # fmt: skip


def _predict_group(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    first = rows[0]
    try:
        if reason := _unusable(first):
            return [Prediction(row, skipped=reason) for row in rows]
        predicted = (_disaggregated if first.decode is not None else _single)(rows, assumptions)
        return [replace(prediction, rounds=deployed.assumed_rounds(first)) for prediction in predicted]
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
    service, replicas = deployed.instance(rows, assumptions)
    return _checked(_under_load(rows, service, replicas), service)


def _checked(predictions: Sequence[Prediction], *services: Service) -> list[Prediction]:
    """Add memory shortages to predictions, and remove predictions of impossible runs."""
    first = predictions[0].measurement
    short = next(filter(None, (deployed.shortage(first, service) for service in services)), "")
    checked = []
    for prediction in predictions:
        row = prediction.measurement
        reason = next(filter(None, (deployed.impossible(row, service) for service in services)), "")
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
    """Predict closed loops: by simulation if the run is known well enough, else by the steady state."""
    runs = [row for row in rows if _is_run(row)]
    if not runs:
        return [_loop(row, service, replicas) for row in rows]
    lengths = deployed.ends(service, max(row.spread or 0.0 for row in runs))
    simulated = simulator.server(service, lengths, prefill_first=rows[0].prefill_first)

    # Repeated rows share their run.
    @cache
    def run(look_steps: int, clients: int, count: int, spread: float) -> deployed.GeneratorRun:
        return deployed.closed_loop(service, replace(simulated, look_steps=look_steps), clients, count, spread)

    return [_run(row, service, run, replicas) if _is_run(row) else _loop(row, service, replicas) for row in rows]


def _is_run(row: Measurement) -> bool:
    """Check whether a run can be simulated: lengths or number of requests known, and moderate concurrency."""
    assert row.concurrency is not None
    return (row.spread is not None or row.requests is not None) and row.concurrency <= _MOST_LOOPED


def _run(
    row: Measurement,
    service: Service,
    played: Callable[[int, int, int, float], deployed.GeneratorRun],
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
    """Predict random arrivals: a simulated run if its length is known, else an endless stream."""
    lengths = np.array([deployed.prompt_tokens(service)])
    ends = any(row.requests is not None and row.requests <= _MOST_PLAYED for row in rows)
    simulated = simulator.server(service, lengths) if ends else None
    predictions = []
    for row in rows:
        assert row.requests_per_second is not None
        rate = row.requests_per_second / replicas
        if simulated is not None and row.requests is not None and row.requests <= _MOST_PLAYED:
            # Simulated run of known length.
            count = max(round(row.requests / replicas), 2)
            trace, seconds = deployed.played(service, simulated, rate, count)
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
    """Predict a batch: prefill of all prompts, then decode; in several rounds if not all requests fit."""
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
    """Largest concurrency that meets the SLOs of a row [1]; the maximum if it has no SLO."""
    if row.load == "saturated":
        return float(service.slots)
    ttft, tpot = row.ttft_limit_seconds or math.inf, row.tpot_limit_seconds or math.inf
    states = service.states
    kept = np.flatnonzero((states.ttft_seconds <= ttft) & (states.tpot_seconds <= tpot))
    return float(states.concurrency[kept[-1]]) if kept.size else 1.0


def _best(row: Measurement, assumptions: Assumptions) -> Prediction:
    """Predict a server of unknown layout: the fastest layout if it is full, else the one with the largest TP degree."""
    assert row.accelerators is not None
    chosen = deployed.candidates(row, assumptions)
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
    request = _known(ttft + steps * tpot)
    return Prediction(row, _known(ttft), tpot if steps > 0 else None, request, output, idle=idle)


def _disaggregated(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    """Predict a disaggregated server: decode runs without prefill, and prompts queue for prefill."""
    first = rows[0]
    assert first.prefill is not None and first.decode is not None
    assert first.prefill.workers is not None and first.decode.workers is not None
    pools, instances = deployed.pools(rows, assumptions), (first.prefill.workers, first.decode.workers)
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
                load = closed_loop(pools, (0, 0), instances, row.concurrency).load
            which = "p50" if row.load == "rate" and row.statistic == "median" else "mean"
            ttft, tpot, rate = load.ttft_seconds[which], load.tpot_seconds[which], load.completed_per_second
        else:
            assert row.concurrency is not None
            # In the run, the first requests all arrive simultaneously.
            steps = deployed.decode_steps(requests, row.spread or 0.0, max(round(row.requests), 1))
            together, host = max(round(row.concurrency), 1), pools.prefill.setup.assumptions.host
            run = played(pools, (0, 0), instances, together, steps)
            # Inside a link domain, pools need no connection setup.
            connects = row.accelerators > pools.prefill.setup.hardware.link_domain
            ttfts = run.ttft.copy()
            ttfts[:together] += host.warm_up + (host.transfer_warm_up if connects else 0.0)
            typical = np.median if row.statistic == "median" else np.mean
            ttft, tpot, rate = float(typical(ttfts)), float(typical(run.tpot)), steps.size / run.seconds
        output = rate * requests.osl.mean / row.accelerators
        request = _known(ttft + requests.decode_steps * tpot)
        idle = row.load != "rate" and row.concurrency is not None and row.concurrency <= 1.0
        predictions.append(Prediction(row, _known(ttft), tpot, request, output, idle=idle))
    return _checked(predictions, reading, writing)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
