"""Parallelism degrees that a user fixes, and the search space of deployments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, attention_groups
from inference_econ.errors import InputError
from inference_econ.inputs import GridName, LayoutAssumptions

#: Value of a parallelism degree: a number, :data:`ANY` for a search over the degree, or None if not given.
Degree: TypeAlias = int | Literal["any"] | None
#: Value that requests a search over a degree, and names of the degrees that may have this value.
ANY = "any"
_DEGREES = ("tp", "dp", "pp", "ep")
#: Largest accepted degree and batch [1].
_MOST = 1e9


def divisors(*factors: int) -> list[int]:
    """All divisors of a product of positive integers, ascending [1].

    Examples
    --------
    >>> divisors(12), divisors(4, 3), len(divisors(10**9, 10**9))
    ([1, 2, 3, 4, 6, 12], [1, 2, 3, 4, 6, 12], 361)
    """
    products = {1}
    for factor in factors:
        small = [divisor for divisor in range(1, math.isqrt(factor) + 1) if factor % divisor == 0]
        both = {*small, *(factor // divisor for divisor in small)}
        products = {product * divisor for product in products for divisor in both}
    return sorted(products)


def nearest(wanted: int, possible: list[int]) -> str:
    """Text with the nearest allowed values below and above a requested value.

    Examples
    --------
    >>> nearest(3, [1, 2, 4, 8]), nearest(9, [1, 2, 4, 8])
    ('2 or 4', '8')
    """
    below = [degree for degree in possible if degree <= wanted]
    above = [degree for degree in possible if degree > wanted]
    return " or ".join(str(degree) for degree in (*below[-1:], *above[:1]))


@dataclass(frozen=True, slots=True, init=False)
class Pins:
    """Parallelism degrees that a user fixes, with the same meaning as in engine options.

    ``Pins(tp=2)`` is an instance of 2 chips, as is ``vllm serve --tensor-parallel-size 2``. If you give at least one of
    ``tp``, ``dp`` and ``pp``, all others are 1. The value ``"any"`` requests a search over a degree: ``Pins(tp=8,
    dp="any")`` allows instances of 8, 16, 24, ... chips. If you give no degree, the search varies all degrees.

    Attributes
    ----------
    tp, dp : int or None
        Tensor-parallel attention ranks, and attention-DP groups per pipeline stage [1]; None leaves the value to the
        search.
    pp : int or None
        Pipeline stages [1].
    ep : int or None
        Expert-parallel ranks of a stage [1]; None for the best value in the search.
    batch : float or None
        Number of sequences that the instance decodes together [1].
    accelerators : float or None
        Number of chips of the instance [1].
    dcp : int or None
        Number of attention ranks that share the cached tokens of a sequence in decode [1]; None for 1.
    opened : frozenset of str
        Degrees among ``tp``, ``dp`` and ``pp`` that the search varies, although another of these degrees is fixed.

    Raises
    ------
    InputError
        If a value is not a number, not positive or too large.

    Examples
    --------
    >>> Pins(tp=2).text, Pins(tp=8, dp="any").text, Pins(ep=8).text
    ('tp=2, dp=1, pp=1', 'tp=8, pp=1', 'ep=8')
    """

    tp: int | None
    dp: int | None
    pp: int | None
    ep: int | None
    batch: float | None
    accelerators: float | None
    dcp: int | None
    opened: frozenset[str] = field(repr=False, compare=False)

    def __init__(
        self,
        tp: Degree = None,
        dp: Degree = None,
        pp: Degree = None,
        ep: Degree = None,
        batch: float | None = None,
        accelerators: float | None = None,
        dcp: int | None = None,
        opened: Collection[str] = (),
    ) -> None:
        """Reject invalid numbers; floats are accepted for integers."""
        sizing = {"tp": tp, "dp": dp, "pp": pp}
        named = {name for name, value in sizing.items() if value is not None} | set(opened)
        alone = {name: 1 if named and name not in opened else None for name in sizing}
        sized = {name: alone[name] if value is None else value for name, value in sizing.items()}
        object.__setattr__(
            self, "opened", frozenset(opened) | {name for name, value in sized.items() if _is_any(value)}
        )
        others = {"ep": ep, "batch": batch, "accelerators": accelerators, "dcp": dcp}
        for name, value in {**sized, **others}.items():
            object.__setattr__(self, name, None if name in _DEGREES and _is_any(value) else _number(name, value))

    def given(self) -> dict[str, float]:
        """Fixed degrees and sizes, by name."""
        axes = (axis.name for axis in fields(self) if axis.name != "opened")
        return {name: value for name in axes if (value := getattr(self, name)) is not None}

    @property
    def text(self) -> str:
        """Fixed values as text for users: ``tp=8, batch=64``."""
        named = {"accelerators": "instance_gpus"}
        return ", ".join(f"{named.get(name, name)}={value:g}" for name, value in self.given().items())

    @property
    def size(self) -> float | None:
        """Size of the instance, if the fixed values determine it [1]."""
        if self.accelerators is not None:
            return self.accelerators
        return float(self.chips) if self.complete else None

    @property
    def complete(self) -> bool:
        """True if the fixed parallelism degrees alone determine the size of the instance."""
        return None not in (self.tp, self.dp, self.pp)

    @property
    def groups(self) -> int:
        """Minimum number of parts into which the fixed degrees split a batch [1]."""
        return (self.dp or 1) * (self.pp or 1)

    @property
    def chips(self) -> int:
        """Size of the instance; if the search varies a degree, a number that divides every possible size [1]."""
        stage = (self.tp or 1) * (self.dp or 1)
        return (self.pp or 1) * (stage if self.complete else math.lcm(stage, self.ep or 1))

    def check_whole(self) -> None:
        """Reject fractional degrees, and degrees that contradict each other or the instance size.

        Raises
        ------
        InputError
            If a degree is a fraction or contradicts another value. The message names this degree.
        """
        for name, value in self.given().items():
            if value % 1:
                raise InputError(f"{name} must be an integer on an integer grid, got {value:g}")
        if self.tp is not None and self.dp is not None and self.ep is not None and self.tp * self.dp % self.ep:
            raise InputError(
                f"ep={self.ep} contradicts tp={self.tp}, dp={self.dp}: the {self.tp * self.dp} accelerators of a stage "
                f"do not split over {self.ep} expert-parallel ranks"
            )
        if self.tp is not None and self.dcp is not None and self.tp % self.dcp:
            raise InputError(
                f"dcp={self.dcp} contradicts tp={self.tp}: the attention ranks do not split into groups that share "
                f"the tokens of a sequence; nearest: {nearest(self.dcp, divisors(self.tp))}"
            )
        if self.accelerators is None:
            return
        degrees = {name: value for name, value in self.given().items() if name not in ("batch", "accelerators")}
        listed = ", ".join(f"{name}={value:g}" for name, value in degrees.items())
        if self.complete and self.accelerators != self.chips:
            raise InputError(f"an instance of {self.accelerators:g} contradicts {listed}: tp x dp x pp is {self.chips}")
        if self.accelerators % self.chips:
            raise InputError(
                f"an instance of {self.accelerators:g} contradicts {listed}: a multiple of {self.chips} is needed"
            )


def _is_any(value: object) -> bool:
    return isinstance(value, str) and value == ANY


def _number(name: str, value: Any) -> float | None:
    """Check the number of a fixed degree, and convert an integer value to ``int``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        allowed = f"a number or '{ANY}'" if name in _DEGREES else "a number"
        raise InputError(f"{name} must be {allowed}, got {value!r}")
    if not 0 < value <= _MOST:
        raise InputError(f"{name} must be positive and at most {_MOST:g}, got {value:g}")
    return int(value) if value % 1 == 0 else float(value)


