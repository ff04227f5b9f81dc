"""The run that holds a deployment to account: a load generator at the predicted load, with the same lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inference_econ.answers.launching.instance import words
from inference_econ.errors import InputError
from inference_econ.inputs import EngineOptions, Length, Requests, percentiles, starting
from inference_econ.serving import STATISTICS

#: Load generators whose options are recorded.
Generator = Literal["vllm", "aiperf", "guidellm"]
#: Seconds that a run at a rate lasts, rounds of a run at a concurrency, and requests of any run at least [s], [1].
_SECONDS, _ROUNDS, _LEAST = 180.0, 10, 100
#: The option that lists percentiles.
_PERCENTILES = "--metric-percentiles"
#: How far vLLM's generator spreads lengths around their mean at most, over the mean [1].
_MOST_SPREAD = 0.99
#: Where a run is written.
RESULT = "result.json"


#: What a run is held against.
Measure = Literal["ttft", "tpot", "e2e", "throughput"]
#: How they are called, their unit, and how many of it make a base unit.
UNITS: dict[Measure, tuple[str, str, float]] = {
    "ttft": ("TTFT", "ms", 1e3),
    "tpot": ("TPOT", "ms", 1e3),
    "e2e": ("E2E", "ms", 1e3),
    "throughput": ("output tokens/s", "", 1.0),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """One predicted number.

    Attributes
    ----------
    measure : str
        ``ttft`` [s], ``tpot`` [s], ``e2e`` (to the last token) [s] or ``throughput`` [output tokens/s].
    statistic : str
        ``mean``, or a percentile of requests such as ``p95``.
    value : float
        Predicted.
    low, high : float or None
        Interval; None where nobody knows it.
    promised : float or None
        What was promised of this very number; None if nothing was.
    """

    measure: Measure
    statistic: str
    value: float
    low: float | None = None
    high: float | None = None
    promised: float | None = None

    @property
    def name(self) -> str:
        """Which number it is."""
        label = UNITS[self.measure][0]
        return label if self.measure == "throughput" else f"{label} {self.statistic}"

    @property
    def text(self) -> str:
        """The number with its interval and promise in words."""
        _, unit, factor = UNITS[self.measure]
        low, high = (None if end is None else _digits(factor * end) for end in (self.low, self.high))
        between = "" if low is None or high is None else f" ({low} to {high})"
        promised = "" if self.promised is None else f", promised {_digits(factor * self.promised)}"
        return f"{self.name} {_digits(factor * self.value)}{between}{' ' if unit else ''}{unit}{promised}"


def _digits(number: float) -> str:
    """A number with four digits, whole from a thousand on."""
    return f"{number:.4g}" if number < 1e3 else f"{number:.0f}"


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """Load that a run offers to one address.

    Attributes
    ----------
    requests_per_second : float or None
        Rate [1/s], or None for a constant number under way.
    concurrency : int or None
        Requests under way all the time [1], or None for a rate.
    arrival_scv : float
        Burstiness of a rate, 1 if Poisson [1].
    """

    requests_per_second: float | None = None
    concurrency: int | None = None
    arrival_scv: float = 1.0

    @property
    def requests(self) -> int:
        """Requests of a run [1]."""
        wanted = (self.requests_per_second or 0.0) * _SECONDS + (self.concurrency or 0) * _ROUNDS
        return max(_LEAST, math.ceil(wanted))

    @property
    def text(self) -> str:
        """The load in words."""
        if self.concurrency is not None:
            return f"{self.concurrency} requests under way"
        return f"{self.requests_per_second:.4g} requests/s"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a load generator.

    Attributes
    ----------
    options : EngineOptions
        What its command understands.
    command : str
        ``vllm bench serve``, ``aiperf profile`` or ``guidellm run``.
    arguments : mapping
        Options with their values.
    """

    options: EngineOptions
    command: str
    arguments: Mapping[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        """The command line."""
        return (*self.command.split(), *words(self.arguments))

    def check(self) -> None:
        """Hold the command line against what the generator's own parser reads."""
        self.options.parse(self.command, words(self.arguments))


def run(
    generator: Generator,
    model: str,
    url: str,
    requests: Requests,
    load: OfferedLoad,
    server: str = "",
    statistics: Collection[str] = (),
) -> Run:
    """The run of a load generator against a server.

    Parameters
    ----------
    generator : str
        ``vllm``, ``aiperf`` or ``guidellm``.
    model : str
        What the server calls the model, whose tokenizer is taken.
    url : str
        Where the server listens.
    requests : Requests
        Lengths.
    load : OfferedLoad
        What is offered.
    server : str
        Version of vLLM on the server, whose own generator is then taken; empty for the newest that is recorded.
    statistics : collection of str
        Means and percentiles that were predicted, which the run is to say where the generator can be told.

    Raises
    ------
    InputError
        If the generator cannot offer such requests.
    """
    version = server if generator == "vllm" and server in starting.versions("vllm") else None
    options = starting.options(generator, version)
    command = next(name for name in _COMMANDS if name.startswith(generator) and name in options.commands)
    arguments = _ARGUMENTS[generator](options, model, url, requests, load)
    if _PERCENTILES in arguments:
        shares = [
            name.removeprefix("p") for name in percentiles.in_order({*STATISTICS, *statistics} - {percentiles.MEAN})
        ]
        arguments = {**arguments, _PERCENTILES: ",".join(shares)}
    made = Run(options, command, arguments)
    made.check()
    return made


_COMMANDS = ("vllm bench serve", "aiperf profile", "guidellm run")


def simplified(generator: Generator, requests: Requests) -> list[str]:
    """Differences between the requests of a run and those of the prediction, in words."""
    varied = [length for length in (requests.isl, requests.osl) if length.scv > 0.0]
    remarks = []
    if generator == "vllm" and any(length.kind != "uniform" for length in varied):
        remarks.append("the load generator draws lengths evenly around their means, none of twice the mean or more")
    elif generator != "vllm" and varied:
        remarks.append("the load generator draws normal lengths, with the means and deviations of those predicted")
    if requests.cached > requests.shared_prefix and not requests.longest_turn and generator != "guidellm":
        remarks.append("what is cached of a prompt is the same in all prompts of the run, which caches hold once")
    if requests.cached and generator == "guidellm":
        remarks.append("prompts of the run have nothing in common, so that nothing of them is cached")
    return remarks


def _vllm(options: EngineOptions, model: str, url: str, requests: Requests, load: OfferedLoad) -> dict[str, Any]:
    prefix = round(requests.cached)
    offered: dict[str, Any] = {"--max-concurrency": load.concurrency}
    if load.requests_per_second is not None:
        offered = {"--request-rate": float(load.requests_per_second)}
        if load.arrival_scv not in (0.0, 1.0):
            offered["--burstiness"] = 1.0 / load.arrival_scv
    return {
        "--backend": "openai",
        "--base-url": url,
        "--model": model,
        "--dataset-name": "random",
        **({"--random-prefix-len": prefix} if prefix else {}),
        "--random-input-len": round(requests.isl.mean) - prefix,
        "--random-output-len": round(requests.osl.mean),
        "--random-range-ratio": _range_ratio(options, requests, prefix),
        **offered,
        "--num-prompts": load.requests,
        "--ignore-eos": True,
        "--percentile-metrics": "ttft,tpot,itl,e2el",
        _PERCENTILES: "",
        "--save-result": True,
        "--result-filename": RESULT,
    }


def _range_ratio(options: EngineOptions, requests: Requests, prefix: int) -> float | dict[str, float]:
    """How far lengths are from their mean at most, over the mean, of prompts behind their prefix and of answers [1].

    Versions that read one number for both get the smaller one.
    """
    isl = requests.isl.mean
    ratios = {
        "input": _share(_half_width(requests.isl) / (isl - prefix)),
        "output": _share(_half_width(requests.osl) / requests.osl.mean),
    }
    apart = options.option("vllm bench serve", "--random-range-ratio").type == "str"
    return ratios if apart and len(set(ratios.values())) > 1 else min(ratios.values())


def _share(ratio: float) -> float:
    return round(min(ratio, _MOST_SPREAD), 3)


def _half_width(length: Length) -> float:
    """Half the width of lengths that are evenly spread, with the same deviation and none that are longer [tokens].

    Examples
    --------
    >>> [round(_half_width(Length.parse(text))) for text in ("uniform:400:600", "lognormal:500:0.2", "450@0.5,550@0.5")]
    [100, 173, 50]
    """
    return min(math.sqrt(3.0 * length.scv) * length.mean, length.longest - length.mean)


def _aiperf(options: EngineOptions, model: str, url: str, requests: Requests, load: OfferedLoad) -> dict[str, Any]:
    del options
    offered: dict[str, Any] = {"--concurrency": load.concurrency}
    if load.requests_per_second is not None:
        offered = {"--request-rate": float(load.requests_per_second), "--request-rate-mode": _arrivals(load)}
    prefix, lengths = round(requests.cached), {"isl": requests.isl, "osl": requests.osl}
    deviations = {f"--{name}-stddev": round(_deviation(length)) for name, length in lengths.items()}
    return {
        "--model": model,
        "--url": url,
        "--endpoint-type": "completions",
        "--streaming": True,
        **({"--prompt-prefix-length": prefix, "--prompt-prefix-pool-size": 1} if prefix else {}),
        "--isl": round(requests.isl.mean) - prefix,
        "--osl": round(requests.osl.mean),
        **{name: tokens for name, tokens in deviations.items() if tokens},
        "--extra-inputs": "ignore_eos:true",
        **offered,
        "--request-count": load.requests,
        "--artifact-dir": ".",
    }


def _guidellm(options: EngineOptions, model: str, url: str, requests: Requests, load: OfferedLoad) -> dict[str, Any]:
    del options
    profile = f"kind=concurrent,streams={load.concurrency}"
    if load.requests_per_second is not None:
        profile = f"kind={_arrivals(load)},rate={load.requests_per_second:g}"
    lengths = ",".join((_guided("prompt_tokens", requests.isl), _guided("output_tokens", requests.osl)))
    return {
        # An address that a shell expands stays one.
        "--backend": type(url)(f"kind=openai_http,target={url},model={model}"),
        "--profile": profile,
        "--data": f"kind=synthetic_text,{lengths}",
        "--constraint": f"kind=max_requests,count={load.requests}",
        "--output": f"kind=json,path={RESULT}",
    }


def _guided(name: str, length: Length) -> str:
    """A length in the words of GuideLLM, which refuses a deviation of nothing."""
    if round(_deviation(length)) == 0:
        return f"{name}={round(length.mean)}"
    least = 1 if length.kind == "lognormal" else round(length.least)
    ends = f"{name}_min={least},{name}_max={round(length.longest)}"
    return f"{name}={round(length.mean)},{name}_stdev={round(_deviation(length))},{ends}"


def _deviation(length: Length) -> float:
    """Standard deviation [tokens]."""
    return math.sqrt(length.scv) * length.mean


def _arrivals(load: OfferedLoad) -> str:
    """Words of generators for arrivals at a rate.

    Raises
    ------
    InputError
        If they have no word for such arrivals.
    """
    shapes = {0.0: "constant", 1.0: "poisson"}
    if load.arrival_scv not in shapes:
        raise InputError(
            f"--arrival-scv {load.arrival_scv:g}: the generator has 0 (constant) and 1 (Poisson); take --bench vllm",
            option="arrival_scv",
        )
    return shapes[load.arrival_scv]


_ARGUMENTS: Mapping[str, Callable[[EngineOptions, str, str, Requests, OfferedLoad], dict[str, Any]]] = {
    "vllm": _vllm,
    "aiperf": _aiperf,
    "guidellm": _guidellm,
}
