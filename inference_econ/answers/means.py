"""What there is to serve with: a number of chips, money, or power."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from inference_econ.engine import Setup, chip_power, power
from inference_econ.errors import InputError, TooLittleError


@dataclass(frozen=True, slots=True)
class Means:
    """A number of chips, a budget, or power.

    Attributes
    ----------
    accelerators : int or None
        Chips, those of machines that are not full included [1].
    dollars_per_hour : float or None
        The whole bill at most [USD/h].
    provisioned_watts : float or None
        Power of the facility at most, boards at their limit [W].

    Raises
    ------
    InputError
        If several or none are given, or one is not positive.
    """

    accelerators: int | None = None
    dollars_per_hour: float | None = None
    provisioned_watts: float | None = None

    def __post_init__(self) -> None:
        """Refuse what says nothing."""
        given = (self.accelerators, self.dollars_per_hour, self.provisioned_watts)
        named = [value for value in given if value is not None]
        if len(named) != 1:
            raise InputError("give one of a number of GPUs, a budget per hour, and a power budget")
        if not 0 < named[0] < math.inf:
            raise InputError(
                f"the number of GPUs, the budget per hour, or the power budget must be positive, got {named[0]:g}"
            )

    def allow(self, accelerators: float, dollars_per_hour: float) -> bool:
        """Whether so many rented chips [1] of such a bill [USD/h] are not too many."""
        if self.accelerators is not None:
            return accelerators <= self.accelerators
        return self.dollars_per_hour is not None and dollars_per_hour <= self.dollars_per_hour * (1.0 + 1e-9)

    def most_accelerators(self, setup: Setup) -> int:
        """Chips of one kind that they are enough for [1]."""
        if self.accelerators is not None:
            return self.accelerators
        if self.provisioned_watts is not None:
            chip = chip_power(setup.hardware)
            if chip is None:
                raise power.no_watts(setup.hardware.name)
            return math.floor(self.provisioned_watts / chip.provisioned_watts * (1.0 + 1e-9))
        assert self.dollars_per_hour is not None
        return math.floor(self.dollars_per_hour / setup.dollars_per_accelerator_hour * (1.0 + 1e-9))

    def of_chip(self, setup: Setup) -> Means:
        """Power as the number of chips of one kind that it is enough for; chips and money as they are.

        Raises
        ------
        TooLittleError
            If it is not enough for one.
        """
        if self.provisioned_watts is None:
            return self
        chips = self.most_accelerators(setup)
        if not chips:
            raise TooLittleError(f"{self.text} is not enough for one {setup.hardware.name}", 1.0)
        return Means(chips)

    def most_instances(self, setup: Setup, accelerators: int) -> int:
        """Instances of so many chips whose machines they are enough for [1]."""
        chips = self.most_accelerators(setup)
        counts = range(1, chips // accelerators + 1)
        return bisect_left(counts, True, key=lambda count: bool(setup.rented(count, accelerators) > chips))

    @property
    def text(self) -> str:
        """The means in words."""
        if self.accelerators is not None:
            return f"{self.accelerators} GPU{'' if self.accelerators == 1 else 's'}"
        if self.provisioned_watts is not None:
            return f"a facility of {self.provisioned_watts / 1e3:,.6g} kW"
        return f"${self.dollars_per_hour:,.2f} per hour"
