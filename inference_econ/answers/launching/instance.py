"""One instance of an engine, ready to be started: its options, and the file that it reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from inference_econ.answers.launching.room import Room, check, groups, room, sequences_of_a_group
from inference_econ.errors import InputError
from inference_econ.inputs import EngineLaunch, EngineOptions, catalog
from inference_econ.serving import Service

#: What requests may be longer than those that were asked for: a share of them, and at least so many [1, tokens].
_ROOM, _LEAST_ROOM = 0.05, 64
#: What an instance does: all of a request, or prompts only, or answers only.
Role = Literal["both", "prefill", "decode"]
#: The file that an instance of TensorRT-LLM reads.
CONFIG = "engine.yaml"
#: Options with their values: true for a flag, a list for several values, a mapping for JSON.
Arguments = Mapping[str, Any]


class Expanded(str):
    """A word that the shell of a script expands, as ``$LWS_LEADER_ADDRESS``.

    Every other word of a command line reaches its program letter by letter, whoever wrote it.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine at a version.

    Attributes
    ----------
    name : str
        ``vllm``, ``sglang``, ``trtllm``, ``llama_cpp`` or ``mlx``.
    options : EngineOptions
        What its commands understand.
    launch : EngineLaunch
        How it is started.
    named_image : str or None
        A container image in the place of the usual one.
    """

    name: str
    options: EngineOptions
    launch: EngineLaunch
    named_image: str | None = None

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.launch.name} {self.options.version}"

    @property
    def image(self) -> str:
        """The container image that was named, or that of the version; empty where it has none."""
        return self.named_image or (self.launch.image or "").format(version=self.options.version)

    def first(self, *names: str) -> str | None:
        """The first of some options that the version has."""
        return next((name for name in names if self.options.has(self.launch.command, name)), None)


@dataclass(frozen=True, slots=True)
class Weights:
    """Which weights are served.

    Attributes
    ----------
    model : str
        Hugging Face id, or a path.
    own : bool
        Whether they are in the format that was asked for; otherwise they are those that the engine must quantise.
    draft : str or None
        What was named in place of the usual weights of a draft model, or of an EAGLE head.
    """

    model: str
    own: bool = False
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class Degrees:
    """How an instance is cut.

    Attributes
    ----------
    tp, dp, pp, ep, dcp : int
        Attention ranks of a group, groups, stages, expert-parallel ranks, and attention ranks that split a cache [1].
    """

    tp: int
    dp: int
    pp: int
    ep: int
    dcp: int

    @property
    def stage(self) -> int:
        """Accelerators of a pipeline stage [1]."""
        return self.tp * self.dp

    @classmethod
    def of(cls, service: Service) -> Degrees:
        """The degrees of an instance."""
        plans, dp = service.plans, groups(service)
        ep = 1 if plans.ep is None else int(plans.ep[0])
        return cls(int(plans.attention_ranks[0]), dp, int(plans.pp[0]), ep, int(plans.dcp))

    @property
    def text(self) -> str:
        """The degrees as people write them."""
        named = {"tp": self.tp, "dp": self.dp, "pp": self.pp, "ep": self.ep, "dcp": self.dcp}
        return "".join(f"{name}{value}" for name, value in named.items() if value > 1 or name == "tp")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that an instance is started with.

    Attributes
    ----------
    tokens : int
        Prompt and answer of the longest request [tokens].
    sequences : int
        Requests under way in each group of attention ranks [1].
    step_tokens : int
        Tokens of a step in each group [tokens].
    room : Room
        Memory of each accelerator.
    """

    tokens: int
    sequences: int
    step_tokens: int
    room: Room

    @classmethod
    def of(cls, service: Service, engine: Engine, role: Role, longest: int | None = None) -> Limits:
        """The limits that follow from the requests with some room, or from a longest one that is named [tokens].

        No request of a mean length may be longer than the model is made for; of a distribution, what is longer is
        refused by the engine. Sessions have the slots that they were played with.

        Raises
        ------
        InputError
            If the model is not made for such requests, or the instance would not start with them.
        """
        requests, most = service.requests, service.setup.model.max_context
        needed_tokens = longest or math.ceil(requests.isl.mean + requests.osl.mean)
        if most is not None and needed_tokens > most:
            raise InputError(f"{service.setup.model.name} is made for at most {most} tokens, got {needed_tokens}")
        tokens = longest or _with_room(math.ceil(requests.longest), most)
        if requests.longest_turn:
            service = replace(service, slots=service.slots_of_blocks)
        sequences = sequences_of_a_group(service)
        needed = room(service, tokens, engine.launch.graph_bytes)
        check(service, needed, tokens)
        chunk = int(service.setup.assumptions.serving.prefill_chunk) or tokens
        drafted = 0 if service.speculation is None else service.speculation.longest
        # What prompts may take of a step was priced beside decoding: it needs room where the engine counts both.
        counted = catalog.engine(engine.name).at(engine.options.version).decoding_in_step_tokens
        decoding = 0 if role == "prefill" or not counted else sequences * (1 + drafted)
        return cls(tokens, sequences, chunk + decoding if role == "both" else max(chunk, decoding), needed)


