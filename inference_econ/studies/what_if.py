"""Sensitivity of cost and speed: elasticity by input, and input values at which the best layout changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Settings
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.records.sources import source_records
from inference_econ.studies.layout_curves import CheapestLayouts, FixedLayout, InstanceCurves, LayoutCurves, LayoutKey
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of
from inference_econ.studies.what_if_inputs import Input, chosen, ratios

#: Number of values to evaluate per input, and number of bisections per value [1].
_VALUES, _BISECTED = 4, 12
#: Run times for the work estimate: per input value, per layout and value, and per value on the published study's grid
#: [s].
_QUESTION_SECONDS, _LAYOUT_SECONDS, _STUDY_SECONDS = 0.05, 2.5e-3, 1.0
#: Default range of an input, relative to its current value: divided and multiplied by 1.25 [1].
SPAN = (0.8, 1.25)
_WIDEST = (0.01, 100.0)
#: Precision to which steps (abrupt changes) are located for inputs that the user names, as a ratio [1]. For other
#: inputs, a step is located only between two evaluated values.
_SHARP = 1.01
#: Difference of ln(cost) below which two costs are equal (interpolation error), and difference above which costs are
#: not constant [1].
_EQUAL, _STEEP = 0.005, 0.03

#: Curves of cost against speed for all layouts, of services or of decode steps.
Curves = LayoutCurves | InstanceCurves
#: Kind of an abrupt change at an input value. ``layout``: another layout becomes the cheapest. ``flat_from`` and
#: ``flat_to``: costs are constant above, or below, the value. ``nothing_from`` and ``nothing_to``: no deployment
#: reaches the speed above, or below, the value.
StepKind = Literal["layout", "flat_from", "flat_to", "nothing_from", "nothing_to"]


class KindChange(NamedTuple):
    """Interval that contains an input value at which the result changes abruptly (a step)."""

    kind: StepKind
    """Kind of the abrupt change."""
    low: float
    """Lower end of the interval, in base units."""
    high: float
    """Upper end of the interval, in base units."""
    layout: Mapping[str, float | str] | None
    """Best layout above the step; None if costs become constant, or if no layout is feasible."""
    before: Mapping[str, float | str] | None
    """Best layout below the step; None if costs become constant, or if no layout is feasible."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one input on cost and speed."""

    input: Input
    """Input that is varied."""
    ratios: tuple[float, ...]
    """Evaluated values of the input, relative to its current value [1]."""
    best: tuple[tuple[CheapestLayouts, ...], ...]
    """Cheapest deployment for each speed and each evaluated value."""
    same_layout: tuple[tuple[CheapestLayouts, ...], ...]
    """Cheapest deployment with the current layout, for each speed and each evaluated value."""
    fastest: tuple[float, ...]
    """Highest speed at the current cost, for each evaluated value [tokens/s]."""
    held: tuple[FixedLayout, ...]
    """Speed, cost and TTFT of the current layout at its current concurrency, for each evaluated value."""
    steps: tuple[KindChange, ...] = ()
    """Input values at which the result for the first speed changes abruptly, ascending."""

    def cost(self, speed: int = 0) -> float:
        """Elasticity of the lowest cost at the speed with index ``speed`` [1]: % of cost per % of the input."""
        return slope(self.ratios, [best.dollars for best in self.best[speed]])

    def cost_of_layout(self, speed: int = 0) -> float:
        """Elasticity of the lowest cost with the current layout, at the speed with index ``speed`` [1]."""
        return slope(self.ratios, [best.dollars for best in self.same_layout[speed]])

    @property
    def speed(self) -> float:
        """Elasticity of the highest speed at the current cost [1]."""
        return slope(self.ratios, self.fastest)

    @property
    def held_speed(self) -> float:
        """Elasticity of the speed with the current layout and concurrency [1]."""
        return slope(self.ratios, [held.tokens_per_second for held in self.held])

    @property
    def held_cost(self) -> float:
        """Elasticity of the cost with the current layout and concurrency [1]."""
        return slope(self.ratios, [held.dollars for held in self.held])


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Shown):
    """Sensitivity of cost and speed to the inputs of a query."""

    page = "report.questions.what_if:WhatIfPage"

    front: AnyFrontier
    """Frontier of the result; its points are services or decode steps."""
    speeds: tuple[float, ...]
    """User speeds at which costs are compared [tokens/s]; :attr:`layout` is the cheapest layout at the first speed."""
    best: tuple[CheapestLayouts, ...]
    """Cheapest deployment at each speed."""
    layout: Mapping[str, float | str]
    """Parallelism degrees of the cheapest layout at the first speed."""
    accelerators: float
    """Number of GPUs in the instance, or prefill/decode group, with ``layout`` [1]."""
    concurrency: tuple[float, ...]
    """Concurrent requests of the cheapest instance, or prefill/decode group, at each speed [1]."""
    span: tuple[float, float]
    """Ends of the range in which each input is varied, relative to the current value [1]."""
    effects: tuple[Effect, ...]
    """Effect of each varied input."""

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the query before inputs are varied."""
        return [self.front.setup]

    @property
    def by_size(self) -> list[Effect]:
        """Effects of the inputs on the cost at the first speed, the largest first.

        Effects with an unknown elasticity are last.
        """
        return sorted(self.effects, key=lambda effect: -size_of(effect.cost()))

    def rooms(self, effect: Effect) -> dict[str, float]:
        """Elasticities of SLO / latency, for TTFT, TPOT and end-to-end latency [1]; empty for decode steps."""
        front = self.front
        if not isinstance(front, ServiceFrontier):
            return {}
        tokens = front.requests.decode_steps
        return {
            name: -slope(effect.ratios, [held.seconds(name, tokens) for held in effect.held])
            for name in ("ttft", "tpot", "e2e")
        }

    def record(self) -> dict[str, object]:
        """Return the query, its result and the effects of all inputs as plain data."""
        front = self.front
        names = (*HEAD, "weights", "activations", "kv")
        if isinstance(front, ServiceFrontier):
            subject = facts(front.setup, *names, "isl", "osl", requests=front.requests)
            subject |= {"slos": front.promises.record()}
        else:
            subject = facts(front.setup, *names, "context")
        return {
            **subject,
            "range": list(self.span),
            "layout": dict(self.layout),
            "answers": [
                {"tokens_per_second_per_user": speed, "dollars": best.dollars, "concurrency": concurrency}
                for speed, best, concurrency in zip(self.speeds, self.best, self.concurrency, strict=True)
            ],
            "inputs": [self._effect_record(effect) for effect in self.by_size],
            "sources": source_records(front.sources),
        }

    def records(self) -> list[dict[str, object]]:
        """Return one record per input, evaluated value and speed."""
        return [
            {
                "input": effect.input.key,
                "value": effect.input.value * ratio,
                "ratio": ratio,
                "tokens_per_second_per_user": speed,
                "dollars_per_million_output_tokens": finite_or_none(effect.best[at][place].dollars),
                "dollars_of_same_layout": finite_or_none(effect.same_layout[at][place].dollars),
                "elasticity": finite_or_none(effect.cost(at)),
            }
            for effect in self.by_size
            for at, speed in enumerate(self.speeds)
            for place, ratio in enumerate(effect.ratios)
        ]

    def _effect_record(self, effect: Effect) -> dict[str, object]:
        places = range(len(self.speeds))
        return {
            "input": effect.input.key,
            "numbers": dict(effect.input.numbers),
            "values": [effect.input.value * ratio for ratio in effect.ratios],
            "elasticities": {
                "dollars": [finite_or_none(effect.cost(place)) for place in places],
                "dollars_of_same_layout": [finite_or_none(effect.cost_of_layout(place)) for place in places],
                "tokens_per_second_at_same_cost": finite_or_none(effect.speed),
                "tokens_per_second_of_deployment": finite_or_none(effect.held_speed),
                "dollars_of_deployment": finite_or_none(effect.held_cost),
                **{f"{name}_margin_elasticity": finite_or_none(room) for name, room in self.rooms(effect).items()},
            },
            "dollars": [[finite_or_none(best.dollars) for best in row] for row in effect.best],
            "tokens_per_second_at_same_cost": [finite_or_none(speed) for speed in effect.fastest],
            "steps": [
                {
                    **attributes(step, "kind low high"),
                    **{name: at and dict(at) for name, at in attributes(step, "layout before").items()},
                }
                for step in effect.steps
            ],
        }


def size_of(elasticity: float) -> float:
    """Return the absolute value of an elasticity, or -1 if the elasticity is unknown [1]."""
    return -1.0 if math.isnan(elasticity) else abs(elasticity)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Elasticity of y with respect to x: slope of ln(y) against ln(x) [1]; NaN with fewer than two values.

    Parameters
    ----------
    x, y : sequence of float
        Positive values of equal length; NaN in ``y`` is ignored.

    Examples
    --------
    >>> round(slope([0.5, 1.0, 2.0], [8.0, 4.0, 2.0]), 12)
    -1.0
    """
    across, up = np.log(x), np.log(y)
    finite = np.isfinite(up)
    return float(np.polyfit(across[finite], up[finite], 1)[0]) if finite.sum() > 1 else math.nan


