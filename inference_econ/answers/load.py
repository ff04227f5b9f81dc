"""One fleet: an estimate at given concurrencies or at a rate, and a sweep over loads with SLO attainment and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments.deployment import SelectionRule, bounded_load, pick_record, service_record
from inference_econ.answers.deployments.recommend import (
    Burstiness,
    as_candidates,
    burstiness,
    burstiness_at,
    burstiness_record,
    recommend,
)
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.deployments.serving_options import Candidate, StateMetrics
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.simplest import complexity, simplest
from inference_econ.answers.slo import Chances, Targets, chances, chances_record, promised_rates
from inference_econ.engine import Setup, bounds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.records.facts import without_unknown_costs
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.serving import (
    Loaded,
    Service,
    Services,
    Trace,
    arrivals_of,
    loaded,
    needs_simulation,
    seen,
    simulate_where_needed,
    slo_met_share,
)
from inference_econ.serving.simulation import simulator

#: Default loads, as shares of the capacity of the fleet [1].
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.2)
#: Name of the input that a user can shorten to reduce the run time: the list of request rates.
_LOADS = "requests_per_second"
#: Run time of the analytical model per load, additional time per concurrent request [s], and memory per simulated
#: request [B].
_SECONDS, _SLOT_SECONDS, _BYTES = 0.03, 3e-6, 64.0


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A fleet at one load.

    Attributes
    ----------
    sheet : Sheet
        Costs of the tokens and of the fleet, and load of one instance.
    kept : float or None
        Share of completed requests that meet all SLOs [1]; None without SLOs. If a confidence is set, the stricter SLOs
        with its safety margin apply.
    simulated : Trace or None
        Simulation of one instance at this load; None if the load was not simulated.
    chances : Chances
        Probability that each SLO is met at its percentile.
    closed : Loaded
        Load of one instance, as the analytical model predicts it. Outside the validated range of this model, ``sheet``
        has the simulated load instead.
    """

    sheet: Sheet
    kept: float | None
    simulated: Trace | None
    chances: Chances
    closed: Loaded

    @property
    def load(self) -> Loaded:
        """Load of one instance."""
        return self.sheet.load

    @property
    def requests_per_second(self) -> float:
        """Request rate offered to the fleet [1/s]."""
        return self.load.requests_per_second * self.sheet.replicas

    @property
    def completed_per_second(self) -> float:
        """Requests that the fleet completes [1/s]."""
        return self.load.completed_per_second * self.sheet.replicas

    @property
    def good_per_second(self) -> float | None:
        """Rate of completed requests that meet all SLOs [1/s]; None without SLOs."""
        return None if self.kept is None else self.kept * self.completed_per_second

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that are cache hits [1]; None if the simulation did not track blocks."""
        if self.simulated is None or not simulator.block_tokens(self.sheet.service):
            return None
        return sum(self.simulated.hit_rates.values())

    def record(self, targets: Targets) -> dict[str, object]:
        """Return the results as plain data, with latencies at the SLO percentiles; unbounded latencies are None."""
        bill = self.sheet
        record: dict[str, object] = {
            **bounded_load(bill.service, self.load, bill.replicas, targets),
            **attributes(self, "slo_met_share=kept good_requests_per_second=good_per_second"),
            **attributes(bill, "dollars_per_million_tokens dollars_per_million_output_tokens"),
            **bill.power(),
            **chances_record(self.chances),
        }
        if self.simulated is not None:
            hits = {} if self.hit_rate is None else {"hit_rate": self.hit_rate}
            record["simulated"] = _simulated_record(self.simulated, saturated=self.load.saturated) | hits
        return without_unknown_costs(record, bill.service.setup)


@dataclass(frozen=True, repr=False)
class LoadCurve(Shown):
    """A fleet under several loads.

    Attributes
    ----------
    points : tuple of LoadPoint
        Results, one per load.
    targets : Targets
        SLOs.
    arrival_scv : float
        Assumed squared coefficient of variation of the interarrival times [1].
    bursts : Burstiness or None
        Comparison of the fleet under the assumed arrivals with the fleet under other arrivals; None if simulations are
        off.
    pick : SelectionRule
        Rule that selected the layout.
    """

    page = "report.questions.load:LoadPage"

    points: tuple[LoadPoint, ...]
    targets: Targets
    arrival_scv: float
    bursts: Burstiness | None
    pick: SelectionRule

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the fleet."""
        return [self.points[0].sheet.service.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        bursts = None if self.bursts is None else burstiness_record(self.bursts)
        record = {**load_sweep_record(self.points, self.targets, self.records()), **pick_record(self.pick)}
        record |= {"arrival_scv": self.arrival_scv, "burstiness": bursts}
        return without_unknown_costs(record, self.points[0].sheet.service.setup)

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per load."""
        return self._records

    @cached_property
    def _records(self) -> list[Mapping[str, Any]]:
        return [point.record(self.targets) for point in self.points]


def load(
    offers: Services | Sequence[Candidate | Services],
    requests_per_second: Sequence[float] | None = None,
    *,
    replicas: int | None = None,
    gpus: int | None = None,
    targets: Targets | None = None,
    arrival_scv: float = 1.0,
    simulate: bool | None = None,
    progress: Progress | None = None,
) -> LoadCurve:
    """Evaluate a fleet of one layout under several loads (``inference_econ.load``).

    The fleet uses the layout with the lowest cost per token, within the SLOs if possible.

    Parameters
    ----------
    offers : Services or sequence of Candidate
        Aggregated layouts of a model on a GPU (:func:`inference_econ.market`). Fix all parallelism degrees to evaluate
        one layout.
    replicas : int, optional
        Number of instances that share the load evenly [1]; by default the maximum that fits on ``gpus``, or one.
    gpus : int, optional
        Maximum number of GPUs of all instances [1].
    requests_per_second, targets, arrival_scv, simulate, progress
        See :func:`sweep`.

    Returns
    -------
    LoadCurve
        One point per load, in the given order. The effect of bursts is included, unless simulations are off.

    Raises
    ------
    InputError
        If a rate is not positive, the list of rates is empty, or the replicas need more GPUs than ``gpus``.
    """
    promised = Targets() if targets is None else targets
    layouts = [candidate.services for candidate in as_candidates(offers) if candidate.pools is None]
    arrival_scv = arrivals_of(layouts[0].requests, arrival_scv).scv
    service, pick = usual_service(layouts, promised)
    if gpus is not None and (replicas or 1) * service.accelerators > gpus:
        raise InputError(
            f"{replicas or 1} x {service.accelerators} GPUs are more than --gpus {gpus}; give more, or fewer replicas",
            option="gpus",
        )
    replicas = replicas or (1 if gpus is None else gpus // service.accelerators)
    points = sweep(
        service,
        requests_per_second,
        replicas=replicas,
        targets=promised,
        arrival_scv=arrival_scv,
        simulate=simulate,
        progress=progress,
    )
    bursts = None
    if simulate is not False and service.requests.arrivals is not None:
        bursts = burstiness_at(service, points[0].load, replicas=replicas, arrival_scv=arrival_scv)
    elif simulate is not False:
        bursts = burstiness(service, replicas=replicas, arrival_scv=arrival_scv)
    return LoadCurve(tuple(points), promised, arrival_scv, bursts, pick)


def usual_service(several: Sequence[Services], targets: Targets) -> tuple[Service, SelectionRule]:
    """Select the layout with the highest throughput per dollar within the SLOs, and describe this selection rule.

    If no layout meets the SLOs, the rule ignores the SLOs. At similar cost, simpler deployments are preferred.
    """
    rates, kept = [promised_rates(layouts, targets) for layouts in several], ""
    reached = any(rate.any() for rate in rates)
    if targets.given:
        kept = " within the SLOs" if reached else ", because no layout meets the SLOs"
    if not reached:
        rates = [promised_rates(layouts, Targets()) for layouts in several]
    costs, levels, places = [], [], []
    for which, (layouts, rate) in enumerate(zip(several, rates, strict=True)):
        with np.errstate(divide="ignore"):
            costs.append(layouts.setup.dollars_per_hour_in_bulk(layouts.plans.accelerators) / rate)
        levels.append(complexity(layouts.setup.hardware, layouts.plans, disaggregated=False))
        places += [(which, index) for index in range(len(layouts))]
    which, index = places[simplest(np.concatenate(costs), np.concatenate(levels))]
    rule = SelectionRule(f"the lowest cost per token at full load{kept}", sum(map(len, several)))
    return several[which].service(index), rule


def sweep(
    service: Service,
    requests_per_second: Sequence[float] | None = None,
    *,
    replicas: int = 1,
    targets: Targets | None = None,
    arrival_scv: float = 1.0,
    simulate: bool | None = None,
    progress: Progress | None = None,
) -> list[LoadPoint]:
    """Evaluate a fleet under several loads.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : sequence of float, optional
        Request rates of the fleet [1/s]; by default shares of its capacity from 0.1 to 1.2 (:data:`SHARES`).
    replicas : int
        Instances that share the load evenly [1].
    targets : Targets, optional
        SLOs. Their percentiles matter for P(SLO met), but not for the share of requests that meet the SLOs.
    arrival_scv : float
        Squared coefficient of variation of the interarrival times of the fleet [1].
    simulate : bool, optional
        True to simulate every load, which takes about half a second for each. False to simulate no load. By default,
        loads are simulated if :func:`inference_econ.serving.analytical_validity.needs_simulation` returns True.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    list of LoadPoint
        One point per request rate, in the given order.

    Raises
    ------
    InputError
        If a rate is not positive, or the list of rates is empty.
    TooMuchError
        If the evaluation of all rates would take too long.
    """
    if requests_per_second is None:
        most = replicas * service.most_requests_per_second
        requests_per_second = [float(f"{share * most:.4g}") for share in SHARES]
    if not requests_per_second:
        raise InputError("no request rates are given; write for example --rates 1,2,5,10", option="rates")
    wrong = [rate for rate in requests_per_second if not 0 < rate < math.inf]
    if wrong:
        raise InputError(f"request rates must be positive, got {wrong[0]:g}")
    wanted = Targets() if targets is None else targets
    promised = wanted.predicted(service)
    limits = {f"{name}_seconds": seconds for name, seconds in promised.every.items()}
    count, points = len(requests_per_second), []
    work = f"{count:,} loads of up to {service.slots:,} requests in flight"
    _work.check(work, seconds=count * (_SECONDS + _SLOT_SECONDS * service.slots), smaller=_LOADS)
    whole = arrivals_of(service.requests, arrival_scv)
    arrivals, model = whole.among(replicas), simulate_where_needed(service, whole)
    every = [loaded(service, rate / replicas, arrivals=arrivals) for rate in requests_per_second]
    unproven = [simulate is not False and needs_simulation(service, closed) for closed in every]
    number = count if simulate else sum(unproven)
    played_each = simulator.requests_of_a_run(service, whole)
    work = f"{number:,} loads of {played_each:,} simulated requests each"
    seconds, size = number * simulator.rehearsal_seconds(service, played_each), number * played_each * _BYTES
    _work.check(work, seconds=seconds, size=size, smaller=_LOADS)
    for index, (rate, closed) in enumerate(zip(requests_per_second, every, strict=True)):
        if progress is not None:
            progress(index / count, f"{rate:g} requests/s")
        per_replica = rate / replicas
        kept = slo_met_share(service, per_replica, **limits, arrivals=arrivals) if promised.given else None
        played = model.trace(closed) if simulate or unproven[index] else None
        load = seen(closed, played) if unproven[index] and played is not None else closed
        if load.played and kept is not None and played is not None:
            kept = played.slo_met_share(**limits)
        bill = sheet(service, rate, replicas=replicas, load=load)
        points.append(LoadPoint(bill, kept, played, chances(service, load, wanted), closed))
    return points


#: Simulated latencies, by the names of their fields in records.
_SIMULATED = {
    "ttft_seconds": "ttft",
    "tpot_seconds": "tpot",
    "e2e_seconds": "e2e",
    "e2e_seconds_per_output_token": "e2e_per_output_token",
}


def load_sweep_record(
    points: Sequence[LoadPoint], targets: Targets, records: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    """Return a fleet and its loads as plain data; unbounded latencies are None."""
    first = points[0].sheet
    return {
        **service_record(first.service, first.replicas, *(point.load for point in points)),
        "dollars_per_accelerator_hour": first.service.setup.dollars_per_accelerator_hour,
        "dollars_per_hour": first.dollars_per_hour,
        "targets": targets.record(),
        "points": [*records],
    }


def _simulated_record(trace: Trace, *, saturated: bool) -> dict[str, object]:
    summary = trace.summary()
    record: dict[str, object] = {
        "requests": trace.ttft.size,
        **attributes(trace, "completed_requests_per_second_per_instance=requests_per_second"),
        **attributes(trace, "concurrency_per_replica=in_flight busy preemptions"),
    }
    for key, name in _SIMULATED.items():
        endless = saturated and name != "tpot"
        for column, part in ((key, "value"), (key.replace("seconds", "half_widths"), "half_width")):
            record[column] = {
                statistic: None if endless else finite_or_none(getattr(estimate, part))
                for statistic, estimate in summary[name].items()
            }
    return record


#: Default numbers of concurrent requests [1]. The maximum concurrency that fits is added to them.
USUAL_CONCURRENCY = (1, 8, 32, 64)
#: Relative rounding error of a concurrency [1].
_ROUNDING = 1e-9
#: Number of cheap deployments that are compared [1]. The deployment with the fewest GPUs is used.
_COMPARED = 50


@dataclass(frozen=True, repr=False, eq=False)
class _SteadyStates(ServiceFrontier):
    """Steady states of one layout at given concurrencies. The states need not be Pareto-optimal."""

    replicas: int = 1
    """Number of replicas in the deployment; they share the requests evenly, and machines if they fit [1]."""

    @property
    def dollars(self) -> Array:
        """Cost of the rented machines, divided by output tokens [USD per 1e6 tokens]."""
        rented = self.candidates[0].setup.rented(self.replicas, self.accelerators)
        return super().dollars * rented / (self.replicas * self.accelerators)

    @cached_property
    def ends_each(self) -> list[bounds.Ends]:
        """Interval factors of each state. The interval of the cost follows from the interval of the throughput."""
        return [bounds.ends(instances, bounds.FULL) for at, instances in self._same_instances for _ in at]


@dataclass(frozen=True, slots=True, repr=False)
class DeploymentEstimate(Shown):
    """Steady states of one deployment at several concurrencies, under continuous batching."""

    page = "report.questions.load:EstimatePage"

    states: _SteadyStates
    """Steady states of one replica, in ascending order of concurrency."""
    pick: SelectionRule
    """Rule that selected the layout."""

    @property
    def replicas(self) -> int:
        """Number of replicas that share the requests evenly [1]."""
        return self.states.replicas

    @property
    def service(self) -> Service:
        """Service of one replica."""
        return self.states.candidates[0].services.service(0)

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the deployment."""
        return [self.states.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        record = self.states.record()
        for name in ("summary", "slos", "points"):
            record.pop(name)
        ((point, _), *_) = self.states.bounded_points()
        record = {
            **record,
            "replicas": self.replicas,
            "accelerators": self.replicas * self.service.accelerators,
            "accelerators_rented": int(self.service.setup.rented(self.replicas, self.service.accelerators)),
            "layout": point["layout"],
            **{name: point[name] for name in ("evidence", "measured_runs")},
            **pick_record(self.pick),
            "points": self.records(),
        }
        return without_unknown_costs(record, *self.setups)

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per concurrency, with the ends of the 80% intervals.

        Concurrency and request rate are totals over all replicas. All other values describe a single request or GPU.
        """
        rows: list[Mapping[str, Any]] = []
        for record, _ in self.states.bounded_points():
            kept: dict[str, Any] = {name: value for name, value in record.items() if name not in _OF_LAYOUTS}
            for name in ("concurrency", "requests_per_second"):
                kept |= {key: self.replicas * value for key, value in kept.items() if key.startswith(name) and value}
            rows.append(without_unknown_costs(kept, *self.setups))
        return rows


#: Record fields that have one value per deployment, so the records of single concurrencies omit them.
_OF_LAYOUTS = (
    *("layout", "recipe", "kv", "speculation", "accelerators", "evidence", "measured_runs"),
    "aggregated_dollars_per_million_output_tokens",
)


def estimate(
    candidates: Sequence[Candidate], concurrency: Sequence[int] = (), *, replicas: int = 1
) -> DeploymentEstimate:
    """Predict one deployment at some numbers of concurrent requests.

    The layout has the fewest GPUs that fit the largest concurrency (64 by default). Among layouts with this number of
    GPUs, the layout with the highest throughput is used.

    Parameters
    ----------
    candidates : sequence of Candidate
        Aggregated layouts of one model on one GPU, with one setup per engine.
    concurrency : sequence of int
        Total numbers of concurrent requests over all replicas [1]; by default 1, 8, 32, 64 and the maximum that fits.
    replicas : int
        Number of replicas that share the requests evenly [1].

    Returns
    -------
    DeploymentEstimate
        Steady states in ascending order of concurrency. Their TTFT is a mean without queueing.

    Raises
    ------
    InputError
        If a number is not positive, a concurrency is smaller than the number of replicas, or no layout is aggregated.
    NothingFitsError
        If no layout fits the requests; the message has the largest concurrency that fits.

    Examples
    --------
    >>> from inference_econ.answers.deployments.serving_options import market
    >>> from inference_econ.inputs import Requests
    >>> offers = market(Setup.of("llama_3_8b", "h100_sxm"), Requests(1000, 200), arrangement="aggregated")
    >>> found = estimate(offers, [16])
    >>> found.service.accelerators, [round(row["concurrency"]) for row in found.records()]
    (1, [16])
    """
    if min((*concurrency, replicas)) < 1:
        raise InputError(f"--concurrency and --replicas are at least 1, got {min((*concurrency, replicas))}")
    if concurrency and min(concurrency) < replicas:
        raise InputError(
            f"--concurrency {min(concurrency)} leaves some of {replicas} replicas without a request; give fewer "
            "--replicas",
            option="replicas",
        )
    candidates = [candidate for candidate in as_candidates(candidates) if candidate.pools is None]
    if not candidates:
        raise InputError("an estimate is of aggregated layouts: market(setup, requests, arrangement='aggregated')")
    most, slots = max(
        pair
        for services in (candidate.services for candidate in candidates)
        for pair in zip(services.states.concurrency[:, -1].tolist(), services.slots.tolist(), strict=True)
    )
    wanted = max(concurrency) / replicas if concurrency else min(float(USUAL_CONCURRENCY[-1]), most)
    best: tuple[float, float, Candidate, int] | None = None
    for candidate in candidates:
        states = candidate.services.states
        for index, chips in enumerate(candidate.plans.accelerators.tolist()):
            flight = states.concurrency[index]
            if flight[-1] >= wanted * (1.0 - _ROUNDING):
                rate = float(np.interp(wanted, flight, states.requests_per_second[index]))
                if best is None or (chips, -rate) < best[:2]:
                    best = chips, -rate, candidate, index
    if best is None:
        empty = f", because preemptions leave some of its {slots:,.0f} slots empty" if slots > most else ""
        raise NothingFitsError(
            f"{max(concurrency):,} concurrent requests do not fit {replicas:,} x the largest replica, which runs at "
            f"most {math.floor(most):,} on average{empty}; give --replicas {math.ceil(max(concurrency) / most)} or "
            "fewer requests"
        )
    _, _, candidate, index = best
    flight = candidate.services.states.concurrency[index]
    numbers = sorted({number / replicas for number in concurrency}) or [
        *(float(number) for number in USUAL_CONCURRENCY if number < flight[-1]),
        float(flight[-1]),
    ]
    rule = SelectionRule("the fewest GPUs that hold these requests", sum(map(len, candidates)))
    return DeploymentEstimate(_steady_states(candidate, index, np.array(numbers), replicas), rule)


def estimate_rate(
    candidates: Sequence[Candidate],
    requests_per_second: float,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    replicas: int | None = None,
    progress: Progress | None = None,
) -> LoadCurve:
    """Predict the latencies of the smallest deployment that serves a request rate, including queueing.

    Parameters
    ----------
    candidates : sequence of Candidate
        Aggregated layouts; see :func:`estimate`.
    requests_per_second : float
        Total request rate over all replicas [1/s].
    targets : Targets
        SLOs that the deployment must meet.
    arrival_scv, progress
        See :func:`inference_econ.answers.deployments.recommend.recommend`.
    replicas : int, optional
        Replicas that share the requests [1]; by default the fewest that serve the rate within the SLOs.

    Raises
    ------
    InputError
        If the rate is not positive.
    NothingFitsError
        If no layout meets the SLOs.
    """
    found = recommend(
        candidates, requests_per_second, targets, arrival_scv=arrival_scv, most=_COMPARED, progress=progress
    )
    best = min(found.choices, key=lambda choice: (choice.accelerators, choice.dollars_per_hour))
    count = replicas or best.replicas
    points = sweep(
        best.service, [requests_per_second], replicas=count, targets=targets, arrival_scv=arrival_scv, progress=progress
    )
    bursts = burstiness_at(best.service, points[0].load, replicas=count, arrival_scv=arrival_scv)
    rule = SelectionRule("the fewest GPUs that serve this rate", found.layouts)
    return LoadCurve(tuple(points), targets, arrival_scv, bursts, rule)


def _steady_states(candidate: Candidate, index: int, concurrency: Array, replicas: int) -> _SteadyStates:
    """Compute the steady states of one layout at the given concurrencies of each replica [1], shape (n,)."""
    alone = candidate.services.take(np.array([index]))
    known = alone.states
    batch = np.exp(np.interp(np.log(concurrency), np.log(known.concurrency[0]), np.log(known.batch[0])))
    steady = alone.states_at(batch[None, :])
    one = Candidate(replace(alone, steady=lambda: steady))
    rows, columns = np.zeros(concurrency.size, dtype=np.intp), np.arange(concurrency.size)
    states = StateMetrics(*(values[0] for values in one.metrics))._replace(concurrency=concurrency)
    times = steady.ttft_seconds[0]
    return _SteadyStates((one,), rows, rows, columns, times, *states, Targets(), replicas=replicas)
