"""Limits, command line and configuration file of an engine instance."""

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

#: Captured batch sizes: 1, 2, 4, 8, multiples of 8 up to 256, then multiples of 16 [1].
_EIGHTS, _SIXTEENS = 256, 16


@dataclass(frozen=True, slots=True)
class Room:
    """Memory use of one GPU before the first request [B]."""

    total: float
    """Total memory of the GPU [B]."""
    usable: float
    """Memory for weights, workspace and KV cache [B]."""
    weights: float
    """Size of the weights [B]."""
    workspace: float
    """Activations of the largest step, and memory that the engine reserves [B]."""
    request: float
    """KV cache of one request of maximum length [B]."""
    graphs: float
    """Memory of CUDA graphs, which is outside the usable memory [B]."""

    @property
    def cache(self) -> float:
        """Memory that weights and workspace leave for the KV cache [B]."""
        return self.usable - self.weights - self.workspace


def captured(sequences: int) -> int:
    """Number of CUDA graphs that an engine captures for decode steps of at most ``sequences`` sequences [1].

    Examples
    --------
    >>> captured(1), captured(8), captured(512)
    (1, 4, 51)
    """
    small = sum(size <= sequences for size in (1, 2, 4))
    return small + min(sequences, _EIGHTS) // 8 + max(sequences - _EIGHTS, 0) // _SIXTEENS


def room(service: Service, tokens: int, graph_bytes: float) -> Room:
    """Compute the memory of each GPU that an instance uses before the first request.

    Parameters
    ----------
    service : Service
        Instance.
    tokens : int
        Input plus output of the longest request [tokens].
    graph_bytes : float
        Memory of one CUDA graph [B].
    """
    hbm, share = service.setup.hardware.hbm_bytes, service.setup.assumptions.capacity.usable_memory
    graphs = graph_bytes * captured(sequences_of_a_group(service))
    usable = min(hbm * share, hbm - graphs)
    full = replace(service.plans, batch=np.array([float(service.slots)]))
    needed = needed_memory(service.setup, full, service.speculation)
    held, workspace = (
        float(np.ravel(value)[0]) / service.accelerators for value in (needed.weight_bytes, needed.workspace_bytes)
    )
    # Reserved memory is per GPU, unlike the totals above.
    kept = float(np.ravel(memory.reserved_bytes(full, service.setup.assumptions.capacity))[0])
    return Room(hbm, usable, held, workspace + kept, _request_bytes(service, tokens), graphs)


def sequences_of_a_group(service: Service) -> int:
    """Maximum concurrent requests per attention-DP rank [1]."""
    return math.ceil(service.slots / groups(service))


def groups(service: Service) -> int:
    """Number of attention-DP ranks [1]."""
    return int(np.ravel(attention_groups(service.plans, service.setup.assumptions.layout))[0])


def _request_bytes(service: Service, tokens: int) -> float:
    """KV-cache size of one request on each GPU of its attention group [B]."""
    setup = replace(service.setup, context=float(tokens), spread=0.0, shared_prefix=0.0)
    stages = float(service.plans.pp[0]) if setup.assumptions.capacity.kv == "micro_batch" else 1.0
    lone = replace(service.plans, batch=np.array([groups(service) * stages]))
    needed = needed_memory(setup, lone, service.speculation)
    return float(np.ravel(needed.kv_bytes)[0]) / service.accelerators


