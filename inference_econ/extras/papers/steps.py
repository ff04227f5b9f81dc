"""Comparison of decode steps of one deployment under different settings, such as no cache or a shared prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference_econ.answers.explain import Explanation, explain
from inference_econ.answers.settings import pins_of, setup_of
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.study_kinds import StepsAsk
from inference_econ.inputs import Series, Settings
from inference_econ.records.sources import setup_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared

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
        Steps.

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
    # Milliseconds of all series, and ratios to the first.
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
    """Step; None if it does not fit."""
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
    for name in Settings.model_fields
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
