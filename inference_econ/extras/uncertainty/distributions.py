"""Probability distributions of uncertain inputs, with the names and parameters of scipy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from inference_econ.errors import UnitError
from inference_econ.inputs._spec import TAG, AfterValidator, Discriminator, Spec, Tag
from inference_econ.inputs.units import EXAMPLES, parse_quantity

if TYPE_CHECKING:
    import numpy.typing as npt

#: Keyword for the cross-validation errors of a profile. It can replace a distribution.
HELD_OUT = "held_out"
#: Parameters that may have the unit of the input.
_WITH_UNIT = ("loc", "scale", "low", "high")
#: Probabilities of 0 and 1 are moved inwards by this distance, because a distribution may be infinite there [1].
_EDGE = 1e-9


class Distribution(Spec):
    """Distribution of :mod:`scipy.stats`, given by its name and parameters.

    Example: ``{distribution: lognorm, s: 0.1, scale: 3.35 TB/s}``. The parameters ``loc``, ``scale``, ``low`` and
    ``high`` may have units.
    """

    further = float | int | str

    distribution: str
    """Name of the distribution in :mod:`scipy.stats`: ``lognorm``."""
    relative: bool = False
    """True if samples are factors on the current value [1]; false if they are values."""
    low: float | int | str | None = None
    """Lower bound, at which the distribution is truncated [unit of the value]."""
    high: float | int | str | None = None
    """Upper bound, at which the distribution is truncated [unit of the value]."""

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Parameters of the distribution, as in the file."""
        return {name: value for name, value in self._values().items() if name not in self.fields}

    @property
    def with_units(self) -> Sequence[str]:
        """Parameters that are texts with a unit, as in the file. The unit must belong to the dimension of the input."""
        written = {**self.parameters, "low": self.low, "high": self.high}
        return [text for name in _WITH_UNIT if isinstance(text := written.get(name), str)]

    @property
    def words(self) -> str:
        """Text of the distribution in results.

        Examples
        --------
        >>> Distribution.build({"distribution": "norm", "loc": 1, "scale": 0.1, "low": 0.5}, origin="x").words
        'norm(loc=1, scale=0.1, low=0.5)'
        """
        bounds = {name: value for name, value in (("low", self.low), ("high", self.high)) if value is not None}
        arguments = ", ".join(f"{name}={value}" for name, value in {**self.parameters, **bounds}.items())
        return f"{self.distribution}({arguments})" + (" times the present value" if self.relative else "")

    @cached_property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value [unit of the value]."""
        least, largest = map(float, self._frozen.support())
        low, high = _bare(self.low), _bare(self.high)
        return least if low is None else max(low, least), largest if high is None else min(high, largest)

    def quantiles(self, shares: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Quantiles of the distribution.

        Parameters
        ----------
        shares : array_like
            Probabilities from 0 to 1 [1]. 0 and 1 are moved inwards by 1e-9.

        Returns
        -------
        ndarray
            Quantiles in base units, or factors [1].

        Examples
        --------
        >>> print(Distribution.build({"distribution": "uniform", "loc": 2, "scale": 3}, origin="x").quantiles([0.5]))
        [3.5]
        """
        below, above = self._cut
        inside = below + np.clip(np.asarray(shares, dtype=float), _EDGE, 1.0 - _EDGE) * (above - below)
        values: npt.NDArray[np.float64] = np.asarray(self._frozen.ppf(inside), dtype=float)
        return np.clip(values, *self.support)

    @cached_property
    def _cut(self) -> tuple[float, float]:
        """Probabilities of values below the lower and below the upper bound, without truncation [1]."""
        low, high = _bare(self.low), _bare(self.high)
        below = 0.0 if low is None else float(self._frozen.cdf(low))
        return below, 1.0 if high is None else float(self._frozen.cdf(high))

    @cached_property
    def _frozen(self) -> Any:
        """Distribution object of scipy with its parameters."""
        return _families()[self.distribution](**{name: _bare(value) for name, value in self.parameters.items()})

    def _check_fields(self) -> None:
        self._check_names()
        for name, value in {**self.parameters, "low": self.low, "high": self.high}.items():
            if isinstance(value, str) and name not in _WITH_UNIT:
                raise ValueError(f"{name} is a number without a unit, got {value!r}")
            if isinstance(value, str) and self.relative:
                raise ValueError(f"{name}: a factor on the present value has no unit, got {value!r}")
            if value is not None and not math.isfinite(_bare(value) or 0.0):
                raise ValueError(f"{name} must be finite, got {value!r}")
        self._check_values()

    def _check_names(self) -> None:
        """Reject distributions and parameters that scipy does not have."""
        if self.distribution not in _families():
            raise ValueError(_unknown("continuous distribution of scipy", self.distribution, list(_families())))
        shapes = _families()[self.distribution].shapes
        needed = shapes.split(", ") if shapes else []
        allowed = [*needed, "loc", "scale"]
        for name in self.parameters:
            if name not in allowed:
                raise ValueError(_unknown(f"parameter of {self.distribution}", name, [*allowed, "low", "high"]))
        missing = [name for name in needed if name not in self.parameters]
        if missing:
            raise ValueError(f"{self.distribution} needs {' and '.join(missing)}; its parameters: {', '.join(allowed)}")

    def _check_values(self) -> None:
        """Reject distributions with invalid values."""
        if not math.isfinite(float(self._frozen.ppf(0.5))):
            raise ValueError(f"scipy has no {self.words}: a parameter is outside of what scipy.stats allows")
        least, largest = self.support
        if self._cut[0] >= self._cut[1]:
            raise ValueError(f"no value of {self.words} lies from low to high")
        if least < 0.0:
            raise ValueError(
                f"{self.words} reaches down to {least:g}, and nothing that a question depends on is negative; "
                "set low: 0 or more, or take one of positive values, as lognorm"
            )
        if not self.relative and "scale" not in self.parameters and math.isinf(largest):
            raise ValueError(
                f"{self.words} without a scale is one of about 1; set scale, or relative: true for factors on the "
                "present value"
            )
        if math.isinf(largest) and not math.isfinite(float(self._frozen.var())):
            raise ValueError(f"{self.words} has no finite variance, so that shares of it mean nothing; set high")


