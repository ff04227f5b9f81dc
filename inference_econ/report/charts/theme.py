"""Colors and sizes of charts, light and dark."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

#: Line dashes, so that lines do not differ by color only [pixels].
DASHES: tuple[list[int], ...] = (
    *([1, 0], [6, 3], [2, 2], [8, 3, 2, 3]),
    *([14, 4], [8, 3, 2, 3, 2, 3], [2, 6], [14, 3, 5, 3]),
)
#: Area of a line in a legend [pixels^2]. The square root of the area is the length of the line, which shows a period of
#: most dash patterns.
SYMBOL = 500
#: Point shapes.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: Width of a single chart, and of one of several side by side [pixels].
WIDE, NARROW = 600, 300
#: Height of a chart [pixels].
HEIGHT = 340
#: Font size of a panel title [pixels].
PANEL = 13
#: Width of rules across a chart [pixels].
RULE = 1.2
#: Opacity of bands, and of points of measured servers [1].
BAND, MEASURED = 0.16, 0.6
#: Fonts with equal character widths; every system has at least one of them. Text boxes are measured with the second
#: font.
_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"


class _Inks(NamedTuple):
    """Colors of a theme: background, text, grid lines, and lines of data."""

    ground: str
    ink: str
    faint: str
    grid: str
    series: tuple[str, ...]


#: Okabe and Ito's palette for color-blind readers, without yellow and black, which the backgrounds hide.
_LIGHT = _Inks(
    "#ffffff", "#1a1a1a", "#5a5a5a", "#e4e4e4", ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
)
#: Lighter shades of the same hues for a dark background.
_DARK = _Inks(
    "#16181d", "#ececec", "#a8a8a8", "#33363d", ("#4FA8E0", "#F0803C", "#2FC49A", "#E29AC4", "#9AD2F5", "#F2BE4A")
)


def config(*, dark: bool = False) -> dict[str, Any]:
    """Theme as the ``config`` of a Vega-Lite chart. Another ``config`` switches a chart between light and dark.

    Parameters
    ----------
    dark : bool
        True for a dark background.
    """
    inks = _DARK if dark else _LIGHT
    written = {"font": _FONT, "first": inks.series[0], "series": json.dumps(inks.series)}
    theme: dict[str, Any] = json.loads(_template().substitute(inks._asdict() | written))
    return theme


@cache
def _template() -> Template:
    return Template(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
