"""Page with the sensitivity of a result to its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.records.plain import attributes
from inference_econ.records.texts import amount, dollars, layout_label, quantity, size, words
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries, Tornado, TornadoBar
from inference_econ.report.headings import basis_label, frontiers_title
from inference_econ.report.notes import setup_warnings
from inference_econ.report.page import AnswerPage, Table
from inference_econ.studies.what_if import WhatIf, size_of

#: Maximum inputs in a chart of elasticities over speed: those with the largest effect on cost [1].
_MOST_LINES = 6
#: Indices of the smallest and the largest value of an input in its range.
_ENDS = (0, -1)
#: Ratio of two values between which an abrupt change is reported at a single value [1].
_POINT = 1.02


class WhatIfPage(AnswerPage[WhatIf]):
    """Page that shows how much each input affects a result."""

    def tables(self) -> Sequence[Table]:
        """Table of elasticities; if the result changes abruptly at some input values, also a table of these values."""
        steps = steps_table(self.answer)
        return (effects_table(self.answer), *([steps] if steps.rows else []))

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of the effect of each input on cost and speed, and of the effect of a 1% change at each speed."""
        answer, speeds, heading = self.answer, list(self.answer.speeds), frontiers_title([self.answer.front])
        title = f"Which inputs change cost and speed most?\n{heading}\n{_at(answer)}"
        panels = tornados(answer)
        if not all(math.isfinite(bar.factor) for panel in panels for bar in panel.bars):
            title += "\nNone: no deployment is as fast (left chart) or as cheap (right chart)."
        drawn: dict[str, charts.AnyChart] = {"tornado": charts.tornado_chart(panels, title)}
        if len(speeds) > 1:
            # Elasticities of cost over speed, for the inputs with the largest effect at any speed.
            moved = {effect.input.label: [effect.cost(at) for at in range(len(speeds))] for effect in answer.effects}
            most = sorted(moved, key=lambda label: -max(map(size_of, moved[label])))[:_MOST_LINES]
            lines = tuple(PlotSeries(label, speeds, moved[label]) for label in most)
            title, label = (
                f"Which inputs change cost at each speed?\n{heading}",
                "change of cost per 1% more of the input (%)",
            )
            plot = Plot(title, "tokens per second per user", label, lines, "", from_zero=False)
            drawn["along"] = charts.line_chart(plot)
        return drawn


def effects_table(answer: WhatIf) -> Table:
    """Table with one row per input, largest effect on cost first."""
    several, front = len(answer.speeds) > 1, answer.front
    services = isinstance(front, ServiceFrontier)
    promised = list(front.promises.given) if isinstance(front, ServiceFrontier) else []
    heads = [f"$ at {speed:.4g}" for speed in answer.speeds]
    if not several:
        heads = ["$ at this speed", "$ same layout", "speed at this $", "speed, same load"]
        heads += [f"room to {name.upper()}" for name in promised]
    rows = []
    for effect in answer.by_size:
        slopes = [effect.cost(index) for index in range(len(answer.speeds))]
        if not several:
            rooms = answer.rooms(effect)
            slopes += [effect.cost_of_layout(), effect.speed, effect.held_speed, *(rooms[name] for name in promised)]
        varied = effect.input
        rows.append((varied.label, quantity(varied.value, varied.unit), *map(_signed, slopes)))
    low, high = (f"{100 * (end - 1):+.0f}" for end in answer.span)
    notes = (
        _at(answer),
        f"Elasticity: change in % if the input grows by 1% (fitted to input changes of {low}% to {high}%). For each "
        "value of an input, the cheapest layout is searched again.",
        *setup_warnings(front.setup),
    )
    layout = "layout" if services else "size of instance, in its fastest layout at every value,"
    why = (
        "An elasticity is the slope of a line through the logarithms of five values, which smooths the steps between "
        "discrete layouts. Counts, such as layers, take the nearest values that divide evenly over the GPUs.",
        f"'$ at this speed': lowest cost at this speed or above. '$ same layout': cost of the {layout} that is "
        "cheapest now. 'speed at this $': highest speed at the same cost.",
        "'speed, same load': speed of the same layout at the same concurrency. 'room': SLO divided by the mean "
        "latency. Cost is interpolated between batches of one layout, never between layouts.",
        basis_label(front.setup),
        f"Assumptions: {front.setup.assumptions.name}.",
    )
    least = ("value", "$ same layout", "speed, same load")
    return Table(frontiers_title([front]), ("input", "value", *heads), tuple(rows), notes, why, least)


