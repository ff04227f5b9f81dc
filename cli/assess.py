"""The ``assess`` command."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import inference_econ as ie
from inference_econ import answers
from inference_econ._named import named
from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, MEAN_CONTEXT
from inference_econ.records.plain import finite_or_none
from inference_econ.requests import Request, prices, refuse, subject, workload

#: Share of cached tokens below which caching is ignored [1].
_LITTLE = 0.01


def assess(
    request: Request,
    measured: str | None,
    gpus: int,
    tokens_per_second: float | None,
    measured_ttft: float | None,
    utilization: float | None,
) -> ie.Assessment:
    """Compare a measured server with its prediction and better deployments.

    Give the measured speed, batch, MFU or throughput. The command prints a faster deployment at equal cost, a cheaper
    deployment at equal speed, and the part of a step that explains the difference. With --isl and --osl, the comparison
    includes prefill under continuous batching; otherwise only decode steps are compared. MODEL and HARDWARE are names
    or paths of YAML files.
    """
    seen = {
        "tokens_per_second": tokens_per_second,
        "utilization": utilization,
        "batch": request.batch,
        "throughput": request.throughput,
        "ttft_seconds": measured_ttft and measured_ttft / 1e3,
    }
    if measured is not None:
        run = named("extras.servers:read_run")(measured)
        tpot = run.latencies.get(("tpot", "mean"), run.latencies.get(("tpot", "p50")))
        if tpot is None:
            raise InputError(f"{measured}: it says nothing of the time per output token", option="measured")
        request = _with_lengths(request, run)
        if measured_ttft is None and request.isl is not None:
            seen["ttft_seconds"] = run.latencies.get(("ttft", "mean"))
        if all(seen[name] is None for name in ("utilization", "batch", "throughput")):
            full = run.in_flight if run.in_flight is not None else finite_or_none(run.throughput)
            seen["batch" if run.in_flight is not None else "throughput"] = full
        seen["tokens_per_second"] = 1.0 / tpot if tokens_per_second is None else tokens_per_second
    if seen["tokens_per_second"] is None and None in (seen["batch"], seen["throughput"]):
        raise InputError(
            "how fast is one user served? Give --tokens-per-second, --throughput and --batch, or --measured FILE",
            option="tokens_per_second",
        )
    request = prices.optional(request)
    traffic = _traffic(request)
    pins = subject.pins(replace(request, batch=None))
    observed = ie.Observation.of(gpus, **seen, instances=answers.roofline_gap.instance_count(gpus, pins))
    return answers.assess.assess(subject.setup(request), traffic, observed, pins, progress=request.progress)


def _with_lengths(request: Request, run: Any) -> Request:
    """Copy the request lengths and cached tokens of a measured run to the request, unless options set them."""
    if request.context is not None:
        return request
    share = run.cached_share if request.isl is None and not math.isnan(run.isl) else 0.0
    return replace(
        request,
        isl=finite_or_none(run.isl) if request.isl is None else request.isl,
        osl=finite_or_none(run.osl) if request.osl is None else request.osl,
        cached=float(round(share * run.isl)) if request.cached is None and share > _LITTLE else request.cached,
    )


def _traffic(request: Request) -> ie.Traffic | ie.Requests:
    """Requests that the measured server processed, or the context of its decode steps if no lengths are given.

    Raises
    ------
    InputError
        If request lengths and a context are given, or other options of requests are given without lengths.
    """
    named = request.named(("isl", "osl", "cached", "shared_prefix"))
    if not named:
        context = MEAN_CONTEXT if request.context is None else request.context
        return ie.Traffic.build({"context": context}, origin="command line")
    if request.context is not None:
        raise InputError("give either --context, or --isl and --osl, not both", option="context")
    if not {"isl", "osl"} & set(named):
        refuse(named, "{} applies to services; give --isl and --osl too")
    lengths = {name: getattr(request, name) for name in named}
    return workload.requests(request, **{"isl": DEFAULT_ISL, "osl": DEFAULT_OSL, **lengths})