@dataclass(frozen=True, slots=True)
class Space:
    """Search space of deployments: fixed degrees, size limits and grid.

    Attributes
    ----------
    pins : Pins
        Fixed parallelism degrees.
    max_accelerators : float or None
        Size of the largest instance in the search [1]; None for the default of :func:`.grids.whole_grid`.
    pipeline : bool
        True to search pipeline depths other than 1.
    grid : {'whole', 'paper'}
        Integer instances and layouts (``whole``), or the logarithmic grid of the published study (``paper``).
    any_group : bool
        True to include groups of prefill and decode instances that no published recipe has.
    gpus : int or None
        Maximum GPUs of one deployment [1].

    Raises
    ------
    InputError
        If the grid does not exist, or the largest instance is not positive.
    """

    pins: Pins = field(default_factory=Pins)
    max_accelerators: float | None = None
    pipeline: bool = True
    grid: GridName = "whole"
    any_group: bool = False
    gpus: int | None = None

    def __post_init__(self) -> None:
        """Reject an unknown grid and non-positive sizes."""
        if self.grid not in get_args(GridName):
            raise InputError(f"grid: got {self.grid!r}; allowed: {', '.join(sorted(get_args(GridName), reverse=True))}")
        if self.max_accelerators is not None and not self.max_accelerators > 0:
            raise InputError(f"max_accelerators must be positive, got {self.max_accelerators:g}")

    @property
    def largest(self) -> float | None:
        """Size of the largest instance that both limits allow [1]; None without a limit."""
        return min((limit for limit in (self.max_accelerators, self.gpus) if limit is not None), default=None)


