"""Which of the layouts that are left open stands for all, and by which rule."""

from __future__ import annotations

from typing import NamedTuple


class Pick(NamedTuple):
    """By which rule one layout of several was taken."""

    rule: str
    """Rule that it is best by, in words."""
    layouts: int
    """Layouts of which it was taken [1]."""
