"""Dependence of an answer on its inputs: per cent per per cent of each, and the steps where another layout answers."""

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
from inference_econ.studies.layout_curves import (
    CheapestLayouts,
    FixedLayout,
    InstanceCurves,
    LayoutCurves,
    LayoutKey,
)
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of
from inference_econ.studies.what_if_inputs import Input, chosen, ratios

#: Other values of an input that are tried, and those that bisection tries of it [1].
_VALUES, _BISECTED = 4, 12
#: What each takes by itself, and for each layout; on the study's grid [s].
_QUESTION_SECONDS, _LAYOUT_SECONDS, _STUDY_SECONDS = 0.05, 2.5e-3, 1.0
#: Inputs are varied from a fifth less to a quarter more: equal ratios down and up [1].
SPAN = (0.8, 1.25)
_WIDEST = (0.01, 100.0)
#: Where a layout takes over is found within this ratio if inputs are named, else between two values that were tried.
_SHARP = 1.01
#: Costs are as good as equal within this logarithm, beyond what interpolation leaves; a step is more than this [1].
_EQUAL, _STEEP = 0.005, 0.03

#: What all layouts cost at every speed, of services or of decode steps alone.
Curves = LayoutCurves | InstanceCurves
#: What happens at a step: another layout is the cheapest; costs are flat from here on, or up to here; nothing is as
#: fast from here on, or up to here.
StepKind = Literal["layout", "flat_from", "flat_to", "nothing_from", "nothing_to"]