def check(service: Service, needed: Room, tokens: int) -> None:
    """Reject an instance that would not start for lack of memory.

    Raises
    ------
    InputError
        If the weights and one request of maximum length do not fit; the message has the length that fits.
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


#: Slack that is added to the longest request: a share of its length, and a minimum [1, tokens].
_ROOM, _LEAST_ROOM = 0.05, 64
#: Role of an instance: ``both`` for an aggregated instance, else prefill only or decode only.
Role = Literal["both", "prefill", "decode"]
#: Configuration file of a TensorRT-LLM instance.
CONFIG = "engine.yaml"
#: Options with their values: true for a flag, a list for several values, a mapping for JSON.
Arguments = Mapping[str, Any]


class Expanded(str):
    """Word that the shell of a script expands, such as ``$LWS_LEADER_ADDRESS``.

    All other words of a command line are passed literally, so input cannot inject shell code.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LaunchEngine:
    """Engine at one version, with its options.

    Attributes
    ----------
    name : str
        ``vllm``, ``sglang``, ``trtllm``, ``llama_cpp`` or ``mlx``.
    options : EngineOptions
        Options of the engine's commands.
    launch : EngineLaunch
        Start instructions for the engine.
    named_image : str or None
        Container image that replaces the default image; None for the default.
    """

    name: str
    options: EngineOptions
    launch: EngineLaunch
    named_image: str | None = None

    @property
    def label(self) -> str:
        """Name and version of the engine."""
        return f"{self.launch.name} {self.options.version}"

    @property
    def image(self) -> str:
        """Container image: the image that the user named, else the image of the engine version; may be empty."""
        return self.named_image or (self.launch.image or "").format(version=self.options.version)

    def first(self, *names: str) -> str | None:
        """First of the given options that the engine version supports."""
        return next((name for name in names if self.options.has(self.launch.command, name)), None)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that the instance serves.

    Attributes
    ----------
    model : str
        Hugging Face id, or a path.
    own : bool
        True if the weights are in the requested format, False if the engine must quantize them.
    draft : str or None
        Weights that replace the default weights of a draft model or EAGLE head; None for the default.
    """

    model: str
    own: bool = False
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchDegrees:
    """Parallelism degrees of an instance.

    Attributes
    ----------
    tp, dp, pp, ep, dcp : int
        Degrees of tensor, attention-data, pipeline, expert and decode-context parallelism [1].
    """

    tp: int
    dp: int
    pp: int
    ep: int
    dcp: int

    @property
    def stage(self) -> int:
        """Number of GPUs in a pipeline stage [1]."""
        return self.tp * self.dp

    @classmethod
    def of(cls, service: Service) -> LaunchDegrees:
        """Parallelism degrees of a predicted instance."""
        plans, dp = service.plans, groups(service)
        ep = 1 if plans.ep is None else int(plans.ep[0])
        return cls(int(plans.attention_ranks[0]), dp, int(plans.pp[0]), ep, int(plans.dcp))

    @property
    def text(self) -> str:
        """Parallelism degrees as text, as on the command line."""
        named = {"tp": self.tp, "dp": self.dp, "pp": self.pp, "ep": self.ep, "dcp": self.dcp}
        return "".join(f"{name}{value}" for name, value in named.items() if value > 1 or name == "tp")


@dataclass(frozen=True, slots=True)
class InstanceLimits:
    """Limits that an instance is started with.

    Attributes
    ----------
    tokens : int
        Input plus output of the longest request [tokens].
    sequences : int
        Maximum number of concurrent requests per attention-DP rank [1].
    step_tokens : int
        Maximum number of tokens per step and attention-DP rank [tokens].
    room : Room
        Memory use of each GPU.
    """

    tokens: int
    sequences: int
    step_tokens: int
    room: Room

    @classmethod
    def of(cls, service: Service, engine: LaunchEngine, role: Role, longest: int | None = None) -> InstanceLimits:
        """Compute the limits that allow the request lengths plus some slack, or a given longest request [tokens].

        A request of mean length must be within the model's maximum context. The engine will reject longer requests that
        exceed this context. For workloads with sessions, the concurrency limit is the limit of the simulation.

        Raises
        ------
        InputError
            If the requests exceed the model's maximum context, or the instance would not start with these limits.
        """
        requests, most = service.requests, service.setup.model.max_context
        needed_tokens = longest or math.ceil(requests.isl.mean + requests.osl.mean)
        if most is not None and needed_tokens > most:
            raise InputError(f"{service.setup.model.name} is made for at most {most} tokens, got {needed_tokens}")
        # Chat templates and tokenizers add tokens to the requested lengths.
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
        # The predicted prefill limit excludes decode tokens. Add decode tokens if the engine's limit includes them.
        counted = catalog.engine(engine.name).at(engine.options.version).decoding_in_step_tokens
        decoding = 0 if role == "prefill" or not counted else sequences * (1 + drafted)
        return cls(tokens, sequences, chunk + decoding if role == "both" else max(chunk, decoding), needed)


@dataclass(frozen=True, slots=True)
class Instance:
    """Engine instance with its command line and configuration file.

    Attributes
    ----------
    engine : LaunchEngine
        Engine that runs the instance.
    service : Service
        Predicted service that the instance provides.
    model : str
        Hugging Face id or path of the weights.
    limits : InstanceLimits
        Launch limits of the instance.
    arguments : mapping
        Options with their values, as for the command line.
    file : mapping
        Contents of the engine's configuration file; empty without a file.
    replicas : int
        Number of instances with these options [1].
    role : str
        Role of the instance: aggregated, prefill or decode.
    variant : str
        Text that distinguishes the instance from instances on other GPUs; empty if all GPUs are of one kind.
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
        """Number of GPUs of one instance [1]."""
        return self.service.accelerators

    @property
    def words(self) -> tuple[str, ...]:
        """Words of the command line that starts the instance."""
        option = self.engine.first("--config", "--extra_llm_api_options")
        reading = [option, CONFIG] if self.file and option is not None else []
        return (*self.engine.launch.program, *words(self.arguments), *reading)

    def check(self) -> None:
        """Check the command line and the file against the recorded options of the engine's parser.

        Raises
        ------
        InputError
            If the engine would reject an option.
        """
        options, command = self.engine.options, self.engine.launch.command
        options.parse(command, self.words[len(self.engine.launch.program) :])
        if self.file:
            options.check_file(f"{command.partition(' ')[0]} config", dict(self.file))


