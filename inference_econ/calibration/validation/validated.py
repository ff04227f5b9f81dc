"""Predictions held against measured servers, as one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inference_econ._shown import Shown
from inference_econ.calibration.measurements import MeasuredServer
from inference_econ.calibration.validation import SERVERS, servers
from inference_econ.calibration.validation.rows import Servers


@dataclass(frozen=True, slots=True, repr=False)
class Validated(Shown):
    """Predictions of measured servers under one or several sets of assumptions.

    Attributes
    ----------
    servers : tuple of Servers
        Every row with what is predicted for it, for each set of assumptions.
    """

    servers: tuple[Servers, ...]


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
