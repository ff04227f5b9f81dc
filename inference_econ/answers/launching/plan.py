"""A whole deployment: its instances, where they listen, and the run that holds it to account."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from inference_econ.answers.launching.arguments import written
from inference_econ.answers.launching.instance import (
    Instance,
    InstanceLimits,
    LaunchEngine,
    Role,
    Weights,
    words,
)
from inference_econ.engine import Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.inputs import REPOSITORY_LETTERS, EngineOptions, Length, Precision, Requests, is_repository
from inference_econ.inputs.engine import launch_options
from inference_econ.inputs.workload import percentiles
from inference_econ.serving import STATISTICS, Service

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
    """One predicted number."""

    measure: Measure
    """``ttft`` [s], ``tpot`` [s], ``e2e`` (to the last token) [s] or ``throughput`` [output tokens/s]."""
    statistic: str
    """``mean``, or a percentile of requests such as ``p95``."""
    value: float
    """Predicted value."""
    low: float | None = None
    """Lower end of its interval; None if it is unknown."""
    high: float | None = None
    """Upper end of its interval; None if it is unknown."""
    promised: float | None = None
    """SLO of this number; None without one."""

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
    """Load that a run offers to one address."""

    requests_per_second: float | None = None
    """Rate [1/s], or None for a constant concurrency."""
    concurrency: int | None = None
    """Concurrent requests [1], or None for a rate."""
    arrival_scv: float = 1.0
    """Burstiness of a rate, 1 if Poisson [1]."""

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
class LoadTestRun:
    """A run of a load generator."""

    options: EngineOptions
    """Options that its command knows."""
    command: str
    """``vllm bench serve``, ``aiperf profile`` or ``guidellm run``."""
    arguments: Mapping[str, Any]
    """Options with their values."""

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
) -> LoadTestRun:
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
    version = server if generator == "vllm" and server in launch_options.versions("vllm") else None
    options = launch_options.options(generator, version)
    command = next(name for name in _COMMANDS if name.startswith(generator) and name in options.commands)
    arguments = _ARGUMENTS[generator](options, model, url, requests, load)
    if _PERCENTILES in arguments:
        shares = [
            name.removeprefix("p") for name in percentiles.in_order({*STATISTICS, *statistics} - {percentiles.MEAN})
        ]
        arguments = {**arguments, _PERCENTILES: ",".join(shares)}
    made = LoadTestRun(options, command, arguments)
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
    isl, prefix = requests.isl.mean, round(requests.cached)
    # How far lengths are from their mean at most, over the mean, of prompts behind their prefix and of answers.
    # Versions that read one number for both get the smaller one.
    output = _half_width(requests.osl) / requests.osl.mean
    widths = {"input": _half_width(requests.isl) / (isl - prefix), "output": output}
    ratios = {name: round(min(width, _MOST_SPREAD), 3) for name, width in widths.items()}
    both = options.option("vllm bench serve", "--random-range-ratio").type != "str" or len(set(ratios.values())) == 1
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
        "--random-input-len": round(isl) - prefix,
        "--random-output-len": round(requests.osl.mean),
        "--random-range-ratio": min(ratios.values()) if both else ratios,
        **offered,
        "--num-prompts": load.requests,
        "--ignore-eos": True,
        "--percentile-metrics": "ttft,tpot,itl,e2el",
        _PERCENTILES: "",
        "--save-result": True,
        "--result-filename": RESULT,
    }


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

#: Engines that are started, the most usual first.
ENGINES = ("vllm", "sglang", "trtllm", "llama_cpp", "mlx")


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Some equal instances of a deployment."""

    service: Service
    """One instance."""
    replicas: int
    """Number of instances [1]."""
    role: Role = "both"
    """Role of the instances."""
    slots: int | None = None
    """Maximum concurrent requests of an instance [1]; None for as many as its memory holds."""


