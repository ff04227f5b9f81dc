"""Estimate of one deployment at given concurrencies, or at a request rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Progress
from inference_econ.answers.deployments.recommend import as_candidates, burstiness_at, recommend
from inference_econ.answers.deployments.service_record import SelectionRule, pick_record
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.load import LoadCurve, sweep
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.records.facts import without_unknown_costs
from inference_econ.serving import Service

#: Default numbers of concurrent requests [1]. The maximum concurrency that fits is added to them.
USUAL_CONCURRENCY = (1, 8, 32, 64)
#: Relative rounding error of a concurrency [1].
_ROUNDING = 1e-9
#: Number of cheap deployments that are compared [1]. The deployment with the fewest GPUs is used.
_COMPARED = 50


@dataclass(frozen=True, slots=True, repr=False)
class DeploymentEstimate(Shown):
    """Steady states of one deployment at several concurrencies, under continuous batching."""

    page = "report.questions.estimate:EstimatePage"

    states: ServiceFrontier
    """Steady states of one replica, in ascending order of concurrency. The states need not be Pareto-optimal."""
    replicas: int
    """Number of replicas that share the requests evenly [1]."""
    pick: SelectionRule
    """Rule that selected the layout."""

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
    most = max(float(candidate.services.states.concurrency[:, -1].max()) for candidate in candidates)
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
        raise NothingFitsError(
            f"{max(concurrency):,} concurrent requests do not fit {replicas:,} x the largest replica, which holds "
            f"{most:,.0f} at most; give --replicas {math.ceil(max(concurrency) / most)} or fewer requests"
        )
    _, _, candidate, index = best
    flight = candidate.services.states.concurrency[index]
    numbers = sorted({number / replicas for number in concurrency}) or [
        *(float(number) for number in USUAL_CONCURRENCY if number < flight[-1]),
        float(flight[-1]),
    ]
    rule = SelectionRule("the fewest GPUs that hold these requests", sum(map(len, candidates)))
    return DeploymentEstimate(_states(candidate, index, np.array(numbers)), replicas, rule)


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


def _states(candidate: Candidate, index: int, concurrency: np.ndarray[Any, Any]) -> ServiceFrontier:
    """Compute the steady states of one layout at the given concurrencies [1], shape (n,)."""
    alone = candidate.services.take(np.array([index]))
    known = alone.states
    batch = np.exp(np.interp(np.log(concurrency), np.log(known.concurrency[0]), np.log(known.batch[0])))
    steady = alone.states_at(batch[None, :])
    one = Candidate(replace(alone, steady=lambda: steady))
    rows, columns = np.zeros(concurrency.size, dtype=np.intp), np.arange(concurrency.size)
    tpot, rate, chips, _, decoded = (values[0] for values in one.metrics)
    return ServiceFrontier(
        (one,),
        rows,
        rows,
        columns,
        1.0 / tpot,
        steady.ttft_seconds[0],
        tpot,
        rate,
        chips,
        concurrency,
        decoded,
        Targets(),
    )
