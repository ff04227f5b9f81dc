"""Tile charts with rows and columns; the color of a tile shows the best choice there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import altair as alt

from inference_econ.records.plain import attributes
from inference_econ.report.charts import marks, theme

#: Size of a tile [pixels].
_WIDTH, _HEIGHT = 128, 20
#: Opacity of tiles, so that text on them is readable [1].
_OPACITY = 0.42
#: Maximum number of names with a separate color [1]. The most frequent names are colored; all other names are gray.
_COLOURS = 6
_OTHERS, _GREY = "others", "#9a9a9a"


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of a tile chart.

    Attributes
    ----------
    row, column : str
        Position of the tile.
    name : str
        Name that the tile shows; tiles with the same name have the same color.
    amount : str
        Text that the tile shows after the name.
    details : mapping of str to str
        Further hover texts, by heading.
    """

    row: str
    column: str
    name: str
    amount: str
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Data of a tile chart.

    Attributes
    ----------
    title, x_label : str
        Title, and label below the columns.
    legend : str
        Title of the color legend.
    rows, columns : tuple of str
        Labels of rows from the top, and of columns from the left. A position without a tile is infeasible.
    tiles : tuple of Tile
        At most one per position.
    """

    title: str
    x_label: str
    legend: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    tiles: tuple[Tile, ...]


@marks.quickly
def grid_chart(grid: TileGrid) -> alt.LayerChart:
    """Create a tile chart. Names in the tiles distinguish the tiles without color."""
    width = max(_WIDTH * len(grid.columns), theme.NARROW)
    counts = Counter(tile.name for tile in grid.tiles)
    named = [name for name, _ in counts.most_common(_COLOURS)]
    legend = [*named, *([_OTHERS] if len(counts) > len(named) else [])]
    details = list(dict.fromkeys(name for tile in grid.tiles for name in tile.details))
    base = alt.Chart(marks.data([_row(tile, named) for tile in grid.tiles])).encode(
        x=alt.X(
            field="column",
            type="ordinal",
            scale=alt.Scale(domain=list(grid.columns), paddingInner=0.03),
            axis=alt.Axis(title=grid.x_label, labelAngle=0, orient="top"),
        ),
        y=alt.Y(
            field="row",
            type="ordinal",
            scale=alt.Scale(domain=list(grid.rows), paddingInner=0.08),
            axis=alt.Axis(title=None, labelLimit=0),
        ),
        tooltip=marks.fields("row", "column", "name", "amount", *details),
    )
    palette = [*theme.config()["range"]["category"][: len(named)], *([_GREY] if _OTHERS in legend else [])]
    colour = alt.Color(
        field="colour",
        type="nominal",
        scale=alt.Scale(domain=legend, range=palette),
        legend=alt.Legend(title=grid.legend, columns=len(legend), symbolType="square"),
    )
    tiles = base.mark_rect(opacity=_OPACITY).encode(color=colour)
    words = base.mark_text(fontSize=11).encode(text=alt.Text(field="words", type="nominal"))
    return alt.LayerChart(
        layer=[tiles, words],
        title=marks.chart_heading(grid.title, width),
        width=width,
        height=max(_HEIGHT * len(grid.rows), _HEIGHT),
    )


def _row(tile: Tile, named: list[str]) -> marks.Row:
    """Convert a tile to a data row."""
    return {
        **attributes(tile, "row column name amount"),
        "words": f"{tile.name} {tile.amount}",
        "colour": tile.name if tile.name in named else _OTHERS,
        **tile.details,
    }
