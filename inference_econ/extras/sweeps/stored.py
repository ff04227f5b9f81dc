"""Computed sweep: rows in files or in memory, and its summary with the cheapest deployments."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ.errors import InputError
from inference_econ.extras.sweeps.combinations import (
    FAILED,
    Combinations,
    answers,
    axis_columns,
    check_work,
    combinations_of,
    schema,
)
from inference_econ.extras.sweeps.scenario_kinds import Cheapest, SweepAsk
from inference_econ.inputs import Scenario
from inference_econ.records.plain import attributes
from inference_econ.serving import services
from inference_econ.studies.results import Study

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Reason why combinations have no frontier.

    Attributes
    ----------
    kind : str
        ``nothing_fits``, or ``refused`` for unsupported settings: no unit for a format, no price.
    text : str
        Reason as text, from the first combination.
    combinations : int
        Combinations with this reason [1].
    """

    kind: str
    text: str
    combinations: int


@dataclass(frozen=True, slots=True)
class CheapestDeployment:
    """Cheapest deployment in a row of the table that is fast enough.

    Attributes
    ----------
    row, among : str
        Value of the row column, and cheapest value of the compared column.
    speed : float
        Minimum speed [tokens/s per user].
    point : mapping of str
        Columns of the point: cost, speed, layout, number formats.
    """

    row: str
    among: str
    speed: float
    point: Mapping[str, object]

    @property
    def dollars(self) -> float:
        """Cost of the deployment [USD per 1e6 output tokens]."""
        return float(str(self.point["dollars_per_million_output_tokens"]))

    @property
    def is_measured(self) -> bool:
        """True if the prediction errors of the deployment's assumptions were measured."""
        return self.point["dollars_per_million_output_tokens_low"] is not None


@dataclass(frozen=True, slots=True)
class Swept(Study):
    """Summary of a sweep.

    Attributes
    ----------
    title : str
        Title of the scenario.
    combinations, frontiers, points : int
        Number of combinations with rows, number of combinations with a frontier, and number of frontier points [1].
    missing : int
        Missing combinations [1].
    reasons : tuple of FailureReason
        Reasons for missing frontiers, the most frequent first.
    rows, among : str
        Column whose values are the rows, and column whose cheapest value is shown.
    names : tuple of str
        Values of the row column, in the order of its axis.
    speeds : tuple of float
        Ascending speeds [tokens/s per user].
    where : mapping of str to str
        Columns restricted to one value.
    best : tuple of CheapestDeployment
        Cheapest deployment by row and speed, for rows with a deployment that is fast enough.
    price : str or None
        Pricing model and source that apply to all of several chips; empty for default prices. None for a single chip,
        or if an axis sets prices.
    """

    page = "extras.sweeps.page:SweepPage"

    title: str
    combinations: int
    frontiers: int
    points: int
    missing: int
    reasons: tuple[FailureReason, ...]
    rows: str
    among: str
    names: tuple[str, ...]
    speeds: Sequence[float]
    where: Mapping[str, str]
    best: tuple[CheapestDeployment, ...]
    price: str | None

    @property
    def failures(self) -> int:
        """Combinations without a frontier [1]."""
        return self.combinations - self.frontiers

    @property
    def about(self) -> str:
        """Title of the scenario."""
        return self.title

    def ordered(self) -> list[CheapestDeployment]:
        """Cheapest deployments in the order of rows and speeds."""
        place = {name: index for index, name in enumerate(self.names)}
        return sorted(self.best, key=lambda best: (place.get(best.row, len(place)), best.speed))

    def record(self) -> dict[str, Any]:
        """Summary as plain data."""
        return {
            "title": self.title,
            **attributes(self, "combinations frontiers points missing"),
            "failures": [asdict(reason) for reason in self.reasons],
            "where": dict(self.where),
            "cheapest": self.records(),
        }

    def records(self) -> list[dict[str, Any]]:
        """One record per row and speed with the cheapest deployment."""
        return [
            {"rows": best.row, "at_least_tokens_per_second": best.speed, "cheapest": best.among}
            | {**self.where, **best.point}
            for best in self.ordered()
        ]


