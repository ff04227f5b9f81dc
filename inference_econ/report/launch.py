"""What one types to start a deployment, and to hold it to account: a script."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from inference_econ.answers.launching.instance import Instance
from inference_econ.answers.launching.plan import Deployment
from inference_econ.errors import InputError
from inference_econ.inputs import yaml_text
from inference_econ.report.service import fleet_label

if TYPE_CHECKING:
    from jinja2 import Environment

#: Longest line of a remark.
_WIDTH = 110
#: The file that an instance of TensorRT-LLM reads.
CONFIG = "engine.yaml"


@cache
def templates() -> Environment:
    """The templates of the package; a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("inference_econ.report"), undefined=StrictUndefined, keep_trailing_newline=True
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one word behind the name of the script does."""

    name: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()


def script(deployment: Deployment) -> str:
    """A script that starts one instance on this machine, or runs the load generator against it.

    Raises
    ------
    InputError
        If an instance needs several machines, or the deployment is disaggregated.
    """
    if deployment.disaggregated:
        raise InputError("prompts and answers on pools of their own need a router: take --as llm-d or --as dynamo")
    (instance,) = deployment.instances
    port = instance.engine.launch.port
    address = f"http://localhost:{port}"
    bench = deployment.run(address, 1.0 / instance.replicas)
    kinds = (
        _Kind("serve", command_text(instance_words(instance)), files(instance), _devices(instance)),
        _Kind("bench", command_text(bench.words)),
    )
    usage = "serve [NUMBER] | bench" if instance.replicas > 1 else "serve | bench"
    return templates().get_template("command.sh.j2").render(remarks=remarks(deployment), kinds=kinds, usage=usage)


def instance_words(instance: Instance) -> tuple[str, ...]:
    """The command line of an instance, with its file and its address."""
    read = ("--config", CONFIG) if instance.file else ()
    return (*instance.words, *read, "--host", "0.0.0.0", "--port", str(instance.engine.launch.port))


def files(instance: Instance) -> dict[str, str]:
    """The files that an instance reads, by name."""
    return {CONFIG: yaml_text(instance.file)} if instance.file else {}


def _devices(instance: Instance) -> list[str]:
    """Which accelerators the instance with a number gets, where there are several."""
    if instance.replicas == 1:
        return []
    count = instance.accelerators
    return [
        f"# Instance NUMBER, from 0, has {count} accelerators of its own; each needs a port of its own on one machine.",
        f"CUDA_VISIBLE_DEVICES=$(seq -s, $((${{2:-0}} * {count})) $((${{2:-0}} * {count} + {count - 1})))",
        "export CUDA_VISIBLE_DEVICES",
    ]


def command_text(words: Iterable[str]) -> str:
    """A command line with each option on a line of its own."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and len(word) > 2 and lines[-1] and not word.startswith("-m"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n    ".join(" ".join(line) for line in lines)


def remarks(deployment: Deployment) -> list[str]:
    """What a deployment is, what it needs, and what was predicted of it, as lines of comments."""
    lines = [f"inference-econ {metadata.version('inference-econ')}: {deployment.engine.label}"]
    for instance in deployment.instances:
        role = "" if instance.role == "both" else f"{instance.role}: "
        lines.append(f"{role}{fleet_label(instance.service, instance.replicas)}; {instance.model}")
        lines.append(
            f"{role}{instance.limits.room.text}; one request of {instance.limits.tokens} tokens has "
            f"{instance.limits.room.request / 1e9:.2f}"
        )
    replicas = deployment.instances[0].replicas
    share = f", {replicas} instances" if replicas > 1 and not deployment.disaggregated else ""
    lines.append(f"predicted at {deployment.load.text}{share} (80 % of measured values lie in the intervals):")
    lines += [f"  {expected.text}" for expected in deployment.expected]
    lines += notes(deployment)
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="    ") or [""]]


def notes(deployment: Deployment) -> list[str]:
    """What a run is not like the prediction in."""
    said = []
    instance = deployment.instances[0]
    speculation = instance.service.speculation
    if speculation is not None and speculation.shortest != speculation.longest:
        said.append(f"the engine drafts {speculation.longest} tokens in every round; predicted is the best length")
    kinds = {instance.service.requests.isl.kind, instance.service.requests.osl.kind}
    if kinds & {"lognormal", "listed"}:
        said.append("the load generator sends requests of the mean lengths, not of the distribution")
    return said
