"""A whole deployment: its instances, where they listen, and the run that holds it to account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference_econ.answers.launching.arguments import written
from inference_econ.answers.launching.benchmark import Expected, Generator, OfferedLoad, Run, run
from inference_econ.answers.launching.instance import Engine, Instance, Limits, Role, Weights
from inference_econ.engine import Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.inputs import REPOSITORY_LETTERS, Precision, is_repository, starting
from inference_econ.serving import Service

#: Engines that are started, the most usual first.
ENGINES = ("vllm", "sglang", "trtllm", "llama_cpp", "mlx")


@dataclass(frozen=True, slots=True)
class Part:
    """Some equal instances of a deployment.

    Attributes
    ----------
    service : Service
        One of them.
    replicas : int
        How many there are [1].
    role : str
        What they do.
    slots : int or None
        Requests under way in each at most [1]; None for as many as its memory holds.
    """

    service: Service
    replicas: int
    role: Role = "both"
    slots: int | None = None


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

    parts: Sequence[Part]
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
    def engine(self) -> Engine:
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

    def run(self, url: str, share: float = 1.0) -> Run:
        """The run of the load generator against an address that gets a share of the load [1]."""
        first = self.instances[0]
        version = self.engine.options.version if self.engine.name == "vllm" else ""
        load, seen = _part(self.load, share), {entry.statistic for entry in self.expected}
        return run(self.generator, first.model, url, first.service.requests, load, version, seen)


def _part(load: OfferedLoad, share: float) -> OfferedLoad:
    if load.requests_per_second is None:
        return load
    return OfferedLoad(load.requests_per_second * share, None, load.arrival_scv)


def engine(name: str, version: str | None = None, image: str | None = None) -> Engine:
    """An engine at a recorded version, the newest without one; perhaps in a container image of another name.

    Raises
    ------
    InputError
        If nothing is recorded of it, or of the version, or the image has no name.
    """
    _check_named("image", image, "the name of a container image")
    return Engine(name, starting.options(name, version), starting.launch(name), image)


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


def instances(runner: Engine, parts: Sequence[Part], served: Weights, longest: int | None = None) -> list[Instance]:
    """One instance of each part, held against the engine's own parser.

    Parameters
    ----------
    runner : Engine
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
        limits = Limits.of(service, runner, part.role, longest)
        arguments, file = written(runner, service, limits, served, part.role)
        instance = Instance(runner, service, served.model, limits, arguments, file, part.replicas, part.role)
        instance.check()
        made.append(instance)
    return made
