"""Pages of one decode or prefill step, and of the arithmetic intensity of operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.explain import (
    STEP,
    Axis,
    Explanation,
    Intensity,
    IntensitySweep,
    operator_records,
    quantities_of,
    ridge,
    seconds_by_part,
    shown_parts,
)
from inference_econ.engine import MACHINE, MEASURED, bounds, recorded_key
from inference_econ.errors import InputError
from inference_econ.formulas.roofline import attainable
from inference_econ.records.plain import Frame, frame_of
from inference_econ.records.texts import PART_NAMES, amount, dollars, layout_label, words
from inference_econ.report import charts, page
from inference_econ.report.equations import equations_of
from inference_econ.report.fields import view
from inference_econ.report.headings import basis_label, heading, step_heading
from inference_econ.report.notes import (
    doubts,
    extrapolations,
    interval_note,
    no_engine,
    omitted_drafts,
    setup_warnings,
    startable_notes,
    unit_notes,
)
from inference_econ.report.page import AnswerPage, Block, ShareBar, Table
from inference_econ.report.service import power_basis, started


@dataclass(frozen=True)
class ExplanationPage(AnswerPage[Explanation]):
    """Page that shows the parts of one decode or prefill step."""

    operators: bool | None = None
    """True to show operators, False to hide them. By default, tables show operators and data rows do not."""
    memory: bool | None = None
    """True to show the memory of a GPU by use. By default, tables that show operators also show memory."""

    def tables(self) -> Sequence[page.Table]:
        """Table of the parts of the step; if requested, also tables of its operators and of memory."""
        wanted = self.operators is not False
        return (
            explain_table(self.answer),
            *([operator_table(self.answer)] if wanted else []),
            *([memory_table(self.answer)] if (wanted if self.memory is None else self.memory) else []),
        )

    def frame(self) -> Frame:
        """Return one row per part of the step.

        If requested, return one row per operator or per use of memory instead.
        """
        if self.operators and self.memory:
            raise InputError(
                "rows are of operators or of the memory: give --operators or --memory, or ask for json",
                option="operators",
            )
        if self.memory:
            held, total = self.answer.held, sum(self.answer.held.values())
            rows = [(name, held[name], held[name] / total) for name in _HELD_NAMES if held.get(name)]
            return frame_of(rows, columns=["part", "bytes", "share"])
        return frame_of(operator_records(self.answer)) if self.operators else super().frame()

    def blocks(self) -> Sequence[Block]:
        """Tables of the page, with a bar of the parts of the step after the first table."""
        parts, *others = self.tables()
        return parts, ShareBar({name: max(value, 0.0) for name, value in named_parts(self.answer).items()}), *others

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Waterfall chart of the step, and roofline chart of its operators."""
        step, total, likely = self.answer, 1e3 * self.answer.seconds, None
        if step.prompt is None:
            (instances,) = step.subjects()
            around = bounds.around(instances, "tpot")
            likely = None if around is None else (total * around.low, total * around.high)
        largest = sorted(named_parts(step).items(), key=lambda item: -item[1])
        lengths = {name: 1e3 * seconds for name, seconds in largest} | {"step": total}
        texts = {name: (ms, f"{ms:.3g} ms, {100 * ms / total:.1f} %") for name, ms in lengths.items()}
        whole = "step", texts.pop("step")[1]
        setting = f"{step_heading(step)}\n{layout_label(step.layout)}, batch {step.batch:g}"
        title = f"Where does the time of a step go?\n{setting}"
        why = f"What keeps the operators of a step from the chip's peaks?\n{setting}"
        roof = charts.roofline(step.setup, step.operators, step.seconds)
        return {
            "step": charts.waterfall_chart(title, "milliseconds", texts, whole, likely),
            "roofline": charts.roofline_chart(roof, why),
        }


