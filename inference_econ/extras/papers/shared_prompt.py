"""Prefill of one prompt on several copies of the model: times of computation and transfers.

A process is one copy of the model, on one chip or on several tensor-parallel chips.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine import (
    Collective,
    Network,
    Operator,
    OperatorTable,
    Plans,
    Setup,
    Work,
    collective_seconds,
    group_steps,
    mixer,
    operator_roofline,
)
from inference_econ.engine.memory import held_cache
from inference_econ.engine.operators.work import after_layers
from inference_econ.engine.prefill import prefill
from inference_econ.engine.step import communication


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Time in which one process prefills its part of a prompt, given the KV cache of all earlier parts.

    Attributes
    ----------
    before, after : float
        Mean time per layer before attention needs the KV cache of other processes, and mean time per layer after this
        point [s].
    attention : float
        Part of ``after`` in which attention reads the cache and computes scores [s].
    end : float
        Time after the last layer, once per prompt: logits of the last token [s].
    """

    before: float
    after: float
    attention: float
    end: float


def reading_seconds(setup: Setup, process: Plans, tokens: float, cached: float = 0.0, prompts: float = 1.0) -> Array:
    """Time to prefill several equal prompts in one batch.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    process : Plans
        Layouts with one attention group, shape (...).
    tokens, cached : float
        New tokens of each prompt, and tokens of each prompt that are already in the cache [tokens].
    prompts : float
        Number of prompts in the batch [1].

    Returns
    -------
    ndarray, shape (...)
        Time [s].
    """
    if prompts == 1.0:
        return prefill(setup, process, tokens, cached).seconds
    number = np.full(np.shape(process.pp), float(prompts))
    return group_steps(setup, process, tokens, cached, number, number)


def part_of_prompt(setup: Setup, process: Plans, tokens: float, cached: float, prompts: float = 1.0) -> PromptPart:
    """Time in which one process prefills its part of a prompt, before and after attention needs earlier tokens.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    process : Plans
        Layout of one copy of the model, shape (1,).
    tokens, cached : float
        Tokens of the part, and tokens of the prompt before this part [tokens].
    prompts : float
        Number of prompts that are prefilled together [1]. The process has an equally long part of each prompt.

    Returns
    -------
    PromptPart
        Times of the part, divided in proportion to the operator table. The sum (before + after) x layers + end equals
        :func:`reading_seconds`.
    """
    reading = replace(process, batch=prompts * process.pp, new_tokens=tokens, prefill=True, fullest=1.0)
    after = replace(setup, context=cached)
    work, layers = after.work(reading), setup.model.layers
    table = OperatorTable(after, reading)
    # Operators of each layer before the first one that needs the KV cache.
    ahead = list[Operator]()
    for block in setup.model.blocks:
        ahead += takewhile(
            lambda row: row.kind != "scores" and not np.any(row.kv_bytes_per_sequence), mixer(table, block)
        )
    everything = _seconds(after, work, work.operators)
    factor = float(reading_seconds(setup, process, tokens, cached, prompts)[0]) / everything
    before, attention, end = (
        factor * _seconds(after, work, rows)
        for rows in (ahead, (row for row in work.operators if row.kind == "scores"), after_layers(table))
    )
    return PromptPart(before / layers, (factor * everything - before - end) / layers, attention / layers, end)


def _seconds(setup: Setup, work: Work, rows: Iterable[Operator]) -> float:
    """Time of some operators of a step, with communication and kernel launches [s]."""
    network, cut = Network.of(setup.hardware, setup.assumptions.network), setup.assumptions.layout.tensor_layouts[0]
    total = np.zeros(1)
    for row in rows:
        total = total + operator_roofline(setup, row, work).seconds + communication(network, work, cut, [row])
        total = total + row.repeats * setup.rates.fixed_seconds(row, work)
    return float(total[0])


def layer_cache_bytes(setup: Setup, process: Plans, tokens: float) -> float:
    """KV cache and recurrent states of ``tokens`` tokens on each chip of a process, as mean per layer [B].

    Notes
    -----
    Sliding windows limit the KV cache, and MLA stores latents. If there are more chips than KV heads, the additional
    chips store copies.
    """
    plain = setup.assumptions.changed({"capacity.kv_block": 1})
    held = sum(held_cache(setup.model, setup.precision, process, tokens, plain).values())
    return float(np.ravel(held)[0]) / float(process.accelerators[0]) / setup.model.layers


def hand_over_seconds(setup: Setup, size: npt.ArrayLike, domains: npt.ArrayLike) -> Array:
    """Time of a transfer from one chip to another chip.

    Parameters
    ----------
    setup : Setup
        Setup with the links of the chip and the network assumptions.
    size : array_like, shape (...)
        Bytes sent [B].
    domains : array_like, shape (...)
        Number of link domains: 1 if both chips are in one domain, 2 otherwise [1].

    Returns
    -------
    ndarray, shape (...)
        Time of the one-way transfer [s].
    """
    pair = Collective("point_to_point", np.full((), 2.0), np.asarray(domains, dtype=float), np.full((), 2.0))
    network = Network.of(setup.hardware, setup.assumptions.network)
    return np.asarray(collective_seconds(network, pair, np.asarray(size, dtype=float)))


def gathering_seconds(setup: Setup, processes: int, size: float, domains: float) -> float:
    """Time of an all-gather of the KV cache between the processes that share a prompt.

    Parameters
    ----------
    setup : Setup
        Setup with the links of the chip and the network assumptions.
    processes : int
        Number of processes that prefill equal parts of the prompt [1].
    size : float
        Keys and values of the full prompt on one chip of a process [B].
    domains : float
        Number of link domains over which the processes extend [1].

    Returns
    -------
    float
        Time [s].
    """
    ranks, groups = np.full((), float(processes)), np.full((), float(domains))
    gather = Collective("all_to_all", ranks, groups, np.full((), 1.0))
    network = Network.of(setup.hardware, setup.assumptions.network)
    return float(collective_seconds(network, gather, np.asarray(size)))


def moved_bytes(setup: Setup, process: Plans, tokens: float, cached: float) -> float:
    """Traffic between the chips of a process that prefills a part of a prompt.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    process : Plans
        Layout of one copy of the model, shape (1,).
    tokens, cached : float
        Tokens of the part, and tokens of the prompt before this part [tokens].

    Returns
    -------
    float
        Traffic of ring algorithms and all-to-alls [B]. An all-reduce moves 2 (R - 1) times the tensor of a group of R
        ranks, and other collectives move R - 1 times the tensor.
    """
    reading = replace(process, batch=process.pp, new_tokens=tokens, prefill=True, fullest=1.0)
    work, total = replace(setup, context=cached).work(reading), 0.0
    for row in work.operators:
        for sent in row.collectives.get(setup.assumptions.layout.tensor_layouts[0], ()):
            ranks = np.maximum(sent.ranks, 1.0)
            passes = (2.0 if sent.kind == "all_reduce" else 1.0) * sent.repeats * row.repeats
            traffic = passes * (ranks - 1.0) * sent.bytes_per_token * tokens
            total += float(np.ravel(traffic * process.stage / ranks)[0])
    return total
