"""Limits, command line and configuration file of an engine instance, with the options of each engine."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from inference_econ.engine import (
    Setup,
    Speculation,
    attention_groups,
    groups_share_work,
    has_experts,
    memory,
    needed_memory,
    step_seconds,
)
from inference_econ.errors import InputError
from inference_econ.inputs import (
    EngineLaunch,
    EngineOptions,
    Precision,
    ProposerName,
    ServingEngine,
    catalog,
    head_of,
    practice_of,
)
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
#: Options, and contents of the configuration file.
Written = tuple[dict[str, Any], dict[str, Any]]


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
    version : str
        Version that is started.
    options : EngineOptions
        Options of the engine's commands, of this version or the newest recorded ones.
    launch : EngineLaunch
        Start instructions for the engine.
    named_image : str or None
        Container image that replaces the default image; None for the default.
    """

    name: str
    version: str
    options: EngineOptions
    launch: EngineLaunch
    named_image: str | None = None

    @property
    def label(self) -> str:
        """Name and version of the engine."""
        return f"{self.launch.name} {self.version}"

    @property
    def image(self) -> str:
        """Container image: the image that the user named, else the image of the engine version; may be empty."""
        return self.named_image or (self.launch.image or "").format(version=self.version)

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
        counted = catalog.engine(engine.name).at(engine.version).decoding_in_step_tokens
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


def priced(service: Service, role: Role) -> int:
    """Maximum number of decode steps by which the prediction delays prefill [1].

    It is 0 for prefill instances, decode instances, and instances with one attention-DP rank.
    """
    return round(service.setup.held_steps) if groups(service) > 1 and role == "both" else 0