def explain_table(explanation: Explanation) -> page.Table:
    """Table of the parts of a step, largest first."""
    total, names = explanation.seconds, dict(PART_NAMES)
    if explanation.setup.levels is not None:
        level = explanation.setup.levels.level(recorded_key(explanation.layout))
        if level is not None:
            names[MEASURED] = f"measured factor {math.exp(level.decode):.2f}x ({level.rows} runs)"
    rows = [
        (names[name], f"{seconds * 1e3:.3f}", f"{100 * seconds / total:.1f}")
        for name, seconds in shown_parts(explanation)
    ]
    rows.append(("step", f"{total * 1e3:.3f}", "100.0"))
    notes, why = tuple(_explain_notes(explanation)), tuple(_explain_why(explanation))
    return page.Table(step_heading(explanation), ("part", "ms", "share %"), tuple(rows), notes, why)


def _explain_notes(explanation: Explanation) -> Iterator[str]:
    """Notes on the layout, user speed, cost and power of the step, and warnings."""
    setup, layout, uncapped = explanation.setup, explanation.layout, explanation.uncapped_seconds
    if uncapped is not None:
        slower = 100.0 * (explanation.seconds / (uncapped or explanation.seconds) - 1.0)
        yield f"The power cap of {setup.hardware.power_cap:g} W makes the step {slower:.1f}% longer."
    replicas, share = float(layout["dp"]), ""
    if replicas > 1:
        share = f" ({explanation.batch / replicas:g} per attention rank, {replicas:g} ranks)"
    plain = "" if explanation.prompt is not None else omitted_drafts(setup)
    yield f"Layout {layout_label(layout)}{started(layout)}, batch {explanation.batch:g}{share}{plain}."

    yield from doubts([setup], explanation.subjects())
    yield from setup_warnings(setup)
    kind, cost = "output" if explanation.prompt is None else "prompt", "no price known"
    if explanation.dollars is not None:
        cost = f"${dollars(explanation.dollars)} per million {kind} tokens"
    speed = f"{explanation.tokens_per_second:.1f} tokens/s per user"
    if explanation.prompt is not None:
        speed = f"{1e3 * explanation.seconds:.1f} ms for {explanation.prompt:g} prompt tokens"
    yield f"Limited by {PART_NAMES[explanation.limited_by]}: {speed}, {cost}, MFU {100 * explanation.mfu:.1f}%."

    if explanation.joules is not None:
        chip = setup.hardware
        tokens = explanation.batch * (explanation.prompt or 1.0) / explanation.accelerators
        yield (
            f"A GPU board draws {explanation.joules / explanation.seconds:.0f} of its {chip.watts:g} W, "
            f"{amount(explanation.joules / tokens)} J per token ({power_basis(setup)})."
        )

    if explanation.beside_seconds is not None:
        times, alone = explanation.seconds / explanation.beside_seconds, f"{1e3 * explanation.beside_seconds:.4g} ms"
        if setup.contexts:
            longest = max(length for length, _ in setup.contexts)
            yield (
                f"If all sequences had the mean length of {setup.context:g} tokens, the step would take {alone} "
                f"({100 * (1 / times - 1):+z.2f}%). The longest sequence has {longest:g} tokens."
            )
        else:
            yield f"The step runs without a KV cache. With a KV cache, a step takes {alone}, {amount(times)}x less."


