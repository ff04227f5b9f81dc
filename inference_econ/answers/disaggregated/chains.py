"""Chains of prefill instances that read each prompt in parts (KV-Runahead), beside single ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inference_econ import _work
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.prompt_processes import Chain, Processes, check_kept, read_whole
from inference_econ.engine import prompts_together
from inference_econ.errors import InputError, NothingFitsError

#: Longer chains than can be meant [1]; and what a layout and a process of a chain take to search parts for [s].
_LONGEST, _TABLE_SECONDS, _PROCESS_SECONDS = 64, 0.6, 0.05


def with_chains(pool: Pool, numbers: Sequence[int], largest: float = math.inf) -> Pool:
    """Layouts of a prefill pool, and chains of each of them that reads one prompt at a time.

    Parameters
    ----------
    pool : Pool
        Layouts that read prompts.
    numbers : sequence of int
        Processes of a chain [1]: instances of the layout, on chips of the same kind.
    largest : float
        Chips of a chain at most [1].

    Returns
    -------
    Pool
        A chain is an instance of so many times the chips. It takes a prompt's time alone, and keeps its busiest process
        busy, in proportion to those of one process by :class:`Chain`; while that goes on, the others read for the next
        prompts. The last process has the whole cache, and sends it to those that decode.

    Raises
    ------
    InputError
        If a number cannot be used, or no cache is kept.
    NothingFitsError
        If no layout can be a process of such chains.
    """
    services = pool.services
    tokens, cached = round(services.requests.new_tokens), float(services.requests.cached)
    for number in numbers:
        if not 2 <= number <= _LONGEST:
            raise InputError(f"a chain has from 2 to {_LONGEST} processes, got {number}", option="prefill_chain")
        if tokens < number:
            raise InputError(f"a prompt of {tokens} tokens has no token for each of {number} processes")
    check_kept(services.setup)
    plans, slots, whole = services.plans, services.slots, read_whole(services.setup)
    alone = np.broadcast_to((prompts_together(services.setup, plans) == 1.0) & (plans.pp == 1.0), slots.shape)
    seconds = alone.sum() * (_TABLE_SECONDS + _PROCESS_SECONDS * sum(numbers))
    _work.check(f"{alone.sum() * len(numbers):,} chains", seconds=float(seconds), smaller="prefill_chain")
    most = min(largest, services.setup.most_linked or math.inf)
    chains: list[tuple[float, ...]] = []
    for index in np.flatnonzero(alone).tolist():
        processes = Processes.of(whole, plans.at((np.array([index]),)), float(tokens), cached)
        once = processes.alone(tokens).seconds
        for chain in (Chain(((processes, number),)) for number in numbers if number * processes.chips <= most):
            way = chain.searched(tokens)
            busiest = chain.busiest_seconds(way.parts)
            chains.append((index, chain.processes, way.seconds / once, busiest / once))
    if not chains:
        raise NothingFitsError(
            f"no layout of {services.setup.model.name} on {services.setup.hardware.name} that reads a prompt at a time "
            f"makes a chain of {' or '.join(map(str, numbers))} within {most:g} GPUs; allow larger instances"
        )
    single = np.arange(len(services))
    rows, *columns = np.array(chains).T
    ones = np.ones(single.size)
    every = services.take(np.concatenate([single, rows.astype(np.intp)]))
    return Pool(every, *(np.concatenate([ones, column]) for column in columns))