def told(engine: LaunchEngine, steps: int, stages: int, speculation: Speculation | None) -> Written:
    """Options and configuration keys that make an engine delay prefill until each DP rank has a prompt.

    Options and keys are empty if the engine cannot delay prefill. SGLang delays prefill only with overlapped steps
    (``managers/prefill_delayer.py``), so without a pipeline. N-gram speculation disables the overlap in all versions.
    Draft heads disable the overlap in old versions (``EngineFacts.async_drafts``). TensorRT-LLM could wait for
    more prompts per rank; the prediction does not assume this.

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
    if not steps:
        return {}, {}
    overlaps = speculation is None or (
        speculation.proposer != "ngram" and catalog.engine(engine.name).at(engine.version).async_drafts is True
    )
    if engine.name == "sglang" and stages == 1 and overlaps and engine.first("--enable-prefill-delayer"):
        return {"--enable-prefill-delayer": True, "--prefill-delayer-max-delay-passes": steps}, {}
    if engine.name == "trtllm" and engine.options.has("trtllm-serve config", "attention_dp_config.enable_balance"):
        return {}, {"attention_dp_config": {"enable_balance": True, "timeout_iters": steps, "batching_wait_iters": 0}}
    return {}, {}


def remark(instance: Instance) -> str | None:
    """Note that an engine cannot delay prefill although the prediction assumes a delay; None otherwise."""
    service, steps = instance.service, priced(instance.service, instance.role)
    if not steps or any(told(instance.engine, steps, LaunchDegrees.of(service).pp, service.speculation)):
        return None
    return (
        f"{instance.engine.label} cannot delay prefill in this deployment until all attention-DP groups have a prompt; "
        f"the prediction assumes a delay of up to {steps} steps: use --set assumptions.serving.held_steps=0"
    )


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
    if instance.engine.name not in ("vllm", "sglang", "trtllm"):
        raise InputError(
            f"no command is known that starts {instance.engine.label} on several machines; take an instance of at most "
            f"{size} accelerators"
        )
    if not slurm_command(instance, size):
        machine = InstanceMachine(Expanded("0"), Expanded("leader"))
        given = [*words(instance.arguments), *commands_per_machine(instance, size, machine)]
        instance.engine.options.parse(instance.engine.launch.command, given)
    return instance.accelerators // size


def slurm_command(instance: Instance, size: int) -> list[str]:
    """First words of a command, with which Slurm starts all machines of an instance; empty if it is not needed.

    TensorRT-LLM starts one MPI process per GPU (documentation of trtllm-serve, section on several nodes).
    """
    if instance.engine.name != "trtllm" or instance.accelerators <= size:
        return []
    count = instance.accelerators // size
    return ["srun", f"--nodes={count}", f"--ntasks-per-node={size}", "--mpi=pmix", "trtllm-llmapi-launch"]


def commands_per_machine(instance: Instance, size: int, machine: InstanceMachine) -> list[str]:
    """Options that each machine of an instance needs if the instance spans several machines.

    Raises
    ------
    InputError
        If the engine starts all machines at once.
    """
    if slurm_command(instance, size):
        raise InputError(
            f"{instance.engine.label} starts all machines of an instance at once; take --as command (Slurm) or "
            "--as dynamo",
            option="as",
        )
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


#: Sequences up to which vLLM captures CUDA graphs by default [1].
_VLLM_CAPTURES = 512
#: 16-bit formats, which engines can quantize at load time.
_WIDE = ("bf16", "fp16")
#: Value of the option for an unquantized KV cache in vLLM and SGLang.
_SIXTEEN_BITS = "bfloat16"
#: Command under which the keys of TensorRT-LLM's configuration file are recorded.
_FILE = "trtllm-serve config"


@dataclass(frozen=True, slots=True)
class InstanceRun:
    """Instance for which the options of its engine are written."""

    engine: LaunchEngine
    """Engine that runs the instance."""
    service: Service
    """Predicted service of the instance."""
    limits: InstanceLimits
    """Launch limits of the instance."""
    served: Weights
    """Weights that the instance serves."""
    role: Role = "both"
    """Role of the instance: aggregated, prefill or decode."""

    @property
    def degrees(self) -> LaunchDegrees:
        """Parallelism degrees of the instance."""
        return LaunchDegrees.of(self.service)

    def refused(self, problem: str, option: str) -> InputError:
        """Create the error for degrees that the engine does not support."""
        return InputError(f"{self.engine.label} has no {self.degrees.text}{problem}", option=option)


def written(run: InstanceRun) -> Written:
    """Create the command-line options and the configuration file of an instance.

    Raises
    ------
    InputError
        If the engine does not support the GPU, layout, format or speculation method.
    """
    engine, service, setup = run.engine, run.service, run.service.setup
    if setup.hardware.vendor not in engine.launch.vendors:
        raise InputError(
            f"{engine.label} does not run on {setup.hardware.name}: it has {' and '.join(engine.launch.vendors)}"
        )
    facts = catalog.engine(engine.name).at(engine.version)
    shared = groups_share_work(facts, setup.model, setup.hardware.generation)
    if run.degrees.dp > 1 and not (has_experts(setup.model) or shared):
        raise run.refused(
            " of a dense model: each of its data-parallel ranks is a full replica; use --dp 1, and the plan adds the "
            "replicas",
            "dp",
        )
    _format(run)  # rejects weight formats that the engine cannot make
    arguments, file = _TABLES[engine.name](run)
    delayed = told(engine, priced(service, run.role), run.degrees.pp, service.speculation)
    turns: Written = _turns(run), {}
    for options, keys in (turns, delayed, _kernels(engine, service), _adapters(engine, setup), _of_role(run)):
        arguments, file = arguments | options, file | keys
    return arguments, file


def _kernels(engine: LaunchEngine, service: Service) -> Written:
    """Kernel options from the recipe of the instance; options that the engine version lacks are left out."""
    setup, speculation = service.setup, service.speculation
    proposer, drafts = (None, None) if speculation is None else (speculation.proposer, speculation.longest)
    practice = practice_of(engine.name, setup.model, setup.hardware, setup.precision, proposer, drafts)
    arguments: dict[str, Any] = {}
    file: dict[str, Any] = {}
    for name, value in {} if practice is None else practice.options.items():
        group, _, key = name.partition(".")
        command = engine.launch.command if name.startswith("-") else _FILE
        if not engine.options.has(command, name) or value not in (engine.options.option(command, name).choices or ()):
            continue
        if command == _FILE:
            file.setdefault(group, {})[key] = value
        else:
            arguments[name] = value
    return arguments, file


def _adapters(engine: LaunchEngine, setup: Setup) -> Written:
    """Options for LoRA adapters. The maximum rank is the smallest supported rank that is large enough.

    Raises
    ------
    InputError
        If no rank that the engine supports is large enough.
    """
    wanted = setup.assumptions.adapters
    if not wanted.loras:
        return {}, {}
    slots = engine.first("--max-loras", "--max-loras-per-batch")
    ranks = engine.options.option(engine.launch.command, "--max-lora-rank").choices or (wanted.rank,)
    rank = min((rank for rank in map(int, ranks) if rank >= wanted.rank), default=None)
    if slots is None or rank is None:
        raise InputError(
            f"{engine.label} has no room for adapters of rank {wanted.rank}; its --max-lora-rank is one of "
            f"{', '.join(map(str, ranks))}",
            option="lora_rank",
        )
    targets = {"--lora-target-modules": "all"} if engine.name == "sglang" else {}
    return {"--enable-lora": True, slots: wanted.loras, "--max-lora-rank": rank, **targets}, {}


def _turns(run: InstanceRun) -> dict[str, Any]:
    """Options for two-batch overlap; empty unless the overlap speeds up full prefill or decode steps."""
    engine, service, limits, role = run.engine, run.service, run.limits, run.role
    facts = ServingEngine(engine.name, catalog.engine(engine.name).at(engine.version))
    setup, plans = replace(service.setup, engines=(facts,)), service.plans
    whole = replace(setup, assumptions=setup.assumptions.changed({"network.two_batch_overlap": "never"}))
    groups = attention_groups(plans, setup.assumptions.layout) * plans.pp
    reading = replace(plans, batch=groups * np.ones(1), new_tokens=limits.step_tokens, prefill=True)
    writing = replace(plans, batch=groups * float(limits.sequences))
    steps = {"prefill": [reading], "decode": [writing]}.get(role, [reading, writing])
    if not any(np.min(step_seconds(setup, step)) < np.min(step_seconds(whole, step)) for step in steps):
        return {}
    if engine.name == "sglang":
        # Overlap all steps, with the DeepEP kernels that each phase needs.
        return {"--moe-a2a-backend": "deepep", "--enable-two-batch-overlap": True}
    # vLLM overlaps with DeepEP only; before 0.12 an environment variable selects it. TensorRT-LLM has no such option.
    if engine.name != "vllm" or engine.first("--all2all-backend") is None:
        return {}
    backend = "deepep_low_latency" if role == "decode" else "deepep_high_throughput"
    return {"--all2all-backend": backend, "--enable-dbo": True}


def _of_role(run: InstanceRun) -> Written:
    """Options and configuration keys of a prefill instance or a decode instance; empty for an aggregated instance.

    Raises
    ------
    InputError
        If the engine cannot transfer a KV cache between servers.
    """
    engine, role = run.engine, run.role
    if role == "both":
        return {}, {}
    if engine.name == "vllm":
        # Every instance sends and receives caches; the router selects which.
        return {"--kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}, {}
    if engine.name == "sglang":
        return {"--disaggregation-mode": role, "--disaggregation-transfer-backend": "nixl"}, {}
    if engine.name == "trtllm":
        # Transfer buffers fit the longest request. Prefill runs without the overlap scheduler, which only speeds up
        # decoding.
        ahead = {"disable_overlap_scheduler": True} if role == "prefill" else {}
        transfer = {"backend": "DEFAULT", "max_tokens_in_buffer": run.limits.tokens}
        return {}, {**ahead, "cache_transceiver_config": transfer}
    raise InputError(f"there are no servers of this engine that only {role}; use --aggregated")


def _format(run: InstanceRun) -> str | None:
    """Value of the engine's option for the weight format; None if the checkpoint already has the requested format.

    Raises
    ------
    InputError
        If the engine cannot convert the published weights to this format.
    """
    engine, model, precision = run.engine, run.service.setup.model, run.service.setup.precision
    published = Precision.of(model)
    if run.served.own or precision.of_weights == published.of_weights:
        return None
    quantised = engine.launch.quantised_on_load
    if published.of_weights[0] in _WIDE and len(published.of_weights) == 1 and precision.weights in quantised:
        return quantised[precision.weights]
    named, example = ", ".join(quantised) or "none", " (a GGUF repository)" if engine.name == "llama_cpp" else ""
    raise InputError(
        f"{model.name} is published in {published.weights}, and {engine.label} cannot convert it to "
        f"{precision.weights} while it loads (it converts to: {named}); add --model-id ORGANIZATION/NAME with a "
        f"checkpoint in {precision.weights}{example}",
        option="weights",
    )


def _cache(run: InstanceRun) -> str:
    """Value of the engine's option for the KV-cache format.

    Raises
    ------
    InputError
        If the engine does not support the format.
    """
    kv, names = run.service.setup.precision.kv, run.engine.launch.caches
    if kv not in names:
        raise InputError(f"{run.engine.label} has no cache in {kv}; it has: {', '.join(names)} (--kv)", option="kv")
    return names[kv]


def _told_cache(run: InstanceRun) -> str | None:
    """Value of the KV-cache option of vLLM and SGLang; None if their default ``auto`` gives the predicted format.

    If a quantized checkpoint includes KV-cache scales, ``auto`` would select a narrower format than predicted.
    """
    engine, cache = run.engine, _cache(run)
    if cache != "auto":
        return cache
    if not run.served.own or run.service.setup.precision.weights in _WIDE:
        return None
    choices = engine.options.option(engine.launch.command, "--kv-cache-dtype").choices
    return _SIXTEEN_BITS if choices is None or _SIXTEEN_BITS in choices else None


def _vllm(run: InstanceRun) -> Written:
    """Options of vLLM. Full experts are distributed over all DP x TP ranks, or each expert is split over all ranks."""
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    if degrees.ep not in (1, degrees.stage):
        raise run.refused(
            f": its experts lie on all {degrees.stage} ranks of DP x TP or each is cut over them; use --ep "
            f"{degrees.stage} or --ep 1",
            "ep",
        )
    capturing = engine.first("--max-cudagraph-capture-size", "--cuda-graph-sizes")
    redundant, speculation, speculative = service.setup.assumptions.experts.redundant, service.speculation, None
    if speculation is not None:
        head = {"model": _draft(run, speculation)} if speculation.proposer in _DRAFTED else {}
        method = {"method": _METHODS[speculation.proposer][0], **head}
        speculative = {**method, "num_speculative_tokens": speculation.longest}
    chosen: dict[str | None, Any] = {
        "model_tag": run.served.model,
        "--tensor-parallel-size": degrees.tp,
        "--pipeline-parallel-size": degrees.pp if degrees.pp > 1 else None,
        "--data-parallel-size": degrees.dp if degrees.dp > 1 else None,
        "--decode-context-parallel-size": degrees.dcp if degrees.dcp > 1 else None,
        "--enable-expert-parallel": degrees.ep > 1 or None,
        "--enable-eplb": bool(redundant) or None,
        "--eplb-config": {"num_redundant_experts": redundant} if redundant else None,
        "--quantization": _format(run),
        "--kv-cache-dtype": _told_cache(run),
        "--enable-prefix-caching": bool(service.requests.cached) or None,
        "--max-model-len": limits.tokens,
        "--max-num-seqs": limits.sequences,
        "--max-num-batched-tokens": limits.step_tokens,
        "--gpu-memory-utilization": _down(limits.room.usable / limits.room.total),
        capturing: _captured(limits.sequences) if limits.sequences > _VLLM_CAPTURES else None,
        "--speculative-config": speculative,
    }
    return _given(chosen), {}


def _sglang(run: InstanceRun) -> Written:
    """Options of SGLang: ``--tp-size`` has all ranks of a stage, and attention DP divides them into groups."""
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    capturing = engine.first("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs")
    redundant, speculation = service.setup.assumptions.experts.redundant, service.speculation
    speculative: dict[str | None, Any] = {}
    if speculation is not None:
        algorithm = _METHODS[speculation.proposer][1]
        speculative = {
            "--speculative-algorithm": algorithm,
            "--speculative-draft-model-path": _draft(run, speculation) if speculation.proposer in _DRAFTED else None,
            "--speculative-num-steps": speculation.longest,
            "--speculative-eagle-topk": None if algorithm == "NGRAM" else 1,
            "--speculative-num-draft-tokens": speculation.longest + 1,
        }
    chosen: dict[str | None, Any] = {
        "--model-path": run.served.model,
        "--tp-size": degrees.stage,
        "--pp-size": degrees.pp if degrees.pp > 1 else None,
        "--dp-size": degrees.dp if degrees.dp > 1 else None,
        "--enable-dp-attention": degrees.dp > 1 or None,
        "--ep-size": degrees.ep if degrees.ep > 1 else None,
        "--dcp-size": degrees.dcp if degrees.dcp > 1 else None,
        "--enable-eplb": bool(redundant) or None,
        "--ep-num-redundant-experts": redundant or None,
        "--quantization": _format(run),
        "--kv-cache-dtype": _told_cache(run),
        "--context-length": limits.tokens,
        "--max-running-requests": limits.sequences * degrees.dp,
        "--chunked-prefill-size": limits.step_tokens * degrees.dp,
        "--mem-fraction-static": _down((limits.room.weights + limits.room.cache) / limits.room.total),
        capturing: _captured(limits.sequences),
        **speculative,
    }
    return _given(chosen), {}


#: Names of speculation methods in vLLM and in SGLang.
_METHODS: Mapping[ProposerName, tuple[str, str]] = {
    "mtp": ("mtp", "NEXTN"),
    "ngram": ("ngram", "NGRAM"),
    "eagle": ("eagle3", "EAGLE3"),
    "draft": ("draft_model", "STANDALONE"),
}
#: Speculation methods that need further weights.
_DRAFTED = ("draft", "eagle")


def _trtllm(run: InstanceRun) -> Written:
    """Options of TensorRT-LLM, which does not quantize at load time.

    Attention is split over all ranks of a pipeline stage, or runs data-parallel on each rank.
    """
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    if degrees.dp > 1 and degrees.tp > 1:
        raise run.refused(
            f": its attention is cut over all {degrees.stage} ranks or over none; ask again with --tp {degrees.stage} "
            f"--dp 1 or --tp 1 --dp {degrees.stage}",
            "tp",
        )
    if degrees.dcp > 1:
        raise run.refused("; remove --dcp", "dcp")
    if service.setup.assumptions.experts.redundant:
        raise InputError(
            f"{engine.label} reads the placement of redundant experts from a separate file (moe_config.load_balancer), "
            "which this command does not write; remove --redundant-experts",
            option="redundant_experts",
        )
    if service.speculation is not None and service.speculation.proposer not in _TRTLLM_DECODING:
        decoding = ", ".join(f"--{name}" for name in _TRTLLM_DECODING)
        raise InputError(
            f"{engine.label} is not started with --{service.speculation.proposer} here; it has {decoding}",
            option=service.speculation.proposer,
        )
    left = limits.room.total - limits.room.weights - limits.room.workspace
    chosen: dict[str | None, Any] = {
        "model": run.served.model,
        "--tp_size": degrees.stage,
        "--pp_size": degrees.pp if degrees.pp > 1 else None,
        "--ep_size": degrees.ep if degrees.ep > 1 else None,
        "--max_seq_len": limits.tokens,
        "--max_batch_size": limits.sequences,
        "--max_num_tokens": limits.step_tokens,
        "--kv_cache_free_gpu_memory_fraction": _down(limits.room.cache / left),
    }
    file: dict[str, Any] = {
        "enable_attention_dp": degrees.dp > 1,
        "enable_chunked_prefill": True,
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": limits.sequences},
        "kv_cache_config": {"dtype": _cache(run), **({"enable_block_reuse": True} if service.requests.cached else {})},
    }
    if service.speculation is not None:
        kind, length = _TRTLLM_DECODING[service.speculation.proposer]
        head = {"speculative_model_dir": _draft(run, service.speculation)} if kind == "Eagle" else {}
        file["speculative_config"] = {"decoding_type": kind, length: service.speculation.longest, **head}
    return _given(chosen), file


#: Names of speculation methods in TensorRT-LLM, and of their draft length.
_TRTLLM_DECODING = {
    "mtp": ("MTP", "num_nextn_predict_layers"),
    "ngram": ("NGram", "max_draft_len"),
    "eagle": ("Eagle", "max_draft_len"),
}


def _llama_cpp(run: InstanceRun) -> Written:
    """Options of llama-server, which splits layers or tensors of a GGUF file over GPUs.

    All requests share one KV cache.
    """
    service, degrees, limits = run.service, run.degrees, run.limits
    _check_plain(run)
    if degrees.ep > 1 or (degrees.tp > 1 and degrees.pp > 1):
        raise run.refused(": it cuts layers or tensors, not both; use --tp 1 or --pp 1, and --ep 1", "tp")
    model, room, cache = run.served.model, limits.room, _cache(run)
    file = model.endswith(".gguf")
    tag = "F16" if service.setup.precision.experts == "fp16" else service.setup.precision.experts.upper()
    held = math.floor(room.cache / room.request * limits.tokens)
    on_cpu = service.setup.assumptions.cpu.layers
    chosen: dict[str | None, Any] = {
        "--model" if file else "--hf-repo": model if file else f"{model}:{tag}",
        # llama.cpp counts the output layer as a layer, and places it on the GPU first.
        "--n-gpu-layers": service.setup.model.layers + 1 - on_cpu if on_cpu else "all",
        "--split-mode": None if degrees.stage * degrees.pp == 1 else "tensor" if degrees.tp > 1 else "layer",
        "--ctx-size": min(held, limits.tokens * limits.sequences),
        "--kv-unified": True,
        "--parallel": limits.sequences,
        "--batch-size": limits.step_tokens,
        "--cache-type-k": cache,
        "--cache-type-v": cache,
    }
    return _given(chosen), {}


def _mlx(run: InstanceRun) -> Written:
    """Options of mlx_lm.server, which runs on one Mac and allocates KV caches on demand."""
    _check_plain(run)
    if run.service.accelerators > 1:
        raise InputError(f"{run.engine.label} is started on one Mac here, got {run.degrees.text}", option="tp")
    limits = run.limits
    steps = {"--decode-concurrency": limits.sequences, "--prefill-step-size": limits.step_tokens}
    return {"--model": run.served.model, **steps}, {}


def _check_plain(run: InstanceRun) -> None:
    """Reject speculation and decode-context parallelism for engines that cannot be launched with them."""
    if run.service.speculation is not None or run.degrees.dcp > 1:
        raise InputError(
            f"{run.engine.label} is started without speculation and --dcp here; use --no-speculation",
            option="speculation",
        )


def _draft(run: InstanceRun, speculation: Speculation) -> str:
    """Hugging Face id or path of the draft model or EAGLE head.

    Raises
    ------
    InputError
        If the model has no draft weights, or their location is unknown.
    """
    engine, draft, setup = run.engine, speculation.model, run.service.setup
    if run.served.draft is not None:
        return run.served.draft
    if draft is None:
        head = head_of(engine.name, setup.model, setup.hardware, setup.precision) or setup.model.checkpoint("eagle")
        if head is None:
            raise InputError(
                f"{engine.label} needs the weights of an EAGLE head, and none is known for {setup.model.name}; name it "
                "with --draft-model-id ORGANIZATION/NAME, or use --mtp, --ngram or --draft",
                option="draft_model_id",
            )
        return head
    published = draft.checkpoint()
    if published is None:
        raise InputError(
            f"{draft.name} has no huggingface_id, so {engine.label} cannot load it; name its weights with "
            "--draft-model-id ORGANIZATION/NAME",
            option="draft_model_id",
        )
    return published


def _captured(sequences: int) -> int:
    """Batch of the largest decode step with a CUDA graph [1], which engines pad to a multiple of eight."""
    return max(1, math.ceil(sequences / 8) * 8) if sequences > 8 else sequences


def _down(share: float) -> float:
    """Share of memory, rounded down to three digits [1]."""
    return math.floor(share * 1e3) / 1e3


def _given(chosen: dict[str | None, Any]) -> dict[str, Any]:
    """Remove the options that have no value or are not supported."""
    return {name: value for name, value in chosen.items() if name is not None and value is not None}


_TABLES: Mapping[str, Callable[[InstanceRun], Written]] = {
    "vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm, "llama_cpp": _llama_cpp, "mlx": _mlx,
}  # fmt: skip