def _explain_why(explanation: Explanation) -> Iterator[str]:
    """Notes on the basis of a step: equations, memory, pipeline stages, errors, and engines that support the step."""
    setup, needed, (instances,) = explanation.setup, explanation.memory, explanation.subjects()
    yield f"{basis_label(setup)} Assumptions: {setup.assumptions.name}."
    yield equations_of(name for name, _ in shown_parts(explanation))

    weights, cache, available = needed.of_one_plan()
    workspace = float(np.ravel(needed.workspace_bytes)[0])
    yield (
        f"Weights ({weights / 1e9:.1f} GB) and KV cache ({cache / 1e9:.1f} GB) take "
        f"{100 * (weights + cache) / available:.0f}% of the available {available / 1e9:.1f} GB"
        + (f" (after a workspace of {workspace / 1e9:.1f} GB)." if workspace else ".")
    )
    if explanation.streamed_seconds:
        seconds, rate = explanation.streamed_seconds, setup.rates.host_bytes_per_second
        hidden = seconds - float(np.ravel(explanation.costs.parts["host_memory"])[0])
        read = {"weights": explanation.streamed_bytes, "KV cache": explanation.paged_bytes}
        listed = " and ".join(f"{size / 1e9:.1f} GB of {name}" for name, size in read.items() if size)
        yield (
            f"In each step, a GPU reads {listed} from host memory. This takes {1e3 * seconds:.1f} ms at "
            f"{rate / 1e9:.4g} GB/s, and {1e3 * hidden:.1f} ms of it overlap with other work."
        )

    depth, layers = float(explanation.layout["pp"]), setup.model.layers
    fullest = math.ceil(layers / depth)
    if fullest * depth > layers:
        yield (
            f"The largest of {depth:g} pipeline stages has {fullest} of {layers} layers. It limits speed and memory, "
            f"as if the model had {fullest * depth:g} layers."
        )

    quantities = quantities_of(explanation)
    if not quantities and setup.assumptions.calibration is not None:
        yield "A single prefill step has no interval, because measured TTFTs include load."
    else:
        around, spread = bounds.around(instances, "tpot"), interval_note(instances, quantities)
        ms, errors = 1e3 * explanation.seconds, ""
        if around is not None:
            errors = f"The step takes {ms:.4g} ms (80% interval {ms * around.low:.4g} to {ms * around.high:.4g} ms). "
        yield errors + spread

    apart = explanation.in_machines_seconds
    if apart is not None:
        yield (
            f"The fast links between {setup.hardware.link_domain} GPUs make the step "
            f"{apart / explanation.seconds:.3g}x faster. On nodes of {MACHINE} GPUs, the step would take "
            f"{1e3 * apart:.4g} ms."
        )
    yield from extrapolations(instances)
    yield from startable_notes([setup])
    yield from unit_notes(setup)


def operator_table(explanation: Explanation) -> page.Table:
    """Table of operators, with the work, time and limit of each."""
    ridges = [f"{ridge(explanation.setup, row.unit):.0f} {row.unit}" for row in explanation.operators]
    columns = (
        "name", "repeats", "flop", "moved_bytes", "flop_per_byte", ("ridge", ridges), "seconds", "collective_bytes",
        "network_seconds", "launch_seconds", "bound", "achieved", *(("joules",) if explanation.joules else ()),
    )  # fmt: skip
    notes = [
        "Values are per GPU, summed over all repeats in a step. 'ridge': FLOP per byte above which arithmetic limits "
        "the operator, at the peaks of its compute unit and memory.",
        "'ms': the longer of arithmetic and memory time, plus network and launch time. 'bound': the longest of "
        "the arithmetic, memory, network and launch times.",
        "'net MB': size of the tensors that one group of ranks all-reduces or exchanges.",
        "'peak %': achieved share of the GPU's peak, of arithmetic or of memory bandwidth, whichever is larger.",
    ]
    if explanation.joules is not None:
        idle = 1e3 * (explanation.idle_joules or 0.0)
        notes.append(
            f"'mJ' excludes the {idle:.4g} mJ that the board would draw in this time if idle. With idle energy, "
            f"the step takes {1e3 * explanation.joules:.4g} mJ."
        )
    setup, ranks = explanation.setup, float(explanation.layout["tp"])
    peers, link = setup.hardware.link_peers, setup.hardware.link_bytes_per_second_one_way
    if peers is not None and link is not None and ranks >= 2 and setup.assumptions.network.mesh_links != "pooled":
        used = min(ranks, setup.hardware.link_domain) - 1.0
        notes.append(
            f"Each GPU has direct links to {peers} peers. A group of {ranks:g} tensor-parallel ranks uses {used:g} of "
            f"the links, {used / peers * link / 1e9:.4g} of {link / 1e9:.4g} GB/s."
        )
    apart = sum(row.seconds for row in explanation.operators)
    if not math.isclose(apart, explanation.seconds, rel_tol=1e-9):
        notes.append(
            f"The rows add up to {1e3 * apart:.3f} ms, but the step takes {1e3 * explanation.seconds:.3f} ms, because "
            "operators overlap and the CPU adds time."
        )
    least = ("ridge", "achieved", "launch_seconds", "collective_bytes", "network_seconds", "flop_per_byte", "repeats")
    return view("Operators", operator_records(explanation), columns, kind="operator", why=notes, least=least)


