"""Predict measurements of servers through the ordinary service model (floor 6)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ import catalog
from inference_econ.deployments import At, Service, services
from inference_econ.errors import InputError
from inference_econ.load import loaded
from inference_econ.measurements import Measurement, Pool
from inference_econ.plans import Plans, has_experts, indivisible
from inference_econ.precision import Precision
from inference_econ.question import Question
from inference_econ.spec.assumptions import Assumptions
from inference_econ.spec.traffic import Requests

Array = npt.NDArray[np.float64]
#: Which assumptions hold for a measurement.
Profiles = Callable[[Measurement], Assumptions]

#: Steady states per service.
_BATCHES = 24
#: Sequences that engines run at most if nothing else is known (vLLM's max_num_seqs on large GPUs) [1].
_MOST_SEQUENCES = 1024


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says about one measurement.

    Attributes
    ----------
    measurement : Measurement
        Beside it.
    ttft_seconds, tpot_seconds, request_seconds : float or None
        [s]; None if the row does not say what would be needed.
    output_tokens_per_second_per_accelerator : float or None
        [tokens/s]
    skipped : str
        Why there is no prediction; empty if there is one.
    """

    measurement: Measurement
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    request_seconds: float | None = None
    output_tokens_per_second_per_accelerator: float | None = None
    skipped: str = ""

    @property
    def input_tokens_per_second_per_accelerator(self) -> float | None:
        """[tokens/s]"""
        row, rate = self.measurement, self.output_tokens_per_second_per_accelerator
        return None if rate is None or not row.osl or row.isl is None else rate * row.isl / row.osl

    @property
    def total_tokens_per_second_per_accelerator(self) -> float | None:
        """Input and output together [tokens/s]."""
        output, given = self.output_tokens_per_second_per_accelerator, self.input_tokens_per_second_per_accelerator
        return None if output is None or given is None else output + given


