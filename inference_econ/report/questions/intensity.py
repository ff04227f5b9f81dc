"""Page with the arithmetic intensity of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, nan

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.explain import ridge
from inference_econ.answers.intensity import STEP, Axis, Intensity, IntensitySweep
from inference_econ.formulas.roofline import attainable
from inference_econ.records.texts import amount, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.headings import basis_label, heading, subject_label
from inference_econ.report.notes import cannot_start, setup_warnings, unit_notes
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import started

#: Text of each variable: in a sentence, on an axis, and with a value.
_WORDS: Mapping[Axis, tuple[str, str, str]] = {
    "batch": ("the batch", "sequences decoded together", "batch {}"),
    "context": ("the context", "tokens in the cache of each sequence", "context {}"),
    "prompt": ("the prompt", "prompt tokens that a step reads of each sequence", "{} prompt tokens"),
}
#: Maximum lines of a chart in addition to the step, one color each [1].
_LINES = 3


class IntensityPage(AnswerPage[Intensity]):
    """Page that shows at which value a step changes from memory-bound to compute-bound."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per operator: arithmetic intensity at the smallest and largest value, and turning point.

        The last row shows the whole step.
        """
        answer = self.answer
        closed = answer.over != "context"
        rows: list[tuple[str, ...]] = []
        for name, sweep in {**{sweep.name: sweep for sweep in answer.operators}, STEP: answer.step}.items():
            ends = (float(sweep.flop_per_byte[index]) for index in (0, -1))
            ridges = " ".join(f"{ridge(answer.setup, unit):.0f} {unit}" for unit in sweep.unit.split("+") if unit)
            rows.append((name, *(amount(value) if isfinite(value) else "-" for value in ends), ridges, *_turns(sweep)))
            if closed:
                rows[-1] += ("-" if sweep.closed_form is None else f"{sweep.closed_form:,.0f}",)
        first, last = (f"{value:,.0f}" for value in (answer.values[0], answer.values[-1]))
        columns = (
            *("operator", f"FLOP/B at {first}", f"at {last}", "ridge", "memory-bound", "compute-bound"),
            *(["closed form"] if closed else []),
        )
        why = (
            "An operator is compute-bound if its arithmetic takes longer than its memory traffic, at the kernel "
            f"rates of {answer.setup.assumptions.name}. Network and kernel launches are excluded. 'step': sum of all "
            "operators.",
            "'ridge': FLOP per byte above which an operator is compute-bound at the peaks of the GPU.",
            *(
                ["'closed form': bytes per weight x ridge / 2, divided by the share of tokens that use the weights."]
                if closed
                else []
            ),
            basis_label(answer.setup),
            *unit_notes(answer.setup),
        )
        least = ("ridge", "closed form")
        return (Table(intensity_title(answer), columns, tuple(rows), tuple(_notes(answer)), why, least),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of arithmetic intensity against the variable, and chart of the operators along the roofline."""
        title = f"From which {self.answer.over} on is arithmetic the limit?\n{intensity_title(self.answer)}"
        return {"intensity": charts.line_charts(intensity_charts(self.answer), title)}

    def question(self) -> str:
        """Question that the page answers: from which value of the variable the step is compute-bound."""
        return f"From which {self.answer.over} on is arithmetic the limit of {subject_label(self.answer.setup)}?"

    def conclusion(self) -> Pieces:
        """Sentence on the limit of the whole step."""
        return [step_sentence(self.answer)]


def intensity_title(answer: Intensity) -> str:
    """Heading in one line: variable, model, GPU and lengths."""
    setup, over = answer.setup, answer.over
    gpus = f"{answer.accelerators:g} GPU{'s' if answer.accelerators > 1 else ''}"
    phase = "decode" if answer.prompt is None else "prefill"
    fixed = [] if over == "context" else [f"context {setup.context:g}"]
    fixed += [] if over == "batch" else [f"batch {answer.batch:g}"]
    fixed += [f"{answer.prompt:g} prompt tokens"] if answer.prompt is not None and over != "prompt" else []
    return heading(f"A {phase} step on {gpus} over {_WORDS[over][0]}", [setup], [", ".join(fixed)])


