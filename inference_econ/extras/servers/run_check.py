"""Compare a benchmark run with its prediction, and find parts of a decode step that could explain a difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.explain import explain
from inference_econ.answers.launching.plan import Expected, OfferedLoad
from inference_econ.engine import Pins, Setup, has_experts
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import BenchmarkRun
from inference_econ.serving import Service

#: Largest relative differences of load and of mean lengths between run and prediction [1].
_LOADS, _LENGTHS = 0.03, 0.1
#: Fittable constants that determine each part of a step; for communication, constants of the latency.
CONSTANTS = {
    "activations": ("chip.hbm_efficiency",),
    "launches": ("host.graph_launch",),
    "host": ("host.step_overhead", "host.sequence_overhead"),
    "all_reduce_bandwidth": ("network.link_efficiency",),
    "all_to_all_bandwidth": ("network.link_efficiency",),
}
_NETWORK = ("network.collective_overhead",)


@dataclass(frozen=True, slots=True)
class CheckedNumber:
    """Measured number of a run, with its prediction.

    Attributes
    ----------
    expected : Expected
        Predicted value, with interval and SLO.
    measured : float
        Measured value, in the unit of ``expected``.
    """

    expected: Expected
    measured: float

    @property
    def inside(self) -> bool | None:
        """True if the value is within the interval; None without an interval."""
        low, high = self.expected.low, self.expected.high
        return None if low is None or high is None else low <= self.measured <= high

    @property
    def kept(self) -> bool | None:
        """True if the SLO was met; None without an SLO."""
        promised = self.expected.promised
        return None if promised is None else self.measured <= promised


@dataclass(frozen=True, slots=True)
class Suspect:
    """Part of a decode step that alone could explain a difference in TPOT.

    Attributes
    ----------
    part : str
        Part of :data:`inference_econ.engine.step.PARTS`.
    seconds : float
        Predicted time [s].
    factor : float
        Ratio of the time that would explain the difference to the predicted time [1].
    constants : tuple of str
        Fittable constants that determine the time of the part.
    """

    part: str
    seconds: float
    factor: float
    constants: tuple[str, ...]


def constants_of(setup: Setup, part: str) -> tuple[str, ...]:
    """Fittable constants, including the efficiency of a measured kernel curve, that determine a part of a step."""
    share = {"compute": "math_efficiency", "weights": "hbm_efficiency"}.get(part)
    if share is not None:
        precision, curves = setup.precision, []
        curves.append("product_efficiency" if setup.rates.kernel(precision.attention, "dense") else share)
        if has_experts(setup.model):
            curves.append("kernel_efficiency" if setup.rates.kernel(precision.experts, "experts") else share)
        return tuple(f"{group}.{name}" for group, name in zip(("chip", "experts"), curves, strict=False))
    if part == "kv_cache":
        kernel = setup.assumptions.attention.kernel
        kernels = kernel("latent" if setup.model.has_latents else "grouped", setup.precision.kv)
        return ("attention.kv_hbm_efficiency" if kernels is None else "attention.score_efficiency",)
    return CONSTANTS.get(part, _NETWORK)


def hold(
    expected: Sequence[Expected], load: OfferedLoad, instances: int, service: Service, run: BenchmarkRun
) -> list[CheckedNumber]:
    """Compare the numbers of a run with predictions.

    Parameters
    ----------
    expected : sequence of Expected
        Predictions for the whole deployment.
    load : OfferedLoad
        Load of the whole deployment.
    instances : int
        Number of equal instances [1]. The run may have been a run on one instance only.
    service : Service
        Predicted instance.
    run : BenchmarkRun
        Measured run.

    Raises
    ------
    InputError
        If the load or the request lengths of the run differ from the prediction.
    """
    share = _share(load, instances, run)
    means = service.requests.isl.mean, service.requests.osl.mean
    for name, measured, wanted in zip(("input", "output"), (run.isl, run.osl), means, strict=True):
        if abs(measured / wanted - 1.0) > _LENGTHS:
            raise InputError(
                f"the run had {measured:.4g} {name} tokens per request, and the answer is about {wanted:g}; run the "
                "benchmark that 'inference-econ launch' writes"
            )
    held = []
    for entry in expected:
        if entry.measure == "throughput" and not math.isnan(run.throughput):
            low, high = (None if end is None else end * share for end in (entry.low, entry.high))
            held.append(CheckedNumber(Expected("throughput", "mean", entry.value * share, low, high), run.throughput))
        elif (entry.measure, entry.statistic) in run.latencies:
            held.append(CheckedNumber(entry, run.latencies[entry.measure, entry.statistic]))
    return held


def _share(load: OfferedLoad, instances: int, run: BenchmarkRun) -> float:
    """Share of the load that the run offered: the full load, or the load of one instance [1].

    Raises
    ------
    InputError
        If the run offered neither the full load nor the load of one instance.
    """
    offered, whole = (
        (run.requests_per_second, load.requests_per_second)
        if load.concurrency is None
        else (run.concurrency, load.concurrency)
    )
    for share in (1.0, 1.0 / instances):
        if offered is not None and whole is not None and math.isclose(offered, whole * share, rel_tol=_LOADS):
            return share
    split = f", or one of its {instances} instances alone" if instances > 1 else ""
    had = (
        f"{run.concurrency:g} requests under way"
        if run.requests_per_second is None and run.concurrency
        else (f"{run.requests_per_second or math.inf:g} requests/s")
    )
    raise InputError(
        f"the run offered {had}, and the answer is about {load.text} to the whole deployment{split}; run the benchmark "
        "that 'inference-econ launch' writes"
    )


def suspects(service: Service, batch: float, held: CheckedNumber, most: int = 4) -> list[Suspect]:
    """Parts of a decode step that could explain a difference in TPOT, likeliest first.

    Parameters
    ----------
    service : Service
        The instance.
    batch : float
        Concurrent requests [1].
    held : CheckedNumber
        Measured TPOT.
    most : int
        Maximum number of parts [1].

    Notes
    -----
    Prefill contributes to TPOT, but is not a part of a decode step. A part is excluded if only a negative time could
    explain the difference.
    """
    plans, dp = service.plans, service.plans.stage / service.plans.attention_ranks
    tp, pp = (int(degree[0]) for degree in (plans.attention_ranks, plans.pp))
    ep = None if plans.ep is None else plans.ep[0]
    groups = float(dp[0] * plans.pp[0])
    rounded = max(groups, round(batch / groups) * groups)
    pins = Pins(tp, int(dp[0]), pp, ep=ep, batch=rounded, dcp=int(plans.dcp))
    costs = explain(service.setup, pins, context=service.setup.context).costs
    difference = held.measured - held.expected.value
    listed = []
    for part, values in costs.parts.items():
        seconds = float(values.ravel()[0])
        factor = 1.0 + difference / seconds if seconds > 0 else 0.0
        if factor > 0:
            listed.append(Suspect(part, seconds, factor, constants_of(service.setup, part)))
    return sorted(listed, key=lambda suspect: abs(math.log(suspect.factor)))[:most]
