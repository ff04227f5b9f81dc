"""Scenario files: a query with the table and the figure that show its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from inference_econ._named import named
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._spec import Date, Field, SourcedSpec, Spec, by_line
from inference_econ.inputs._yaml import Document, Location
from inference_econ.inputs.options import DEFAULT_ISL, DEFAULT_OSL, checked_changes, rows
from inference_econ.inputs.scenario_kinds import (
    DECODE_STEPS_ONLY,
    RENAMED,
    SERVICES_ONLY,
    FrontierAsk,
    PanelsAsk,
    Positive,
    Printed,
    Settings,
    SquareRootAsk,
    ToyAsk,
)

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
#: Columns that are valid only for services, and columns that are valid only for decode steps.
SERVICE_COLUMNS: tuple[ColumnKey, ...] = ("concurrency", "ttft_milliseconds")
DECODE_COLUMNS: tuple[ColumnKey, ...] = ("mfu",)

#: Function that computes the result, by class of query (:func:`inference_econ._named.named`).
KINDS: Mapping[str, str] = {row["ask"]: row["answer"] for row in rows(Path(__file__).with_name("kinds.csv"))}

#: Query of a scenario. Its field ``kind`` determines the class.
if TYPE_CHECKING:
    Ask = Any
else:
    Ask = Annotated[Union[tuple(map(named, KINDS))], Field(discriminator="kind")]  # noqa: UP007

#: Queries whose results are curves. A table of the scenario can show them. Other queries have their own tables, or
#: none.
_CURVES = (FrontierAsk, ToyAsk, SquareRootAsk, PanelsAsk)


class ScenarioColumn(Spec):
    """One column of a table."""

    key: ColumnKey
    """Quantity that the column shows."""
    title: str
    """Heading of the column."""


class TableSpec(Spec):
    """Table in which each row shows one point of the frontier of one series."""

    point: Literal["fastest", "preferred"]
    """Point that a row shows: the fastest point, or the point with the highest preference of eq. 45."""
    cost: Positive | None = None
    """Maximum cost of the point if ``point`` is ``fastest`` [USD per 1e6 tokens]."""
    exponent: Positive = 3
    """Exponent a of the preference speed^a / price in eq. 45, if ``point`` is ``preferred`` [1]."""
    columns: Annotated[tuple[ScenarioColumn, ...], Field(min_length=1, strict=False)]
    """Columns of the table."""
    printed: dict[str, dict[ColumnKey, Printed]] = Field(default_factory=dict)
    """Published values of cells by series and column.

    Values are texts, which keep their digits. A test compares published values with results.
    """

    def _check_fields(self) -> None:
        if self.cost is not None and self.point != "fastest":
            raise ValueError(
                f"a cost is that of the fastest point; leave it out, or write point: fastest, not {self.point}"
            )
        keys = [column.key for column in self.columns]
        if repeated := [key for key in dict.fromkeys(keys) if keys.count(key) > 1]:
            raise ValueError(f"columns repeat {', '.join(repeated)}; list each column once")
        for row, cells in self.printed.items():
            for key in cells:
                if key not in keys:
                    raise ValueError(f"printed cell {key!r} of {row!r} is not a column; columns: {', '.join(keys)}")


class OfferedPoints(Spec):
    """API offers of a model on a day. The figure shows the Pareto-optimal offers as points."""

    series: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    """Labels of the predicted series to which the offers belong.

    A panel of a figure has at most one of these series.
    """
    model_as_written: Annotated[str, Field(min_length=1)]
    """Name of the model in the list of offers."""
    date: Date
    """Day of the offers."""
    without: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Providers that are left out, because they use other chips than the series, or have no usable measured speed.
    """


class FigureSpec(Spec):
    """Figure with the frontiers of a scenario."""

    title: str
    """Title of the figure."""
    offers: Annotated[tuple[OfferedPoints, ...], Field(strict=False)] = ()
    """Offers in ``scenarios/measured/offers.csv`` that are drawn as points."""
    x: tuple[float, float] | None = Field(default=None, strict=False)
    """Limits of the horizontal axis."""
    y: tuple[float, float] | None = Field(default=None, strict=False)
    """Limits of the vertical axis, which has a logarithmic scale."""

    def _check_fields(self) -> None:
        for axis, limits in (("x", self.x), ("y", self.y)):
            if limits is not None and not limits[0] < limits[1]:
                raise ValueError(f"the limits of {axis} must ascend, got {limits[0]:g} and {limits[1]:g}")
        if self.y is not None and self.y[0] <= 0:
            raise ValueError(f"the limits of y must be > 0 on a logarithmic axis, got {self.y[0]:g}")