def _notes(answer: Intensity) -> Iterator[str]:
    """Sentences on the result, and important notes."""
    yield f"Layout {layout_label(answer.layout)}{started(answer.layout)}. {step_sentence(answer)}"
    gpus, latent = float(answer.layout["stage"]), any(it.attention.kind == "latent" for it in answer.setup.model.blocks)
    for sweep in answer.operators:
        if sweep.name == "attention" and latent and answer.prompt is None and gpus > 1.0:
            # A GPU reads the whole latent KV cache for its heads.
            whole = float(sweep.flop_per_byte[-1]) * float(answer.layout["tp"])
            yield (
                f"Latent attention has {amount(whole / gpus)} FLOP/B with tp{gpus:g}, which splits the heads, and "
                f"{amount(whole)} FLOP/B with dp{gpus:g}."
            )
    if answer.room is not None:
        turn, unit = answer.step.turns_at, _WORDS[answer.over][2]
        before = ", less than that" if turn is not None and answer.room < turn else ""
        yield f"Memory suffices up to {unit.format(f'{answer.room:,.0f}')}{before}."
    for sweep in answer.operators:
        if answer.over == "batch" and sweep.name == "attention" and sweep.bound == "memory" and sweep.turns_at is None:
            yield (
                f"Attention stays at {amount(float(sweep.flop_per_byte[-1]))} FLOP/B at any batch, because each "
                "sequence reads its own cache. Long contexts limit the gain of larger batches."
            )
    if answer.sparsity > 1.0 and answer.over != "context":
        yield (
            f"Each expert gets 1 of {answer.sparsity:.3g} tokens on average. To become compute-bound, experts need "
            f"{answer.sparsity:.3g}x the batch of dense weights."
        )
    yield from cannot_start([answer.setup])
    yield from setup_warnings(answer.setup)


def _turns(sweep: IntensitySweep) -> tuple[str, str]:
    """Table cells with the range in which memory is the limit, and with the range in which compute is the limit."""
    if sweep.turns_at is None:
        throughout = ("throughout", "-")
        return throughout if sweep.bound == "memory" else throughout[::-1]
    before, after = f"to {sweep.turns_at - 1:,.0f}", f"from {sweep.turns_at:,.0f}"
    return (before, after) if sweep.bound == "compute" else (after, before)


def step_sentence(answer: Intensity) -> str:
    """Sentence on the limit of the whole step."""
    step, unit = answer.step, _WORDS[answer.over][2]
    names = {"compute": "arithmetic", "memory": "memory traffic"}
    if step.turns_at is None:
        return f"The step is limited by {names[step.bound]} at each {answer.over} up to {answer.values[-1]:,.0f}."
    other = names["memory" if step.bound == "compute" else "compute"]
    value = unit.format(f"{step.turns_at:,.0f}")
    return f"From {value} on, the step is limited by {names[step.bound]}; below {value}, by {other}."


def intensity_charts(answer: Intensity) -> list[Plot]:
    """Chart data against the variable: arithmetic intensity with ridge points, and arithmetic rates with roofs."""
    # Operator of each kind with the longest time at the largest value.
    kinds: dict[str, IntensitySweep] = {}
    for sweep in sorted(answer.operators, key=lambda sweep: -float(sweep.worked_seconds[-1])):
        name = sweep.name
        kind = "experts" if name.startswith("expert") else name if name == "attention" else "dense"
        kinds.setdefault(kind, sweep)
    lines, setup = [answer.step, *list(kinds.values())[:_LINES]], answer.setup
    ridges = {unit: ridge(setup, unit) for sweep in lines for unit in sweep.unit.split("+") if unit}
    climbing = tuple(
        PlotSeries(sweep.name or STEP, answer.values.tolist(), _drawable(sweep.flop_per_byte)) for sweep in lines
    )
    paths = [
        PlotSeries(sweep.name or STEP, _drawable(sweep.flop_per_byte), _drawable(sweep.flops_per_second / 1e12))
        for sweep in lines
    ]
    seen = np.concatenate([sweep.flop_per_byte[sweep.flop_per_byte > 0.0] for sweep in lines])
    for unit, at in ridges.items():
        across = [float(seen.min()) / 2.0, at, max(2.0 * float(seen.max()), 2.0 * at)]
        reached = attainable(across, setup.hardware.hbm_bytes_per_second, setup.peaks[unit]) / 1e12
        paths.append(PlotSeries(f"roof of {unit}", across, reached.tolist()))
    marks = {} if answer.room is None else {"room in memory": answer.room}
    promises = {f"ridge of {unit}: {at:.0f} FLOP/B": at for unit, at in ridges.items()}
    return [
        Plot("Intensity", _WORDS[answer.over][1], "FLOP per byte", climbing, "xy", marks=marks, promises=promises),
        Plot("On the roofline", "FLOP per byte", "TFLOP per second of a GPU", tuple(paths), "xy"),
    ]


def _drawable(values: Array) -> list[float]:
    """Replace values that a logarithmic axis cannot show by NaN."""
    return [value if value > 0.0 else nan for value in values.tolist()]
