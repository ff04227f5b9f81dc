"""Launch scripts: start one instance of a deployment, and run the load test."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.launching import instance as launching
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.plan import UNITS, Expected, LaunchPlan, Start
from inference_econ.engine import node
from inference_econ.inputs import yaml_text
from inference_econ.report.service import fleet_label

if TYPE_CHECKING:
    from jinja2 import Environment

#: Maximum length of a comment line [characters].
_WIDTH = 110
_ROUTER = (
    "a router sends each request to a prefill and then to a decode instance (--as llm-d and --as dynamo include",
    "a router); give its address to the load generator: ROUTER=http://HOST:PORT sh launch.sh bench",
)
#: Address of the router, for the load generator.
_ROUTED = launching.Expanded("${ROUTER:?write the address of the router, ROUTER=http://HOST:PORT}")
#: First ports of a machine for the KV-cache transfer of vLLM and SGLang instances.
SIDE_CHANNEL, _BOOTSTRAP = 5600, 8998
#: Arguments of a script: instance from 0, its machine, and the address of the first machine.
_NUMBER, _RANK, _LEADER = "${2:-0}", launching.Expanded("${3:-0}"), launching.Expanded("${4:-localhost}")


@cache
def templates() -> Environment:
    """Environment of the Jinja templates of the package; an undefined name raises an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("inference_econ.report")
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Subcommand of the launch script: name, command, files to write, and lines before the command."""

    name: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()


def start_script(start: Start, to: str | None) -> str:
    """Launch script for the deployment of a result.

    Parameters
    ----------
    start : Start
        Deployment.
    to : str or None
        Engine to launch; None for the predicted engine.

    Raises
    ------
    InputError
        If the engine cannot be launched.
    """
    first, engines = start.parts[0].service, str(layout_of(start.parts[-1].service).get("engine", ""))
    named = to or plan.usual_engine(engines) or plan.ENGINES[0]
    plan.check_engine(engines, named, "the deployment")
    instances = plan.instances(plan.engine(named), start.parts, plan.weights(first, None))
    deployment = LaunchPlan(instances, start.load, start.expected, pick=start.pick, said=start.said)
    return script(deployment, node(first.setup.hardware))


def script(deployment: LaunchPlan, size: int) -> str:
    """Shell script that starts an instance or one machine of an instance, or runs the load generator.

    Parameters
    ----------
    deployment : LaunchPlan
        Launch plan.
    size : int
        Number of GPUs in a machine [1].

    Raises
    ------
    InputError
        If an instance does not fill its machines.
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


