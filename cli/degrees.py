"""Options for the size and the degrees of one instance, the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TypeVar

from inference_econ.errors import NothingFitsError

from .decorators import Choices, apply, option, options

Answer = TypeVar("Answer")

instance_gpus = option("instance_gpus")

#: Degrees that are tried where none is given.
open_degrees = options("tp", "pp", "dp", "ep", "redundant_experts", "dcp")

#: One layout, for commands that look at a single deployment.
degrees = apply(
    option("tp", "count", help="GPUs that share attention; as few as hold it by default."),
    option("pp", "count", default=1, show_default=True),
    option("dp", "count", default=1, show_default=True),
    option("ep", "count", help="Expert-parallel ranks of a stage; the best that can be started by default."),
    options("redundant_experts", "dcp"),
)

#: Which instances a service may consist of.
largest = options("max_instance_gpus", "pipeline")

layout = apply(open_degrees, instance_gpus, largest)


def fewest(choices: Choices, answer: Callable[[Choices], Answer]) -> Answer:
    """The answer for the fewest GPUs that hold the model, where no degree is given; for one GPU and those otherwise.

    Raises
    ------
    NothingFitsError
        If none of the instances that are tried holds it: of 1, 2, 4, .. GPUs of a link domain. That of a single one.
    """
    from inference_econ.inputs import catalog

    if any(choices[name] not in (None, 1) for name in ("tp", "pp", "dp", "ep")) or choices["tp"] is not None:
        return answer({**choices, "tp": choices["tp"] or 1})
    domain = catalog.hardware(choices["hardware"]).link_domain or 1
    sizes = list(takewhile(lambda size: size <= domain, (2**power for power in range(10))))
    first: NothingFitsError | None = None
    for size in sizes:
        try:
            return answer({**choices, "tp": size})
        except NothingFitsError as error:
            first = first or error
    assert first is not None
    raise first


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"
