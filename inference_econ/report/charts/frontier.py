"""Cost against speed, with the step of the point that is clicked beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from inference_econ.report.charts import lines, marks, waterfall
from inference_econ.report.charts.plot import Plot

#: What a part is called that is the whole.
_WHOLE = "time per token"
#: Parts that are less of every step are left out [1].
_SMALLEST = 0.005


@marks.quickly
def frontier_chart(
    charts: Sequence[Plot], title: str, parts: Mapping[str, Sequence[float]], first: int
) -> alt.ConcatChart | alt.LayerChart:
    """A frontier, what else is known of its points, and the step of the one that is clicked.

    Parameters
    ----------
    charts : sequence of Plot
        The first has the frontier as its first line.
    title : str
        Above all; its first line is the question.
    parts : mapping of str to sequence of float
        Parts of the time per token of each of that line's points, by the names that people read; empty where points
        have no steps [ms].
    first : int
        The point that is shown before any is clicked.
    """
    if not parts:
        return lines.line_charts(charts, title)
    clicked = alt.selection_point(
        name="clicked", on="click", nearest=True, fields=["n"], value=[{"n": first}], empty=False, toggle=False
    )
    cost, *others = lines.panels(charts, clicked)
    return lines.together([cost, _step(parts, clicked), *others], title)


def _step(steps: Mapping[str, Sequence[float]], clicked: alt.Parameter) -> alt.LayerChart:
    """The parts of the time per token of the point that is clicked."""
    columns = {name: np.asarray(values) for name, values in steps.items()}
    whole = np.sum(list(columns.values()), axis=0)
    shares = {name: values / whole for name, values in columns.items()}
    # Parts that are worth a bar, those first that take the most over all points.
    kept = [name for name, share in shares.items() if share.max() >= _SMALLEST]
    names = sorted(kept, key=lambda name: -float(shares[name].mean()))
    shown = []
    for index in range(whole.size):
        parts = {name: (float(steps[name][index]), f"{steps[name][index]:.3g} ms") for name in names}
        total = sum(float(values[index]) for values in steps.values())
        *rows, all_of_it = waterfall.waterfall_rows(parts, (_WHOLE, f"{total:.3g} ms"))
        # Parts that are too small for a bar are in the whole.
        shown += [{**row, "n": index} for row in (*rows, {**all_of_it, "end": total, "words": total})]
    layers = waterfall.bars(shown, [*names, _WHOLE], "milliseconds", point=clicked)
    return lines.panel(layers, "Time per token of the ringed point")
