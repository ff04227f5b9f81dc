"""View of a sweep: how many frontiers it has, why others have none, and what is the cheapest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inference_econ.records.plain import attributes
from inference_econ.studies.results import Study


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why some combinations have no frontier.

    Attributes
    ----------
    kind : str
        ``nothing_fits``, or ``refused`` for what cannot be asked: a format that a chip has no unit for, no price.
    text : str
        In words; that of the first combination where each has its own.
    combinations : int
        That fail so [1].
    """

    kind: str
    text: str
    combinations: int


@dataclass(frozen=True, slots=True)
class CheapestDeployment:
    """Deployment of least cost, of all combinations of a row that are fast enough.

    Attributes
    ----------
    row, among : str
        What the row and what is cheapest are called.
    speed : float
        The least speed that was asked for [tokens/s per user].
    point : mapping of str
        Columns of the point: cost, speed, layout, number formats.
    """

    row: str
    among: str
    speed: float
    point: Mapping[str, object]

    @property
    def dollars(self) -> float:
        """Its cost [USD per 1e6 output tokens]."""
        return float(str(self.point["dollars_per_million_output_tokens"]))

    @property
    def is_measured(self) -> bool:
        """True if its errors are known: measured servers stand behind its assumptions."""
        return self.point["dollars_per_million_output_tokens_low"] is not None


@dataclass(frozen=True, slots=True)
class Swept(Study):
    """A sweep in short.

    Attributes
    ----------
    title : str
        Of the scenario.
    combinations, frontiers, points : int
        Combinations with rows, those of them with a frontier, and points of these [1].
    missing : int
        Combinations that have not been asked yet [1].
    reasons : tuple of Reason
        The most frequent first.
    rows, among : str
        Columns: rows of what is shown, and that whose cheapest value is shown.
    names : tuple of str
        Of the rows, in the order of the axis.
    speeds : tuple of float
        Ascending [tokens/s per user].
    where : mapping of str to str
        Columns that have one value in all that is shown.
    best : tuple of Best
        By row and speed, where any is fast enough.
    price : str or None
        What several chips are priced by: a kind, with its source if they are alike, or empty where each has its
        default price; None of a single chip, or where an axis says prices.
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
        """Return the cheapest deployments in the order of the rows, and of each by speed."""
        place = {name: index for index, name in enumerate(self.names)}
        return sorted(self.best, key=lambda best: (place.get(best.row, len(place)), best.speed))

    def record(self) -> dict[str, Any]:
        """Return the sweep in short as plain data."""
        return {
            "title": self.title,
            **attributes(self, "combinations frontiers points missing"),
            "failures": [asdict(reason) for reason in self.reasons],
            "where": dict(self.where),
            "cheapest": self.records(),
        }

    def records(self) -> list[dict[str, Any]]:
        """Return the cheapest deployments, one record for each row and speed."""
        return [
            {"rows": best.row, "at_least_tokens_per_second": best.speed, "cheapest": best.among}
            | {**self.where, **best.point}
            for best in self.ordered()
        ]
