"""All colours and sizes of charts, light and dark."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

#: Dashes of lines of different colours, so that colour is not all that tells them apart [pixels].
DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 2])
#: Shapes of points.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: Width of a chart that stands alone, and of one of several beside each other [pixels].
WIDE, NARROW = 600, 300
#: Height of a chart [pixels].
HEIGHT = 340
#: Size of the title of a panel [pixels].
PANEL = 13
#: Width of lines across a chart [pixels].
RULE = 1.2
#: Opacity of bands, and of points of measured servers [1].
BAND, MEASURED = 0.16, 0.6
#: Fonts of one width per letter, one of which every system has: boxes are measured with the second.
_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"


class _Inks(NamedTuple):
    """Colours of a theme: the ground, what is written on it, lines of the grid, and series."""

    ground: str
    ink: str
    faint: str
    grid: str
    series: tuple[str, ...]


#: Okabe and Ito's palette, which colour-blind readers can tell apart, without yellow and black, which the ground hides.
_LIGHT = _Inks(
    "#ffffff", "#1a1a1a", "#5a5a5a", "#e4e4e4", ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
)
#: The same hues, lighter where the ground is dark.
_DARK = _Inks(
    "#16181d", "#ececec", "#a8a8a8", "#33363d", ("#4FA8E0", "#F0803C", "#2FC49A", "#E29AC4", "#9AD2F5", "#F2BE4A")
)


def config(*, dark: bool = False) -> dict[str, Any]:
    """The theme as Vega-Lite's ``config``: another one in its place makes a light chart dark.

    Parameters
    ----------
    dark : bool
        On a dark ground.
    """
    inks = _DARK if dark else _LIGHT
    written = {"font": _FONT, "first": inks.series[0], "series": json.dumps(inks.series)}
    theme: dict[str, Any] = json.loads(_template().substitute(inks._asdict() | written))
    return theme


@cache
def _template() -> Template:
    return Template(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
