"""Launch plan of a whole deployment: instances, addresses, and the load test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from inference_econ.answers.launching.instance import (
    Instance,
    InstanceLimits,
    InstanceRun,
    LaunchEngine,
    Role,
    Weights,
    words,
    written,
)
from inference_econ.engine import Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.inputs import REPOSITORY_LETTERS, EngineOptions, Length, Precision, Requests, catalog, is_repository
from inference_econ.inputs.engine import launch_options
from inference_econ.inputs.workload import percentiles
from inference_econ.serving import STATISTICS, Service

#: Load generators with recorded options.
Generator = Literal["vllm", "aiperf", "guidellm"]
#: Duration of a load test at a request rate [s], requests per concurrent request in a test at a concurrency [1], and
#: minimum number of requests in a test [1].
_SECONDS, _ROUNDS, _LEAST = 180.0, 10, 100
#: Option of vLLM's load generator that lists percentiles.
_PERCENTILES = "--metric-percentiles"
#: Largest spread of lengths around their mean in vLLM's generator, relative to the mean [1].
_MOST_SPREAD = 0.99
#: File to which the load generator writes its results.
RESULT = "result.json"


#: Quantity for which a load test compares the measurement with the prediction.
Measure = Literal["ttft", "tpot", "e2e", "throughput"]
#: Display name, display unit, and factor from base units of each quantity.
UNITS: dict[Measure, tuple[str, str, float]] = {
    "ttft": ("TTFT", "ms", 1e3),
    "tpot": ("TPOT", "ms", 1e3),
    "e2e": ("E2E", "ms", 1e3),
    "throughput": ("output tokens/s", "", 1.0),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """Predicted value of one quantity under a load, with its interval and SLO."""

    measure: Measure
    """``ttft`` [s], ``tpot`` [s], ``e2e`` [s] or ``throughput`` [output tokens/s]."""
    statistic: str
    """``mean``, or a percentile of requests such as ``p95``."""
    value: float
    """Predicted value."""
    low: float | None = None
    """Lower end of the 80% interval of the quantity; None if unknown."""
    high: float | None = None
    """Upper end of the 80% interval of the quantity; None if unknown."""
    promised: float | None = None
    """SLO on the quantity; None without an SLO."""

    @property
    def name(self) -> str:
        """Name of the quantity with its statistic."""
        label = UNITS[self.measure][0]
        return label if self.measure == "throughput" else f"{label} {self.statistic}"


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """Load that a load generator sends to one address."""

    requests_per_second: float | None = None
    """Request rate [1/s]; None for a constant concurrency."""
    concurrency: int | None = None
    """Concurrent requests [1]; None for a rate."""
    arrival_scv: float = 1.0
    """Squared coefficient of variation of the interarrival times, 1 for Poisson [1]."""

    @property
    def requests(self) -> int:
        """Number of requests that the load generator sends in a load test [1]."""
        wanted = (self.requests_per_second or 0.0) * _SECONDS + (self.concurrency or 0) * _ROUNDS
        return max(_LEAST, math.ceil(wanted))

    @property
    def text(self) -> str:
        """Describe the load as text."""
        if self.concurrency is not None:
            return f"{self.concurrency} requests under way"
        return f"{self.requests_per_second:.4g} requests/s"


@dataclass(frozen=True, slots=True)
class LoadTestRun:
    """Load test: a command of a load generator with its options."""

    options: EngineOptions
    """Options of the load generator's command."""
    command: str
    """Command of the load generator: ``vllm bench serve``, ``aiperf profile`` or ``guidellm run``."""
    arguments: Mapping[str, Any]
    """Options with their values, as for the command line."""

    @property
    def words(self) -> tuple[str, ...]:
        """Words of the command line."""
        return (*self.command.split(), *words(self.arguments))

    def check(self) -> None:
        """Check the command line against the recorded options of the generator's parser."""
        self.options.parse(self.command, words(self.arguments))


_COMMANDS = ("vllm bench serve", "aiperf profile", "guidellm run")