def words(arguments: Arguments) -> list[str]:
    """Convert options and values to words of a command line. A name without dashes is a positional argument.

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


#: Command-line options, and contents of the configuration file.
Told = tuple[dict[str, Any], dict[str, Any]]


def priced(service: Service, role: Role) -> int:
    """Maximum number of decode steps by which the prediction delays prefill [1].

    It is 0 for prefill instances, decode instances, and instances with one attention-DP rank.
    """
    return round(service.setup.held_steps) if groups(service) > 1 and role == "both" else 0


def told(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """Options and configuration keys that make an engine delay prefill until each DP rank has a prompt.

    Options and keys are empty if the engine cannot delay prefill.

    Parameters
    ----------
    engine : LaunchEngine
        Engine.
    steps : int
        Maximum delay in decode steps [1]; 0 for no delay.
    stages : int
        Pipeline stages of the instance [1].
    speculation : Speculation or None
        Speculation method.
    """
    telling = _TELLING.get(engine.name)
    return ({}, {}) if telling is None or not steps else telling(engine, steps, stages, speculation)


def remark(instance: Instance) -> str | None:
    """Note that an engine cannot delay prefill although the prediction assumes a delay; None otherwise."""
    service, steps = instance.service, priced(instance.service, instance.role)
    if not steps or any(told(instance.engine, steps, LaunchDegrees.of(service).pp, service.speculation)):
        return None
    return (
        f"{instance.engine.label} cannot delay prefill in this deployment until all attention-DP groups have a prompt; "
        f"the prediction assumes a delay of up to {steps} steps: use --set assumptions.serving.held_steps=0"
    )


def _sglang(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """SGLang options that delay prefill.

    SGLang delays prefill only with overlapped steps (``managers/prefill_delayer.py``), so without a pipeline. N-gram
    speculation disables the overlap in all versions. Draft heads disable the overlap in versions that do not overlap
    speculation by default.
    """
    if engine.first("--enable-prefill-delayer") is None or stages > 1 or speculation is not None:
        return {}, {}
    return {"--enable-prefill-delayer": True, "--prefill-delayer-max-delay-passes": steps}, {}


def _trtllm(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """TensorRT-LLM options: prefill starts when every DP rank has a prompt.

    TensorRT-LLM could wait for more prompts per rank; the prediction does not assume this.
    """
    del stages, speculation
    if not engine.options.has("trtllm-serve config", "attention_dp_config.enable_balance"):
        return {}, {}
    return {}, {"attention_dp_config": {"enable_balance": True, "timeout_iters": steps, "batching_wait_iters": 0}}


#: Engines that can delay prefill; vLLM cannot.
_TELLING: Mapping[str, Callable[[LaunchEngine, int, int, Speculation | None], Told]] = {
    "sglang": _sglang,
    "trtllm": _trtllm,
}

#: Ports over which the machines of an instance connect: in general, and for data-parallel ranks of vLLM [1].
_MEETING, _DATA_PARALLEL = 29500, 13345


@dataclass(frozen=True, slots=True)
class InstanceMachine:
    """One machine of an instance that spans several machines.

    Attributes
    ----------
    rank : Expanded
        Number of the machine, from 0, or a shell expression for this number.
    leader : Expanded
        Address of the first machine.
    """

    rank: Expanded
    leader: Expanded


def machines(instance: Instance, size: int) -> int:
    """Number of machines that an instance needs, for a machine size [1].

    Raises
    ------
    InputError
        If the instance does not fill its machines, or the engine cannot run on several machines.
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
    """Options that each machine of an instance needs if the instance spans several machines."""
    count = instance.accelerators // size
    if instance.engine.name == "sglang":
        address = {"--dist-init-addr": Expanded(f"{machine.leader}:{_MEETING}")}
        return words({"--nnodes": count, "--node-rank": machine.rank, **address})
    degrees = LaunchDegrees.of(instance.service)
    local, rest = divmod(size, degrees.tp * degrees.pp)
    if degrees.dp > 1 and not rest:
        # Data-parallel ranks of one machine (vLLM).
        ranks = {
            "--data-parallel-size-local": local,
            "--data-parallel-start-rank": Expanded("0" if machine.rank == "0" else f"$(({machine.rank} * {local}))"),
            "--data-parallel-address": machine.leader,
            "--data-parallel-rpc-port": _DATA_PARALLEL,
        }
        return words(ranks)
    return words({"--nnodes": count, "--node-rank": machine.rank, "--master-addr": machine.leader})


def headless(instance: Instance, rank: str) -> str | None:
    """Shell text for vLLM that adds ``--headless`` on all machines except the first; None for other engines."""
    return f'$([ "{rank}" = 0 ] || echo --headless)' if instance.engine.name == "vllm" else None
