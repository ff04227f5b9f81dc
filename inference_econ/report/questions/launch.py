"""Scripts that start one instance of a deployment, and hold it to account."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from inference_econ.answers.deployments.service_record import layout_of
from inference_econ.answers.launching import instance as holding
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.instance import (
    CONFIG,
    Expanded,
    Instance,
    InstanceMachine,
    commands_per_machine,
    headless,
    machines,
)
from inference_econ.answers.launching.plan import UNITS, Expected, LaunchPlan, Start
from inference_econ.engine import node
from inference_econ.inputs import yaml_text
from inference_econ.report.service import fleet_label

if TYPE_CHECKING:
    from jinja2 import Environment

#: Longest line of a remark.
_WIDTH = 110
_ROUTER = (
    "a router sends each prompt to the one and then to the other (--as llm-d and --as dynamo bring one), and is",
    "told to the load generator: ROUTER=http://HOST:PORT sh launch.sh bench",
)
#: Where the load generator finds it.
_ROUTED = Expanded("${ROUTER:?write the address of the router, ROUTER=http://HOST:PORT}")
#: Ports on which instances of vLLM, and of SGLang, agree on caches that travel; the first ones on a machine.
SIDE_CHANNEL, _BOOTSTRAP = 5600, 8998
#: What the words behind the name of a script say: which instance, from 0; which of its machines; where the first is.
_NUMBER, _RANK, _LEADER = "${2:-0}", Expanded("${3:-0}"), Expanded("${4:-localhost}")


@cache
def templates() -> Environment:
    """The templates of the package; a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("inference_econ.report")
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Case of the script: one word behind its name, and what it does."""

    name: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()


def start_script(start: Start, to: str | None = None) -> str:
    """The script of a deployment that an answer chose.

    Parameters
    ----------
    start : Start
        The deployment.
    to : str, optional
        Engine; by default the one that it was predicted of.

    Raises
    ------
    InputError
        If the engine is not known to start it.
    """
    first, engines = start.parts[0].service, str(layout_of(start.parts[-1].service).get("engine", ""))
    named = to or plan.usual_engine(engines) or plan.ENGINES[0]
    plan.check_engine(engines, named, "what was chosen")
    instances = plan.instances(plan.engine(named), start.parts, plan.weights(first, None))
    deployment = LaunchPlan(instances, start.load, start.expected, pick=start.pick, said=start.said)
    return script(deployment, node(first.setup.hardware))


def script(deployment: LaunchPlan, size: int) -> str:
    """A script that starts one instance, or one machine of it, or runs the load generator against it.

    Parameters
    ----------
    deployment : LaunchPlan
        What is started.
    size : int
        Accelerators of a machine [1].

    Raises
    ------
    InputError
        If an instance does not fit whole machines.
    """
    kinds = [_serve(instance, size, deployment.instances[:at]) for at, instance in enumerate(deployment.instances)]
    first = deployment.instances[0]
    address = _ROUTED if deployment.disaggregated else f"http://localhost:{first.engine.launch.port}"
    share = 1.0 if deployment.disaggregated else 1.0 / first.replicas
    bench = deployment.run(address, share)
    usage = " | ".join(f"{kind.name} [NUMBER [RANK LEADER]]" for kind in kinds)
    template = templates().get_template("command.sh.j2")
    kinds.append(_Kind("bench", command_text(bench.words)))
    router = _ROUTER if deployment.disaggregated else ()
    return template.render(remarks=[*launch_comments(deployment), *router], kinds=kinds, usage=f"{usage} | bench")


def _serve(instance: Instance, size: int, earlier: Sequence[Instance]) -> _Kind:
    """Case that starts one instance, or one machine of it, behind earlier ones that share its machines."""
    # Instances of other roles on the same chips are numbered before this one: how many there are, and how many
    # instances of this size would take up as many accelerators.
    sharers = [other for other in earlier if other.service.setup.hardware == instance.service.setup.hardware]
    each, ahead = instance.accelerators, sum(other.replicas for other in sharers)
    places = -(-sum(other.replicas * other.accelerators for other in sharers) // each)

    def numbered(first: int) -> str:
        """A port of its own for each instance of a machine."""
        return str(first + ahead) if instance.replicas == 1 else Expanded(f"$(({first + ahead} + {_NUMBER}))")

    count, sharing = machines(instance, size), size // each
    address = ["--host", "0.0.0.0", "--port", numbered(instance.engine.launch.port)]
    bootstrap = instance.engine.first("--disaggregation-bootstrap-port")
    if instance.role == "prefill" and bootstrap is not None:
        address += [bootstrap, numbered(_BOOTSTRAP)]
    several = commands_per_machine(instance, size, InstanceMachine(_RANK, _LEADER)) if count > 1 else []
    flag = headless(instance, _RANK) if count > 1 else None
    text = command_text((*instance.words, *several, *address)) + (f" \\\n    {flag}" if flag else "")
    # The first accelerator of an instance on its machine, as shell arithmetic.
    first = f"{each} * (({_NUMBER} + {places}) % {sharing})" if places else f"{_NUMBER} % {sharing} * {each}"
    before = []
    if count == 1 and instance.replicas + places > 1 and sharing > 1:
        before = [
            f"# {sharing} instances share a machine of {size} accelerators; NUMBER counts all of them from 0.",
            *([f"# Instances of the other role take the first {places * each}."] if places else []),
            f"CUDA_VISIBLE_DEVICES=$(seq -s, $(({first})) $(({first} + {each - 1})))",
            "export CUDA_VISIBLE_DEVICES",
        ]
    if "--kv-transfer-config" in instance.arguments:
        # Instances of vLLM find those of the other role, each rank on a port of its own.
        port = f"$(({SIDE_CHANNEL} + {first}))" if size > each else f"{SIDE_CHANNEL}"
        before += [
            "export VLLM_NIXL_SIDE_CHANNEL_HOST=\"${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -I | cut -d' ' -f1)}\"",
            f"export VLLM_NIXL_SIDE_CHANNEL_PORT={port}",
        ]
    return _Kind("serve" if instance.role == "both" else instance.role, text, files(instance), before)


def files(instance: Instance) -> dict[str, str]:
    """The files that an instance reads, by name."""
    return {CONFIG: yaml_text(instance.file)} if instance.file else {}


def command_text(words: Iterable[str]) -> str:
    """A command line with each option on a line of its own, as a shell reads it."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and len(word) > 2 and lines[-1]:
            lines.append([])
        lines[-1].append(shell_word(word))
    return " \\\n    ".join(" ".join(line) for line in lines)