def _with_room(tokens: int, most: int | None) -> int:
    """Tokens of the longest request that is let in: templates and tokenisers add some to those that were asked for."""
    roomy = tokens + max(_LEAST_ROOM, math.ceil(_ROOM * tokens))
    return roomy if most is None else min(roomy, most)


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of an engine.

    Attributes
    ----------
    engine : Engine
        What runs it.
    service : Service
        What was predicted of it.
    model : str
        Hugging Face id or path of the weights.
    limits : Limits
        What it is started with.
    arguments : mapping
        Options with their values.
    file : mapping
        What its configuration file holds; empty where it reads none.
    replicas : int
        How many of them there are [1].
    role : str
        What it does.
    variant : str
        What tells it from instances of the model on other chips, where there are some.
    """

    engine: Engine
    service: Service
    model: str
    limits: Limits
    arguments: Arguments
    file: Arguments = field(default_factory=dict)
    replicas: int = 1
    role: Role = "both"
    variant: str = ""

    @property
    def accelerators(self) -> int:
        """Accelerators of one instance [1]."""
        return self.service.accelerators

    @property
    def words(self) -> tuple[str, ...]:
        """The command line, program and the file that it reads included."""
        option = self.engine.first("--config", "--extra_llm_api_options")
        reading = [option, CONFIG] if self.file and option is not None else []
        return (*self.engine.launch.program, *words(self.arguments), *reading)

    def check(self) -> None:
        """Hold the command line and the file against what the engine's own parser reads.

        Raises
        ------
        InputError
            If it would refuse them.
        """
        options, command = self.engine.options, self.engine.launch.command
        options.parse(command, self.words[len(self.engine.launch.program) :])
        if self.file:
            options.check_file(f"{command.partition(' ')[0]} config", dict(self.file))


def words(arguments: Arguments) -> list[str]:
    """Options and values as the words of a command line; what has no dashes is an argument.

    Examples
    --------
    >>> words({"model": "m/x", "--tp": 8, "--fast": True, "--sizes": [1, 2], "--config": {"k": 1}})
    ['m/x', '--tp', '8', '--fast', '--sizes', '1', '2', '--config', '{"k": 1}']
    """
    listed: list[str] = []
    for name, value in arguments.items():
        named = [name] if name.startswith("-") else []
        listed += [*named, *_values(value)]
    return listed


def _values(value: object) -> Sequence[str]:
    if value is True:
        return ()
    if isinstance(value, Mapping):
        return (json.dumps(value),)
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, str):
        return (value,)
    return (f"{value:g}" if isinstance(value, float) else str(value),)
