"""A run held against what was predicted of a deployment: kept or not, and what could explain the difference."""

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

#: How far loads and mean lengths of a run may be from those of a prediction [1].
_LOADS, _LENGTHS = 0.03, 0.1
#: Constants that a part of a step rests on, for a fit; those of communication are of its latency.
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
    """One number of a run beside its prediction.

    Attributes
    ----------
    expected : Expected
        Predicted.
    measured : float
        Of the run, in the same unit.
    """

    expected: Expected
    measured: float

    @property
    def inside(self) -> bool | None:
        """Whether it lies in the interval; None where there is none."""
        low, high = self.expected.low, self.expected.high
        return None if low is None or high is None else low <= self.measured <= high

    @property
    def kept(self) -> bool | None:
        """Whether the promise was kept; None where nothing was promised."""
        promised = self.expected.promised
        return None if promised is None else self.measured <= promised


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part of a decode step that could explain a difference by itself.

    Attributes
    ----------
    part : str
        Of :data:`inference_econ.engine.step.PARTS`.
    seconds : float
        Predicted [s].
    factor : float
        How many times as long it would have to take [1].
    constants : tuple of str
        What it rests on, and a fit can change.
    """

    part: str
    seconds: float
    factor: float
    constants: tuple[str, ...]


def constants_of(setup: Setup, part: str) -> tuple[str, ...]:
    """The constants that a part of a step rests on: with curves of kernels, how much of them is reached."""
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
    """The numbers of a run beside those that were predicted.

    Parameters
    ----------
    expected : sequence of Expected
        Of the whole deployment.
    load : OfferedLoad
        Of the whole deployment.
    instances : int
        Equal instances, one of which may have been run by itself [1].
    service : Service
        One of them.
    run : BenchmarkRun
        What was measured.

    Raises
    ------
    InputError
        If the run had another load or other lengths, or no such statistic.
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
    """The part of the whole load that the run offered: all, or that of one instance [1].

    Raises
    ------
    InputError
        If it is neither.
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
    """The parts of a decode step that are large enough to explain a difference in TPOT, the likeliest first.

    Parameters
    ----------
    service : Service
        The instance.
    batch : float
        Requests under way in it [1].
    held : Held
        A TPOT of the run.
    most : int
        How many are wanted [1].

    Notes
    -----
    Steps with prompts are in the TPOT, but not among the parts; a part that would have to take less than nothing
    explains nothing.
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
