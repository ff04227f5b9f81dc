"""How many requests a loaded service answers as promised."""

from __future__ import annotations

import math

import numpy as np

from inference_econ.errors import InputError
from inference_econ.serving.load import first_tokens, occupancy
from inference_econ.serving.services import Service


def kept_share(
    service: Service,
    requests_per_second: float,
    *,
    ttft_seconds: float = math.inf,
    tpot_seconds: float = math.inf,
    arrival_scv: float = 1.0,
) -> float:
    """Share of the requests whose TTFT and TPOT both keep their promises [1].

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    ttft_seconds, tpot_seconds : float
        Promises [s]; ``inf`` if there is none.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].

    Returns
    -------
    float
        Of what the instance completes. Of a saturated one no request keeps a promised TTFT.

    Raises
    ------
    InputError
        If a rate or promise is not positive.

    Notes
    -----
    A request has the TPOT of the steady state that it finds, so that promises of both kinds are broken by the same
    requests: those that come when many are in flight.
    """
    for name, value in (("ttft", ttft_seconds), ("tpot", tpot_seconds)):
        if not value > 0:
            raise InputError(f"a promised {name} must be positive, got {value:g} s")
    found, state = occupancy(service, requests_per_second, arrival_scv)
    quick = np.where(state.tpot_seconds <= tpot_seconds, 1.0, 0.0)
    by_tokens = float(quick @ found.work)
    if found.saturated:
        return by_tokens if math.isinf(ttft_seconds) else 0.0
    times, shares = first_tokens(service, found, state, arrival_scv, quick)
    return min(float(shares[times <= ttft_seconds].sum()), by_tokens, 1.0)
