"""One explained step as a table and as data (floor 7)."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from inference_econ.engine import StepCosts
from inference_econ.explanation import Explanation
from inference_econ.tables import PART_NAMES, Table, dollars, layout_label


def explain_table(explanation: Explanation) -> Table:
    """The parts of one step, largest first."""
    costs = explanation.costs
    total = float(costs.seconds.ravel()[0])
    found = sorted(_single(costs).items(), key=lambda item: -item[1])
    rows = tuple(
        (PART_NAMES[name], f"{seconds * 1e3:.3f}", f"{100 * seconds / total:.1f}")
        for name, seconds in found
        if seconds > 0
    )
    rows = (*rows, ("step", f"{total * 1e3:.3f}", "100.0"))
    return Table(explanation.title, ("part", "ms", "share %"), rows, _explain_notes(explanation))


def _explain_notes(explanation: Explanation) -> tuple[str, ...]:
    """What a step means for users, money and memory."""
    question, needed = explanation.question, explanation.memory
    weights, cache, available = needed.of_one_plan()
    cost = (
        "no price known"
        if explanation.dollars is None
        else f"${dollars(explanation.dollars)} per million output tokens"
    )
    notes = [
        f"Layout {layout_label(explanation.layout)}, batch {explanation.batch:g}, context {question.context:g}, "
        f"weights {question.precision.weights}, KV {question.precision.kv}. "
        f"Assumptions: {question.assumptions.name}.",
        f"Limited by {PART_NAMES[explanation.limited_by]}: {explanation.tokens_per_second:.1f} tokens/s per user, "
        f"{cost}, MFU {100 * explanation.mfu:.1f} %.",
        f"Memory: {weights / 1e9:.1f} GB of weights and {cache / 1e9:.1f} GB of KV cache of "
        f"{available / 1e9:.1f} GB ({100 * (weights + cache) / available:.0f} %).",
    ]
    unit = question.unit(question.precision.weights)
    if unit != question.precision.weights:
        notes.append(f"{question.precision.weights} weights run on the {unit} units of this chip.")
    return tuple(notes)


def _single(costs: StepCosts) -> dict[str, float]:
    return {name: float(np.ravel(value)[0]) for name, value in costs.parts.items()}


def operator_table(explanation: Explanation) -> Table:
    """The operator table of a step: what each row does, and what bounds it."""
    question = explanation.question
    rows = tuple(
        (
            one.name,
            f"{one.repeats:g}",
            one.unit,
            f"{one.flop / 1e9:.4g}",
            f"{one.moved_bytes / 1e6:.4g}",
            f"{one.flop / one.moved_bytes:.3g}" if one.moved_bytes else "-",
            f"{one.compute_seconds * 1e3:.3f}",
            f"{one.memory_seconds * 1e3:.3f}",
            f"{one.network_seconds * 1e3:.3f}",
            one.bound,
        )
        for one in explanation.operators
    )
    columns = (
        "operator", "times", "unit", "GFLOP", "MB", "FLOP/B", "arithmetic ms", "memory ms", "network ms", "bound",
    )  # fmt: skip
    ridges = {one.unit: question.hardware.dense_flops_per_second[one.unit] for one in explanation.operators}  # type: ignore[index]
    bandwidth = question.hardware.hbm_bytes_per_second
    ridge = ", ".join(f"{unit} {peak / bandwidth:.0f}" for unit, peak in ridges.items())
    notes = (f"Per accelerator, all repeats of a step. Ridge of the chip, FLOP per byte at its peaks: {ridge}.",)
    return Table("Operators", columns, rows, notes)


def explain_record(explanation: Explanation) -> dict[str, object]:
    """One explained step as plain data."""
    costs = explanation.costs
    weights, cache, available = explanation.memory.of_one_plan()
    return {
        "model": explanation.question.model.name,
        "hardware": explanation.question.hardware.name,
        "assumptions": explanation.question.assumptions.name,
        "weights": explanation.question.precision.weights,
        "math_unit": explanation.question.unit(explanation.question.precision.weights),
        "context": explanation.question.context,
        "batch": explanation.batch,
        "layout": dict(explanation.layout),
        "step_seconds": float(np.ravel(costs.seconds)[0]),
        "seconds_by_part": _single(costs),
        "busy_seconds": {name: float(np.ravel(value)[0]) for name, value in costs.busy.items()},
        "limited_by": explanation.limited_by,
        "operators": [
            {**{field.name: getattr(one, field.name) for field in fields(one)}, "bound": one.bound}
            for one in explanation.operators
        ],
        "tokens_per_second_per_user": explanation.tokens_per_second,
        "dollars_per_million_output_tokens": explanation.dollars,
        "mfu": explanation.mfu,
        "weight_bytes": weights,
        "kv_bytes": cache,
        "available_bytes": available,
    }


def named_parts(explanation: Explanation) -> dict[str, float]:
    """Seconds by part under the names that people read."""
    return {PART_NAMES[name]: seconds for name, seconds in _single(explanation.costs).items()}