def _word(text: str) -> str:
    """Check the keyword for cross-validation errors, which can replace a distribution."""
    if text != HELD_OUT:
        raise ValueError(f"write a mapping, {{distribution: {text}, ...}}, or {HELD_OUT} for the errors of a profile")
    return text


#: Uncertain input: a distribution, or the cross-validation errors of a profile.
UncertainInput = Annotated[
    Annotated[Distribution, Tag(TAG)] | Annotated[str, AfterValidator(_word), Tag("word")],
    Discriminator(lambda value: "word" if isinstance(value, str) else TAG),
]


@lru_cache(maxsize=1)
def _families() -> Mapping[str, Any]:
    """Continuous distributions of scipy by name."""
    from scipy import stats

    return {name: value for name, value in vars(stats).items() if isinstance(value, stats.rv_continuous)}


def _unknown(what: str, name: str, allowed: Sequence[str]) -> str:
    """Error message for an unknown name. The message lists the most similar names."""
    near = difflib.get_close_matches(name, allowed, n=2)
    few = allowed if len(allowed) < 12 else ("lognorm", "norm", "uniform", "triang", "beta", "gamma")
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"allowed: {', '.join(few)}"
    return f"{name!r} is no {what}; {hint}" + ("" if near or few is allowed else " and the others of scipy.stats")


def _bare(value: float | str | None) -> float | None:
    """Convert a number or a quantity with a unit to base units."""
    if value is None or not isinstance(value, str):
        return value
    for unit in EXAMPLES:
        try:
            return parse_quantity(value, unit)
        except UnitError as error:
            wrong = error
    examples = ", ".join(map(repr, EXAMPLES.values()))
    raise ValueError(f"{value!r} is not a quantity; write for example {examples}") from wrong
