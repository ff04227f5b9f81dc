"""Comparisons: decode steps under several settings, points of frontiers, and families of models or chips."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import PROMPTS, ServiceFrontier
from inference_econ.answers.explain import Explanation, explain
from inference_econ.answers.settings import pins_of, setup_of
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.study_kinds import FamilyAsk, PointsAsk, StepsAsk
from inference_econ.formulas import money
from inference_econ.inputs import Series, Settings, catalog, split_changes
from inference_econ.inputs.models.sizes import hidden_size, layer_parameters
from inference_econ.records.sources import priced_sources, setup_sources
from inference_econ.report.speed_cost import measured_lines
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared
from inference_econ.studies.layout_curves import LayoutCurves
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of, shared_frontier

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Labels of the varied quantities.
AXES = {"context": "context (tokens)", "batch": "batch", "shared_prefix": "shared prefix (tokens)"}
#: Text for an impossible step.
_NONE = "does not fit"


def compare_steps(ask: StepsAsk) -> Compared:
    """Explain each decode step of a scenario.

    Parameters
    ----------
    ask : StepsAsk
        Query: settings of the steps, and the values of the quantity that varies.

    Returns
    -------
    Compared
        All steps that fit.

    Raises
    ------
    InputError
        If a setting is invalid, or does not apply to a single step.
    NothingFitsError
        If no step fits.
    """
    steps = {series.label: [_step(ask, series, value) for value in ask.values] for series in ask.series}
    every = [step for row in steps.values() for step in row if step is not None]
    if not every:
        raise NothingFitsError(f"none of the steps fits, from {AXES[ask.over]} {ask.values[0]:g} on")
    # Step times of all series in milliseconds, and ratios to the first series.
    first, *others = steps
    columns = (*(f"{label} ms" for label in steps), *(f"{label} x" for label in others))
    rows = []
    for index, value in enumerate(ask.values):
        seconds = {label: None if row[index] is None else row[index].seconds for label, row in steps.items()}  # type: ignore[union-attr]
        times = [_ratio(seconds[label], seconds[first]) for label in others]
        rows.append(CellRow((f"{value:g}",), (*(_cell(seconds_of, 1e3) for seconds_of in seconds.values()), *times)))
    notes = (f"x: the time over that of {first!r}.", *ask.notes) if others else ask.notes
    tables = (CellTable("Time of a decode step", (AXES[ask.over],), columns, tuple(rows), notes), _amounts(ask, steps))
    priced = all(step.dollars is not None for step in every)
    # Speed and cost over the varied quantity. A logarithmic axis cannot show a shared prefix of 0.
    scale = "y" if ask.values[0] == 0 else "xy"
    speed = _lines(ask, steps, "tokens_per_second")
    charts = [Chart("Speed of a user", AXES[ask.over], "tokens/s per user", speed, scale)]
    if priced:
        cost = _lines(ask, steps, "dollars")
        charts.append(Chart("Cost", AXES[ask.over], "US dollars per million output tokens", cost, scale))
    return Compared(tables, tuple(charts), tuple(step.setup for step in every))


def _step(ask: StepsAsk, series: Series, value: float) -> Explanation | None:
    """Explain one decode step; None if the deployment does not fit in memory."""
    settings = series.settings.over(ask.common).replace(**{ask.over: value})
    stray = next((name for name in _UNUSED if getattr(settings, name) is not None), None)
    if stray is not None:
        raise InputError(f"{series.label}: {stray} says nothing of a single decode step; leave it out")
    try:
        return explain(
            setup_of(settings),
            pins_of(settings),
            context=settings.context,
            shared_prefix=settings.shared_prefix or 0.0,
        )
    except NothingFitsError:
        return None


#: Settings of frontiers and services.
_UNUSED = tuple(
    name
    for name in Settings.fields
    if name
    not in (
        *("model", "hardware", "assumptions", "engine", "changes", "weights", "activations", "kv", "context", "price"),
        *("shared_prefix", "tp", "dp", "pp", "ep", "batch"),
    )
)

Steps = dict[str, list[Explanation | None]]


def _ratio(seconds: float | None, usual: float | None) -> float | str:
    return "" if seconds is None or usual is None else seconds / usual


def _cell(value: float | None, scale: float = 1.0) -> float | str:
    return _NONE if value is None else value * scale


def _amounts(ask: StepsAsk, steps: Steps) -> CellTable:
    """Table of USD per million output tokens, and of cache memory."""
    columns = tuple(f"{label} {unit}" for unit in ("$/M", "GB of cache") for label in steps)
    rows = []
    for index, value in enumerate(ask.values):
        amounts = [row[index] for row in steps.values()]
        dollars = [_cell(None if step is None else step.dollars) if step is not None else _NONE for step in amounts]
        cache = [_NONE if step is None else step.memory.of_one_plan()[1] / 1e9 for step in amounts]
        rows.append(CellRow((f"{value:g}",), (*dollars, *cache)))
    return CellTable("Cost and memory of the instance", (AXES[ask.over],), columns, tuple(rows))


def _lines(ask: StepsAsk, steps: Steps, name: str) -> tuple[ChartLine, ...]:
    lines = []
    for label, row in steps.items():
        explanations: Sequence[tuple[float, Explanation]] = [
            (float(value), step) for value, step in zip(ask.values, row, strict=True) if step is not None
        ]
        lines.append(
            ChartLine(label, [value for value, _ in explanations], [getattr(step, name) for _, step in explanations])
        )
    return tuple(lines)


def answer_steps(run: ScenarioRun, ask: StepsAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_steps(ask), setup_sources)


_SPEED, _COST = "tokens per second per user", "US dollars per million output tokens"
#: Range of speeds in a chart, over the smallest and largest speed of the table [1].
_DRAWN = (0.5, 1.25)
#: Maximum cost that counts as equal to the cost at the largest demand, as a ratio [1].
_EQUAL = 1.1


def compare_points(ask: PointsAsk, progress: Progress | None = None) -> Compared:
    """Compute the points of all frontiers in a scenario.

    Parameters
    ----------
    ask : PointsAsk
        Query: settings of the frontiers, and the values of the quantity that varies.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current series.

    Raises
    ------
    InputError
        If a setting is invalid.
    NothingFitsError
        If a frontier has no point.
    """
    compared = {"speed": _over_speed, "max_tokens_per_second": _over_demand, "exponent": _over_exponent}
    return compared[ask.over](ask, progress)


def _frontiers(ask: PointsAsk, progress: Progress | None, demand: float | None = None) -> list[AnyFrontier]:
    """Frontier of each series, for a total demand of ``demand`` if it is given [tokens/s]."""
    fronts, before = [], ask.common
    for index, series in enumerate(ask.series):
        settings = series.settings.over(before)
        before = settings if ask.cumulative else ask.common
        if progress is not None:
            progress(index / len(ask.series), series.label)
        try:
            fronts.append(
                shared_frontier(settings if demand is None else settings.replace(max_tokens_per_second=demand))
            )
        except (InputError, NothingFitsError) as error:
            raise type(error)(f"{series.label}: {error}") from error
    return fronts


def _dollars_at(front: AnyFrontier, speed: float) -> float:
    """Lowest cost of points with at least a given speed [USD per 1e6 tokens]; infinite if no point is fast enough."""
    if isinstance(front, ServiceFrontier):
        return float(front.dollars_at(speed))
    speeds, dollars = front.axes()
    return float(np.min(dollars[speeds >= speed], initial=math.inf))


def _cells(numbers: Iterable[float]) -> tuple[float | str, ...]:
    return tuple(number if math.isfinite(number) else "too fast" for number in numbers)


def _over_demand(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Compute the cost at the speed of each series, for each total demand."""
    by_demand = [_frontiers(ask, progress, demand) for demand in ask.values]
    costs = np.array(
        [[_dollars_at(front, at.speed or 0.0) for front, at in zip(row, ask.series, strict=True)] for row in by_demand]
    )
    notes, lines, axis = [], [], "demand (output tokens/s)"
    for series, line in zip(ask.series, costs.T, strict=True):
        enough = ask.values[int(np.argmax(line <= _EQUAL * line[-1]))]
        times = line[0] / line[-1]
        notes.append(
            f"{series.label}: from {enough:,g} tokens/s, the cost is within 10% of the lowest; at {ask.values[0]:,g} "
            f"tokens/s, it is {times:.3g}x the lowest."
        )
        lines.append(ChartLine(series.label, ask.values, line.tolist()))
    rows = tuple(CellRow((f"{demand:,g}",), _cells(line)) for demand, line in zip(ask.values, costs, strict=True))
    labels = tuple(f"{series.label}, $/M" for series in ask.series)
    table = CellTable("Cost at a speed by demand", (axis,), labels, rows, (*notes, *ask.notes))
    return Compared((table,), (Chart("", axis, _COST, tuple(lines)),), tuple(by_demand[-1]))


