"""From which batch, context or prompt on arithmetic, and no longer memory traffic, is what a step waits for."""

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

#: What can be varied: sequences decoded together, tokens in the cache of each, tokens that a step reads of each.
Axis = Literal["batch", "context", "prompt"]
#: Largest value unless another one is asked for, and the largest that can be [1], [tokens].
_USUAL_MOST: Mapping[Axis, int] = {"batch": 16_384, "context": 1_048_576, "prompt": 65_536}
_MOST = 100_000_000


@dataclass(frozen=True, slots=True)
class IntensitySweep:
    """An operator, or the whole step, at each value of what is varied.

    Attributes
    ----------
    name, unit : str
        The operator with all rows of its name, and the maths unit that it runs on; of a step none.
    flop, moved_bytes, compute_seconds, memory_seconds, worked_seconds : ndarray, shape (n,)
        Arithmetic [FLOP] and memory traffic [B] of an accelerator, the time of each by itself, and of both with what
        hides behind the other [s]. Network and launches are not in them.
    turns_at : float or None
        Smallest whole value from which on it is bound by ``bound`` and stays so; None if it is throughout.
    closed_form : float or None
        The same from the peaks of the chip for weights alone; None where no weights are read, or context is varied.
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
        """Bound at the largest value: compute or memory."""
        return "compute" if self.compute_seconds[-1] >= self.memory_seconds[-1] else "memory"

    @property
    def flop_per_byte(self) -> Array:
        """Arithmetic intensity, shape (n,); NaN where nothing is moved [FLOP/B]."""
        return _over(self.flop, self.moved_bytes)

    @property
    def flops_per_second(self) -> Array:
        """Arithmetic while the operator works, network and launches left out, shape (n,) [FLOP/s]."""
        return _over(self.flop, self.worked_seconds)


@dataclass(frozen=True, slots=True, repr=False)
class Intensity(Shown):
    """Arithmetic and memory traffic of a step over one thing that is varied.

    Attributes
    ----------
    setup : Setup
        What is served, on what, how; its context is that of the first value.
    layout : dict
        Degrees under the names that people use.
    over : str
        What is varied: batch, context or prompt.
    values : ndarray, shape (n,)
        Its values, each the double of the one before [1], [tokens].
    batch : float
        Sequences decoded together; of the first value where batch is varied [1].
    prompt : float or None
        Prompt tokens that a step reads of each, of the first value where they are varied; None for a decode step
        [tokens].
    operators : tuple of Sweep
        Those that do arithmetic and move memory, in the order of a step.
    step : Sweep
        All operators together, those without arithmetic too.
    room : float or None
        Largest whole value that memory has room for; None if it has for all.
    sparsity : float
        Experts over those that a token visits, of the sparsest layers; 1 without experts [1].
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
        """Chips of the deployment [1]."""
        return float(self.layout["stage"]) * float(self.layout["pp"])

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the step."""
        return [self.setup]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data; null where nothing is moved."""
        setup = self.setup
        units = dict.fromkeys(unit for sweep in self.operators for unit in sweep.unit.split("+"))
        return {
            **facts(setup, *HEAD, "weights", "formats", "context"),
            "layout": dict(self.layout),
            "over": self.over,
            "batch": None if self.over == "batch" else self.batch,
            "prompt": None if self.over == "prompt" else self.prompt,
            "values": self.values.tolist(),
            "room": self.room,
            "sparsity": self.sparsity,
            "ridge_flop_per_byte": {unit: ridge(setup, unit) for unit in units},
            "step": _record(self.step),
            "operators": [_record(sweep) for sweep in self.operators],
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return a row for each operator, and for the step, at each value."""
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
    """At each batch, context or prompt, the arithmetic of a step over its memory traffic, and where it turns.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how.
    pins : Pins
        The deployment, as in :func:`inference_econ.explain`; without a batch where that is varied.
    over : {'batch', 'context', 'prompt'}
        What is varied: sequences decoded together, tokens in the cache of each, prompt tokens that a step reads of
        each.
    most : float, optional
        Up to which value: 16,384 sequences, 1,048,576 tokens of context or 65,536 of a prompt by default.
    context, prompt, cut, spread
        As in :func:`inference_econ.explain`; what is varied is not given.

    Returns
    -------
    Intensity
        With the largest value that memory has room for: beyond it the step is that of a chip with more memory.

    Raises
    ------
    InputError
        If a degree does not divide what it must, a number cannot be used, or what is varied is given.
    NothingFitsError
        If not even the smallest value fits in memory.

    Notes
    -----
    An operator is bound by arithmetic where that takes at least as long as its memory traffic, at the rates that are
    assumed of its kernels; the step, where the sums over its operators do. Where that changes is searched by bisection
    of whole numbers between the last two values that differ: exact, but for ups and downs of tiles below that.

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
    # 1, 2, 4 and so on, and the largest value last.
    values = np.append(2.0 ** np.arange(np.ceil(np.log2(most))), np.floor(most))
    last = float(values[-1])
    closed = {} if over == "context" else _closed_forms(*varied.at(last), last)
    names = [name for name, rows in varied.by_name(last).items() if sum(row.flop for row in rows) > 0]
    # The smallest value is known to fit.
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
    """One deployment at any value of what is varied."""

    setup: Setup
    deployment: Plans
    over: Axis
    cut: TensorLayout

    def at(self, value: float) -> tuple[Setup, Plans]:
        """The question and its plan, shape (1,)."""
        if self.over == "context":
            return replace(self.setup, context=value), self.deployment
        if self.over == "prompt":
            return self.setup, replace(self.deployment, new_tokens=value)
        return self.setup, replace(self.deployment, batch=np.array([value]))

    @cached_property
    def by_name(self) -> Callable[[float], Mapping[str, Sequence[OperatorCosts]]]:
        """The operator table at a value, rows of one name together; each value is computed once."""

        @cache
        def rows(value: float) -> Mapping[str, Sequence[OperatorCosts]]:
            groups: dict[str, list[OperatorCosts]] = {}
            for row in operator_costs(*self.at(value), self.cut):
                groups.setdefault(row.name, []).append(row)
            return groups

        return rows

    def rows(self, name: str, value: float) -> Sequence[OperatorCosts]:
        """The rows of an operator: the same one in layers of different kinds; without a name those of all."""
        groups = self.by_name(value)
        return groups.get(name, ()) if name else [row for rows in groups.values() for row in rows]

    def swept(self, name: str, values: Array, closed_form: float | None = None) -> IntensitySweep:
        """An operator, or without a name the whole step, at each value, and where it turns."""
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
        """Whether memory has room."""
        setup, plans = self.at(value)
        return int(np.ravel(setup.reasons(plans, self.cut))[0]) == memory.FITS


def _check(over: Axis, most: float | None, values: Mapping[str, float | None]) -> None:
    """Refuse what cannot be varied, is given too, or has no values."""
    if over not in _USUAL_MOST:
        raise InputError(f"over: got {over!r}; allowed: {', '.join(_USUAL_MOST)}")
    if values[over] is not None:
        raise InputError(f"{over} is what is varied, and {over}={values[over]:g} is given; leave it out")
    if most is not None and not 2 <= most <= _MOST:
        raise InputError(f"the largest {over} must be from 2 to {_MOST:,}, got {most:g}")


def _bisected(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """A whole number at which something holds that does not hold of the one before: not of the lower, of the upper."""
    while high - low > 1.0:
        middle = float((low + high) // 2)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _closed_forms(setup: Setup, deployment: Plans, value: float) -> Mapping[str, float]:
    """Values at which operators with weights turn at the peaks of the chip, for weights alone, by name [1].

    Weights are read for a share of what is varied: experts for the tokens that visit them, copies of weights for those
    of their group. That share is counted at one large value.
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
    """One amount over another, NaN where that is nothing."""
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


#: Amounts at each value.
COLUMNS = ("flop", "moved_bytes", "flop_per_byte", "flops_per_second", "compute_seconds", "memory_seconds")