#: Display names of the uses of memory.
_HELD_NAMES = words("memory")


def memory_table(explanation: Explanation) -> page.Table:
    """Table of the memory of a GPU by use."""
    held, total = explanation.held, sum(explanation.held.values())
    parts = [(text, held[name]) for name, text in _HELD_NAMES.items() if held.get(name)]
    rows = tuple((text, f"{taken / 1e9:.3f}", f"{100 * taken / total:.1f}") for text, taken in (*parts, ("all", total)))
    notes = ("Values are means over all GPUs, and include all copies of weights and KV cache.",)
    return page.Table("Memory of a GPU", ("part", "GB", "share %"), rows, why=notes)


def named_parts(explanation: Explanation) -> dict[str, float]:
    """Time of each part by display name [s]."""
    return {PART_NAMES[name]: seconds for name, seconds in seconds_by_part(explanation.costs).items()}


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
        return (Table(intensity_title(answer), columns, tuple(rows), tuple(_intensity_notes(answer)), why, least),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of arithmetic intensity against the variable, and chart of the operators along the roofline."""
        title = f"From which {self.answer.over} on is arithmetic the limit?\n{intensity_title(self.answer)}"
        return {"intensity": charts.line_charts(intensity_charts(self.answer), title)}


def intensity_title(answer: Intensity) -> str:
    """Heading in one line: variable, model, GPU and lengths."""
    setup, over = answer.setup, answer.over
    gpus = f"{answer.accelerators:g} GPU{'s' if answer.accelerators > 1 else ''}"
    phase = "decode" if answer.prompt is None else "prefill"
    fixed = [] if over == "context" else [f"context {setup.context:g}"]
    fixed += [] if over == "batch" else [f"batch {answer.batch:g}"]
    fixed += [f"{answer.prompt:g} prompt tokens"] if answer.prompt is not None and over != "prompt" else []
    return heading(f"A {phase} step on {gpus} over {_WORDS[over][0]}", [setup], [", ".join(fixed)])


def _intensity_notes(answer: Intensity) -> Iterator[str]:
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
    yield from no_engine([answer.setup])
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


def intensity_charts(answer: Intensity) -> list[charts.Plot]:
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
        charts.PlotSeries(sweep.name or STEP, answer.values.tolist(), _drawable(sweep.flop_per_byte)) for sweep in lines
    )
    paths = [
        charts.PlotSeries(sweep.name or STEP, _drawable(sweep.flop_per_byte), _drawable(sweep.flops_per_second / 1e12))
        for sweep in lines
    ]
    seen = np.concatenate([sweep.flop_per_byte[sweep.flop_per_byte > 0.0] for sweep in lines])
    for unit, at in ridges.items():
        across = [float(seen.min()) / 2.0, at, max(2.0 * float(seen.max()), 2.0 * at)]
        reached = attainable(across, setup.hardware.hbm_bytes_per_second, setup.peaks[unit]) / 1e12
        paths.append(charts.PlotSeries(f"roof of {unit}", across, reached.tolist()))
    marks = {} if answer.room is None else {"room in memory": answer.room}
    promises = {f"ridge of {unit}: {at:.0f} FLOP/B": at for unit, at in ridges.items()}
    return [
        charts.Plot(
            "Intensity", _WORDS[answer.over][1], "FLOP per byte", climbing, "xy", marks=marks, promises=promises
        ),
        charts.Plot("On the roofline", "FLOP per byte", "TFLOP per second of a GPU", tuple(paths), "xy"),
    ]


def _drawable(values: Array) -> list[float]:
    """Replace values that a logarithmic axis cannot show by NaN."""
    return [value if value > 0.0 else nan for value in values.tolist()]
