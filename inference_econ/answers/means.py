"""What there is to serve with: a number of chips, or money."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from inference_econ.engine import Setup
from inference_econ.errors import InputError


@dataclass(frozen=True, slots=True)
class Means:
    """A number of chips, or a budget.

    Attributes
    ----------
    accelerators : int or None
        Chips, those of machines that are not full included [1].
    dollars_per_hour : float or None
        The whole bill at most [USD/h].

    Raises
    ------
    InputError
        If both or none is given, or one is not positive.
    """

    accelerators: int | None = None
    dollars_per_hour: float | None = None

    def __post_init__(self) -> None:
        """Refuse what says nothing."""
        named = [value for value in (self.accelerators, self.dollars_per_hour) if value is not None]
        if len(named) != 1:
            raise InputError("give either a number of GPUs or a budget per hour, not both and not none")
        if not 0 < named[0] < math.inf:
            raise InputError(f"the number of GPUs, or the budget per hour, must be positive, got {named[0]:g}")

    def allow(self, accelerators: float, dollars_per_hour: float) -> bool:
        """Whether so many rented chips [1] of such a bill [USD/h] are not too many."""
        if self.accelerators is not None:
            return accelerators <= self.accelerators
        return self.dollars_per_hour is not None and dollars_per_hour <= self.dollars_per_hour * (1.0 + 1e-9)

    def most_accelerators(self, setup: Setup) -> int:
        """Chips of one kind that they are enough for [1]."""
        if self.accelerators is not None:
            return self.accelerators
        assert self.dollars_per_hour is not None
        return math.floor(self.dollars_per_hour / setup.dollars_per_accelerator_hour * (1.0 + 1e-9))

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
        return f"${self.dollars_per_hour:,.2f} per hour"
