"""The option that lets a question take longer than ten minutes, and what is said where it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inference_econ import allow
from inference_econ.errors import InputError, TooMuchError
from inference_econ.inputs.options import request_name

if TYPE_CHECKING:
    import click

#: Options that stand for a parameter of Python; what a command has of them makes its question smaller.
_OPTIONS: Mapping[str, Sequence[str]] = {
    "max_accelerators": ("--max-instance-gpus",),
    "means": ("--gpus", "--budget", "--power-budget"),
    "rows": ("--most",),
    "requests_per_second": ("--rates", "--request-rate"),
}
_YES = "--yes"


def allowed(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Let the rest of a command take as long as it takes."""
    del param
    if value:
        ctx.with_resource(allow())


def refusal(error: TooMuchError, options: Iterable[str]) -> InputError:
    """Return the refusal of a question that is too much work for a command with some options."""
    available = set(options)
    smaller = [option for option in _OPTIONS.get(error.smaller, [f"--{error.smaller}"]) if option in available]
    allowed = f", or add {_YES} to wait for it" if error.seconds is not None and _YES in available else ""
    message = f"{error.work}; reduce {' or '.join(smaller) or error.smaller}{allowed}"
    return InputError(message, request_name(smaller[0]) if smaller else None)
