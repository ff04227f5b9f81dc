"""Questions of scenarios about families: which chip or which architecture is the best of all that a budget allows."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import Spec
from inference_econ.inputs.asks import Positive, Settings
from inference_econ.inputs.what_if import split_changes

#: More members take minutes.
_MOST_MEMBERS = 64


class Choice(Spec):
    """One way to have a part of a family."""

    label: str = Field(min_length=1)
    """Name in tables."""
    changes: tuple[str, ...] = Field(default=(), strict=False)
    """What-ifs, ``hardware.hbm_bytes_per_second=4.8 TB/s`` or ``model.kv_heads=16``; none for what is."""
    dollars: Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)] = 0.0
    """Of chips: what it adds to the price of an accelerator [USD/h]."""


class Axis(Spec):
    """A part that members of a family differ in."""

    name: str = Field(min_length=1)
    """Heading of the column."""
    choices: Annotated[tuple[Choice, ...], Field(min_length=1, strict=False)]
    """The ways to have it, that of the base first."""


class FamilyAsk(Spec):
    """The best of a family: every combination of some choices, at equal parameters or within a price."""

    kind: Literal["chip", "architecture"]
    """Names this kind of question: variants of the chip, or of the model."""
    common: Settings
    """Settings that all have in common; its model and hardware are what is varied."""
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, strict=False)]
    """Axes that members differ in."""
    speeds: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]
    """Speeds of a user that costs are stated at; members are ranked by the first [tokens/s]."""
    budget: Positive | None = None
    """Of chips: members whose price is higher are left out [USD/h]."""
    equal_parameters: bool | None = None
    """Of architectures: the hidden size makes the layers of all have as many parameters as those of the base; yes by
    default."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""

    def _check_fields(self) -> None:
        members = math.prod(len(axis.choices) for axis in self.axes)
        if members > _MOST_MEMBERS:
            raise ValueError(f"the axes have {members} combinations; at most {_MOST_MEMBERS} are answered at once")
        if self.common.counts_decode_steps:
            raise ValueError("families are of services; leave decode_only and the study's grid out of common")
        if self.kind == "architecture":
            if self.budget is not None or any(choice.dollars for axis in self.axes for choice in axis.choices):
                raise ValueError("budget and dollars are said of chips; an architecture has parameters")
        elif self.equal_parameters is not None:
            raise ValueError("equal_parameters is said of architectures; a chip has a price and a budget")
        varied = "hardware" if self.kind == "chip" else "model"
        for axis in self.axes:
            for choice in axis.choices:
                others = [name for name, changes in split_changes(choice.changes).items() if changes and name != varied]
                if others:
                    raise ValueError(f"{choice.label!r} changes {others[0]}; a {self.kind} study varies {varied} alone")
