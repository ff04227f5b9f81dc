"""Page of one explained step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inference_econ.answers.explain import (
    Explanation,
    operator_records,
    quantities_of,
    ridge,
    seconds_by_part,
    shown_parts,
)
from inference_econ.engine import MACHINE, MEASURED, bounds, recorded_key
from inference_econ.errors import InputError
from inference_econ.records.plain import Frame, frame_of
from inference_econ.records.texts import PART_NAMES, amount, dollars, layout_label, words
from inference_econ.report import charts, page
from inference_econ.report.equations import equations_of
from inference_econ.report.error_notes import extrapolations, interval_note
from inference_econ.report.fields import view
from inference_econ.report.headings import basis_label, step_heading, subject_label
from inference_econ.report.notes import doubts, setup_warnings, startable_notes, unit_notes
from inference_econ.report.page import AnswerPage, Block, Pieces, ShareBar
from inference_econ.report.service import milliseconds, power_basis, started


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

    def draw_roofline(self, path: str) -> None:
        """Draw the roofline chart to a file."""
        charts.write_chart(self.charts()["roofline"], path)

    def question(self) -> str:
        """Question that the page answers: which parts the time of the step has."""
        phase = "decode" if self.answer.prompt is None else "prefill"
        return f"Where does the time of a {phase} step of {subject_label(self.answer.setup)} go?"

    def conclusion(self) -> Pieces:
        """Sentence on the step time with its three largest parts, and its cost if the GPU has a price."""
        step, parts = self.answer, named_parts(self.answer)
        largest, total = sorted(parts.items(), key=lambda part: -part[1])[:3], sum(parts.values())
        shares = ", ".join(f"{100 * value / total:.0f} % {name}" for name, value in largest)
        time = f"It takes {milliseconds(step.seconds)} ms, limited by {PART_NAMES[step.limited_by]}: {shares}"
        cost = [] if step.dollars is None else ["; a million tokens cost $", dollars(step.dollars)]
        return (time, *cost, ".")


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
    yield f"Layout {layout_label(layout)}{started(layout)}, batch {explanation.batch:g}{share}."

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