class KindChange(NamedTuple):
    """A value of an input where the answer changes its kind."""

    kind: StepKind
    """Kind of the step."""
    low: float
    """Between this value of the input, in base units,"""
    high: float
    """and this one."""
    layout: Mapping[str, float | str] | None
    """Layout that answers from there on; None where nothing does, and of costs that are flat."""
    before: Mapping[str, float | str] | None
    """Layout that answers before, in the same way."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one input on the answer."""

    input: Input
    """Input that is varied."""
    ratios: tuple[float, ...]
    """Values that were tried, over what it is [1]."""
    best: tuple[tuple[CheapestLayouts, ...], ...]
    """For each speed, at every ratio: the cheapest deployment."""
    same_layout: tuple[tuple[CheapestLayouts, ...], ...]
    """For each speed, at every ratio: the cheapest deployment of the layout that answers now."""
    fastest: tuple[float, ...]
    """At every ratio, the highest speed at the cost of the answer [tokens/s]."""
    held: tuple[FixedLayout, ...]
    """At every ratio, the deployment that answers now with as many requests in flight."""
    steps: tuple[KindChange, ...] = ()
    """Steps of the first speed, ascending."""

    def cost(self, speed: int = 0) -> float:
        """Elasticity of the least cost of a speed, by its place among those asked for [1]."""
        return slope(self.ratios, [best.dollars for best in self.best[speed]])

    def cost_of_layout(self, speed: int = 0) -> float:
        """Elasticity of the least cost of a speed where the layout stays what it is [1]."""
        return slope(self.ratios, [best.dollars for best in self.same_layout[speed]])

    @property
    def speed(self) -> float:
        """Elasticity of the highest speed at the cost of the answer [1]."""
        return slope(self.ratios, self.fastest)

    @property
    def held_speed(self) -> float:
        """Elasticity of the speed where layout and requests in flight stay what they are [1]."""
        return slope(self.ratios, [held.tokens_per_second for held in self.held])

    @property
    def held_cost(self) -> float:
        """Elasticity of the cost where layout and requests in flight stay what they are [1]."""
        return slope(self.ratios, [held.dollars for held in self.held])


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Shown):
    """Dependence of an answer on its inputs."""

    page = "report.questions.what_if:WhatIfPage"

    front: AnyFrontier
    """Frontier that the answer is on: of services, or of decode steps alone."""
    speeds: tuple[float, ...]
    """Speeds that costs are asked at; elasticities of the deployment are at the first [tokens/s]."""
    best: tuple[CheapestLayouts, ...]
    """The cheapest deployment of each speed."""
    layout: Mapping[str, float | str]
    """Degrees of the layout of the first speed."""
    accelerators: float
    """Chips of what is deployed together of it [1]."""
    span: tuple[float, float]
    """Ends of the range that inputs are varied over [1]."""
    effects: tuple[Effect, ...]
    """Effect of each input."""

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup that is varied."""
        return [self.front.setup]

    @property
    def by_size(self) -> list[Effect]:
        """Inputs, the one that moves the cost of the first speed most on top; those that nobody knows last."""
        return sorted(self.effects, key=lambda effect: -size_of(effect.cost()))

    def rooms(self, effect: Effect) -> dict[str, float]:
        """Return elasticities of the room to what users are promised [1]; decode steps alone promise nothing."""
        front = self.front
        if not isinstance(front, ServiceFrontier):
            return {}
        tokens = front.requests.decode_steps
        return {
            name: -slope(effect.ratios, [held.seconds(name, tokens) for held in effect.held])
            for name in ("ttft", "tpot", "e2e")
        }

    def record(self) -> dict[str, object]:
        """Return the answer and what every input does as plain data."""
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
                {"tokens_per_second_per_user": speed, "dollars": best.dollars, "concurrency": best.concurrency}
                for speed, best in zip(self.speeds, self.best, strict=True)
            ],
            "inputs": [self._effect_record(effect) for effect in self.by_size],
            "sources": source_records(front.sources),
        }

    def records(self) -> list[dict[str, object]]:
        """Return one record per input, value that was tried and speed."""
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
                **{f"room_to_{name}": finite_or_none(room) for name, room in self.rooms(effect).items()},
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
    """Return the size of an elasticity [1]; less than nothing where nobody knows it."""
    return -1.0 if math.isnan(elasticity) else abs(elasticity)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the straight line through logarithms, by least squares [1]; NaN with less than two values.

    Parameters
    ----------
    x, y : sequence of float
        Positive, equally long; values of y that are NaN do not count.

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
    """Elasticities of speed and cost: per cent per per cent of every input (``inference-econ sensitivity``).

    Parameters
    ----------
    model, hardware : str
        Names or paths.
    inputs : sequence of str
        Which inputs, by key (``hbm_bandwidth``, ``price``, ``layers``, ..) or by name (``hardware.watts``); by default
        all usual ones.
    speeds : float or sequence of float
        At which speeds of a user [tokens/s]; by default at the point that maximises speed^3 / cost.
    span : (float, float)
        Range that inputs are varied over, as ratios [1].
    progress : callable, optional
        Told the share of the work done, and what is being done.
    **settings
        Everything else of the question: the fields of ``inference_econ.inputs.Settings`` (isl, osl, weights, tp, ..;
        ``decode_only``, ``context`` or ``grid="paper"`` for decode steps alone, whose layouts are instances, each with
        the fastest layout of its size).

    Returns
    -------
    WhatIf
        Of the engine, recipe and arrangement that are the cheapest at the first speed: elasticities by least squares
        over the range, and steps: within 1 % of where they are for inputs that are named,
        between two of the values that were tried for all.

    Raises
    ------
    InputError
        If a name or setting cannot be used.
    NothingFitsError
        If nothing fits, or nothing is as fast.

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
    inputs: Sequence[str] = (),
    speeds: Sequence[float] = (),
    span: tuple[float, float] = SPAN,
    progress: Progress | None = None,
) -> WhatIf:
    """Dependence of the answer to a question in one piece; see :func:`what_if`."""
    low, high = span
    if not _WIDEST[0] <= low < 1.0 < high <= _WIDEST[1]:
        raise InputError(
            f"the range must begin below 1 and end above it, within {_WIDEST[0]:g} and {_WIDEST[1]:g}, got {low:g} to "
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
                f"not {speed:g}; ask for one speed at a time"
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
    return WhatIf(curves.front, at, best, layout, chips, span, tuple(effects))


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
    """Effect of an input: the question at some of its values, against the present answers of all speeds."""
    (settings, practice), (first, answer) = question, answers[0]
    assert answer.layout is not None

    @cache
    def curves(ratio: float) -> Curves | None:
        """Curves with another value of the input; None where nothing fits then."""
        try:
            return _curves(varied.scaled(settings, ratio), practice)
        except NothingFitsError:
            return None

    def at(ratio: float, speed: float, layout: LayoutKey | None = None) -> CheapestLayouts:
        line = curves(ratio)
        return CheapestLayouts() if line is None else line.cheapest(speed, layout)

    def kind_at(ratio: float) -> CheapestLayouts:
        """The answer of the first speed; of sizes that are no whole numbers all are one kind."""
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


#: What happens between which two ratios, and which layouts answer at them.
_Found = tuple[StepKind, float, float, LayoutKey | None, LayoutKey | None]


def _steps(best: Callable[[float], CheapestLayouts], values: Sequence[float], sharp: float) -> Iterator[_Found]:
    """Where another layout takes over or nothing can answer, and from where on or up to where costs are flat."""
    for left, right in itertools.pairwise(values):
        yield from _changes(best, left, right, sharp)
    directions: tuple[tuple[StepKind, Sequence[float]], ...] = (("flat_from", values), ("flat_to", values[::-1]))
    for kind, ordered in directions:
        flat = _flat(best, ordered, sharp)
        if flat is not None:
            yield kind, min(flat), max(flat), None, None


def _changes(best: Callable[[float], CheapestLayouts], left: float, right: float, sharp: float) -> Iterator[_Found]:
    """Every change of layout between two values that is seen from the ends of some half, by bisection."""
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
    """Between which values costs become those of the last of some values, if they were others before; None if not.

    Two of the values have to be flat, so that an end that is nearly level is none.
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
