"""Questions as files: what to compute, and how to show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._base import Date, SourcedSpec, Spec
from inference_econ.inputs.asks import (
    RENAMED,
    AssessAsk,
    FrontierAsk,
    PanelsAsk,
    Positive,
    Printed,
    Series,
    Settings,
    SquareRootAsk,
    ToyAsk,
)
from inference_econ.inputs.claim_asks import ClaimsAsk
from inference_econ.inputs.infer_asks import InferAsk
from inference_econ.inputs.study_asks import FamilyAsk, LatentVariantsAsk, RunaheadAsk, SamplingRuleAsk, StepsAsk
from inference_econ.inputs.sweep_asks import SweepAsk
from inference_econ.inputs.uncertain_asks import UncertaintyAsk
from inference_econ.inputs.what_if import checked_changes

ColumnKey = Literal[
    "tokens_per_second_per_user",
    "dollars_per_million_output_tokens",
    "accelerators",
    "batch",
    "mfu",
    "milliseconds",
    "concurrency",
    "ttft_milliseconds",
]
#: Columns that only services have, and those that only decode steps have.
SERVICE_COLUMNS: tuple[ColumnKey, ...] = ("concurrency", "ttft_milliseconds")
DECODE_COLUMNS: tuple[ColumnKey, ...] = ("mfu",)

#: What a scenario may ask.
Ask = Annotated[
    FrontierAsk
    | AssessAsk
    | ToyAsk
    | SquareRootAsk
    | PanelsAsk
    | LatentVariantsAsk
    | RunaheadAsk
    | ClaimsAsk
    | FamilyAsk
    | InferAsk
    | SamplingRuleAsk
    | StepsAsk
    | SweepAsk
    | UncertaintyAsk,
    Field(discriminator="kind"),
]

#: Those whose answers are curves, which a table of a scenario shows; all others have tables of their own, if any.
_CURVES = (FrontierAsk, ToyAsk, SquareRootAsk, PanelsAsk)


class Column(Spec):
    """One column of a table."""

    key: ColumnKey
    """Which quantity."""
    title: str
    """Heading of the column."""


class TableSpec(Spec):
    """One row per series, taken from one point of its frontier."""

    point: Literal["fastest", "preferred"]
    """Which point."""
    cost: Positive | None = None
    """Of the fastest: of the points that cost no more [USD per 1e6 tokens]."""
    exponent: Positive = 3
    """Exponent of the preference (eq. 45) [1]."""
    columns: Annotated[tuple[Column, ...], Field(min_length=1, strict=False)]
    """Columns that are shown of it."""
    printed: dict[str, dict[ColumnKey, Printed]] = Field(default_factory=dict)
    """Published cells by series and column, as text so that their digits count: expectations, never results."""

    def _check_fields(self) -> None:
        if self.cost is not None and self.point != "fastest":
            raise ValueError(
                f"a cost is that of the fastest point; leave it out, or write point: fastest, not {self.point}"
            )
        keys = [column.key for column in self.columns]
        for row, cells in self.printed.items():
            for key in cells:
                if key not in keys:
                    raise ValueError(f"printed cell {key!r} of {row!r} is no column; columns: {', '.join(keys)}")


class OfferedPoints(Spec):
    """The offers of a model on a day that no other of them beats, drawn as points beside a series."""

    series: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    """Labels of the series; of panels, each has at most one of them."""
    model_as_written: Annotated[str, Field(min_length=1)]
    """Which model, as the source of the offers writes it."""
    date: Date
    """Day of the offers."""
    without: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Providers that are left out: those whose chips are not those of the series, or whose speed is no speed."""


class FigureSpec(Spec):
    """How frontiers are drawn."""

    title: str
    """Above the axes."""
    offers: Annotated[tuple[OfferedPoints, ...], Field(strict=False)] = ()
    """Points of ``scenarios/measured/offers.csv`` that are drawn beside the curves."""
    x: tuple[float, float] | None = Field(default=None, strict=False)
    """Limits of the horizontal axis."""
    y: tuple[float, float] | None = Field(default=None, strict=False)
    """Limits of the vertical axis, which is logarithmic."""

    def _check_fields(self) -> None:
        for axis, limits in (("x", self.x), ("y", self.y)):
            if limits is not None and not limits[0] < limits[1]:
                raise ValueError(f"the limits of {axis} must ascend, got {limits[0]:g} and {limits[1]:g}")
        if self.y is not None and self.y[0] <= 0:
            raise ValueError(f"the limits of y must be > 0 on a logarithmic axis, got {self.y[0]:g}")


class Scenario(SourcedSpec):
    """One question with the ways to show its answer."""

    moved: ClassVar[Mapping[str, str]] = RENAMED

    ask: Ask
    """Question that is computed."""
    table: TableSpec | None = None
    """Show it as a table."""
    figure: FigureSpec | None = None
    """Show it as a figure."""

    def changed(self, changes: Iterable[str]) -> Scenario:
        """Scenario of all series with what-ifs, which its name and the title of its figure say.

        Parameters
        ----------
        changes : iterable of str
            ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``; none leaves it as it is.

        Raises
        ------
        InputError
            If one names no specification, or the question is not about models on hardware.
        """
        further = checked_changes(changes)
        if not further:
            return self
        name = f"{self.name} with {', '.join(further)}"
        figure = self.figure and self.figure.replace(title=f"{self.figure.title}\nwith {', '.join(further)}")
        if isinstance(self.ask, PanelsAsk):
            return self.replace(name=name, figure=figure)
        common = getattr(self.ask, "common", None)
        if not isinstance(common, Settings):
            raise InputError(
                f"--set changes models, hardware and assumptions of series, and {self.name!r} has none: it is of the "
                f"kind {self.ask.kind!r}",
                option="set",
            )
        named: dict[str, object] = {"common": common.replace(changes=(*common.changes, *further))}
        if hasattr(self.ask, "series"):
            named["series"] = tuple(_changed(series, further) for series in self.ask.series)
        return self.replace(name=name, figure=figure, ask=self.ask.replace(**named))

    def _check_fields(self) -> None:
        labels = [series.label for series in getattr(self.ask, "series", ())]
        repeated = sorted({label for label in labels if labels.count(label) > 1})
        if repeated:
            raise ValueError(f"two series have the label {repeated[0]!r}; a label names one series")
        for row in self.table.printed if self.table is not None else ():
            if row not in labels:
                raise ValueError(f"printed row {row!r} is no series; series: {', '.join(labels)}")
        offered = () if self.figure is None or isinstance(self.ask, PanelsAsk) else self.figure.offers
        for label in (label for points in offered for label in points.series):
            if label not in labels:
                raise ValueError(f"offers of {label!r}: it is no series; series: {', '.join(labels) or 'none'}")
        if not isinstance(self.ask, _CURVES) and self.table is not None:
            raise ValueError(f"a scenario of the kind {self.ask.kind!r} has its own tables; leave 'table' out")
        columns = self.table.columns if isinstance(self.ask, ToyAsk) and self.table is not None else ()
        odd = [column.key for column in columns if column.key in (*SERVICE_COLUMNS, *DECODE_COLUMNS)]
        if odd:
            raise ValueError(f"the toy model knows no {odd[0]}; leave the column {odd[0]!r} out")


def _changed(series: Series, further: Sequence[str]) -> Series:
    """A series whose own what-ifs, which stand in the place of common ones, have further ones behind them."""
    changes = series.settings.changes
    return series.replace(settings=series.settings.replace(changes=(*changes, *further))) if changes else series
