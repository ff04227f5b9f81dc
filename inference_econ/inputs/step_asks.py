"""Questions of scenarios about single steps, under settings that differ."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import Spec
from inference_econ.inputs.asks import Series, Settings
from inference_econ.inputs.length import Tokens

#: What decode steps can be asked over.
StepAxis = Literal["context", "batch", "shared_prefix"]


class StepsAsk(Spec):
    """Decode steps of one deployment under settings that differ, over its context, its batch or its shared prefix."""

    kind: Literal["steps"]
    """Names this kind of question."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all series: model, hardware, formats, degrees, ``batch``, ``context``, ``shared_prefix``."""
    over: StepAxis
    """Quantity that differs along a line."""
    values: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=200, strict=False)]
    """Its values: tokens, or sequences [1]."""
    series: Annotated[tuple[Series, ...], Field(min_length=1, strict=False)]
    """Series that are compared; the others are held against the first."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""

    def _check_fields(self) -> None:
        if list(self.values) != sorted(set(self.values)):
            raise ValueError(f"values must ascend, got {', '.join(f'{value:g}' for value in self.values)}")
        if self.over != "shared_prefix" and self.values[0] < 1:
            raise ValueError(f"a {self.over} is at least 1, got {self.values[0]:g}")
        for name, settings in (("common", self.common), *((series.label, series.settings) for series in self.series)):
            if getattr(settings, self.over) is not None:
                raise ValueError(f"{self.over} is what differs along a line; leave it out of the settings of {name!r}")
