"""One instance of an engine, ready to be started: its options, and the file that it reads."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from inference_econ.engine import Speculation, attention_groups, memory, needed_memory
from inference_econ.errors import InputError
from inference_econ.inputs import EngineLaunch, EngineOptions, catalog
from inference_econ.serving import Service

#: Steps in which sequences are captured: 1, 2, 4, 8, then eights up to 256, then sixteens [1].
_EIGHTS, _SIXTEENS = 256, 16


@dataclass(frozen=True, slots=True)
class Room:
    """Parts of the memory of one accelerator that are taken before the first request comes [B]."""

    total: float
    """All of it [B]."""
    usable: float
    """Room for weights, workspace and cache [B]."""
    weights: float
    """Weights [B]."""
    workspace: float
    """Activations of the largest step, and what the engine reserves [B]."""
    request: float
    """Cache of one request of the greatest length [B]."""
    graphs: float
    """Captured graphs, outside the usable memory [B]."""

    @property
    def cache(self) -> float:
        """Room that is left for the cache [B]."""
        return self.usable - self.weights - self.workspace

    @property
    def text(self) -> str:
        """The parts in words."""
        parts = {"weights": self.weights, "workspace": self.workspace, "cache": self.cache, "graphs": self.graphs}
        listed = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items())
        return f"GB of each of {self.total / 1e9:.0f}: {listed}"


def captured(sequences: int) -> int:
    """Graphs of decode steps that an engine captures up to a number of sequences [1].

    Examples
    --------
    >>> captured(1), captured(8), captured(512)
    (1, 4, 51)
    """
    small = sum(size <= sequences for size in (1, 2, 4))
    return small + min(sequences, _EIGHTS) // 8 + max(sequences - _EIGHTS, 0) // _SIXTEENS


def room(service: Service, tokens: int, graph_bytes: float) -> Room:
    """Memory that an instance needs to start.

    Parameters
    ----------
    service : Service
        The instance.
    tokens : int
        Prompt and answer of the longest request [tokens].
    graph_bytes : float
        Memory of one captured graph [B].
    """
    hbm, share = service.setup.hardware.hbm_bytes, service.setup.assumptions.capacity.usable_memory
    graphs = graph_bytes * captured(sequences_of_a_group(service))
    usable = min(hbm * share, hbm - graphs)
    full = replace(service.plans, batch=np.array([float(service.slots)]))
    needed = needed_memory(service.setup, full, service.speculation)
    held, workspace = (
        float(np.ravel(value)[0]) / service.accelerators for value in (needed.weight_bytes, needed.workspace_bytes)
    )
    # The workspace is of one accelerator already, times their number.
    kept = float(np.ravel(memory.reserved_bytes(full, service.setup.assumptions.capacity))[0])
    return Room(hbm, usable, held, workspace + kept, _request_bytes(service, tokens), graphs)


def sequences_of_a_group(service: Service) -> int:
    """Requests that each group of attention ranks has at a time, at most [1]."""
    return math.ceil(service.slots / groups(service))


def groups(service: Service) -> int:
    """Groups of attention ranks with sequences of their own [1]."""
    return int(np.ravel(attention_groups(service.plans, service.setup.assumptions.layout))[0])


def _request_bytes(service: Service, tokens: int) -> float:
    """Cache of one request on each accelerator of the group that has it [B]."""
    setup = replace(service.setup, context=float(tokens), spread=0.0, shared_prefix=0.0)
    stages = float(service.plans.pp[0]) if setup.assumptions.capacity.kv == "micro_batch" else 1.0
    lone = replace(service.plans, batch=np.array([groups(service) * stages]))
    needed = needed_memory(setup, lone, service.speculation)
    return float(np.ravel(needed.kv_bytes)[0]) / service.accelerators


def check(service: Service, needed: Room, tokens: int) -> None:
    """Refuse an instance that would not start.

    Raises
    ------
    InputError
        If weights and the cache of one longest request do not fit, with what would.
    """
    if needed.cache >= needed.request:
        return
    most = bisect_right(range(tokens), needed.cache, key=lambda length: _request_bytes(service, length)) - 1
    gigabytes = {"weights": needed.weights, "workspace": needed.workspace, "graphs": needed.graphs}
    taken = ", ".join(f"{name} {value / 1e9:.1f} GB" for name, value in gigabytes.items())
    remedy = (
        f"at most {most} tokens fit (--max-model-len {most})" if most > 0 else "no request fits; take more accelerators"
    )
    raise InputError(
        f"would not start: a request of {tokens} tokens needs {needed.request / 1e9:.1f} GB of cache on each "
        f"{service.setup.hardware.name}, and {max(needed.cache, 0.0) / 1e9:.1f} GB are left of "
        f"{needed.usable / 1e9:.1f} GB ({taken}): {remedy}"
    )


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
class LaunchEngine:
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
class LaunchDegrees:
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
    def of(cls, service: Service) -> LaunchDegrees:
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
class InstanceLimits:
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
    def of(cls, service: Service, engine: LaunchEngine, role: Role, longest: int | None = None) -> InstanceLimits:
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
        # Templates and tokenizers add some tokens to those that were asked for.
        asked = math.ceil(requests.longest)
        roomy = asked + max(_LEAST_ROOM, math.ceil(_ROOM * asked))
        tokens = longest or (roomy if most is None else min(roomy, most))
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

    engine: LaunchEngine
    service: Service
    model: str
    limits: InstanceLimits
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


#: Options, and what the configuration file holds.
Told = tuple[dict[str, Any], dict[str, Any]]


def priced(service: Service, role: Role) -> int:
    """Decode steps that an instance was priced to hold a prompt back for at most [1].

    Instances with one group have nothing to wait for, and pools either read or decode.
    """
    return round(service.setup.held_steps) if groups(service) > 1 and role == "both" else 0


def told(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """Options and keys of the file that make an engine hold prompts back; none where it cannot.

    Parameters
    ----------
    engine : Engine
        What shall do it.
    steps : int
        Decode steps at most [1]; 0 for not at all.
    stages : int
        Pipeline stages of the instance [1].
    speculation : Speculation or None
        Who proposes tokens.
    """
    telling = _TELLING.get(engine.name)
    return ({}, {}) if telling is None or not steps else telling(engine, steps, stages, speculation)


def remark(instance: Instance) -> str | None:
    """Remark on an instance that holds no prompts back though that was priced."""
    service, steps = instance.service, priced(instance.service, instance.role)
    if not steps or any(told(instance.engine, steps, LaunchDegrees.of(service).pp, service.speculation)):
        return None
    return (
        f"groups do not hold prompts back for each other, which {instance.engine.label} cannot do in this deployment; "
        f"up to {steps} steps of it were priced: ask again with --set assumptions.serving.held_steps=0"
    )


def _sglang(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """Its scheduler asserts that steps overlap (``managers/prefill_delayer.py``), which pipelines and speculation end.

    Speculation of n-grams does in all versions, that of heads in those that do not overlap rounds by default.
    """
    if engine.first("--enable-prefill-delayer") is None or stages > 1 or speculation is not None:
        return {}, {}
    return {"--enable-prefill-delayer": True, "--prefill-delayer-max-delay-passes": steps}, {}


def _trtllm(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """All that have come are read as soon as every group has one: no further wait for more of them was priced."""
    del stages, speculation
    if not engine.options.has("trtllm-serve config", "attention_dp_config.enable_balance"):
        return {}, {}
    return {}, {"attention_dp_config": {"enable_balance": True, "timeout_iters": steps, "batching_wait_iters": 0}}


#: Engines that can; vLLM has nothing of it.
_TELLING: Mapping[str, Callable[[LaunchEngine, int, int, Speculation | None], Told]] = {
    "sglang": _sglang,
    "trtllm": _trtllm,
}

#: Ports that machines of an instance meet at [1].
_MEETING, _DATA_PARALLEL = 29500, 13345


@dataclass(frozen=True, slots=True)
class InstanceMachine:
    """One machine of an instance.

    Attributes
    ----------
    rank : Expanded
        Its number among them, from 0, or what a shell makes that number of.
    leader : Expanded
        Address of the first.
    """

    rank: Expanded
    leader: Expanded


def machines(instance: Instance, size: int) -> int:
    """Machines of a size that an instance needs [1].

    Raises
    ------
    InputError
        If it does not fill them, or the engine is not started on several.
    """
    if instance.accelerators <= size:
        return 1
    if instance.accelerators % size:
        raise InputError(
            f"an instance of {instance.accelerators} accelerators does not fill machines of {size} (--gpus-per-node)",
            option="gpus_per_node",
        )
    if instance.engine.name not in ("vllm", "sglang"):
        how = " by MPI" if instance.engine.name == "trtllm" else ""
        raise InputError(
            f"{instance.engine.label} starts instances over several machines{how}, which is not written here; take "
            f"an instance of at most {size} accelerators"
        )
    instance.engine.options.parse(
        instance.engine.launch.command,
        [
            *words(instance.arguments),
            *commands_per_machine(instance, size, InstanceMachine(Expanded("0"), Expanded("leader"))),
        ],
    )
    return instance.accelerators // size


def commands_per_machine(instance: Instance, size: int, machine: InstanceMachine) -> list[str]:
    """Words for one machine of an instance that has several."""
    count = instance.accelerators // size
    if instance.engine.name == "sglang":
        address = {"--dist-init-addr": Expanded(f"{machine.leader}:{_MEETING}")}
        return words({"--nnodes": count, "--node-rank": machine.rank, **address})
    degrees = LaunchDegrees.of(instance.service)
    local, rest = divmod(size, degrees.tp * degrees.pp)
    if degrees.dp > 1 and not rest:
        # vLLM's data-parallel ranks of one machine.
        ranks = {
            "--data-parallel-size-local": local,
            "--data-parallel-start-rank": Expanded("0" if machine.rank == "0" else f"$(({machine.rank} * {local}))"),
            "--data-parallel-address": machine.leader,
            "--data-parallel-rpc-port": _DATA_PARALLEL,
        }
        return words(ranks)
    return words({"--nnodes": count, "--node-rank": machine.rank, "--master-addr": machine.leader})


def headless(instance: Instance, rank: str) -> str | None:
    """Option that tells vLLM on all machines but the first to listen to nobody; nothing for other engines."""
    return f'$([ "{rank}" = 0 ] || echo --headless)' if instance.engine.name == "vllm" else None
