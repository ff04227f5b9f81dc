"""Kinds of points that a frontier counts: services with the prefill of their requests, or decode steps alone."""

from __future__ import annotations

from inference_econ.errors import InputError
from inference_econ.inputs.options import OPTIONS, counted_by, request_name

from . import options
from .refusals import named_options, refuse

#: Options that mean something for services only.
_SERVICES_ONLY = counted_by("services")
#: Options that mean something for decode steps alone only, and how they are typed.
_DECODE_ONLY = {"every_plan": "--all", **{name: OPTIONS[name].spelled for name in counted_by("decode_steps")}}


def decode_steps(choices: options.Choices) -> bool:
    """Return whether decode steps alone are counted: where that is asked for, and on the published study's grid.

    Raises
    ------
    InputError
        If an option means nothing for what is counted.
    """
    study = choices["grid"] == "paper"
    if choices["decode_only"] or study:
        which = "--decode-only" if choices["decode_only"] else "--grid paper"
        text = f"{{}} is said of services, and {which} counts decode steps alone; leave one of them out"
        refuse(named_options(choices, _SERVICES_ONLY), text)
        return True
    stray = [typed for name, typed in _DECODE_ONLY.items() if choices.get(name) not in (None, False)]
    if stray:
        raise InputError(f"{stray[0]} is said of decode steps alone; add --decode-only", request_name(stray[0]))
    return False