class Scenario(SourcedSpec):
    """Query, with the table and the figure that show its result."""

    moved: ClassVar[Mapping[str, str]] = RENAMED

    ask: Ask
    """Query of the scenario."""
    table: TableSpec | None = None
    """Table of the result; absent if the scenario has none."""
    figure: FigureSpec | None = None
    """Figure of the result; absent if the scenario has none."""

    def changed(self, changes: Iterable[str]) -> Scenario:
        """Copy in which all series have changed fields.

        The name of the scenario and the title of the figure state the changes.

        Parameters
        ----------
        changes : iterable of str
            ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.

        Raises
        ------
        InputError
            If a change names no specification, or the query has no series with a model and hardware.
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
            # Changes in the settings of a series have priority over common changes.
            named["series"] = tuple(
                series.replace(settings=series.settings.replace(changes=(*series.settings.changes, *further)))
                if series.settings.changes
                else series
                for series in self.ask.series
            )
        return self.replace(name=name, figure=figure, ask=self.ask.replace(**named))

    def _check_fields(self) -> None:
        labels = [series.label for series in getattr(self.ask, "series", ())]
        repeated = sorted({label for label in labels if labels.count(label) > 1})
        if repeated:
            raise ValueError(f"two series have the label {repeated[0]!r}; a label names one series")
        for row in self.table.printed if self.table is not None else ():
            if row not in labels:
                raise ValueError(f"printed row {row!r} is not a series; series: {', '.join(labels)}")
        offered = () if self.figure is None or isinstance(self.ask, PanelsAsk) else self.figure.offers
        for label in (label for points in offered for label in points.series):
            if label not in labels:
                raise ValueError(f"offers of {label!r}: it is not a series; series: {', '.join(labels) or 'none'}")
        if not isinstance(self.ask, _CURVES) and self.table is not None:
            raise ValueError(f"a scenario of the kind {self.ask.kind!r} has its own tables; leave 'table' out")
        columns = self.table.columns if isinstance(self.ask, ToyAsk) and self.table is not None else ()
        odd = [column.key for column in columns if column.key in (*SERVICE_COLUMNS, *DECODE_COLUMNS)]
        if odd:
            raise ValueError(f"the toy model knows no {odd[0]}; leave the column {odd[0]!r} out")


#: Default settings of a scenario.
DEFAULTS = Settings.model_construct(grid="whole", pipeline=True, isl=DEFAULT_ISL, osl=DEFAULT_OSL)


def with_defaults(settings: Settings) -> Settings:
    """Add the defaults of all missing settings. Default lengths are not added if a context or a workload is set."""
    fields = {name: value for name in settings.model_fields_set if (value := getattr(settings, name)) is not None}
    return Settings.model_construct(**fields).over(DEFAULTS)


def check_counted(filled: Settings) -> None:
    """Reject settings that are not valid for the kind of frontier: services or decode steps.

    Raises
    ------
    InputError
        If a setting is not valid; the message names the setting and what to write instead.
    """
    if filled.decode_only is False and filled.grid == "paper":
        raise InputError("grid: paper is that of the published study, of decode steps alone; leave decode_only out")
    if filled.counts_decode_steps:
        stray = next((name for name in SERVICES_ONLY if getattr(filled, name) is not None), None)
        why = "the study's grid counts" if filled.grid == "paper" else "decode_only: true counts"
        if stray is not None:
            raise InputError(f"{stray} applies to services, and {why} decode steps alone; leave one of them out")
        return
    stray = next((name for name in DECODE_STEPS_ONLY if getattr(filled, name) is not None), None)
    if stray is not None:
        raise InputError(f"{stray} applies to decode steps alone, and this counts services; add decode_only: true")


def check_of_one_kind(series: Iterable[Settings], columns: Iterable[str]) -> None:
    """Reject series of different kinds (services and decode steps), and columns that are not valid for their kind.

    Raises
    ------
    InputError
        If series are of different kinds or a column is not valid; the message contains what to write instead.
    """
    kinds = {with_defaults(settings).counts_decode_steps for settings in series}
    if len(kinds) > 1:
        raise InputError(
            "some series count decode steps alone, others services with their prefill; say decode_only for all of "
            "them, in 'common'"
        )
    odd = [column for column in columns if column in (SERVICE_COLUMNS if kinds == {True} else DECODE_COLUMNS)]
    if odd:
        other, what = ("services", "leave it out") if kinds == {True} else ("decode steps", "add decode_only: true")
        raise InputError(f"table: the column {odd[0]!r} is one of {other}, which these series are not; {what}")


#: Settings that are catalog names, with the kind of entry.
_NAMES = {"model": "models", "draft": "models", "hardware": "hardware", "assumptions": "assumptions"}
#: Function that raises an InputError for a name that is not in the catalog.
Resolve = Callable[..., object]
#: Location and text of a mistake.
_Mistake = tuple[Location, str]


def scenario_of(document: Document, resolve: Resolve) -> Scenario:
    """Validate a scenario that was read from a file.

    Raises
    ------
    SpecError
        The message lists every mistake: invalid values, unknown names, and settings that contradict each other.
    """
    places = dict(_settings(document.data.get("ask")))
    names = {
        (*location, key): _problem(resolve, kind, settings[key])
        for location, settings in places.items()
        for key, kind in _NAMES.items()
        if isinstance(settings.get(key), str)
    }
    unknown = [(location, problem) for location, problem in names.items() if problem]
    further = [
        f"{document.where(location)}: {problem}"
        for location, problem in (*unknown, *_contradictions(document.data, places))
    ]
    try:
        scenario = Scenario.from_document(document)
    except SpecError as error:
        raise SpecError(*sorted((*error.mistakes, *further), key=by_line)) from error
    if further:
        raise SpecError(*sorted(further, key=by_line))
    return scenario


def _settings(ask: object) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Mappings with the common settings and the settings of each series, by location."""
    if not isinstance(ask, Mapping):
        return
    entries = ask.get("series")
    written: list[tuple[Location, Any]] = [(("ask", "common"), ask.get("common", {}))]
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            written.append((("ask", "series", index, "settings"), entry.get("settings", {})))
    yield from ((location, settings) for location, settings in written if isinstance(settings, Mapping))