def predict(rows: Sequence[Measurement], profiles: Profiles) -> list[Prediction]:
    """Predict measurements, those of one deployment together.

    Parameters
    ----------
    rows : sequence of Measurement
        What was measured.
    profiles : callable
        The assumptions for a measurement.

    Returns
    -------
    list of Prediction
        In the order of the rows; what the model cannot express is skipped with the reason.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[_deployment(row)].append(index)
    found: list[Prediction | None] = [None] * len(rows)
    for indices in groups.values():
        together = [rows[index] for index in indices]
        for index, prediction in zip(indices, _predict_group(together, profiles(together[0])), strict=True):
            found[index] = prediction
    return [prediction for prediction in found if prediction is not None]


def _deployment(row: Measurement) -> tuple[object, ...]:
    """What rows must share to be predicted together."""
    return (
        row.engine, row.model, row.hardware, row.weights, row.kv, row.isl, row.osl, row.context, row.accelerators,
        row.tp, row.dp, row.pp, row.ep, row.prefill, row.decode, row.load,
    )  # fmt: skip


def _predict_group(rows: Sequence[Measurement], assumptions: Assumptions) -> Iterable[Prediction]:
    first = rows[0]
    try:
        reason = _unusable(first)
        if reason:
            return [Prediction(row, skipped=reason) for row in rows]
        if first.decode is not None:
            return _disaggregated(rows, assumptions)
        return _single(rows, assumptions)
    except InputError as error:
        return [Prediction(row, skipped=str(error)) for row in rows]


def _unusable(row: Measurement) -> str:
    if row.load == "unknown":
        return "how requests arrived is not recorded"
    if row.isl is None and row.context is None:
        return "no length is recorded"
    if row.decode is None and (row.tp is None or row.accelerators is None):
        return "the layout is not recorded"
    if row.load in ("batch", "concurrency") and row.concurrency is None:
        return "the number of requests is not recorded"
    if row.load == "rate" and row.requests_per_second is None:
        return "the rate of requests is not recorded"
    return ""


def _single(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    """One pool of accelerators: replicas share the requests evenly."""
    first = rows[0]
    service, replicas = _service(rows, assumptions)
    if first.load == "batch":
        return [_batch(row, service, replicas) for row in rows]
    if first.load == "rate":
        return [_open(row, service, replicas) for row in rows]
    if first.load == "saturated":
        state = service.at(service.slots)
        return [_steady(row, service, state, replicas) for row in rows]
    if first.load == "limited":
        return [_steady(row, service, _within(row, service), replicas) for row in rows]
    states = service.at(np.array([max((row.concurrency or 1.0) / replicas, 1.0) for row in rows]))
    return [_steady(row, service, _pick(states, index), replicas) for index, row in enumerate(rows)]


def _steady(row: Measurement, service: Service, state: At, replicas: float) -> Prediction:
    steps = service.requests.decode_steps
    ttft, tpot = float(state.ttft_seconds), float(state.tpot_seconds)
    output = float(state.requests_per_second) * service.requests.osl.mean / service.accelerators
    del replicas
    return Prediction(row, ttft, tpot if steps > 0 else None, ttft + steps * tpot, output)


def _open(row: Measurement, service: Service, replicas: float) -> Prediction:
    """Random arrivals: medians or means, as were measured."""
    assert row.requests_per_second is not None
    load = loaded(service, row.requests_per_second / replicas)
    which = "p50" if row.statistic == "median" else "mean"
    ttft, tpot = load.ttft_seconds[which], load.tpot_seconds[which]
    if load.saturated:
        # A test of finite length still ends: all slots are taken meanwhile.
        state = service.at(service.slots)
        ttft, tpot = math.inf, float(state.tpot_seconds)
    output = load.completed_per_second * service.requests.osl.mean / service.accelerators
    request = ttft + service.requests.decode_steps * tpot
    return Prediction(
        row, _known(ttft), tpot if service.requests.decode_steps > 0 else None, _known(request), output
    )


def _batch(row: Measurement, service: Service, replicas: float) -> Prediction:
    """All requests at once: every prompt is read, then all decode together."""
    assert row.concurrency is not None
    batch = max(row.concurrency / replicas, 1.0)
    state = service.at(batch)
    steps = service.requests.decode_steps
    reading = max(service.prefill_seconds, batch * service.prefill_busy_seconds)
    decode = float(np.interp(batch, service.batch, service.decode_seconds))
    if row.context is not None:
        return Prediction(row, None, decode, None, batch / decode / service.accelerators)
    del state
    whole = reading + steps * decode
    output = batch * service.requests.osl.mean / whole / service.accelerators
    return Prediction(row, reading, decode if steps > 0 else None, whole, output)


def _within(row: Measurement, service: Service) -> At:
    """The most requests in flight that keep the promises of a row."""
    ttft, tpot = row.ttft_limit_seconds or math.inf, row.tpot_limit_seconds or math.inf
    kept = np.flatnonzero((service.ttft_seconds <= ttft) & (service.tpot_seconds <= tpot))
    return service.at(service.concurrency[kept[-1]] if kept.size else 1.0)


def _disaggregated(rows: Sequence[Measurement], assumptions: Assumptions) -> list[Prediction]:
    """A pool for prefill and one for decode: decoding knows no prompts, and prompts wait for each other."""
    first = rows[0]
    assert first.prefill is not None and first.decode is not None
    reader, writer = (_pool_service(rows, pool, assumptions) for pool in (first.prefill, first.decode))
    readers, writers = first.prefill.workers or 1, first.decode.workers or 1
    chips = readers * reader.accelerators + writers * writer.accelerators
    found = []
    for row in rows:
        assert row.concurrency is not None
        steps = writer.requests.decode_steps
        batch, ttft = max(row.concurrency / writers, 1.0), reader.prefill_seconds
        for _ in range(20):
            decode = float(np.interp(batch, writer.batch, writer.decode_seconds))
            rate = row.concurrency / (ttft + steps * decode)
            busy = min(rate * reader.prefill_busy_seconds / readers, 0.99)
            wait = min(busy / (1.0 - busy) / 2.0, row.concurrency / readers) * reader.prefill_busy_seconds
            ttft = reader.prefill_seconds + wait
            batch = max(rate * steps * decode / writers, 1.0)
        # Prompts cannot be read quicker than the pool does; what waits for that waits before its first token.
        rate = min(rate, readers / reader.prefill_busy_seconds)
        ttft = max(ttft, row.concurrency / rate - steps * decode)
        found.append(Prediction(row, ttft, decode, ttft + steps * decode, rate * writer.requests.osl.mean / chips))
    return found


def _service(rows: Sequence[Measurement], assumptions: Assumptions) -> tuple[Service, float]:
    """The service of a single pool, and how many instances of it there are."""
    row = rows[0]
    assert row.tp is not None and row.accelerators is not None
    dp, pp, model = row.dp or 1, row.pp or 1, catalog.model(row.model)
    # Without experts, data parallelism means instances of their own.
    instance = row.tp * pp * (dp if has_experts(model) else 1)
    replicas = max(row.accelerators // instance, 1)
    pool = Pool(workers=replicas, tp=row.tp, dp=dp if has_experts(model) else 1, pp=pp, ep=row.ep)
    return _pool_service(rows, pool, assumptions), float(replicas)


def _pool_service(rows: Sequence[Measurement], pool: Pool, assumptions: Assumptions) -> Service:
    """One worker of a pool as a service, with room for all requests that were measured."""
    row, workers = rows[0], pool.workers or 1
    requests = _requests(row)
    question = _question(row, requests, assumptions)
    one, stage = np.ones(1), pool.tp * pool.dp
    spread = float(pool.ep or 1) if has_experts(question.model) else 1.0
    plans = Plans(one * stage * pool.pp, one * pool.dp * pool.pp, one * pool.pp, one * pool.tp, one * spread, whole=True)
    for problem, where in indivisible(question.model, plans, assumptions.tensor_layouts[0], question.assumptions):
        if np.any(where):
            raise InputError(f"{problem} (tp={pool.tp}, dp={pool.dp}, pp={pool.pp}, ep={pool.ep})")
    if row.concurrency is not None and row.load != "rate":
        slots = max(max((other.concurrency or 1.0) for other in rows) / workers, 2.0)
    else:
        slots = min(_room(question, plans), float(_MOST_SEQUENCES * pool.dp))
        if row.concurrency is not None:
            slots = min(slots, row.concurrency / workers)
    return services(question, requests, plans, np.array([max(slots, 2.0)]), batches=_BATCHES).service(0)


def _room(question: Question, plans: Plans) -> float:
    """Requests whose cache fits, at least one [1]."""
    needed = question.memory(plans)
    weights, cache, available = needed.of_one_plan()
    return max((available - weights) / (cache / float(plans.batch[0])), 1.0)


def _requests(row: Measurement) -> Requests:
    if row.isl is None:
        # A known context: any lengths that give it.
        assert row.context is not None
        return Requests(isl=max(row.context - 1.0, 1.0), osl=2)
    return Requests(isl=max(row.isl, 1.0), osl=max(row.osl or 1.0, 1.0))


def _question(row: Measurement, requests: Requests, assumptions: Assumptions) -> Question:
    model = catalog.model(row.model)
    precision = Precision.of(model, row.weights, None, row.kv)
    context = requests.mean_context if row.context is None else row.context
    return Question.of(model, catalog.hardware(row.hardware), precision, context, assumptions)


def _pick(states: At, index: int) -> At:
    return At(*(np.asarray(getattr(states, name)[index]) for name in At.__dataclass_fields__))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
