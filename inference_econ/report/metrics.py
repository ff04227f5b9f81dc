"""Metrics against the speed of a user in pictures: the name of each, and which end of it is good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from inference_econ.search import Metric


class Axis(NamedTuple):
    """A metric as the vertical axis of a picture."""

    field: str
    """Its name in the glossary of fields."""
    label: str
    """Label of the axis, with the unit."""
    head: str
    """Above the picture."""
    factor: float = 1.0
    """Factor from base units to the drawn number [1]."""
    good: str = "low"
    """Good end of it: ``low`` or ``high``; empty where neither is."""
    dollars: bool = False
    """True if it is in proportion to the price of a chip."""
    question: str = "What do chips give at each speed?"
    """Question that a picture of it answers, where that is not one of cost."""


#: By name, as ``--y`` has them.
AXES: Mapping[Metric, Axis] = {
    "cost": Axis(
        "dollars_per_million_output_tokens", "US dollars per million output tokens", "Cost of output tokens",
        dollars=True,
    ),
    "blended": Axis(
        "dollars_per_million_tokens", "US dollars per million tokens", "Cost of input and output tokens together",
        dollars=True,
    ),
    "throughput": Axis(
        "tokens_per_second_per_accelerator", "output tokens per second per GPU", "Output tokens of a GPU", good="high"
    ),
    "power": Axis(
        "tokens_per_second_per_megawatt", "thousand output tokens/s per MW", "Output tokens of a megawatt", 1e-3, "high"
    ),
    "joules": Axis("joules_per_output_token", "joules per output token", "Energy of output tokens"),
    "gpus": Axis(
        "accelerators", "GPUs of an instance", "Size of the instance", good="",
        question="How many GPUs does each speed take?",
    ),
    "mfu": Axis("mfu", "MFU: % of the theoretical peak", "Use of the arithmetic", 100.0, "high"),
}  # fmt: skip