def as_setting(name: str, value: object) -> str:
    """Format a fixed value as in scenario files, for error messages."""
    return f"{name}: {value}"


def instance_pins(
    degrees: Mapping[str, int | str | None],
    instance_gpus: float | None = None,
    *,
    batch: float | None = None,
    dcp: int | None = None,
    write: Callable[[str, object], str] = as_setting,
) -> Pins:
    """Create ``Pins`` (fixed parallelism degrees) from the values of a command, a scenario file or an engine.

    Parameters
    ----------
    degrees : mapping of str to int, str or None
        Values of ``tp``, ``pp``, ``dp`` and ``ep``, as in :class:`Pins`; missing degrees are not fixed.
    instance_gpus : float, optional
        Number of chips of the instance [1].
    batch, dcp
        Batch and context-parallel degree, as in :class:`Pins`.
    write : callable
        Function that formats a name and its value for error messages.

    Raises
    ------
    InputError
        If the parallelism degrees determine an instance size that differs from ``instance_gpus``.

    Examples
    --------
    >>> instance_pins({"tp": 2}).text
    'tp=2, dp=1, pp=1'
    >>> instance_pins({"tp": 8, "dp": "any"}).text, instance_pins({"ep": 8}, 16).text
    ('tp=8, pp=1', 'ep=8, instance_gpus=16')
    """
    degrees_set = {name: value for name, value in degrees.items() if value is not None}
    pins = Pins(**degrees_set, batch=batch, accelerators=instance_gpus, dcp=dcp)  # type: ignore[arg-type]
    if instance_gpus is not None and pins.complete and pins.chips != instance_gpus:
        given = ", ".join(write(name, value) for name, value in degrees_set.items())
        left = [name for name in ("dp", "pp", "tp") if name not in degrees_set]
        opened = f", or open a degree that is 1 unless it is given: {write(left[0], ANY)}" if left else ""
        size = write("instance_gpus", f"{instance_gpus:g}")
        raise InputError(
            f"{given} is an instance of {pins.chips}, which contradicts {size}; leave one of them out{opened}",
            option=next(iter(degrees_set)),
        )
    return pins


#: Pattern of a parallelism degree in a layout name (:func:`layout_key`).
_DEGREE = re.compile(r"(tp|dp|pp|ep)(\d[\d.]*)")


