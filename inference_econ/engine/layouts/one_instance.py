"""Degrees as people type them, and the size of the instance that they may contradict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inference_econ.engine.layouts.pins import ANY, Pins
from inference_econ.errors import InputError


def as_setting(name: str, value: object) -> str:
    """A setting as scenarios have it."""
    return f"{name}: {value}"


def instance_pins(
    degrees: Mapping[str, int | str | None],
    instance_gpus: float | None = None,
    *,
    batch: float | None = None,
    dcp: int | None = None,
    write: Callable[[str, object], str] = as_setting,
) -> Pins:
    """Return the pins of degrees as command lines and scenarios have them, and engines' own options.

    Parameters
    ----------
    degrees : mapping of str to int, str or None
        ``tp``, ``pp``, ``dp`` and ``ep``, as far as they are given, as :class:`Pins` has them.
    instance_gpus : float, optional
        Chips of the instance [1].
    batch, dcp
        As :class:`Pins` has them.
    write : callable
        How a message writes a name and its value.

    Raises
    ------
    InputError
        If the degrees alone are an instance of another size.

    Examples
    --------
    >>> instance_pins({"tp": 2}).text
    'tp=2, dp=1, pp=1'
    >>> instance_pins({"tp": 8, "dp": "any"}).text, instance_pins({"ep": 8}, 16).text
    ('tp=8, pp=1', 'ep=8, accelerators=16')
    """
    degrees_set = {name: value for name, value in degrees.items() if value is not None}
    pins = Pins(**degrees_set, batch=batch, accelerators=instance_gpus, dcp=dcp)  # type: ignore[arg-type]
    if instance_gpus is not None and pins.complete and pins.chips != instance_gpus:
        raise InputError(_contradiction(degrees_set, pins.chips, instance_gpus, write), option=next(iter(degrees_set)))
    return pins


def _contradiction(
    given: Mapping[str, object], chips: int, instance_gpus: float, write: Callable[[str, object], str]
) -> str:
    named = ", ".join(write(name, value) for name, value in given.items())
    left = [name for name in ("dp", "pp", "tp") if name not in given]
    opened = f", or open a degree that is 1 unless it is given: {write(left[0], ANY)}" if left else ""
    size = write("instance_gpus", f"{instance_gpus:g}")
    return f"{named} is an instance of {chips}, which contradicts {size}; leave one of them out{opened}"