def what_if(
    model: str,
    hardware: str,
    *,
    inputs: Sequence[str] = (),
    speeds: float | Sequence[float] = (),
    span: tuple[float, float] = SPAN,
    progress: Progress | None = None,
    **settings: Any,
) -> WhatIf:
    """Compute the elasticities of speed and cost for every input (``inference-econ sensitivity``).

    Parameters
    ----------
    model, hardware : str
        Model and GPU, by name or path.
    inputs : sequence of str
        Inputs by key (``hbm_bandwidth``, ``price``, ``layers``, ...) or by name (``hardware.watts``); by default all
        common inputs.
    speeds : float or sequence of float
        User speeds [tokens/s]; by default the speed of the frontier point with the largest speed^3 / cost.
    span : (float, float)
        Ends of the range in which inputs are varied, relative to their current values [1].
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current input.
    **settings
        Further fields of ``inference_econ.inputs.Settings`` (isl, osl, weights, tp, ...). With ``decode_only``,
        ``context`` or ``grid="paper"``, the result applies to decode steps, and each instance size has its fastest
        layout.

    Returns
    -------
    WhatIf
        Sensitivity of the cheapest candidate deployment (engine, recipe, aggregated or disaggregated) at the first
        speed. Elasticities are least-squares slopes over the input range. Steps (abrupt changes of the result) are
        located to 1% for inputs that you name, and between two evaluated values for all other inputs.

    Raises
    ------
    InputError
        If a name or setting is invalid.
    NothingFitsError
        If no deployment is feasible, or if every deployment is slower than a requested speed.

    Examples
    --------
    >>> answer = what_if("llama_3_8b", "h100_sxm", inputs=["price"], max_instance_gpus=2)
    >>> round(answer.effects[0].cost(), 9)
    1.0
    """
    settings_asked = Settings.build({"model": model, "hardware": hardware, **settings}, origin="what_if")
    wanted = tuple(dict.fromkeys(speeds if isinstance(speeds, Sequence) else [speeds]))
    return what_if_of(settings_asked, inputs, wanted, span, progress)