def _serve(instance: launching.Instance, size: int, earlier: Sequence[launching.Instance]) -> _Kind:
    """Subcommand that starts one instance or one machine of an instance.

    ``earlier`` has instances of other roles, which are first on shared machines.
    """
    # Instances of other roles on the same GPUs have the first numbers. Count these instances, and convert their GPUs to
    # places of instances of this size.
    sharers = [other for other in earlier if other.service.setup.hardware == instance.service.setup.hardware]
    each, ahead = instance.accelerators, sum(other.replicas for other in sharers)
    places = -(-sum(other.replicas * other.accelerators for other in sharers) // each)

    def numbered(first: int) -> str:
        """Port that is different for each instance on a machine."""
        return str(first + ahead) if instance.replicas == 1 else launching.Expanded(f"$(({first + ahead} + {_NUMBER}))")

    count, sharing = launching.machines(instance, size), size // each
    address = ["--host", "0.0.0.0", "--port", numbered(instance.engine.launch.port)]
    bootstrap = instance.engine.first("--disaggregation-bootstrap-port")
    if instance.role == "prefill" and bootstrap is not None:
        address += [bootstrap, numbered(_BOOTSTRAP)]
    slurm, several = launching.slurm_command(instance, size), list[str]()
    if count > 1 and not slurm:
        several = launching.commands_per_machine(instance, size, launching.InstanceMachine(_RANK, _LEADER))
    flag = launching.headless(instance, _RANK) if count > 1 else None
    text = command_text((*instance.words, *several, *address)) + (f" \\\n    {flag}" if flag else "")
    text = f"{' '.join(slurm)} \\\n    {text}" if slurm else text
    # Index of the first GPU of an instance on its machine, as shell arithmetic.
    first = f"{each} * (({_NUMBER} + {places}) % {sharing})" if places else f"{_NUMBER} % {sharing} * {each}"
    before = [f"# In a Slurm allocation of {count} nodes that share this folder:"] if slurm else []
    if count == 1 and instance.replicas + places > 1 and sharing > 1:
        before = [
            f"# {sharing} instances share a machine of {size} accelerators; NUMBER counts all of them from 0.",
            *([f"# Instances of the other role take the first {places * each}."] if places else []),
            f"CUDA_VISIBLE_DEVICES=$(seq -s, $(({first})) $(({first} + {each - 1})))",
            "export CUDA_VISIBLE_DEVICES",
        ]
    if "--kv-transfer-config" in instance.arguments:
        # A vLLM instance contacts instances of the other role at one port per rank.
        port = f"$(({SIDE_CHANNEL} + {first}))" if size > each else f"{SIDE_CHANNEL}"
        before += [
            "export VLLM_NIXL_SIDE_CHANNEL_HOST=\"${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -I | cut -d' ' -f1)}\"",
            f"export VLLM_NIXL_SIDE_CHANNEL_PORT={port}",
        ]
    return _Kind("serve" if instance.role == "both" else instance.role, text, files(instance), before)


def files(instance: launching.Instance) -> dict[str, str]:
    """Contents of the configuration files that an instance reads, by file name."""
    return {launching.CONFIG: yaml_text(instance.file)} if instance.file else {}


def command_text(words: Iterable[str]) -> str:
    """Command line with one option per line, for a shell."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and len(word) > 2 and lines[-1]:
            lines.append([])
        lines[-1].append(shell_word(word))
    return " \\\n    ".join(" ".join(line) for line in lines)


def shell_word(word: str) -> str:
    """Quote a word for a shell, unless the shell must expand the word."""
    return f'"{word}"' if isinstance(word, launching.Expanded) else shlex.quote(word)


def launch_comments(deployment: LaunchPlan) -> list[str]:
    """Comment lines of the launch script: instances, memory, predictions and notes."""
    lines = [f"inference-econ {metadata.version('inference-econ')}: {deployment.engine.label}"]
    if deployment.pick:
        lines.append(f"selected: {deployment.pick}")
    for instance in deployment.instances:
        role = "" if instance.role == "both" else f"{instance.role}: "
        room = instance.limits.room
        lines.append(f"{role}{fleet_label(instance.service, instance.replicas)}; {instance.model}")
        parts = {"weights": room.weights, "workspace": room.workspace, "cache": room.cache, "graphs": room.graphs}
        filled = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items())
        longest = f"{instance.limits.tokens} tokens takes {room.request / 1e9:.2f} GB"
        lines.append(f"{role}memory per GPU ({room.total / 1e9:.0f} GB): {filled}; a request of {longest}")
    replicas = deployment.instances[0].replicas
    share = f", {replicas} instances" if replicas > 1 and not deployment.disaggregated else ""
    lines.append(f"predicted at {deployment.load.text}{share} (with 80% intervals):")
    lines += [f"  {expected_label(expected)}" for expected in deployment.expected]
    lines += notes(deployment)
    # Names come from untrusted files, so line breaks are removed. A line break would end a comment of the script.
    whole = [" ".join(line.splitlines()) for line in lines]
    wrap = textwrap.TextWrapper(_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return [part for line in whole for part in wrap.wrap(line)]


def expected_label(expected: Expected) -> str:
    """Format a prediction with its 80% interval and its SLO.

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
    promised = "" if expected.promised is None else f", SLO {shown(expected.promised)}"
    return f"{expected.name} {shown(expected.value)}{between}{' ' if unit else ''}{unit}{promised}"


def unlinked(instances: Sequence[launching.Instance], size: int) -> tuple[str, ...]:
    """Note on instances whose prediction assumes a fast link across more GPUs than a machine has."""
    linked = max(
        min(instance.accelerators, chip.link_domain, node(chip))
        for instance in instances
        for chip in [instance.service.setup.hardware]
    )
    if linked <= size:
        return ()
    return (
        f"the prediction assumes fast links between {linked} GPUs, but machines have {size} GPUs and no fast links "
        f"between them: use --set hardware.link_domain={size}",
    )


def notes(deployment: LaunchPlan) -> list[str]:
    """Notes on differences between the load test and the prediction."""
    remarks, instance = [*deployment.said], deployment.instances[0]
    service, tokens = instance.service, instance.limits.tokens
    if deployment.asked is not None and service.speculation is None:
        remarks.append("script and prediction do not use speculation, because it is slower at this load")
    if (unheld := launching.remark(instance)) is not None:
        remarks.append(unheld)
    requests, model, generator = service.requests, service.setup.model, deployment.generator
    if requests.longest > tokens:
        why = f" (the maximum of {model.name})" if tokens == model.max_context else ""
        remarks.append(
            f"the server rejects requests of more than {tokens} tokens{why}; some have {requests.longest:.0f} or more"
        )
    elif "lognormal" in (requests.isl.kind, requests.osl.kind):
        remarks.append(f"the server rejects requests of more than {tokens} tokens, about one prompt or output in 1,000")
    varied = [length for length in (requests.isl, requests.osl) if length.scv > 0.0]
    if generator == "vllm" and any(length.kind != "uniform" for length in varied):
        remarks.append("the load generator samples uniform lengths around each mean, below twice the mean")
    elif generator != "vllm" and varied:
        remarks.append("the load generator samples normal lengths with the predicted means and standard deviations")
    if requests.cached > requests.shared_prefix and not requests.longest_turn and generator != "guidellm":
        remarks.append("in the load test, all prompts have the same cached prefix, which a cache stores once")
    if requests.cached and generator == "guidellm":
        remarks.append("in the load test, prompts share no prefix, so there are no cache hits")
    return remarks
