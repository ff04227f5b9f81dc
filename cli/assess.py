"""The command that holds a measured deployment against what could be."""

from __future__ import annotations

import math
from typing import Any

import inference_econ as ie
from inference_econ import answers, calibration
from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, MEAN_CONTEXT

from . import options
from .help import question
from .refusals import refuse

#: What says how full a deployment is.
_FULLNESS = ("utilization", "batch", "throughput")
#: Shares of cached tokens that are no matter [1].
_LITTLE = 0.01
#: Options that say something of requests.
_OF_REQUESTS = ("isl", "osl", "cached", "shared_prefix")


@question("assess")
def assess(measured: str | None, progress: options.Progress | None, **choices: Any) -> ie.Assessment:
    """Good or bad: a measured speed and batch (or utilisation, or throughput) against prediction, frontier and bound.

    With --isl and --osl the server is held against services, in continuous batching with the prefill of others;
    without them, against decode steps alone. How much faster at equal cost and cheaper at equal speed it could be,
    which deployment would do it, and which part would have to shrink. MODEL and HARDWARE as in 'frontier'.
    """
    if measured is not None:
        choices |= _read(choices, measured)
    if choices["tokens_per_second"] is None and None in (choices["batch"], choices["throughput"]):
        raise InputError(
            "how fast is one user served? Give --tokens-per-second, --throughput and --batch, or --measured FILE",
            option="tokens_per_second",
        )
    traffic = _traffic(choices)
    pins = options.pins({**choices, "batch": None})
    seen = {name: choices[name] for name in ("tokens_per_second", *_FULLNESS)}
    instances = answers.operating_point.instances_of(choices["gpus"], pins)
    observed = ie.Observation.of(choices["gpus"], **seen, instances=instances)
    return ie.assess(options.setup(choices), traffic, observed, pins, progress=progress)


def _read(choices: options.Choices, path: str) -> dict[str, float]:
    """Return what a file says of the server, by the options that leave it open.

    Raises
    ------
    InputError
        If the file cannot be read, or says nothing of the time per token.
    """
    run = calibration.read_run(path)
    tpot = run.latencies.get(("tpot", "mean"), run.latencies.get(("tpot", "p50")))
    if tpot is None:
        raise InputError(f"{path}: it says nothing of the time per output token", option="measured")
    read: dict[str, float | None] = {"tokens_per_second": 1.0 / tpot}
    if all(choices[name] is None for name in _FULLNESS):
        read |= {"batch": run.in_flight} if run.in_flight is not None else {"throughput": _number(run.throughput)}
    if choices["context"] is None:
        read |= {"isl": _number(run.isl), "osl": _number(run.osl)}
        share = run.cached_share if choices["isl"] is None and not math.isnan(run.isl) else 0.0
        read |= {"cached": float(round(share * run.isl))} if share > _LITTLE else {}
    return {name: value for name, value in read.items() if choices[name] is None and value is not None}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _traffic(choices: options.Choices) -> ie.Traffic | ie.Requests:
    """The requests that were served, or a context of decode steps.

    Raises
    ------
    InputError
        If both are given, or something of requests without their lengths.
    """
    lengths = {name: choices[name] for name in _OF_REQUESTS if choices[name] is not None}
    if not lengths:
        context = MEAN_CONTEXT if choices["context"] is None else choices["context"]
        return ie.Traffic.build({"context": context}, origin="command line")
    if choices["context"] is not None:
        raise InputError("give either --context, or --isl and --osl, not both", option="context")
    if not {"isl", "osl"} & lengths.keys():
        refuse(lengths, "{} says something of prompts; give --isl and --osl too")
    return options.requests(choices, **{"isl": DEFAULT_ISL, "osl": DEFAULT_OSL, **lengths})