def what_if_of(
    settings: Settings,
    inputs: Sequence[str],
    speeds: Sequence[float],
    span: tuple[float, float],
    progress: Progress | None,
) -> WhatIf:
    """Compute the sensitivity of the result for settings; see :func:`what_if`."""
    low, high = span
    if not _WIDEST[0] <= low < 1.0 < high <= _WIDEST[1]:
        raise InputError(
            f"the range must start below 1 and end above 1, within {_WIDEST[0]:g} and {_WIDEST[1]:g}, got {low:g} to "
            f"{high:g}; for example 0.8 to 1.25"
        )
    for speed in speeds:
        if not 0.0 < speed < math.inf:
            raise InputError(f"a speed must be a positive number of tokens/s, got {speed:g}")
    market = frontier_of(settings)
    at = tuple(speeds) or (market.preferred().tokens_per_second_per_user,)
    for speed in at:
        if speed > market.tokens_per_second[-1] * (1.0 + 1e-9):
            fastest = float(market.tokens_per_second[-1])
            raise NothingFitsError(f"nothing serves {speed:g} tokens/s per user: at most {fastest:.4g}")
    varied = chosen(settings, inputs)
    practice: tuple[str, ...] = ()
    if isinstance(market, ServiceFrontier):
        practice = (market.candidate(market.place(at[0])).label,)
    curves = _curves(settings, practice)
    if isinstance(curves, LayoutCurves):
        layouts, continuous = len(curves.candidate), False
        seconds, work = layouts * _LAYOUT_SECONDS + _QUESTION_SECONDS, f"with {layouts:,} layouts each"
    else:
        continuous = curves.continuous
        seconds, work = (_STUDY_SECONDS if continuous else 2.0 * _QUESTION_SECONDS), "with a frontier each"
    best = tuple(curves.cheapest(speed) for speed in at)
    for speed, place in zip(at, best, strict=True):
        if place.layout is None:
            fastest = float(curves.front.tokens_per_second[-1])
            raise NothingFitsError(
                f"{', '.join(practice)}, which is the cheapest at {at[0]:.4g} tokens/s, serves at most {fastest:.4g}, "
                f"not {speed:g}; give a single speed"
            )
    values = len(varied) * (_VALUES + (_BISECTED if inputs else 0))
    _work.check(f"{values} values of inputs {work}", seconds=values * seconds, smaller="max_instance_gpus")
    question, sharp, effects = (settings, practice), _SHARP if inputs else math.inf, []
    for index, each in enumerate(varied):
        if progress is not None:
            progress(index / len(varied), each.label)
        tried = ratios(each, curves.front.setup, *span)
        effects.append(_effect(question, each, tried, list(zip(at, best, strict=True)), sharp, continuous))
    assert best[0].layout is not None
    answering = best[0].layout, best[0].concurrency
    layout, chips = curves.record(*answering), curves.accelerators(*answering)
    concurrency = tuple(_concurrency(curves, place) for place in best)
    return WhatIf(curves.front, at, best, layout, chips, concurrency, span, tuple(effects))


