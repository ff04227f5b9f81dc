"""Arithmetic intensity of a step, and the batch, context or prompt length from which the step is compute-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.answers.explain import ridge, stepped
from inference_econ.engine import OperatorCosts, Pins, Plans, Setup, largest_sparsity, memory
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.errors import InputError
from inference_econ.formulas import roofline
from inference_econ.inputs import BYTES_PER_ELEMENT, TensorLayout
from inference_econ.records.facts import HEAD, facts

#: Variable of the sweep: number of decoded sequences, cached tokens per sequence, or prompt tokens per sequence.
Axis = Literal["batch", "context", "prompt"]
#: Default largest value of each variable [1, tokens].
_USUAL_MOST: Mapping[Axis, int] = {"batch": 16_384, "context": 1_048_576, "prompt": 65_536}
_MOST = 100_000_000


@dataclass(frozen=True, slots=True)
class IntensitySweep:
    """Arithmetic and memory traffic of one operator, or of the whole step, at each value of the swept variable.

    Attributes
    ----------
    name, unit : str
        Name of the operator, and compute unit on which it runs; both empty for the whole step.
    flop, moved_bytes, compute_seconds, memory_seconds, worked_seconds : ndarray, shape (n,)
        Arithmetic [FLOP] and memory traffic [B] of one GPU. Time of the arithmetic alone, of the memory traffic alone,
        and of both with overlap [s]. Network time and launch overhead are excluded.
    turns_at : float or None
        Smallest integer value of the variable above which the limit remains :attr:`bound`; None if the limit is the
        same at all values.
    closed_form : float or None
        Estimate of ``turns_at`` from the GPU's peak rates and weight traffic alone. The value is None for operators
        without weights, and if the context is the variable.
    """

    name: str
    unit: str
    flop: Array
    moved_bytes: Array
    compute_seconds: Array
    memory_seconds: Array
    worked_seconds: Array
    turns_at: float | None
    closed_form: float | None = None

    @property
    def bound(self) -> str:
        """Resource that limits the operator at the largest value of the variable: ``compute`` or ``memory``."""
        return "compute" if self.compute_seconds[-1] >= self.memory_seconds[-1] else "memory"

    @property
    def flop_per_byte(self) -> Array:
        """Arithmetic intensity, shape (n,) [FLOP/B]; NaN without memory traffic."""
        return _over(self.flop, self.moved_bytes)

    @property
    def flops_per_second(self) -> Array:
        """Arithmetic rate while the operator runs, without network and launch overhead, shape (n,) [FLOP/s]."""
        return _over(self.flop, self.worked_seconds)


@dataclass(frozen=True, slots=True, repr=False)
class Intensity(Shown):
    """Arithmetic and memory traffic of a step as one variable grows.

    Attributes
    ----------
    setup : Setup
        Model, GPU, formats and assumptions, with the context of the first value.
    layout : dict
        Parallelism degrees by the names of their options.
    over : str
        Variable: batch, context or prompt.
    values : ndarray, shape (n,)
        Values of the variable, in powers of two [1], [tokens].
    batch : float
        Number of decoded sequences [1]; the first of ``values`` if the batch is the variable.
    prompt : float or None
        Prompt tokens per sequence and step [tokens]; the first of ``values`` if they are the variable. The value is
        None for a decode step.
    operators : tuple of IntensitySweep
        Operators that have both arithmetic and memory traffic, in the order of a step.
    step : IntensitySweep
        Sum of all operators, including those without arithmetic.
    room : float or None
        Largest integer value of the variable at which the deployment fits in memory; None if it fits at all values.
    sparsity : float
        Number of experts divided by active experts per token, in the sparsest layers [1]; 1 for dense models.
    """

    page = "report.questions.intensity:IntensityPage"

    setup: Setup
    layout: Mapping[str, float | str]
    over: Axis
    values: Array
    batch: float
    prompt: float | None
    operators: tuple[IntensitySweep, ...]
    step: IntensitySweep
    room: float | None
    sparsity: float

    @property
    def accelerators(self) -> float:
        """GPUs of the deployment [1]."""
        return float(self.layout["stage"]) * float(self.layout["pp"])

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the step."""
        return [self.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data. The arithmetic intensity is None where there is no memory traffic."""
        setup = self.setup
        units = dict.fromkeys(unit for sweep in self.operators for unit in sweep.unit.split("+"))
        return {
            **facts(setup, *HEAD, "weights", "formats", "context"),
            "layout": dict(self.layout),
            "over": self.over,
            "batch": None if self.over == "batch" else self.batch,
            "prompt": None if self.over == "prompt" else self.prompt,
            "values": self.values.tolist(),
            "largest_that_fits": self.room,
            "sparsity": self.sparsity,
            "ridge_flop_per_byte": {unit: ridge(setup, unit) for unit in units},
            "step": _record(self.step),
            "operators": [_record(sweep) for sweep in self.operators],
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per operator and value, and one record per value for the whole step."""
        return [
            {
                "operator": sweep.name or STEP,
                self.over: value,
                **{name: getattr(sweep, name)[index] for name in COLUMNS},
                "turns_at": np.nan if sweep.turns_at is None else sweep.turns_at,
            }
            for sweep in (*self.operators, self.step)
            for index, value in enumerate(self.values)
        ]


def intensity(
    setup: Setup,
    pins: Pins,
    *,
    over: Axis = "batch",
    most: float | None = None,
    context: float | None = None,
    prompt: float | None = None,
    cut: TensorLayout = "1d",
    spread: float = 0.0,
) -> Intensity:
    """Compute the arithmetic intensity of a step, and find the value from which the step is compute-bound.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats and assumptions.
    pins : Pins
        Deployment, as in :func:`inference_econ.explain`. If the batch is the variable, do not set it here.
    over : {'batch', 'context', 'prompt'}
        Variable: number of decoded sequences, cached tokens per sequence, or prompt tokens per sequence and step.
    most : float, optional
        Largest value of the variable; by default 16,384 sequences, 1,048,576 tokens of context or 65,536 prompt tokens.
    context, prompt, cut, spread
        See :func:`inference_econ.explain`. Do not set the argument that is the variable.

    Returns
    -------
    Intensity
        Sweep of each operator and of the whole step, with the largest value that fits in memory. Larger values are
        calculated as if the GPU had more memory.

    Raises
    ------
    InputError
        If a parallelism degree does not divide the model, a number is out of range, or the variable is also given as an
        input.
    NothingFitsError
        If the smallest value does not fit in memory.

    Notes
    -----
    An operator is compute-bound if its arithmetic takes at least as long as its memory traffic, at the assumed rates of
    its kernels. The step is compute-bound if the sum of the arithmetic times is at least the sum of the memory times.
    Bisection over integers finds the turning point between the last two swept values that have different limits.
    Changes of the limit at smaller values, which tile effects may cause, are ignored.

    Examples
    --------
    >>> answer = intensity(Setup.of("llama_3_70b", "h100_sxm", assumptions="ideal"), Pins(tp=8))
    >>> {row.name: row.turns_at for row in answer.operators if row.name in ("ff in", "attention")}
    {'attention': None, 'ff in': 310.0}
    """
    _check(over, most, {"batch": pins.batch, "context": context, "prompt": prompt})
    context, prompt = 1.0 if over == "context" else context, 1.0 if over == "prompt" else prompt
    served, deployment = stepped(setup, pins, context=context, prompt=prompt, cut=cut, spread=spread)
    varied, most = _Varied(served, deployment, over, cut), most or _USUAL_MOST[over]
    # The swept values are powers of two, followed by the largest value.
    values = np.append(2.0 ** np.arange(np.ceil(np.log2(most))), np.floor(most))
    last = float(values[-1])
    closed = {} if over == "context" else _closed_forms(*varied.at(last), last)
    names = [name for name, rows in varied.by_name(last).items() if sum(row.flop for row in rows) > 0]
    # An earlier check showed that the smallest value fits.
    room = None if varied.fits(last) else _bisected(1.0, last, lambda value: not varied.fits(value)) - 1.0
    return Intensity(
        served,
        served.layout_record(deployment, cut),
        over,
        values,
        float(deployment.batch[0]),
        prompt,
        tuple(varied.swept(name, values, closed.get(name)) for name in names),
        varied.swept("", values),
        room,
        largest_sparsity(served.model, served.assumptions.experts),
    )


@dataclass(frozen=True, eq=False)
class _Varied:
    """One deployment, of which the batch, the context or the prompt length is varied."""

    setup: Setup
    deployment: Plans
    over: Axis
    cut: TensorLayout

    def at(self, value: float) -> tuple[Setup, Plans]:
        """Return the setup and the deployment at a value of the variable, shape (1,)."""
        if self.over == "context":
            return replace(self.setup, context=value), self.deployment
        if self.over == "prompt":
            return self.setup, replace(self.deployment, new_tokens=value)
        return self.setup, replace(self.deployment, batch=np.array([value]))

    @cached_property
    def by_name(self) -> Callable[[float], Mapping[str, Sequence[OperatorCosts]]]:
        """Function that returns the operators of the step at a value of the variable, grouped by name.

        The function caches its results by value.
        """

        @cache
        def rows(value: float) -> Mapping[str, Sequence[OperatorCosts]]:
            groups: dict[str, list[OperatorCosts]] = {}
            for row in operator_costs(*self.at(value), self.cut):
                groups.setdefault(row.name, []).append(row)
            return groups

        return rows

    def rows(self, name: str, value: float) -> Sequence[OperatorCosts]:
        """Costs of an operator in each kind of layer, at a value of the variable.

        If the name is empty, the costs of all operators are returned.
        """
        groups = self.by_name(value)
        return groups.get(name, ()) if name else [row for rows in groups.values() for row in rows]

    def swept(self, name: str, values: Array, closed_form: float | None = None) -> IntensitySweep:
        """Sweep an operator over values of the variable, and find its turning point.

        If the name is empty, sweep the whole step.
        """
        rows = [self.rows(name, value) for value in values.tolist()]

        def computes(value: float) -> bool:
            there = self.rows(name, value)
            return bool(sum(row.compute_seconds for row in there) >= sum(row.memory_seconds for row in there))

        units = dict.fromkeys(row.unit for row in rows[-1]) if name else ()
        bounds, turn = [computes(value) for value in values.tolist()], None
        others = [index for index, bound in enumerate(bounds) if bound is not bounds[-1]]
        if others:
            low, high = values[others[-1] : others[-1] + 2].tolist()
            turn = _bisected(low, high, lambda value: computes(value) is bounds[-1])
        flop, moved, compute, memory_seconds, together = (
            np.array([sum(getattr(row, quantity) for row in there) for there in rows])
            for quantity in ("flop", "moved_bytes", "compute_seconds", "memory_seconds", "together_seconds")
        )
        return IntensitySweep(name, "+".join(units), flop, moved, compute, memory_seconds, together, turn, closed_form)

    def fits(self, value: float) -> bool:
        """True if the deployment fits in memory at a value of the variable."""
        setup, plans = self.at(value)
        return int(np.ravel(setup.reasons(plans, self.cut))[0]) == memory.FITS


def _check(over: Axis, most: float | None, values: Mapping[str, float | None]) -> None:
    """Reject an unknown variable, a largest value out of range, or a variable that is also given as an input."""
    if over not in _USUAL_MOST:
        raise InputError(f"over: got {over!r}; allowed: {', '.join(_USUAL_MOST)}")
    if values[over] is not None:
        raise InputError(f"{over} is what is varied, and {over}={values[over]:g} is given; leave it out")
    if most is not None and not 2 <= most <= _MOST:
        raise InputError(f"the largest {over} must be from 2 to {_MOST:,}, got {most:g}")


def _bisected(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """Smallest integer for which ``holds`` is True, by bisection between ``low`` (False) and ``high`` (True)."""
    while high - low > 1.0:
        middle = float((low + high) // 2)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _closed_forms(setup: Setup, deployment: Plans, value: float) -> Mapping[str, float]:
    """Values of the variable at which operators with weights become compute-bound [1], by operator name.

    The calculation uses only peak rates and weight traffic. A weight processes only some of the tokens: an expert
    processes the tokens that are routed to it, and a weight copy processes the tokens of its attention-DP group. This
    share of the tokens is computed once, at a large number of tokens.
    """
    work = setup.work(deployment)
    forms: dict[str, float] = {}
    for row in work.operators:
        width = BYTES_PER_ELEMENT[row.dtype]
        read = float(np.ravel(row.weight_bytes)[0]) / width
        used = float(np.ravel(row.flop_per_token * work.tokens_of(row))[0]) / (2.0 * value)
        if read > 0 and used > 0:
            chip, peak = setup.hardware.hbm_bytes_per_second, setup.peaks[setup.rates.unit(row.dtype)]
            forms[row.name] = roofline.critical_batch(width, chip, peak, read / used)
    return forms


def _over(amount: Array, other: Array) -> Array:
    """Elementwise ratio; NaN where the divisor is 0."""
    return np.asarray(np.divide(amount, other, out=np.full(amount.shape, np.nan), where=other > 0))


STEP = "whole step"


def _record(sweep: IntensitySweep) -> dict[str, object]:
    return {
        "name": sweep.name or STEP,
        "unit": sweep.unit or None,
        "bound": sweep.bound,
        "turns_at": sweep.turns_at,
        "closed_form": sweep.closed_form,
        **{name: [value if isfinite(value) else None for value in getattr(sweep, name).tolist()] for name in COLUMNS},
    }


#: Columns of a sweep that have one number per value.
COLUMNS = ("flop", "moved_bytes", "flop_per_byte", "flops_per_second", "compute_seconds", "memory_seconds")