def _vllm(options: EngineOptions, model: str, url: str, requests: Requests, load: OfferedLoad) -> dict[str, Any]:
    isl, prefix = requests.isl.mean, round(requests.cached)
    # Half width of the length distribution relative to its mean, for prompts without their prefix and for outputs.
    # Versions with one option for both get the smaller value.
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
    """Half width of a uniform distribution with the same standard deviation, limited by the longest length [tokens].

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
        # The type of ``url`` is kept, because an ``Expanded`` address must stay a shell expression.
        "--backend": type(url)(f"kind=openai_http,target={url},model={model}"),
        "--profile": profile,
        "--data": f"kind=synthetic_text,{lengths}",
        "--constraint": f"kind=max_requests,count={load.requests}",
        "--output": f"kind=json,path={RESULT}",
    }


def _guided(name: str, length: Length) -> str:
    """Distribution of a length in GuideLLM's syntax.

    A constant length has no standard deviation, because GuideLLM rejects 0.
    """
    if round(_deviation(length)) == 0:
        return f"{name}={round(length.mean)}"
    least = 1 if length.kind == "lognormal" else round(length.least)
    ends = f"{name}_min={least},{name}_max={round(length.longest)}"
    return f"{name}={round(length.mean)},{name}_stdev={round(_deviation(length))},{ends}"


def _deviation(length: Length) -> float:
    """Standard deviation of a length [tokens]."""
    return math.sqrt(length.scv) * length.mean


def _arrivals(load: OfferedLoad) -> str:
    """Name of the arrival process in AIPerf and GuideLLM: ``constant`` or ``poisson``.

    Raises
    ------
    InputError
        If the arrivals are neither constant nor Poisson.
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