def _concurrency(curves: Curves, best: CheapestLayouts) -> float:
    """Concurrent requests of an instance, or of all decode instances of a prefill/decode group [1]."""
    assert best.layout is not None
    return best.concurrency * float(curves.record(best.layout, best.concurrency).get("decode_instances", 1))


def _curves(settings: Settings, practice: tuple[str, ...]) -> Curves:
    front = frontier_of(settings, practice)
    return LayoutCurves(front) if isinstance(front, ServiceFrontier) else InstanceCurves(front)


def _effect(
    question: tuple[Settings, tuple[str, ...]],
    varied: Input,
    values: tuple[float, ...],
    answers: Sequence[tuple[float, CheapestLayouts]],
    sharp: float,
    continuous: bool,
) -> Effect:
    """Effect of an input: results for some values of the input, compared with the current results at all speeds."""
    (settings, practice), (first, answer) = question, answers[0]
    assert answer.layout is not None

    @cache
    def curves(ratio: float) -> Curves | None:
        """Cost curves for ``ratio`` times the current value of the input; None if no deployment fits."""
        try:
            return _curves(varied.scaled(settings, ratio), practice)
        except NothingFitsError:
            return None

    def at(ratio: float, speed: float, layout: LayoutKey | None = None) -> CheapestLayouts:
        line = curves(ratio)
        return CheapestLayouts() if line is None else line.cheapest(speed, layout)

    def kind_at(ratio: float) -> CheapestLayouts:
        """Cheapest layout at the first speed; if instance sizes are continuous, all sizes are treated as one layout."""
        best = at(ratio, first)
        return best._replace(layout=answer.layout) if continuous and best.layout is not None else best

    def record(ratio: float, layout: LayoutKey | None) -> Mapping[str, float | str] | None:
        line = None if continuous or layout is None else curves(ratio)
        return None if line is None or layout is None else line.record(layout, answer.concurrency)

    lines = [curves(ratio) for ratio in values]
    return Effect(
        varied,
        values,
        tuple(tuple(at(ratio, speed) for ratio in values) for speed, _ in answers),
        tuple(tuple(at(ratio, speed, now.layout) for ratio in values) for speed, now in answers),
        tuple(math.nan if line is None else line.fastest(answer.dollars) for line in lines),
        tuple(FixedLayout() if line is None else line.held(answer.layout, answer.concurrency) for line in lines),
        tuple(
            KindChange(kind, varied.value * low, varied.value * high, record(high, after), record(low, before))
            for kind, low, high, before, after in _steps(kind_at, values, math.inf if varied.whole else sharp)
        ),
    )


#: Kind of a step, the evaluated values before and after the step, and the best layouts at these values.
_Found = tuple[StepKind, float, float, LayoutKey | None, LayoutKey | None]


def _steps(best: Callable[[float], CheapestLayouts], values: Sequence[float], sharp: float) -> Iterator[_Found]:
    """Find input values at which the best layout changes, deployments become infeasible, or costs become constant."""
    for left, right in itertools.pairwise(values):
        yield from _changes(best, left, right, sharp)
    directions: tuple[tuple[StepKind, Sequence[float]], ...] = (("flat_from", values), ("flat_to", values[::-1]))
    for kind, ordered in directions:
        flat = _flat(best, ordered, sharp)
        if flat is not None:
            yield kind, min(flat), max(flat), None, None


def _changes(best: Callable[[float], CheapestLayouts], left: float, right: float, sharp: float) -> Iterator[_Found]:
    """Find changes of the best layout between two input values by bisection.

    Changes are not found if the layouts at both values are equal.
    """
    before, after = best(left).layout, best(right).layout
    if before == after:
        return
    if right / left > sharp:
        middle = math.sqrt(left * right)
        yield from _changes(best, left, middle, sharp)
        yield from _changes(best, middle, right, sharp)
    else:
        kind: StepKind = "nothing_from" if after is None else "nothing_to" if before is None else "layout"
        yield kind, left, right, before, after


def _flat(
    best: Callable[[float], CheapestLayouts], ordered: Sequence[float], sharp: float
) -> tuple[float, float] | None:
    """Two input values between which the cost becomes constant; None if the cost does not become constant.

    The cost must be equal at two or more evaluated values, because a single last value is always equal to itself.
    """
    last = math.log(best(ordered[-1]).dollars)

    def off(value: float) -> float:
        return abs(math.log(best(value).dollars) - last)

    outside = [index for index, value in enumerate(ordered) if not off(value) <= _EQUAL]
    if not outside or outside[-1] > len(ordered) - 3 or max(map(off, ordered)) < _STEEP:
        return None
    out, flat = ordered[outside[-1]], ordered[outside[-1] + 1]
    while max(flat / out, out / flat) > sharp:
        middle = math.sqrt(flat * out)
        out, flat = (out, middle) if off(middle) <= _EQUAL else (middle, flat)
    return out, flat
