"""Resource limits: a number of GPUs, a budget or a power limit."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import asdict, dataclass

from inference_econ.engine import Setup, chip_power, power
from inference_econ.errors import InputError


@dataclass(frozen=True, slots=True)
class Means:
    """Limit on GPUs, cost or power.

    Attributes
    ----------
    accelerators : int or None
        Maximum number of GPUs, including idle GPUs of rented machines [1].
    dollars_per_hour : float or None
        Maximum total cost per hour [USD/h].
    provisioned_watts : float or None
        Maximum provisioned power of the facility [W]: its power if all GPUs run at their power limit.

    Raises
    ------
    InputError
        If not exactly one limit is given, or if the limit is not positive.
    """

    accelerators: int | None = None
    dollars_per_hour: float | None = None
    provisioned_watts: float | None = None

    def __post_init__(self) -> None:
        named = [value for value in self._kinds if value is not None]
        if len(named) != 1:
            raise InputError("give one of a number of GPUs, a budget per hour, and a power budget")
        if not 0 < named[0] < math.inf:
            raise InputError(
                f"the number of GPUs, the budget per hour, or the power budget must be positive, got {named[0]:g}"
            )

    @property
    def _kinds(self) -> tuple[float | None, ...]:
        return self.accelerators, self.dollars_per_hour, self.provisioned_watts

    @property
    def amount(self) -> float:
        """Value of the limit plus a rounding tolerance: GPUs [1], cost [USD/h] or power [W]."""
        return next(value for value in self._kinds if value is not None) * (1.0 + 1e-9)

    def taken(self, setup: Setup) -> float:
        """Resources that one GPU uses, in the unit of the limit: 1, its price [USD/h], or its provisioned power [W].

        Raises
        ------
        InputError
            If the limit is a power, and the GPU has no power data.
        """
        if self.accelerators is not None:
            return 1.0
        if self.dollars_per_hour is not None:
            return setup.dollars_per_accelerator_hour
        chip = chip_power(setup.hardware)
        if chip is None:
            raise power.no_watts(setup.hardware.name)
        return chip.provisioned_watts

    def in_words(self, amount: float) -> str:
        """Format an amount of the limited resource as text with its unit."""
        if self.accelerators is not None:
            return f"{amount:.6g} accelerators"
        return f"${amount:,.2f} per hour" if self.dollars_per_hour is not None else f"{amount / 1e3:,.3g} kW"

    def most_accelerators(self, setup: Setup) -> int:
        """Largest number of GPUs of one kind within the limit [1]."""
        return math.floor(self.amount / self.taken(setup))

    def most_instances(self, setup: Setup, accelerators: int) -> int:
        """Largest number of instances of one size within the limit [1]; full machines are rented for the instances."""
        chips = self.most_accelerators(setup)
        counts = range(1, chips // accelerators + 1)
        return bisect_left(counts, True, key=lambda count: bool(setup.rented(count, accelerators) > chips))

    def record(self) -> dict[str, float | None]:
        """Return the limit as plain data."""
        return asdict(self)

    @property
    def text(self) -> str:
        """Describe the limit as text."""
        if self.accelerators is not None:
            return f"{self.accelerators} GPU{'' if self.accelerators == 1 else 's'}"
        if self.provisioned_watts is not None:
            return f"a facility of {self.provisioned_watts / 1e3:,.9g} kW provisioned"
        return f"${self.dollars_per_hour:,.2f} per hour"
