"""Arithmetic intensity of a step over what is varied, as a table, as data and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, nan

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.explain import ridge
from inference_econ.answers.intensity import STEP, Axis, Intensity, IntensitySweep
from inference_econ.answers.notes import cannot_start, heading, subject_label
from inference_econ.formulas.roofline import attainable
from inference_econ.records.texts import amount, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.page import AnswerPage, Pieces, Table, remarks, warnings
from inference_econ.report.service import started

#: What is varied: in a sentence, at the head of an axis, and a value of it.
_WORDS: Mapping[Axis, tuple[str, str, str]] = {
    "batch": ("the batch", "sequences decoded together", "batch {}"),
    "context": ("the context", "tokens in the cache of each sequence", "context {}"),
    "prompt": ("the prompt", "prompt tokens that a step reads of each sequence", "{} prompt tokens"),
}
#: Lines of a picture beside the step, so that each has a colour of its own [1].
_LINES = 3


class IntensityPage(AnswerPage[Intensity]):
    """Page of the turn of a step from memory traffic to arithmetic."""

    def tables(self) -> Sequence[Table]:
        """A line for each operator, and one for the step."""
        return (intensity_table(self.answer),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Intensity over what is varied, and the same operators on their way along the roofline."""
        title = f"From which {self.answer.over} on is arithmetic the limit?\n{intensity_title(self.answer)}"
        return {"intensity": charts.line_charts(intensity_charts(self.answer), title)}

    def question(self) -> str:
        """Question about where arithmetic becomes the limit."""
        return f"From which {self.answer.over} on is arithmetic the limit of {subject_label(self.answer.setup)}?"

    def conclusion(self) -> Pieces:
        """Sentence on what the whole step waits for."""
        return [step_sentence(self.answer)]


def intensity_title(answer: Intensity) -> str:
    """Heading: what is varied, model and chip, lengths, in one line."""
    setup, over = answer.setup, answer.over
    gpus = f"{answer.accelerators:g} GPU{'s' if answer.accelerators > 1 else ''}"
    phase = "decode" if answer.prompt is None else "prefill"
    fixed = [] if over == "context" else [f"context {setup.context:g}"]
    fixed += [] if over == "batch" else [f"batch {answer.batch:g}"]
    fixed += [f"{answer.prompt:g} prompt tokens"] if answer.prompt is not None and over != "prompt" else []
    return heading(f"A {phase} step on {gpus} over {_WORDS[over][0]}", [setup], [", ".join(fixed)])


def intensity_table(answer: Intensity) -> Table:
    """Operators with their intensity at both ends, and where each turns; the step last."""
    closed = answer.over != "context"
    swept = {**{sweep.name: sweep for sweep in answer.operators}, STEP: answer.step}
    rows: list[tuple[str, ...]] = [
        (name, *_ends(sweep), _ridge(answer, sweep), *_turns(sweep), *([_closed(sweep)] if closed else []))
        for name, sweep in swept.items()
    ]
    first, last = (f"{value:,.0f}" for value in (answer.values[0], answer.values[-1]))
    columns = (
        *("operator", f"FLOP/B at {first}", f"at {last}", "ridge", "memory-bound", "compute-bound"),
        *(["closed form"] if closed else []),
    )
    return Table(intensity_title(answer), columns, tuple(rows), _notes(answer), _why(answer), ("ridge", "closed form"))


def _ends(sweep: IntensitySweep) -> list[str]:
    ends = (float(sweep.flop_per_byte[index]) for index in (0, -1))
    return [amount(value) if isfinite(value) else "-" for value in ends]


def _closed(sweep: IntensitySweep) -> str:
    return "-" if sweep.closed_form is None else f"{sweep.closed_form:,.0f}"


def _ridge(answer: Intensity, sweep: IntensitySweep) -> str:
    return " ".join(f"{ridge(answer.setup, unit):.0f} {unit}" for unit in sweep.unit.split("+") if unit)


def _turns(sweep: IntensitySweep) -> tuple[str, str]:
    """Cells of the ranges in which memory traffic, and in which arithmetic, is the limit."""
    if sweep.turns_at is None:
        throughout = ("throughout", "-")
        return throughout if sweep.bound == "memory" else throughout[::-1]
    before, after = f"to {sweep.turns_at - 1:,.0f}", f"from {sweep.turns_at:,.0f}"
    return (before, after) if sweep.bound == "compute" else (after, before)


def _notes(answer: Intensity) -> tuple[str, ...]:
    """The answer in sentences, and what a reader must not miss."""
    layout = f"Layout {layout_label(answer.layout)}{started(answer.layout)}."
    return (
        f"{layout} {step_sentence(answer)}",
        *_room_sentence(answer),
        *_attention_sentence(answer),
        *_experts_sentence(answer),
        *cannot_start([answer.setup]),
        *warnings(answer.setup),
    )