def _contradictions(data: Mapping[str, Any], places: Mapping[Location, Mapping[str, Any]]) -> Iterator[_Mistake]:
    """Mistakes for settings that are not valid for the kind of frontier, without duplicates."""
    if not places or not str(data["ask"].get("kind")).startswith("frontier"):
        return
    (shared, common), *series = ((location, _read(settings)) for location, settings in places.items())
    merged = {location: settings.over(common) for location, settings in series}
    table = data.get("table")
    columns = table.get("columns") if isinstance(table, Mapping) else None
    keys = [column.get("key") for column in columns or () if isinstance(column, Mapping)]
    if problem := _problem(check_of_one_kind, merged.values(), keys):
        of_table = problem.startswith("table")
        yield ("table", "columns") if of_table else shared, problem
        if not of_table:
            return
    problems = {location: _problem(check_counted, with_defaults(settings)) for location, settings in merged.items()}
    for problem in dict.fromkeys(filter(None, problems.values())):
        having = [location for location, other in problems.items() if other == problem]
        yield (having[0] if len(having) < len(problems) else shared), problem


def _problem(check: Callable[..., object], *values: object) -> str | None:
    """Error message of a check; None if the check passes."""
    try:
        check(*values)
    except InputError as error:
        return str(error)
    return None


def _read(written: Mapping[str, Any]) -> Settings:
    """Read the valid settings of a mapping; invalid settings are left out."""
    read: dict[str, Any] = {}
    for key, value in written.items():
        with suppress(SpecError):
            Settings.build(read | {key: value}, origin="")
            read[key] = value
    return Settings.build(read, origin="")