#: Engines that can be launched, the most widely used first.
ENGINES = ("vllm", "sglang", "trtllm", "llama_cpp", "mlx")


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Equal instances of a deployment: aggregated, prefill or decode."""

    service: Service
    """One instance."""
    replicas: int
    """Number of instances [1]."""
    role: Role = "both"
    """Role of the instances: aggregated, prefill or decode."""
    slots: int | None = None
    """Maximum concurrent requests of one instance [1]; None for the memory limit."""


@dataclass(frozen=True, slots=True)
class Start:
    """Deployment to launch, before an engine is selected.

    Attributes
    ----------
    parts : sequence of PlanPart
        Instances, one entry per role (prefill, decode or aggregated).
    load : OfferedLoad
        Total load of the deployment.
    expected : sequence of Expected
        Predicted values under the total load.
    pick : str
        Text that states which deployment of a result was selected.
    said : sequence of str
        Notes for the operator.
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
        Minimum and maximum number of instances [1].
    metric : str
        Target metric: ``in_flight`` for concurrent requests (queued requests included), or ``rate`` for the request
        rate.
    per_instance, before : float
        Target value of the metric per instance, and value that cheaper instances serve first [1, or 1/s].
    polling_seconds, scale_down_seconds : float
        Polling interval, and delay before an instance is removed [s].
    dollars_per_hour : float
        Price of an instance [USD/h].
    paid : str
        Pricing model of the machines.
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
    """Instances to launch, and the load test that compares them with the prediction.

    Attributes
    ----------
    instances : sequence of Instance
        Instances, one entry per role or kind of GPU.
    load : OfferedLoad
        Total load.
    expected : sequence of Expected
        Predicted values under the total load.
    generator : str
        Load generator.
    pick : str
        Text that states which deployment was selected, and how.
    asked : Speculation or None
        Speculation method of the query. Instances use it only where it is faster under the load.
    scaling : Scaling or None
        Autoscaler settings; None for a constant number of instances.
    said : sequence of str
        Notes for the operator.
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
    def disaggregated(self) -> bool:
        """True if prefill and decode run on separate instances."""
        return len(self.instances) > 1

    def run(self, url: str, share: float = 1.0) -> LoadTestRun:
        """Create the load test of an address that receives the given share of the load [1].

        The load generator of vLLM has the version of the server. The test reports the predicted statistics, if the
        generator supports them.

        Raises
        ------
        InputError
            If the generator cannot create requests with these lengths.
        """
        first, load, generator, server = self.instances[0], self.load, self.generator, self.engine.version
        if load.requests_per_second is not None:
            load = OfferedLoad(load.requests_per_second * share, None, load.arrival_scv)
        with_server = generator == self.engine.name == "vllm" and server in launch_options.versions("vllm")
        options = launch_options.options(generator, server if with_server else None)
        command = next(name for name in _COMMANDS if name.startswith(generator) and name in options.commands)
        arguments = _ARGUMENTS[generator](options, first.model, url, first.service.requests, load)
        if _PERCENTILES in arguments:
            shown = {*STATISTICS, *(entry.statistic for entry in self.expected)} - {percentiles.MEAN}
            shares = [name.removeprefix("p") for name in percentiles.in_order(shown)]
            arguments = {**arguments, _PERCENTILES: ",".join(shares)}
        made = LoadTestRun(options, command, arguments)
        made.check()
        return made


def engine(
    name: str, version: str | None = None, image: str | None = None, predicted: str | None = None
) -> LaunchEngine:
    """Look up an engine at a recorded version, by default the version that the deployment was predicted for.

    Parameters
    ----------
    name : str
        Engine name.
    version : str, optional
        Recorded version to start.
    image : str, optional
        Container image to start.
    predicted : str, optional
        Version that the deployment was predicted for; by default, the newest known version. If the options of
        this version are not recorded, the options of the newest recorded version before it are used.

    Raises
    ------
    InputError
        If the engine or version has no recorded options, or the image name is not valid.
    """
    _check_named("image", image, "the name of a container image")
    known = name in catalog.names("engines")
    predicted = predicted or (catalog.engine(name).at().version if known else None)
    if version in (None, predicted):
        options = launch_options.options_at(name, predicted)
    else:
        options = launch_options.options(name, version)
    return LaunchEngine(name, version or predicted or options.version, options, launch_options.launch(name), image)


def usual_engine(engines: str) -> str | None:
    """First engine of :data:`ENGINES` in a comma-separated list; None if no listed engine can be launched."""
    return next((name for name in ENGINES if name in engines.split(", ")), None)


def check_engine(engines: str, to: str, what: str, query: str = "the query") -> None:
    """Reject the launch of an engine for which nothing was predicted.

    Parameters
    ----------
    engines : str
        Engines of the prediction, separated by commas; empty if layouts needed no engine.
    to : str
        Engine to launch.
    what : str
        Selected deployment, as text.
    query : str
        Command that predicted the deployment, as text.

    Raises
    ------
    InputError
        If the engine was not predicted; the message lists the predicted engines.
    """
    if engines and to not in engines.split(", "):
        raise InputError(
            f"--to {to}: {what} is predicted for {engines}; start it with --to {engines.partition(', ')[0]}, or "
            f"repeat {query} with --engine {to}",
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
    """Weights to serve: the named weights, else a checkpoint in the model's file, if possible in the requested format.

    The format of NVIDIA's quantized checkpoints (ModelOpt) is not among ``supported_quantization`` of vLLM
    (``platforms/rocm.py``) and SGLang (``configs/model_config.py``) on AMD GPUs. There, engines convert the published
    weights while they load.

    Raises
    ------
    InputError
        If a name is not valid, or the model's file has no checkpoint.
    """
    _check_named("model_id", named, "ORGANIZATION/NAME, or a path")
    _check_named("draft_model_id", draft, "ORGANIZATION/NAME, or a path")
    if named is not None:
        return Weights(named, own=True, draft=draft)
    model, precision = service.setup.model, service.setup.precision
    as_published = precision.of_weights == Precision.of(model).of_weights
    uniform = len({precision.weights, precision.attention, precision.experts}) == 1
    checkpoint = model.checkpoint(precision.weights) if uniform and not as_published else None
    if checkpoint is not None and checkpoint.startswith("nvidia/") and service.setup.hardware.vendor == "AMD":
        checkpoint = None
    published = model.checkpoint()
    if checkpoint is None and published is None:
        raise InputError(
            f"{model.name} has no huggingface_id; name its weights with --model-id ORGANIZATION/NAME", option="model_id"
        )
    return Weights(checkpoint or str(published), own=checkpoint is not None, draft=draft)


def priced_drafts(service: Service, in_flight: float) -> Speculation | None:
    """Speculation method of the prediction, with the best draft length at a concurrency.

    Parameters
    ----------
    service : Service
        Instance, with or without speculation.
    in_flight : float
        Concurrent requests of the instance [1].

    Returns
    -------
    Speculation or None
        Speculation method with a single draft length, because engines use one length for all batches. The result is
        None if the instance has no speculation, or if plain decoding is faster.
    """
    if service.speculation is None:
        return None
    batch = service.at(np.array([max(in_flight, 1.0)])).batch
    drafts = rounds(service.setup, replace(service.plans, batch=batch), service.speculation)
    return service.speculation.of_length(int(drafts.best().length[0]))


def instances(
    runner: LaunchEngine, parts: Sequence[PlanPart], served: Weights, longest: int | None = None
) -> list[Instance]:
    """Create the instances of each role (prefill, decode or aggregated), checked against the engine's parser.

    Parameters
    ----------
    runner : LaunchEngine
        Engine.
    parts : sequence of PlanPart
        Predicted instances.
    served : Weights
        Weights that the instance serves.
    longest : int, optional
        Input plus output of the longest request [tokens]; by default from the request lengths.

    Raises
    ------
    InputError
        If the engine does not support an instance, or would not start the instance.
    """
    made = []
    for part in parts:
        held = part.service.slots
        service = replace(part.service, slots=min(held, held if part.slots is None else part.slots))
        limits = InstanceLimits.of(service, runner, part.role, longest)
        arguments, file = written(InstanceRun(runner, service, limits, served, part.role))
        instance = Instance(runner, service, served.model, limits, arguments, file, part.replicas, part.role)
        instance.check()
        made.append(instance)
    return made