#: Settings that the provider chooses. The cheapest deployment is searched over these settings; other settings describe
#: the workload.
_CHOICES = {
    "model", "hardware", "engine", "weights", "activations", "kv", "tp", "dp", "pp", "ep", "batch", "slots",
    "instance_gpus", "max_instance_gpus", "pipeline", "draft", "mtp", "eagle", "ngram", "draft_weights", "max_draft",
    "draft_length",
}  # fmt: skip
_DOLLARS, _SPEED = "dollars_per_million_output_tokens", "tokens_per_second_per_user"
_ENDS = (f"{_DOLLARS}_low", f"{_DOLLARS}_high")
#: Columns that are interpolated as powers of speed between two points, and columns that batches of a layout share.
_MOVED, _SAME = (_DOLLARS, _SPEED, "ttft_seconds"), ("layout", "engines", "accelerators")
#: Columns that the record of a cheapest point contains.
_SHOWN = (
    _DOLLARS, *_ENDS, _SPEED, "ttft_seconds", "accelerators", "layout", "engines", "model", "hardware", "weights", "kv",
    "dollars_per_accelerator_hour",
)  # fmt: skip
#: Columns that determine the order of points and the previous batch of a layout.
_PLACED = ("combination", "point", "batch", "tp", "dp", "pp", *FAILED)
#: Parts of a sweep that the summary reads together [1].
_TOGETHER = 64


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
    """Complete or partial sweep (``inference_econ.load_sweep``).

    Attributes
    ----------
    scenario : Scenario
        Scenario.
    parts : sequence of Path or bytes
        Parquet files or their contents, in the order of the combinations.
    missing : int
        Missing combinations [1].
    """

    scenario: Scenario
    parts: Sequence[Path | bytes]
    missing: int = 0

    @property
    def displayed(self) -> Swept:
        """Summary of the sweep."""
        return self.summary()

    @property
    def combinations(self) -> Combinations:
        """Combinations of the sweep."""
        assert isinstance(self.scenario.ask, SweepAsk)
        return Combinations(self.scenario.ask)

    def to_frame(self) -> pd.DataFrame:
        """All points of all frontiers, one row per point."""
        rows = self.every_row()
        points = rows[rows["failure"].isna()].drop(columns=list(FAILED))
        return points.astype({"point": "int32"}).reset_index(drop=True)

    def failures(self) -> pd.DataFrame:
        """Combinations without a frontier, with the reason for each."""
        rows, columns = self.every_row(), self._columns
        failed = rows.loc[rows["failure"].notna(), [*columns[: columns.index("point")], *FAILED]]
        return failed.reset_index(drop=True)

    def every_row(self) -> pd.DataFrame:
        """All points and failures, in the order of the combinations."""
        import pyarrow as pa

        whole = pa.concat_tables([schema(self.combinations).empty_table(), *self._tables()])
        rows: pd.DataFrame = whole.to_pandas()
        return rows.sort_values(["combination", "point"], ignore_index=True)

    def summary(self, shown: Cheapest | None = None) -> Swept:
        """Summary of the sweep.

        Parameters
        ----------
        shown : Cheapest, optional
            Rows, compared column and speeds of the summary; by default those of the scenario.

        Raises
        ------
        InputError
            If a column does not exist.
        """
        import pyarrow as pa

        assert isinstance(self.scenario.ask, SweepAsk)
        chosen = shown or self.scenario.ask.cheapest
        rows, among = self._shown_columns(chosen)
        # For axes that the provider does not choose (workload, price, what-if), only the first point is shown.
        columns, axes = axis_columns(self.combinations), self.combinations.axes
        varied = (name for name, points in axes.items() if any(set(point) - _CHOICES for point in points.values()))
        firsts = {columns[name].name: columns[name].value(next(iter(axes[name]))) for name in varied}
        where = {**{name: value for name, value in firsts.items() if name not in (rows, among)}, **chosen.where}
        best: dict[tuple[float, str], CheapestDeployment] = {}
        reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
        frontiers = points = 0
        # Each combination is in a single part, so a few parts in memory at once are sufficient.
        tables = self._tables(list(dict.fromkeys([*_PLACED, *_SHOWN, rows, among, *where])))
        while some := list(islice(tables, _TOGETHER)):
            frame = pa.concat_tables(some).to_pandas()
            failed = frame["failure"].notna()
            for failure, reason in frame.loc[failed, list(FAILED)].itertuples(index=False):
                reasons[failure, "" if failure == "nothing_fits" else reason].append(reason)
            frontiers += frame.loc[~failed, "combination"].nunique()
            points += int((~failed).sum())
            for found in _best(frame[~failed], rows, among, chosen.speeds, where):
                least = best.setdefault((found.speed, found.row), found)
                best[found.speed, found.row] = min(least, found, key=lambda each: each.dollars)
        ordered = tuple(sorted(best.values(), key=lambda found: found.speed))
        frequent = sorted(reasons.items(), key=lambda item: -len(item[1]))
        return Swept(
            self.scenario.name,
            frontiers + sum(map(len, reasons.values())),
            frontiers,
            points,
            self.missing,
            tuple(FailureReason(failure, texts[0], len(texts)) for (failure, _), texts in frequent),
            rows,
            among,
            self._names(rows, ordered),
            chosen.speeds,
            {name: str(value) for name, value in where.items()},
            ordered,
            str(self.combinations.price or "") if self.combinations.several_chips else None,
        )

    def _tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read the rows of each part."""
        from pyarrow import parquet

        for part in self.parts:
            source = io.BytesIO(part) if isinstance(part, bytes) else part
            yield parquet.ParquetFile(source).read(columns).replace_schema_metadata(None)

    def _shown_columns(self, chosen: Cheapest) -> tuple[str, str]:
        """Column whose values are the rows, and column over whose values the cheapest deployment is searched."""
        columns = [column.name for column in axis_columns(self.combinations).values()]
        rows = chosen.rows or ("model" if "model" in columns else columns[0])
        others = [name for name in columns if name != rows]
        among = chosen.among or ("hardware" if rows != "hardware" else (*others, "weights")[0])
        for name in (rows, among, *chosen.where):
            if name not in self._columns:
                raise InputError(
                    f"cheapest: {name!r} is not a column of the sweep; columns: {', '.join(self._columns)}"
                )
        return rows, among

    @property
    def _columns(self) -> list[str]:
        return [str(name) for name in schema(self.combinations).names if name not in FAILED]

    def _names(self, rows: str, best: Sequence[CheapestDeployment]) -> tuple[str, ...]:
        """Values of the row column, in the order of its axis, or sorted if the column is not an axis."""
        of_axis = {column.name: axis for axis, column in axis_columns(self.combinations).items()}
        if rows not in of_axis:
            return tuple(sorted({cheapest.row for cheapest in best}))
        column = axis_columns(self.combinations)[of_axis[rows]]
        return tuple(_text(column.value(label)) for label in self.combinations.axes[of_axis[rows]])


def _best(
    frame: pd.DataFrame, rows: str, among: str, speeds: Sequence[float], where: Mapping[str, object]
) -> Iterator[CheapestDeployment]:
    """Yield the cheapest point of each row at each speed. If costs are equal, the first combination is used.

    Between two batches of a layout, times and costs are interpolated as powers of speed, as in
    ``ServiceFrontier.at_speed``. For disaggregated deployments, and next to a missing batch, the next point that is
    fast enough is used instead.
    """
    for name, value in where.items():
        is_number = frame[name].dtype.kind in "iuf" and not isinstance(value, str)
        frame = frame[frame[name] == value if is_number else frame[name].map(_text) == _text(value)]
    points = frame.sort_values(["combination", "point"], ignore_index=True)
    before = points.groupby("combination")[[*_MOVED, *_SAME, "batch"]].shift()
    # Pools have different instance numbers at different points, so they are not interpolated.
    is_moved = points["ttft_seconds"].notna() & (points["accelerators"] == points["tp"] * points["dp"] * points["pp"])
    for name in _SAME:
        is_moved &= (points[name] == before[name]) | (points[name].isna() & before[name].isna())
    is_moved &= np.abs(np.log(points["batch"] / before["batch"])) < math.log(services.RATIO) * (1.0 + 1e-9)
    for least in map(float, speeds):
        # On a frontier, cost rises with speed, so the slowest point that is fast enough is the cheapest.
        between = np.log(points[_SPEED] / least) / np.log(points[_SPEED] / before[_SPEED])
        back = between.where(is_moved & (before[_SPEED] < least), 0.0)
        moved = {name: points[name] * (before[name] / points[name]).pow(back).fillna(1.0) for name in _MOVED}
        moved |= {end: points[end] * moved[_DOLLARS] / points[_DOLLARS] for end in _ENDS}
        reached = points.assign(**moved)[points[_SPEED] >= least]
        for _, row in reached.loc[reached.groupby(rows, dropna=False)[_DOLLARS].idxmin()].iterrows():
            kept = {name: _plain(row[name]) for name in _SHOWN}
            yield CheapestDeployment(_text(_plain(row[rows])), _text(_plain(row[among])), least, kept)


def _plain(value: Any) -> str | float | None:
    """Value of a column; None if missing."""
    if isinstance(value, str):
        return value
    return None if value is None or math.isnan(value) else float(value)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def answer(run: ScenarioRun, ask: SweepAsk) -> Result:
    """Run a scenario of this kind; :func:`inference_econ.sweep` writes larger sweeps to disk."""
    combinations = combinations_of(ask)
    check_work(combinations, range(combinations.parts))
    contents = []
    try:
        for index, part in answers(combinations, range(combinations.parts)):
            contents.append(part.content)
            if run.progress is not None:
                run.progress((index + 1) / combinations.parts, f"{index + 1} of {combinations.parts} parts")
    except KeyboardInterrupt:
        _work.stop(f"{len(contents)} of {combinations.parts} parts" if contents else "")
    missing = sum(len(combinations.numbers(index)) for index in range(len(contents), combinations.parts))
    return run.result(study=Sweep(run.scenario, contents, missing).summary())
