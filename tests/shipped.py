"""Predictions of all shipped measurements of servers, which take long and are computed once."""

from __future__ import annotations

from functools import cache

from inference_econ.extras.servers import Servers, validation
from inference_econ.extras.servers.validation import servers


@cache
def shipped_servers() -> Servers:
    """Return predictions under the assumptions of each row."""
    return servers.predict_files(servers.read_files(list(validation.SERVERS)))


def some_shipped_servers() -> Servers:
    """Return the predictions of one collection."""
    rows = [row for row in shipped_servers().rows if row.dataset == "inferencemax_aggregated"]
    return Servers("by hardware", tuple(rows), ())
