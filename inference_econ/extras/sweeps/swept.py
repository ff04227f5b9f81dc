"""Summary of a sweep: number of frontiers, reasons for missing ones, and cheapest deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inference_econ.records.plain import attributes
from inference_econ.studies.results import Study


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Reason for missing frontiers.

    Attributes
    ----------
    kind : str
        ``nothing_fits``, or ``refused`` for unsupported settings: no unit for a format, no price.
    text : str
        Reason of the first combination.
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
        Values of the row, and of the column whose cheapest value is shown.
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
        """Cost [USD per 1e6 output tokens]."""
        return float(str(self.point["dollars_per_million_output_tokens"]))

    @property
    def is_measured(self) -> bool:
        """True if its assumptions have measured errors."""
        return self.point["dollars_per_million_output_tokens_low"] is not None


@dataclass(frozen=True, slots=True)
class Swept(Study):
    """Summary of a sweep.

    Attributes
    ----------
    title : str
        Title of the scenario.
    combinations, frontiers, points : int
        Combinations with rows, those with a frontier, and their points [1].
    missing : int
        Missing combinations [1].
    reasons : tuple of FailureReason
        Reasons for missing frontiers, the most frequent first.
    rows, among : str
        Column of the rows, and column whose cheapest value is shown.
    names : tuple of str
        Names of the rows, in the order of the axis.
    speeds : tuple of float
        Ascending speeds [tokens/s per user].
    where : mapping of str to str
        Columns restricted to one value.
    best : tuple of CheapestDeployment
        Cheapest deployment by row and speed, where one is fast enough.
    price : str or None
        Basis of prices of several chips: a kind with its source, or empty for default prices; None for a single chip,
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