def _over_exponent(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Compute the speed and cost that a buyer chooses, for each speed preference of the buyer (exponent in eq. 45)."""
    fronts, columns, lines, notes = _frontiers(ask, progress), [], [], []
    for series, front in zip(ask.series, fronts, strict=True):
        speeds, dollars = front.axes()
        chosen = [front.preferred_index(exponent) for exponent in ask.values]
        columns += [speeds[chosen], dollars[chosen]]
        # A buyer chooses the same point over an interval of exponents, so a line has steps.
        low, high = money.revealed_exponents(speeds, dollars)
        sold = (low < high) & (high >= ask.values[0]) & (low <= ask.values[-1])
        intervals = np.clip(np.column_stack([low[sold], high[sold]]), ask.values[0], ask.values[-1])
        lines.append(ChartLine(series.label, intervals.ravel().tolist(), np.repeat(speeds[sold], 2).tolist()))
        if sold.sum() > 1:
            gap = int(np.argmax(np.diff(np.log(speeds[sold]))))
            slow, fast = speeds[sold][gap : gap + 2]
            notes.append(
                f"{series.label}: no buyer chooses a speed between {slow:.3g} and {fast:.3g} tokens/s (widest gap)."
            )
    heads = tuple(f"{series.label} {unit}" for series in ask.series for unit in ("tokens/s", "$/M"))
    rows = tuple(
        CellRow((f"{at:g}",), _cells(line)) for at, line in zip(ask.values, np.transpose(columns), strict=True)
    )
    table = CellTable("Choice of a buyer", ("exponent",), heads, rows, (*notes, *ask.notes))
    return Compared((table,), (Chart("", "exponent of a buyer", _SPEED, tuple(lines), "y"),), tuple(fronts))


def _over_speed(ask: PointsAsk, progress: Progress | None) -> Compared:
    """Compute the cost of each series at each speed, and cost factors by series and by kind of improvement."""
    fronts, labels, lines = _frontiers(ask, progress), [series.label for series in ask.series], []
    costs = [[_dollars_at(front, speed) for speed in ask.values] for front in fronts]
    for label, front in zip(labels, fronts, strict=True):
        speeds, dollars = front.axes()
        drawn = (speeds >= _DRAWN[0] * ask.values[0]) & (speeds <= _DRAWN[1] * ask.values[-1])
        lines.append(ChartLine(label, speeds[drawn].tolist(), dollars[drawn].tolist()))
    if ask.measured:
        servers = measured_lines({labels[-1]: fronts[-1]}, "cost")
        if not servers:
            raise InputError(f"{labels[-1]}: no measured server is similar; measured needs lengths and no speculation")
        points = [point for line in servers for point in zip(line.x, line.y, strict=True)]
        costs.append([min((cost for fast, cost in points if fast >= speed), default=math.inf) for speed in ask.values])
        labels, lines = [*labels, "measured servers"], [*lines, *servers]
    with np.errstate(invalid="ignore"):
        factors = np.divide(costs, [costs[0], *costs[:-1]])
    rows = [CellRow((label,), _cells([*cost, *by])) for label, cost, by in zip(labels, costs, factors, strict=True)]
    rows.append(CellRow(("all",), (*("" for _ in ask.values), *_cells(factors.prod(axis=0)))))
    speeds_named = [f"at {speed:g}" for speed in ask.values]
    heads = tuple(f"{unit} {at}" for unit in ("$/M", "factor") for at in speeds_named)
    tables = [CellTable("Cost at a speed (tokens/s)", ("settings",), heads, tuple(rows), ask.notes)]
    if parts := dict.fromkeys(series.part for series in ask.series if series.part):
        by_part = {part: [index for index, series in enumerate(ask.series) if series.part == part] for part in parts}
        rows = [CellRow((part,), _cells(factors[indices].prod(axis=0))) for part, indices in by_part.items()]
        tables.append(CellTable("Factor of each part", ("part",), tuple(speeds_named), tuple(rows)))
    charts = [Chart("", _SPEED, _COST, tuple(lines), "y")]
    years = [series.year for series in ask.series if series.year is not None]
    if len(years) == len(fronts):
        paid, since = np.transpose(costs[: len(fronts)]).tolist(), [year - years[0] for year in years]
        over_time = (ChartLine(f"{at} tokens/s", since, line) for at, line in zip(speeds_named, paid, strict=True))
        charts.append(Chart("", f"years after {years[0]:g}", _COST, tuple(over_time), "y"))
    return Compared(tuple(tables), tuple(charts), tuple(fronts))


def answer_points(run: ScenarioRun, ask: PointsAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_points(ask, run.progress), attrgetter("sources"))


#: Maximum number of lines of a chart, including the base [1].
_LINES = 6
#: Texts for speeds that are not reached, and for members without a deployment that fits.
_TOO_FAST, _NO_MEMBER = "too fast", "nothing fits"
#: Largest relative change of TPOT that is ignored [1].
_NOTHING = 0.005


@dataclass(frozen=True, slots=True)
class Member:
    """Member of a family: one combination of choices.

    Attributes
    ----------
    labels : tuple of str
        Labels of the member's choices, one per axis.
    settings : Settings
        Settings of the member's frontier.
    front : ServiceFrontier or None
        Frontier; None if nothing fits.
    costs : tuple of float
        Costs at the given speeds [USD per 1e6 output tokens]; NaN for a speed that the member does not reach.
    """

    labels: tuple[str, ...]
    settings: Settings
    front: ServiceFrontier | None
    costs: tuple[float, ...]


def compare_families(ask: FamilyAsk, progress: Progress | None = None) -> Compared:
    """Compute the frontier of every member of a family.

    Parameters
    ----------
    ask : FamilyAsk
        Query: axes of the family, and user speeds.
    progress : callable, optional
        Function that receives the completed share of the work [1] and a description.

    Raises
    ------
    InputError
        If a name or what-if is invalid, or the first member of the family exceeds the budget.
    NothingFitsError
        If the first member of the family does not fit.
    """
    combinations = list(itertools.product(*(axis.choices for axis in ask.axes)))
    price = setup_of(ask.common).dollars_per_accelerator_hour
    practice = _practice(ask.common, ask.speeds[0])
    left_out, members = [], []
    for index, choices in enumerate(combinations):
        labels = tuple(choice.label for choice in choices)
        if progress is not None:
            progress(index / len(combinations), ", ".join(labels))
        settings = ask.common.replace(changes=(*ask.common.changes, *(c for member in choices for c in member.changes)))
        if ask.kind == "chip":
            cost = price + sum(choice.dollars for choice in choices)
            if ask.budget is not None and cost > ask.budget * (1.0 + 1e-9):
                left_out.append(f"{', '.join(labels)} at ${cost:.2f}/h")
                continue
            settings = settings.replace(price=cost)
        elif ask.equal_parameters is not False and index:
            settings = _of_equal_parameters(ask.common, settings, ", ".join(labels))
        members.append(_member(labels, settings, ask.speeds, practice))
    base = members[0] if members and members[0].labels == tuple(member.label for member in combinations[0]) else None
    if base is None:
        raise InputError(f"the first choices cost more than the budget of ${ask.budget:g}/h: nothing to compare with")
    if base.front is None:
        frontier_of(base.settings)  # If the first member has no frontier, this raises an error with the reason.
    ranked = sorted(members, key=lambda member: [math.inf if math.isnan(cost) else cost for cost in member.costs])
    sizes = ("$/h",) if ask.kind == "chip" else ("10^9 parameters", "active")
    columns = (*sizes, *(f"$ at {speed:g}" for speed in ask.speeds), "fastest", "change of time per token")
    rows = tuple(CellRow(member.labels, _values(ask, member, base)) for member in ranked)
    names, notes = tuple(axis.name for axis in ask.axes), (*_notes(ask, ranked, base, left_out), *ask.notes)
    setup = setup_of(ask.common)
    what = "variants of the chip" if ask.kind == "chip" else "variants of the model"
    table = CellTable(f"{setup.model.name} on {setup.hardware.name}: {what}", names, columns, rows, notes)
    drawn = [*ranked[:_LINES], *([] if base in ranked[:_LINES] else [base])]
    lines = tuple(_line(member, base) for member in drawn if member.front is not None)
    x_label, y_label = "tokens per second per user", "US dollars per million output tokens"
    chart = Chart("Cost at each speed", x_label, y_label, lines, "y")
    setups = tuple(member.front.setup for member in members if member.front is not None)
    return Compared((table,), (chart,), setups)


def _of_equal_parameters(common: Settings, settings: Settings, label: str) -> Settings:
    """Settings with the hidden size that gives the model as many layer parameters as the first member of the family."""
    assert common.model is not None
    base = setup_of(common).model
    changed = catalog.model(common.model, changes=split_changes(settings.changes)["model"])
    wanted = layer_parameters(base.blocks, base.hidden_size)
    try:
        hidden = hidden_size(changed.blocks, wanted, base.hidden_size)
    except InputError as error:
        raise InputError(f"{label}: {error}; equal_parameters: false leaves the hidden size as it is") from error
    return settings.replace(changes=(*settings.changes, f"model.hidden_size={hidden}"))


def _practice(settings: Settings, speed: float) -> tuple[str, ...]:
    """Cheapest recipe of an engine for the settings that members share, at a speed or at the highest speed."""
    try:
        front = frontier_of(settings)
    except NothingFitsError:
        return ()
    assert isinstance(front, ServiceFrontier)
    return (front.candidate(front.place(min(speed, float(front.tokens_per_second[-1])))).label,)


def _member(labels: tuple[str, ...], settings: Settings, speeds: Sequence[float], practice: tuple[str, ...]) -> Member:
    try:
        front = frontier_of(settings, practice)
    except NothingFitsError:
        return Member(labels, settings, None, tuple(math.nan for _ in speeds))
    except InputError as error:
        raise InputError(f"{', '.join(labels)}: {error}") from error
    assert isinstance(front, ServiceFrontier)
    curves = LayoutCurves(front)
    return Member(labels, settings, front, tuple(curves.cheapest(speed).dollars for speed in speeds))


def _values(ask: FamilyAsk, member: Member, base: Member) -> tuple[float | str, ...]:
    if member.front is None:
        return (*("" for _ in _sizes(ask, setup_of(member.settings))), *(_NO_MEMBER for _ in member.costs), "", "")
    sizes = _sizes(ask, member.front.setup)
    costs = tuple(_TOO_FAST if math.isnan(cost) else cost for cost in member.costs)
    reason = "the base" if member is base else reason_of(member, base, ask.speeds[0])
    return (*sizes, *costs, float(member.front.tokens_per_second[-1]), reason)


def _sizes(ask: FamilyAsk, setup: Setup) -> tuple[float, ...]:
    """Price of a chip, or total and active parameters of a model."""
    if ask.kind == "chip":
        return (setup.dollars_per_accelerator_hour,)
    return setup.model.total_parameters / 1e9, setup.model.active_parameters / 1e9


def reason_of(member: Member, base: Member, speed: float) -> str:
    """Part of the step whose time differs most between a member and the base, in the base's cheapest layout."""
    assert base.front is not None and member.front is not None
    if base.front.speculation is not None:
        return "its tokens come in rounds"
    best = LayoutCurves(base.front).cheapest(speed)
    if best.layout is None:
        return "the base is not as fast"
    before, after = (
        dict(LayoutCurves(front).parts(best.layout, best.concurrency)) for front in (base.front, member.front)
    )
    if not after:
        return "the base's layout is not possible"
    change = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    most, whole = max(change, key=lambda name: abs(change[name])), sum(before.values())
    if abs(change[most]) < _NOTHING * whole:
        return "nothing"
    part = "prefill of other requests" if most == PROMPTS else most.replace("_", " ")
    return f"{part} {100 * change[most] / whole:+.0f} of {100 * sum(change.values()) / whole:+.0f} %"


def _notes(ask: FamilyAsk, ranked: Sequence[Member], base: Member, left_out: Sequence[str]) -> tuple[str, ...]:
    assert base.front is not None
    notes = [
        f"All variants use the engine and the engine settings of the base: {base.front.candidates[0].label}.",
        f"Variants are ranked by their cost at {ask.speeds[0]:g} tokens/s per user, in $ per million output tokens "
        "with prefill.",
        "The last column is the change of TPOT, if the deployment of the base at this speed runs the variant at equal "
        "concurrency. 'A of B %': A is the change by the part that changes most, and B is the total change.",
    ]
    for index, speed in enumerate(ask.speeds):
        able = [member for member in ranked if not math.isnan(member.costs[index])]
        if able:
            best = min(able, key=lambda member: member.costs[index])
            over = base.costs[index] / best.costs[index]
            notes.append(
                f"At {speed:g} tokens/s: {', '.join(best.labels)}"
                + (f", {over:.2f} times cheaper than the base." if over > 1.0 else ".")
            )
    if ask.kind == "architecture" and ask.equal_parameters is not False:
        notes.append("The hidden size is chosen so that all layers together have as many parameters as in the base.")
    if left_out:
        notes.append(f"These variants exceed the budget of ${ask.budget:g}/h: {'; '.join(left_out)}.")
    return tuple(notes)


def _line(member: Member, base: Member) -> ChartLine:
    assert member.front is not None
    label = ", ".join(member.labels) + (" (base)" if member is base else "")
    return ChartLine(label, member.front.tokens_per_second.tolist(), member.front.dollars.tolist())


def answer_families(run: ScenarioRun, ask: FamilyAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_families(ask, run.progress), priced_sources)