def step_sentence(answer: Intensity) -> str:
    """Sentence on what the whole step waits for."""
    step, words, unit = answer.step, _WORDS[answer.over][0], _WORDS[answer.over][2]
    names = {"compute": "arithmetic", "memory": "memory traffic"}
    if step.turns_at is None:
        return f"The step waits for {names[step.bound]} whatever {words}, up to {answer.values[-1]:,.0f}."
    other = names["memory" if step.bound == "compute" else "compute"]
    value = unit.format(f"{step.turns_at:,.0f}")
    return f"From {value} on the step waits for {names[step.bound]}, before for {other}."


def _room_sentence(answer: Intensity) -> Iterator[str]:
    room = answer.room
    if room is None:
        return
    turn, unit = answer.step.turns_at, _WORDS[answer.over][2]
    text = f"Memory has room for {unit.format(f'{room:,.0f}')}"
    yield f"{text}, which is before that." if turn is not None and room < turn else f"{text}."


def _attention_sentence(answer: Intensity) -> Iterator[str]:
    """Sentence on why attention of decode steps never becomes arithmetic."""
    for sweep in answer.operators:
        if answer.over == "batch" and sweep.name == "attention" and sweep.bound == "memory" and sweep.turns_at is None:
            yield (
                f"Attention stays at {amount(float(sweep.flop_per_byte[-1]))} FLOP/B at any batch: each sequence reads "
                "a cache of its own, so that the longer contexts are, the less a larger batch helps the step."
            )


def _experts_sentence(answer: Intensity) -> Iterator[str]:
    sparsity = answer.sparsity
    if sparsity > 1.0 and answer.over != "context":
        yield (
            f"Each expert gets one of {sparsity:.3g} tokens on average: their weights need {sparsity:.3g} times the "
            "batch of dense ones by the closed form."
        )


def _why(answer: Intensity) -> tuple[str, ...]:
    closed = (
        "the closed form is bytes per weight x ridge / 2, for weights alone, over the share of the tokens for which "
        "they are read: one expert's, or one group's of copies"
    )
    return (
        f"Bound: the longer of arithmetic and memory traffic, at the rates that {answer.setup.assumptions.name} has of "
        f"each kernel; network and launches are apart. The step: the sums over all operators.",
        f"Ridge: FLOP per byte at the peaks of the chip; {closed}."
        if answer.over != "context"
        else "Ridge: FLOP per byte at the peaks of the chip.",
        *remarks(answer.setup),
    )


def intensity_charts(answer: Intensity) -> list[Plot]:
    """Intensity over what is varied with the ridges, and arithmetic over intensity with the roofs."""
    lines, setup = _drawn(answer), answer.setup
    units = dict.fromkeys(unit for sweep in lines for unit in sweep.unit.split("+") if unit)
    x_label, across = _WORDS[answer.over][1], answer.values.tolist()
    climbing = tuple(PlotSeries(sweep.name or STEP, across, _drawable(sweep.flop_per_byte)) for sweep in lines)
    ridges = {f"ridge of {unit}: {ridge(setup, unit):.0f} FLOP/B": ridge(setup, unit) for unit in units}
    marks = {} if answer.room is None else {"room in memory": answer.room}
    paths = tuple(
        PlotSeries(sweep.name or STEP, _drawable(sweep.flop_per_byte), _drawable(sweep.flops_per_second / 1e12))
        for sweep in lines
    )
    roofs = tuple(_roof(answer, unit, lines) for unit in units)
    return [
        Plot("Intensity", x_label, "FLOP per byte", climbing, "xy", marks=marks, promises=ridges),
        Plot("On the roofline", "FLOP per byte", "TFLOP per second of a GPU", (*paths, *roofs), "xy"),
    ]


def _drawable(values: Array) -> list[float]:
    """Values with a place on a logarithmic axis; gaps for others."""
    return [value if value > 0.0 else nan for value in values.tolist()]


def _drawn(answer: Intensity) -> list[IntensitySweep]:
    """The step, and of each kind of operator the one that takes longest at the largest value."""
    longest = sorted(answer.operators, key=lambda sweep: -float(sweep.worked_seconds[-1]))
    kinds: dict[str, IntensitySweep] = {}
    for sweep in longest:
        kinds.setdefault(_kind(sweep.name), sweep)
    return [answer.step, *list(kinds.values())[:_LINES]]


def _kind(name: str) -> str:
    """Attention by itself, experts, or anything else with weights."""
    return "experts" if name.startswith("expert") else name if name == "attention" else "dense"


def _roof(answer: Intensity, unit: str, lines: Sequence[IntensitySweep]) -> PlotSeries:
    """Line of what the chip could do at each intensity."""
    setup, peak = answer.setup, answer.setup.peaks[unit]
    seen = np.concatenate([sweep.flop_per_byte[sweep.flop_per_byte > 0.0] for sweep in lines])
    across = [float(seen.min()) / 2.0, ridge(setup, unit), max(2.0 * float(seen.max()), 2.0 * ridge(setup, unit))]
    reached = attainable(across, setup.hardware.hbm_bytes_per_second, peak) / 1e12
    return PlotSeries(f"roof of {unit}", across, reached.tolist())
