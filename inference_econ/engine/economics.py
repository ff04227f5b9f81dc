"""From seconds to dollars."""

from __future__ import annotations

from inference_econ.errors import InputError
from inference_econ.inputs.hardware import HardwareSpec, Price

#: Prices beyond these are typing errors, and would overflow what is computed from them [USD/h].
_LEAST, _MOST = 1e-9, 1e9


def price(hardware: HardwareSpec) -> Price:
    """The price of a chip that is used when none is given: the first of its file.

    Raises
    ------
    InputError
        If the file lists no price.
    """
    if not hardware.prices:
        raise InputError(
            f"{hardware.name} lists no price; give one, for example --price 2.50 (USD per accelerator and hour)"
        )
    return hardware.prices[0]


def rate(hardware: HardwareSpec, given: float | None) -> float:
    """The price of a chip per hour [USD/h]: the one given, or the first of its file.

    Raises
    ------
    InputError
        If the price is no positive number of a sensible size, or none is known.
    """
    found = price(hardware).dollars_per_accelerator_hour if given is None else given
    if not _LEAST <= found <= _MOST:
        raise InputError(
            f"the price must be a positive number of USD per hour, from {_LEAST:g} to {_MOST:g}, got {found:g}"
        )
    return found
