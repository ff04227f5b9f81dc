"""Data of pictures of what-ifs: how far each input moves an answer, the one that moves it most on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TornadoBar:
    """Effect of one end of the range of an input.

    Attributes
    ----------
    name, value : str
        The input and its value there, for people.
    end : str
        Which end: an entry of the legend.
    factor : float
        The answer there over what it is [1]; NaN where there is none.
    """

    name: str
    value: str
    end: str
    factor: float


@dataclass(frozen=True, slots=True)
class Tornado:
    """Bars of inputs around what an answer is.

    Attributes
    ----------
    title, label : str
        Above the bars, and of the axis.
    ends : (str, str)
        What the legend says of less and of more of an input.
    bars : sequence of TornadoBar
        Two of each input, from the top.
    """

    title: str
    label: str
    ends: tuple[str, str]
    bars: Sequence[TornadoBar]
