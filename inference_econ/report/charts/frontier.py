"""Chart of cost against speed, next to a chart of the step time of the clicked point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from inference_econ.report.charts import lines, marks, waterfall
from inference_econ.report.charts.plot import Plot

#: Label of the whole step.
_WHOLE = "time per token"
#: Parts with a smaller share in every step are left out [1].
_SMALLEST = 0.005


@marks.quickly
def frontier_chart(
    charts: Sequence[Plot], title: str, parts: Mapping[str, Sequence[float]], first: int
) -> alt.ConcatChart | alt.LayerChart:
    """Create the charts of a frontier, of further metrics of its points, and of the clicked point's time per token.

    Parameters
    ----------
    charts : sequence of Plot
        Data of the charts on the page. The first line of the first chart is the frontier.
    title : str
        Title; the first line is the question that the page answers.
    parts : mapping of str to sequence of float
        Time per token of each point, by label of the part of the step [ms]; empty for points with speculation.
    first : int
        Index of the point whose time per token is shown before a click.
    """
    if not parts:
        return lines.line_charts(charts, title)
    clicked = alt.selection_point(
        name="clicked", on="click", nearest=True, fields=["n"], value=[{"n": first}], empty=False, toggle=False
    )
    cost, *others = lines.panels(charts, clicked)
    return lines.together([cost, _step(parts, clicked), *others], title)


def _step(steps: Mapping[str, Sequence[float]], clicked: alt.Parameter) -> alt.LayerChart:
    """Create the chart of the clicked point's time per token, by part of the step."""
    columns = {name: np.asarray(values) for name, values in steps.items()}
    whole = np.sum(list(columns.values()), axis=0)
    shares = {name: values / whole for name, values in columns.items()}
    # Only parts that are large enough for a bar are shown, the part with the largest time first.
    kept = [name for name, share in shares.items() if share.max() >= _SMALLEST]
    names = sorted(kept, key=lambda name: -float(shares[name].mean()))
    shown = []
    for index in range(whole.size):
        parts = {name: (float(steps[name][index]), f"{steps[name][index]:.3g} ms") for name in names}
        total = sum(float(values[index]) for values in steps.values())
        *rows, all_of_it = waterfall.waterfall_rows(parts, (_WHOLE, f"{total:.3g} ms"))
        # The whole includes parts that are too small for a bar.
        shown += [{**row, "n": index} for row in (*rows, {**all_of_it, "end": total, "words": total})]
    layers = waterfall.bars(shown, [*names, _WHOLE], "milliseconds", point=clicked)
    return lines.panel(layers, "Time per token of the ringed point")
