"""Predictions held against measurements, as one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from inference_econ._shown import Shown
from inference_econ.extras.servers import validation
from inference_econ.extras.servers.measurements import MeasuredServer
from inference_econ.extras.servers.validation import SERVERS, servers
from inference_econ.extras.servers.validation._report import Report
from inference_econ.extras.servers.validation.bound import Violation, violations
from inference_econ.extras.servers.validation.rows import Servers
from inference_econ.records.plain import Frame, frame_of, spreadsheet_cell


@dataclass(frozen=True, repr=False)
class Validated(Shown):
    """Predictions of measured servers, and of other measurements, under one or several sets of assumptions.

    Attributes
    ----------
    servers : tuple of Servers
        Every row with what is predicted for it, for each set of assumptions.
    datasets : sequence of (str, str or None)
        Datasets that are not of servers by name, each with the file that replaces it.
    assumptions : sequence of str
        Presets that these are predicted under; those of each dataset by default.
    bound : bool
        Whether measurements that beat the preset ``ideal`` are wanted under other assumptions, too.
    """

    page = "extras.servers.pages.validate:ValidationPage"

    servers: tuple[Servers, ...]
    datasets: Sequence[tuple[str, str | None]] = ()
    assumptions: Sequence[str] = ()
    bound: bool = False

    @cached_property
    def others(self) -> Sequence[Report]:
        """Reports of the datasets that are not of servers, which take their time when they are first asked for."""
        return [validation.validate(name, file=file, assumptions=self.assumptions) for name, file in self.datasets]

    @cached_property
    def beyond(self) -> Sequence[Violation] | None:
        """Measurements that are faster than the preset ``ideal`` lets them be; None where that is not asked."""
        if not self.servers or not (self.bound or any(report.assumptions == "ideal" for report in self.servers)):
            return None
        return violations(self.servers[0].rows)

    def record(self, keys: Sequence[str] = ()) -> list[dict[str, object]]:
        """Return one record per comparison.

        Parameters
        ----------
        keys : sequence of str
            What errors of servers are grouped by.
        """
        records = [
            {**servers.servers_record(report, keys), "intervals": servers.held_record(report)}
            for report in self.servers
        ]
        records += [] if self.beyond is None else [servers.bound_record(self.beyond)]
        return [*records, *(report.record() for report in self.others)]

    def records(self) -> list[dict[str, object]]:
        """Return one record per row of servers, with several assumptions block after block; else of other datasets."""
        return [line for report in self.servers for line in servers.lines(report)] or [
            point for report in self.others for point in report.records()
        ]

    def to_frame(self) -> Frame:
        """One line per row of servers, or of the other datasets if none of servers is wanted, with ten digits.

        Predictions are in the units of their files, with the ends of their intervals of 80 %, or with the reason why
        there is none.
        """
        records = self.records()
        columns = list(dict.fromkeys(name for record in records for name in record))
        return frame_of([[spreadsheet_cell(record.get(name)) for name in columns] for record in records], columns)


def validate(
    data: str | Path | Sequence[str | Path] = (),
    *,
    assumptions: str | Sequence[str] = (),
    server: MeasuredServer | None = None,
) -> Validated:
    """Hold predictions against measured servers (``inference_econ.validate``).

    Parameters
    ----------
    data : str, Path or sequence of these
        Files of measurements, results of load generators, or names of shipped files; all of these by default.
    assumptions : str or sequence of str
        Presets by name or path; by default the profile of each row's engine and chip.
    server : MeasuredServer, optional
        What results of load generators do not say of the server.

    Returns
    -------
    Validated
        Errors, coverage and the rows that could not be compared.

    Raises
    ------
    InputError
        If a file or a name cannot be used.
    """
    sources = [data] if isinstance(data, (str, Path)) else list(data) or list(SERVERS)
    names: list[str | None] = [assumptions] if isinstance(assumptions, str) else list(assumptions) or [None]
    files = servers.read(sources, server)
    return Validated(tuple(servers.held(files, name) for name in names))
