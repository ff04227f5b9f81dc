"""Importing this module loads what answers need: for processes that are copied once it is there."""

from __future__ import annotations

from inference_econ.explorer import WARM_UP

from .questions import answer

answer(*WARM_UP)