def _at(answer: WhatIf) -> str:
    """Sentence on the result with unchanged inputs: speed, cost, GPUs and layout."""
    best = answer.best[0]
    counted = "concurrent requests" if isinstance(answer.front, ServiceFrontier) else "sequences per batch"
    return (
        f"At {amount(answer.speeds[0])} tokens/s per user: ${dollars(best.dollars)} per million output tokens, "
        f"{size(answer.accelerators)} GPUs, {layout_label(answer.layout)}, {answer.concurrency[0]:.3g} {counted}."
    )


def _signed(elasticity: float) -> str:
    return "-" if math.isnan(elasticity) else f"{elasticity:+.2f}".replace("-0.00", "0.00").replace("+0.00", "0.00")


#: Descriptions of the kinds of abrupt changes.
_HAPPENS = words("step")


def steps_table(answer: WhatIf) -> Table:
    """Table of the input values at which the result changes abruptly.

    If the cost is constant on both sides of a change, one row has the two values between which the cost changes.
    """
    rows = []
    for effect in answer.by_size:
        flat, varied = {step.kind: step for step in effect.steps if step.kind in ("flat_to", "flat_from")}, effect.input
        for step in sorted(effect.steps, key=lambda step: step.low):
            low, high = quantity(step.low, varied.unit), quantity(step.high, varied.unit)
            if len(flat) < 2 or step.kind not in flat:
                at = f"{low} to {high}"
                if varied.whole or step.high < _POINT * step.low:
                    at = low if step.kind == "flat_to" else high
                layouts = attributes(step, "layout before")
                labels = {name: "" if layout is None else layout_label(layout) for name, layout in layouts.items()}
                rows.append((varied.label, at, _HAPPENS[step.kind].format(**labels)))
            elif step.kind == "flat_to":
                end = quantity(flat["flat_from"].high, varied.unit)
                rows.append((varied.label, f"{low} to {end}", _HAPPENS["flat_but"]))
    notes = (
        f"Steps are abrupt changes of the cost at {amount(answer.speeds[0])} tokens/s per user. --input NAME locates "
        "the steps of an input within 1%.",
    )
    return Table("Steps", ("input", "value", "effect"), tuple(rows), notes)


def tornados(answer: WhatIf) -> tuple[Tornado, Tornado]:
    """Data of two tornado charts for the ends of the input ranges: cost at equal speed, and speed at equal cost.

    The label of an input that is a count shows both ends of the range. Labels also show the values at which no
    deployment has this speed or cost.
    """
    low, high = answer.span
    ends = (f"input {100 * (1 - low):.0f}% lower", f"input {100 * (high - 1):.0f}% higher")
    best, speed = answer.best[0], answer.speeds[0]
    cost, fast = list[TornadoBar](), list[TornadoBar]()
    for effect in answer.by_size:
        varied = effect.input
        values = [quantity(varied.value * effect.ratios[place], varied.unit) for place in _ENDS]
        dearer = [effect.best[0][place].dollars / best.dollars for place in _ENDS]
        for bars, factors in ((cost, dearer), (fast, [effect.fastest[place] / speed for place in _ENDS])):
            name = f"{varied.label}, {' to '.join(values)}" if varied.whole else varied.label
            lost = [value for value, factor in zip(values, factors, strict=True) if not math.isfinite(factor)]
            name += f" (none at {', '.join(lost)})" if lost else ""
            bars += [TornadoBar(name, *bar) for bar in zip(values, ends, factors, strict=True)]
    return (
        Tornado("Cost at this speed", "change of cost per output token", ends, cost),
        Tornado("Speed at this cost", "change of user speed", ends, fast),
    )
