"""Energy per request, from the energy of its prefill and decode steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import (
    ChipPower,
    Plans,
    Setup,
    Speculation,
    power,
    prompts_of_a_step,
    prompts_together,
    token_joules,
)
from inference_econ.inputs import Requests


def request_joules(
    setup: Setup,
    chip: ChipPower,
    plans: Plans,
    requests: Requests,
    speculation: Speculation | None = None,
    *,
    reads: bool = True,
    decodes: bool = True,
) -> Array:
    """Energy of one request in addition to idle energy, summed over all accelerators of an instance.

    Parameters
    ----------
    setup : Setup
        Model, chip, engine and assumptions, at the mean context of the requests.
    chip : ChipPower
        Power and energy data of the accelerator.
    plans : Plans
        Deployments with their batches, shape (...).
    requests : Requests
        Request lengths and cached tokens.
    speculation : Speculation, optional
        Speculation method.
    reads, decodes : bool
        ``reads`` is True if the instances prefill, and ``decodes`` is True if they decode.

    Returns
    -------
    ndarray, shape (...)
        Energy [J].

    Notes
    -----
    The energies of arithmetic, memory reads and communication add up, even if they overlap in time. Prefill steps are
    assumed to be full of prompts, so weights are read once per full step. If a long prompt has several chunks, repeated
    reads of the KV cache by later chunks are neglected. Drafting is assumed to draw the same power as verification.
    """
    full = replace(plans, batch=np.maximum(plans.batch, plans.pp))
    total = np.zeros(plans.shape)
    if reads:
        together = prompts_together(setup, plans) * prompts_of_a_step(setup, requests.new_tokens)
        reading = replace(full, batch=np.asarray(together), new_tokens=requests.new_tokens, prefill=True, fullest=1.0)
        prompt = replace(setup, context=requests.cached, spread=0.0)
        total = total + power.step_joules(prompt, chip, reading) / together
    if decodes:
        total = total + requests.decode_steps * token_joules(setup, chip, full, speculation)
    return np.asarray(total * plans.accelerators)
