"""From seconds to dollars (floor 5)."""

from __future__ import annotations

from inference_econ.errors import InputError
from inference_econ.spec.hardware import HardwareSpec, Price


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
