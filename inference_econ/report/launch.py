"""What one types to start a deployment, and to hold it to account: a script for one instance."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from inference_econ.answers.launching import holding, plan
from inference_econ.answers.launching.benchmark import simplified
from inference_econ.answers.launching.instance import CONFIG, Expanded, Instance
from inference_econ.answers.launching.machines import Machine, headless, machines, told
from inference_econ.answers.launching.plan import Deployment, Start
from inference_econ.answers.service_record import layout_of
from inference_econ.engine import node
from inference_econ.inputs import yaml_text
from inference_econ.report.service import fleet_label

if TYPE_CHECKING:
    from jinja2 import Environment

#: Longest line of a remark.
_WIDTH = 110
_ROUTER = (
    "a router sends prompts to the one and then to the other, and bench to it: --as llm-d and --as dynamo bring one"
)
#: What the words behind the name of a script say: which instance, from 0; which of its machines; where the first is.
_NUMBER, _RANK, _LEADER = "${2:-0}", Expanded("${3:-0}"), Expanded("${4:-localhost}")


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


def started(start: Start, to: str | None = None) -> str:
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
    deployment = Deployment(instances, start.load, start.expected, pick=start.pick, said=start.said)
    return script(deployment, node(first.setup.hardware))


def script(deployment: Deployment, size: int) -> str:
    """A script that starts one instance, or one machine of it, or runs the load generator against it.

    Parameters
    ----------
    deployment : Deployment
        What is started.
    size : int
        Accelerators of a machine [1].

    Raises
    ------
    InputError
        If an instance does not fit whole machines.
    """
    kinds = [_serve(instance, size) for instance in deployment.instances]
    first = deployment.instances[0]
    address = f"http://localhost:{first.engine.launch.port}"
    share = 1.0 if deployment.disaggregated else 1.0 / first.replicas
    bench = deployment.run(address, share)
    usage = " | ".join(f"{kind.name} [NUMBER [RANK LEADER]]" for kind in kinds)
    template = templates().get_template("command.sh.j2")
    kinds.append(_Kind("bench", command_text(bench.words)))
    router = [_ROUTER] if deployment.disaggregated else []
    return template.render(remarks=[*remarks(deployment), *router], kinds=kinds, usage=f"{usage} | bench")


def _serve(instance: Instance, size: int) -> _Kind:
    """How one instance, or one machine of it, is started."""
    name = "serve" if instance.role == "both" else instance.role
    count, port = machines(instance, size), instance.engine.launch.port
    address = [
        "--host",
        "0.0.0.0",
        "--port",
        Expanded(f"$(({port} + {_NUMBER}))") if instance.replicas > 1 else str(port),
    ]
    several = told(instance, size, Machine(_RANK, _LEADER)) if count > 1 else []
    flag = headless(instance, _RANK) if count > 1 else None
    words = (*instance.words, *several, *address)
    text = command_text(words) + (f" \\\n    {flag}" if flag else "")
    return _Kind(name, text, files(instance), _devices(instance, size) if count == 1 else ())


def files(instance: Instance) -> dict[str, str]:
    """The files that an instance reads, by name."""
    return {CONFIG: yaml_text(instance.file)} if instance.file else {}


def _devices(instance: Instance, size: int) -> list[str]:
    """Which accelerators of its machine the instance with a number gets, where there are several."""
    count, per_replica = instance.accelerators, size // instance.accelerators
    if instance.replicas == 1 or per_replica == 1:
        return []
    first = f"$(({_NUMBER} % {per_replica} * {count}))"
    last = f"$(({_NUMBER} % {per_replica} * {count} + {count - 1}))"
    return [
        f"# {per_replica} instances share a machine of {size} accelerators; NUMBER counts all of them from 0.",
        f"CUDA_VISIBLE_DEVICES=$(seq -s, {first} {last})",
        "export CUDA_VISIBLE_DEVICES",
    ]


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


def remarks(deployment: Deployment) -> list[str]:
    """What a deployment is, what it needs, and what was predicted of it, as lines of comments."""
    lines = [f"inference-econ {metadata.version('inference-econ')}: {deployment.engine.label}"]
    if deployment.pick:
        lines.append(f"picked: {deployment.pick}")
    for instance in deployment.instances:
        role = "" if instance.role == "both" else f"{instance.role}: "
        room = instance.limits.room
        lines.append(f"{role}{fleet_label(instance.service, instance.replicas)}; {instance.model}")
        longest = f"{instance.limits.tokens} tokens has {room.request / 1e9:.2f}"
        lines.append(f"{role}{room.text}; one request of {longest}")
    replicas = deployment.instances[0].replicas
    share = f", {replicas} instances" if replicas > 1 and not deployment.disaggregated else ""
    lines.append(f"predicted at {deployment.load.text}{share} (80 % of measured values lie in the intervals):")
    lines += [f"  {expected.text}" for expected in deployment.expected]
    lines += notes(deployment)
    # Names come from files of strangers: whatever a reader takes for the end of a line, it is none of the comment's.
    whole = [" ".join(line.splitlines()) for line in lines]
    wrap = textwrap.TextWrapper(_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return [part for line in whole for part in wrap.wrap(line)]


def _refused(instance: Instance) -> list[str]:
    """Which of the requests are longer than an instance takes."""
    requests, tokens = instance.service.requests, instance.limits.tokens
    if requests.longest > tokens:
        most = instance.service.setup.model.max_context
        why = f", which {instance.service.setup.model.name} is made for," if tokens == most else ""
        return [f"requests of more than {tokens} tokens{why} are refused; some have {requests.longest:.0f} or more"]
    if "lognormal" in (requests.isl.kind, requests.osl.kind):
        return [f"one prompt or answer in a thousand is longer than {tokens} tokens leave room for, and is refused"]
    return []


def notes(deployment: Deployment) -> list[str]:
    """What a run is not like the prediction in."""
    remarks, instance = [*deployment.said], deployment.instances[0]
    if deployment.asked is not None and instance.service.speculation is None:
        remarks.append("nobody proposes tokens: under this load that does not pay, and the prediction is without it")
    unheld = holding.remark(instance)
    remarks += [] if unheld is None else [unheld]
    remarks += _refused(instance)
    return remarks + simplified(deployment.generator, instance.service.requests)
