"""Predictions of all shipped measurements of servers, which take long and are computed once."""

from __future__ import annotations

from functools import cache

from inference_econ.extras.servers import Servers, validation
from inference_econ.extras.servers.validation import servers


@cache
def shipped_servers() -> Servers:
    """Return predictions under the assumptions of each row."""
    return servers.servers(list(validation.SERVERS))