@dataclass(frozen=True, slots=True)
class Start:
    """A deployment to be started, before anybody says by which engine.

    Attributes
    ----------
    parts : sequence of Part
        Its instances, of each kind.
    load : OfferedLoad
        Of the whole deployment.
    expected : sequence of Expected
        What was predicted under that load.
    pick : str
        Which of an answer it is, in words.
    said : sequence of str
        What else whoever starts it must know.
    """

    parts: Sequence[PlanPart]
    load: OfferedLoad
    expected: Sequence[Expected]
    pick: str
    said: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Scaling:
    """Settings of an autoscaler of equal instances.

    Attributes
    ----------
    least, most : int
        Instances [1].
    metric : str
        What it holds: ``in_flight`` requests, waiting ones included, or their ``rate``.
    per_instance, before : float
        Of the metric: what it holds for each instance, and what cheaper ones hold before [1, or 1/s].
    polling_seconds, scale_down_seconds : float
        Between two looks, and before it removes an instance [s].
    dollars_per_hour : float
        Of an instance [USD/h].
    paid : str
        How their machines are paid for.
    """

    least: int
    most: int
    metric: str
    per_instance: float
    before: float
    polling_seconds: float
    scale_down_seconds: float
    dollars_per_hour: float
    paid: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Instances that are started, and the run that holds them to account.

    Attributes
    ----------
    instances : sequence of Instance
        One of each kind.
    load : OfferedLoad
        Of the whole deployment.
    expected : sequence of Expected
        What was predicted under that load.
    generator : str
        Which load generator offers it.
    pick : str
        How it was chosen, in words.
    asked : Speculation or None
        Who was to propose tokens; instances speculate only where that pays under the load.
    scaling : Scaling or None
        How many instances there are as traffic comes and goes; None where there are as many always.
    said : sequence of str
        What else whoever starts it must know.
    """

    instances: Sequence[Instance]
    load: OfferedLoad
    expected: Sequence[Expected]
    generator: Generator = "vllm"
    pick: str = ""
    asked: Speculation | None = None
    scaling: Scaling | None = None
    said: Sequence[str] = ()

    @property
    def engine(self) -> LaunchEngine:
        """Engine that runs all instances."""
        return self.instances[0].engine

    @property
    def accelerators(self) -> int:
        """Accelerators of all instances [1]."""
        return sum(instance.accelerators * instance.replicas for instance in self.instances)

    @property
    def disaggregated(self) -> bool:
        """Whether prompts and answers are on instances of their own."""
        return len(self.instances) > 1

    def run(self, url: str, share: float = 1.0) -> LoadTestRun:
        """The run of the load generator against an address that gets a share of the load [1]."""
        first = self.instances[0]
        version = self.engine.options.version if self.engine.name == "vllm" else ""
        load, seen = self.load, {entry.statistic for entry in self.expected}
        if load.requests_per_second is not None:
            load = OfferedLoad(load.requests_per_second * share, None, load.arrival_scv)
        return run(self.generator, first.model, url, first.service.requests, load, version, seen)


def engine(name: str, version: str | None = None, image: str | None = None) -> LaunchEngine:
    """An engine at a recorded version, the newest without one; perhaps in a container image of another name.

    Raises
    ------
    InputError
        If nothing is recorded of it, or of the version, or the image has no name.
    """
    _check_named("image", image, "the name of a container image")
    return LaunchEngine(name, launch_options.options(name, version), launch_options.launch(name), image)


def usual_engine(engines: str) -> str | None:
    """The most usual of some engines, named between commas; None if none of them can be started."""
    return next((name for name in ENGINES if name in engines.split(", ")), None)


def check_engine(engines: str, to: str, what: str) -> None:
    """Refuse to start with one engine what was predicted of others.

    Parameters
    ----------
    engines : str
        Names of those that what was chosen is predicted of, between commas; empty where any layout was offered.
    to : str
        The name of the one that is to start it.
    what : str
        What was chosen, in words.

    Raises
    ------
    InputError
        Naming them.
    """
    if engines and to not in engines.split(", "):
        raise InputError(
            f"--to {to}: {what} is served by {engines}, and predicted of it; start it --to "
            f"{engines.partition(', ')[0]}, or ask again with --engine {to}",
            option="to",
        )


def _check_named(option: str, name: str | None, needed: str) -> None:
    if name is not None and not is_repository(name):
        raise InputError(
            f"--{option.replace('_', '-')} {name!r}: {needed} is needed, in {REPOSITORY_LETTERS}; leave the option out "
            "for the usual",
            option=option,
        )


def weights(service: Service, named: str | None, draft: str | None = None) -> Weights:
    """The weights that were named, or else a checkpoint of the model's file: in the format that was asked for, if any.

    Raises
    ------
    InputError
        If nobody knows any, or they are named by nothing.
    """
    _check_named("model_id", named, "ORGANISATION/NAME, or a path")
    _check_named("draft_model_id", draft, "ORGANISATION/NAME, or a path")
    if named is not None:
        return Weights(named, own=True, draft=draft)
    model, precision = service.setup.model, service.setup.precision
    as_published = precision.of_weights == Precision.of(model).of_weights
    uniform = len({precision.weights, precision.attention, precision.experts}) == 1
    checkpoint = model.checkpoint(precision.weights) if uniform and not as_published else None
    published = model.checkpoint()
    if checkpoint is None and published is None:
        raise InputError(
            f"{model.name} has no huggingface_id; name its weights with --model-id ORGANISATION/NAME", option="model_id"
        )
    return Weights(checkpoint or str(published), own=checkpoint is not None, draft=draft)


def priced_drafts(service: Service, in_flight: float) -> Speculation | None:
    """The speculation that was priced: the draft length that is best for the batch of some requests in flight [1].

    Parameters
    ----------
    service : Service
        An instance, which perhaps speculates.
    in_flight : float
        Requests under way in it [1].

    Returns
    -------
    Speculation or None
        With rounds of that one length, as engines run them; None where decoding plainly is faster, or nobody proposes.
    """
    if service.speculation is None:
        return None
    batch = service.at(np.array([max(in_flight, 1.0)])).batch
    drafts = rounds(service.setup, replace(service.plans, batch=batch), service.speculation)
    return service.speculation.of_length(int(drafts.best().length[0]))


def instances(
    runner: LaunchEngine, parts: Sequence[PlanPart], served: Weights, longest: int | None = None
) -> list[Instance]:
    """One instance of each part, held against the engine's own parser.

    Parameters
    ----------
    runner : LaunchEngine
        What runs them.
    parts : sequence of Part
        What was predicted.
    served : Weights
        Which weights.
    longest : int, optional
        Prompt and answer of the longest request [tokens]; by default what the requests say.

    Raises
    ------
    InputError
        If the engine cannot run a part, or would not start with it.
    """
    made = []
    for part in parts:
        held = part.service.slots
        service = replace(part.service, slots=min(held, held if part.slots is None else part.slots))
        limits = InstanceLimits.of(service, runner, part.role, longest)
        arguments, file = written(runner, service, limits, served, part.role)
        instance = Instance(runner, service, served.model, limits, arguments, file, part.replicas, part.role)
        instance.check()
        made.append(instance)
    return made
