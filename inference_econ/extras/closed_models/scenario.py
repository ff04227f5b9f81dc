"""Scenarios that infer the sizes of closed models, and compare the result with the actual sizes if known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from inference_econ._types import Progress
from inference_econ.extras import closed_models
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.scenario_kinds import InferAsk
from inference_econ.records.sources import spec_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared

if TYPE_CHECKING:
    from inference_econ.extras.closed_models import CredibleInterval, Inferred
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun

_BILLION = 1e9
_ENDS = ("10 %", "50 %", "90 %")


def compare(ask: InferAsk, progress: Progress | None = None) -> Compared:
    """Infer the sizes of every model of a scenario.

    Raises
    ------
    InputError
        See :func:`inference_econ.extras.closed_models.infer.infer`.
    """
    answers = closed_models.infer.infer_all(ask, progress)
    labels = [model.label for model in ask.models]
    with_truth = [(label, answer) for label, answer in zip(labels, answers, strict=True) if answer.truth is not None]
    sizes = [_sizes(name, index, labels, answers) for index, name in enumerate(("All", "Active"))]
    charts = (
        tuple(_chart(name, index, with_truth) for index, name in enumerate(("All", "Active")))
        if len(with_truth) > 1
        else ()
    )
    # Table of the kinds of models, the numbers of offers and outliers, and the effective sample size.
    families = tuple(answers[0].families)
    rows = []
    for label, answer in zip(labels, answers, strict=True):
        shares = [100.0 * share for share in answer.families.values()]
        strays = sum(stray > 0.5 for stray in answer.strays)
        rows.append(CellRow((label,), (float(len(answer.offers)), *shares, float(strays), round(answer.effective))))
    columns = ("offers", *(f"{name} %" for name in families), "strays", "effective draws")
    return Compared(
        (*sizes, CellTable("Kinds of models, and their offers", ("model",), columns, tuple(rows), ask.notes)),
        charts,
        (scenario_kinds.priors(ask.priors),),
    )


def _of(answer: Inferred, index: int) -> CredibleInterval:
    return (answer.total_parameters, answer.active_parameters)[index]


def _true(answer: Inferred, index: int) -> float | None:
    truth = answer.truth
    return None if truth is None else float((truth.total_parameters, truth.active_parameters)[index])


def _sizes(name: str, index: int, labels: Sequence[str], answers: Sequence[Inferred]) -> CellTable:
    """Table of inferred intervals of total or active parameters, in billions, next to the actual number."""
    rows, inside, widths = [], [], []
    for label, answer in zip(labels, answers, strict=True):
        size, true = _of(answer, index), _true(answer, index)
        widths.append(size.high / size.low)
        verdict = "" if true is None else "yes" if size.holds(true) else "no"
        inside += [verdict == "yes"] if verdict else []
        ends = (value / _BILLION for value in size)
        rows.append(CellRow((label,), ("" if true is None else true / _BILLION, *ends, widths[-1], verdict)))
    middle = sorted(widths)[len(widths) // 2]
    notes = [
        f"The upper end of an interval is {min(widths):.2g} to {max(widths):.2g} times its lower end (median "
        f"{middle:.2g})."
    ]
    if inside:
        notes.insert(0, f"{sum(inside)} of {len(inside)} true sizes are in their 80% interval.")
    columns = ("truth", *_ENDS, "90 % over 10 %", "inside")
    return CellTable(f"{name} parameters (10^9)", ("model",), columns, tuple(rows), tuple(notes))


def _chart(name: str, index: int, answers: Sequence[tuple[str, Inferred]]) -> Chart:
    """Chart of inferred intervals over actual sizes."""
    truths = [true / _BILLION for _, answer in answers if (true := _true(answer, index)) is not None]
    sizes = [_of(answer, index) for _, answer in answers]
    ends = [value for true, size in zip(truths, sizes, strict=True) for value in (true, true, math.nan)]
    spans = [value for size in sizes for value in (size.low / _BILLION, size.high / _BILLION, math.nan)]
    diagonal = [min(truths), max(truths)]
    lines = (
        ChartLine("80 %", ends, spans),
        ChartLine("median", truths, [size.median / _BILLION for size in sizes], points=True),
        ChartLine("truth", diagonal, diagonal),
    )
    return Chart(f"{name} parameters", "true (10^9)", "inferred (10^9)", lines)


def answer(run: ScenarioRun, ask: InferAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare(ask, run.progress), partial(spec_sources, "priors"))