def shell_word(word: str) -> str:
    """A word as a shell reads it: letter by letter, but for those that it is to expand."""
    return f'"{word}"' if isinstance(word, Expanded) else shlex.quote(word)


def launch_comments(deployment: LaunchPlan) -> list[str]:
    """Comments on a deployment: its parts, its needs and its predictions, in lines."""
    lines = [f"inference-econ {metadata.version('inference-econ')}: {deployment.engine.label}"]
    if deployment.pick:
        lines.append(f"picked: {deployment.pick}")
    for instance in deployment.instances:
        role = "" if instance.role == "both" else f"{instance.role}: "
        room = instance.limits.room
        lines.append(f"{role}{fleet_label(instance.service, instance.replicas)}; {instance.model}")
        parts = {"weights": room.weights, "workspace": room.workspace, "cache": room.cache, "graphs": room.graphs}
        filled = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items())
        longest = f"{instance.limits.tokens} tokens has {room.request / 1e9:.2f}"
        lines.append(f"{role}GB of each of {room.total / 1e9:.0f}: {filled}; one request of {longest}")
    replicas = deployment.instances[0].replicas
    share = f", {replicas} instances" if replicas > 1 and not deployment.disaggregated else ""
    lines.append(f"predicted at {deployment.load.text}{share} (80 % of measured values lie in the intervals):")
    lines += [f"  {expected_label(expected)}" for expected in deployment.expected]
    lines += notes(deployment)
    # Names come from files of strangers: whatever a reader takes for the end of a line, it is none of the comment's.
    whole = [" ".join(line.splitlines()) for line in lines]
    wrap = textwrap.TextWrapper(_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return [part for line in whole for part in wrap.wrap(line)]


def expected_label(expected: Expected) -> str:
    """A predicted number with its interval and its SLO.

    Examples
    --------
    >>> expected_label(Expected("throughput", "mean", 25_000.0))
    'output tokens/s 25000'
    >>> expected_label(Expected("ttft", "p50", 0.1123, 0.0537, 1.16))
    'TTFT p50 112.3 (53.7 to 1160) ms'
    """
    _, unit, factor = UNITS[expected.measure]

    def shown(value: float) -> str:
        number = factor * value
        return f"{number:.4g}" if number < 1e3 else f"{number:.0f}"

    between = ""
    if expected.low is not None and expected.high is not None:
        between = f" ({shown(expected.low)} to {shown(expected.high)})"
    promised = "" if expected.promised is None else f", promised {shown(expected.promised)}"
    return f"{expected.name} {shown(expected.value)}{between}{' ' if unit else ''}{unit}{promised}"


def unlinked(instances: Sequence[Instance], size: int) -> tuple[str, ...]:
    """Remark on instances that were predicted with a fast link over more accelerators than machines of a size have."""
    linked = max(
        min(instance.accelerators, chip.link_domain, node(chip))
        for instance in instances
        for chip in [instance.service.setup.hardware]
    )
    if linked <= size:
        return ()
    return (
        f"predicted with one fast link between {linked} accelerators, which machines of {size} do not have between "
        f"them: ask again with --set hardware.link_domain={size}",
    )


def notes(deployment: LaunchPlan) -> list[str]:
    """Remarks on where a run differs from the prediction."""
    remarks, instance = [*deployment.said], deployment.instances[0]
    service, tokens = instance.service, instance.limits.tokens
    if deployment.asked is not None and service.speculation is None:
        remarks.append("nobody proposes tokens: under this load that does not pay, and the prediction is without it")
    if (unheld := holding.remark(instance)) is not None:
        remarks.append(unheld)
    requests, model, generator = service.requests, service.setup.model, deployment.generator
    if requests.longest > tokens:
        why = f", which {model.name} is made for," if tokens == model.max_context else ""
        remarks.append(
            f"requests of more than {tokens} tokens{why} are refused; some have {requests.longest:.0f} or more"
        )
    elif "lognormal" in (requests.isl.kind, requests.osl.kind):
        remarks.append(
            f"one prompt or answer in a thousand is longer than {tokens} tokens leave room for, and is refused"
        )
    varied = [length for length in (requests.isl, requests.osl) if length.scv > 0.0]
    if generator == "vllm" and any(length.kind != "uniform" for length in varied):
        remarks.append("the load generator draws lengths evenly around their means, none of twice the mean or more")
    elif generator != "vllm" and varied:
        remarks.append("the load generator draws normal lengths, with the means and deviations of those predicted")
    if requests.cached > requests.shared_prefix and not requests.longest_turn and generator != "guidellm":
        remarks.append("what is cached of a prompt is the same in all prompts of the run, which caches hold once")
    if requests.cached and generator == "guidellm":
        remarks.append("prompts of the run have nothing in common, so that nothing of them is cached")
    return remarks
