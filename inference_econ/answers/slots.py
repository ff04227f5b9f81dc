"""Layouts that run no more requests at a time than they are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inference_econ.errors import InputError
from inference_econ.serving import Services, Steady
from inference_econ.serving.services import services


def with_slots(layouts: Services, slots: int) -> Services:
    """Layouts with a limit on the requests in flight of an instance; others wait, first come, first served.

    Parameters
    ----------
    layouts : Services
        To choose from (:func:`inference_econ.answers.offer.offer`).
    slots : int
        Requests in flight of an instance at most [1]; where memory holds fewer, memory decides.

    Returns
    -------
    Services
        With their steady states up to that many.

    Raises
    ------
    InputError
        If the limit is not positive, or more than one step's tokens: an engine gives each request one.
    """
    if slots < 1:
        raise InputError(f"slots must be a whole number from 1 on, got {slots:g}")
    chunk = layouts.setup.assumptions.serving.prefill_chunk
    if 0 < chunk < slots:
        raise InputError(
            f"a step of at most {chunk:g} tokens (--token-budget) cannot work on {slots} requests (--slots), each of "
            "which has a token in it; give a larger budget or fewer slots",
            option="token_budget",
        )
    most = np.minimum(layouts.slots, float(slots))
    setup, requests, speculation = layouts.setup, layouts.requests, layouts.speculation
    wider = services(setup, requests, layouts.plans, most, speculation=speculation)

    def states() -> Steady:
        # Those that are being read are in flight too, so that the largest batch is a little smaller.
        rows = zip(wider.running, wider.states.concurrency, wider.states.batch, strict=True)
        batch = [np.exp(np.interp(np.log(limit), np.log(flight), np.log(values))) for limit, flight, values in rows]
        shares = np.linspace(0.0, 1.0, wider.states.batch.shape[1])
        return wider.states_at(np.array(batch)[:, None] ** shares)

    return replace(wider, steady=states, limit=float(slots))
