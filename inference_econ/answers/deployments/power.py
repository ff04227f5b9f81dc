"""Power of deployments, at three boundaries: GPU boards, servers and the facility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.engine import (
    ChipPower,
    Plans,
    Setup,
    Speculation,
    chip_power,
    power,
    prompts_of_a_step,
    prompts_together,
    token_joules,
)
from inference_econ.formulas.power import facility_watts, grams_of_carbon
from inference_econ.inputs import Requests
from inference_econ.serving import Service, Services


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


def instance_watts(
    services: Services | Service,
    rows: Indices,
    batch: Array,
    requests_per_second: Array,
    *,
    reads: bool = True,
    decodes: bool = True,
) -> Array | None:
    """Compute the mean GPU board power of instances under load.

    Parameters
    ----------
    services : Services or Service
        Layouts.
    rows : ndarray of int, shape (n,)
        Index of the layout of each instance.
    batch, requests_per_second : ndarray, shape (n,)
        Decode batch of each instance [1], and requests that each instance completes [1/s].
    reads, decodes : bool
        True if instances prefill, and True if instances decode.

    Returns
    -------
    ndarray, shape (n,), or None
        Power of all boards of an instance [W]; None without power data.
    """
    setup, chip = services.setup, chip_power(services.setup.hardware)
    if chip is None:
        return None
    plans = replace(services.plans.at((rows,)), batch=batch)
    speculation = services.speculation if decodes else None
    joules = request_joules(setup, chip, plans, services.requests, speculation, reads=reads, decodes=decodes)
    return np.asarray(plans.accelerators * chip.board_watts(joules * requests_per_second / plans.accelerators, 1.0))


#: Names of the power and energy values of a deployment in records.
FIELDS = (
    "board_watts",
    "server_watts",
    "facility_watts",
    "provisioned_watts",
    "joules_per_output_token",
    "facility_joules_per_output_token",
    "tokens_per_second_per_megawatt",
)


def power_record(
    parts: Sequence[tuple[Setup, int]], board_watts: float | None, tokens_per_second: float
) -> dict[str, float | None]:
    """Return the power and energy of a deployment as plain data.

    Parameters
    ----------
    parts : sequence of (Setup, int)
        Setups of the instances, each with its number of GPUs [1]. Emissions use the electricity grid of the first
        setup.
    board_watts : float or None
        Mean power of all GPU boards [W]. None means no power data, and then all values are None.
    tokens_per_second : float
        Output rate [tokens/s].

    Returns
    -------
    dict of str to float
        Values of :data:`FIELDS`. If the setup has an electricity grid, also emissions per million output tokens [g].
    """
    if board_watts is None:
        return dict.fromkeys(FIELDS)
    chips = [(chip, number) for setup, number in parts if (chip := chip_power(setup.hardware)) is not None]
    hosts = sum(number * chip.host_watts for chip, number in chips)
    provisioned = sum(number * chip.provisioned_watts for chip, number in chips)
    facility = float(facility_watts(board_watts, hosts, chips[0][0].pue))
    values = (
        board_watts,
        board_watts + hosts,
        facility,
        provisioned,
        board_watts / tokens_per_second,
        facility / tokens_per_second,
        1e6 * tokens_per_second / provisioned,
    )
    record: dict[str, float | None] = dict(zip(FIELDS, values, strict=True))
    grid = parts[0][0].grid
    if grid is not None:
        grams = grams_of_carbon(1e6 * facility / tokens_per_second, grid.grams_per_kwh)
        record["grams_co2e_per_million_output_tokens"] = float(grams)
    return record


def fleet_power(fleet: PooledFleet) -> dict[str, float | None]:
    """Power of a disaggregated deployment as plain data; see :func:`power_record`."""
    pools, load = fleet.pools, fleet.load
    batch = np.array([max(load.in_flight / fleet.decode_instances, 1.0)])
    sides = (
        (pools.prefill, fleet.prefill, fleet.prefill_instances, True),
        (pools.decode, fleet.decode, fleet.decode_instances, False),
    )
    drawn: float | None = 0.0
    for pool, row, count, reads in sides:
        rate = np.array([load.completed_per_second / count])
        chips = pool.processes_of(row)
        watts = instance_watts(pool.services, np.array([row]), batch, rate / chips, reads=reads, decodes=not reads)
        drawn = None if watts is None or drawn is None else drawn + count * chips * float(watts[0])
    setups = (pools.prefill.setup, pools.decode.setup)
    rate_of_tokens = load.completed_per_second * pools.requests.osl.mean
    return power_record(list(zip(setups, fleet.accelerators, strict=True)), drawn, rate_of_tokens)