def layout_columns(
    plans: Plans, cut: npt.NDArray[np.str_], assumptions: LayoutAssumptions
) -> dict[str, list[float] | list[str]]:
    """Parallelism degrees of n plans, one list per degree; integers, except on the published study's grid.

    A pipeline stage has tp x dp = moe_tp x ep chips. In the published study, only tp of the chips of a stage compute
    attention, so moe_tp x ep may be larger than tp x dp.

    Parameters
    ----------
    plans : Plans
        Deployments, shape (n,).
    cut : ndarray of str, shape (n,)
        Split of each plan's weight matrices, along one dimension (1D) or along both (2D).
    assumptions : LayoutAssumptions
        Assumptions that state whether attention-DP groups share the batch.
    """
    stage, ranks, ep = plans.stage, plans.attention_ranks, plans.ep
    groups = np.broadcast_to(attention_groups(plans, assumptions), plans.shape)
    columns = {"tp": ranks, "dp": groups, "pp": plans.pp}
    if ep is not None:
        columns |= {"ep": ep, "moe_tp": stage / ep}
    if plans.dcp > 1:
        columns["dcp"] = np.full(plans.shape, plans.dcp)
    return {**{name: _whole(values) for name, values in {**columns, "stage": stage}.items()}, "cut": cut.tolist()}


def _whole(values: Array) -> list[float]:
    return [int(value) if value.is_integer() else value for value in values.astype(float).tolist()]


def layout_key(tp: float, dp: float, pp: float, ep: float = 1.0) -> str:
    """Short name of a layout, built from attention ranks, attention-DP groups, pipeline stages and expert ranks.

    Examples
    --------
    >>> layout_key(2, 4, 1), layout_key(1, 1, 1), layout_key(8, 1, 1, 8)
    ('tp2dp4', 'tp1', 'tp8ep8')
    """
    further = (("dp", dp), ("pp", pp), ("ep", ep))
    return f"tp{tp:g}" + "".join(f"{name}{degree:g}" for name, degree in further if degree != 1)


def key_degrees(key: str) -> dict[str, float]:
    """Parallelism degrees of a layout name (:func:`layout_key`); degrees that are missing in the name are 1.

    Examples
    --------
    >>> key_degrees("tp2dp4")
    {'tp': 2.0, 'dp': 4.0, 'pp': 1.0, 'ep': 1.0}
    """
    named = {name: float(degree) for name, degree in _DEGREE.findall(key)}
    return {name: named.get(name, 1.0) for name in ("tp", "dp", "pp", "ep")}


def bare_key(key: str) -> str:
    """Layout name (:func:`layout_key`) without expert ranks, which some measurements do not record.

    Examples
    --------
    >>> bare_key("tp2dp4ep8")
    'tp2dp4'
    """
    degrees = key_degrees(key)
    return layout_key(degrees["tp"], degrees["dp"], degrees["pp"])


def recorded_key(layout: Mapping[str, float | str]) -> str:
    """Layout name (:func:`layout_key`) of the parallelism degrees in the ``layout`` field of a result record.

    Examples
    --------
    >>> recorded_key({"tp": 2.0, "dp": 4.0, "pp": 1.0, "cut": "1d"})
    'tp2dp4'
    """
    return layout_key(*(float(layout.get(name, 1.0)) for name in ("tp", "dp", "pp", "ep")))


def layout_keys(plans: Plans, assumptions: LayoutAssumptions) -> list[str]:
    """Layout names of n plans, see :func:`layout_key`."""
    groups = np.broadcast_to(attention_groups(plans, assumptions), plans.shape)
    ep = 1.0 if plans.ep is None else plans.ep
    degrees = np.stack(np.broadcast_arrays(plans.attention_ranks, groups, plans.pp, ep), axis=-1)
    return [layout_key(*plan) for plan in degrees.tolist()]
