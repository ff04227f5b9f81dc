"""Options for the size and the degrees of one instance, the same in every command."""

from __future__ import annotations

from .decorators import apply, option, options

instance_gpus = option("instance_gpus")

#: Degrees that are tried where none is given.
open_degrees = options("tp", "pp", "dp", "ep", "redundant_experts", "dcp")

#: One layout, for commands that look at a single deployment.
degrees = apply(
    option("tp", "count", default=1, show_default=True, help="GPUs that share attention."),
    option("pp", "count", default=1, show_default=True),
    option("dp", "count", default=1, show_default=True),
    option("ep", "count", help="Expert-parallel ranks of a stage; the best that can be started by default."),
    options("redundant_experts", "dcp"),
)

#: Which instances a service may consist of.
largest = options("max_instance_gpus", "pipeline")

layout = apply(open_degrees, instance_gpus, largest)


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"
