"""Measured servers as points of a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from inference_econ.calibration.alike import MeasuredServer, servers_like
from inference_econ.calibration.validation.intervals import ENGINES
from inference_econ.engine import Setup
from inference_econ.formulas import money
from inference_econ.report.charts.plot import Series


class Drawn(NamedTuple):
    """A line of a picture that measured servers may be like.

    Attributes
    ----------
    label : str
        Of the line.
    setup : Setup
        What is served, on what, how; under other assumptions the same servers are shown.
    lengths : tuple of float
        Mean input and output tokens of requests [tokens].
    """

    label: str
    setup: Setup
    lengths: tuple[float, float]

    def dollars_per_million_output_tokens(self, server: MeasuredServer) -> float:
        """The whole bill over output tokens, at the price of the line [USD per 1e6 tokens]."""
        price = self.setup.dollars_per_accelerator_hour
        return float(money.dollars_per_million_tokens(1.0, 1.0, server.tokens_per_second_per_accelerator, price))


def measured_lines(
    drawn: Sequence[Drawn], metric: Callable[[Drawn, MeasuredServer], float], counted: str = ""
) -> list[Series]:
    """Measured servers that lines of a picture are about: points for each engine and line.

    Parameters
    ----------
    drawn : sequence of Drawn
        The lines.
    metric : callable
        What is held against the speed of a user.
    counted : str
        What the metric of a server counts and that of a line does not, for the legend.
    """
    like = [(line, servers_like(line.setup, *line.lengths)) for line in drawn]
    files: dict[str, dict[str, None]] = {}
    for server in (server for _, servers in like for server in servers):
        files.setdefault(server.engine, {})[server.dataset] = None
    lines = []
    for engine, datasets in files.items():
        label = f"measured: {ENGINES.get(engine, engine) or 'engine not recorded'} ({', '.join(datasets)}){counted}"
        for line, servers in like:
            chosen = [server for server in servers if server.engine == engine]
            speeds = [server.tokens_per_second_per_user for server in chosen]
            if chosen:
                values = [metric(line, server) for server in chosen]
                lines.append(Series(label, speeds, values, points=True, beside=line.label))
    return lines
