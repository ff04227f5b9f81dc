"""Times that plans cannot beat, at a fraction of the effort of their exact time: see :func:`hold` for where."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import (
    Network,
    Operator,
    Plans,
    Setup,
    Work,
    collective_floor,
    launch_seconds,
    operator_roofline,
)
from inference_econ.inputs import Assumptions


def hold(assumptions: Assumptions) -> bool:
    """Return whether the bounds of this module are below the time of every plan with experts by the assumptions' rule.

    Parameters
    ----------
    assumptions : Assumptions
        How work is laid out and counted.

    Notes
    -----
    Each bound takes attention on every chip of a stage for the least work, work per chip to fall and communication to
    grow with the chips of a stage, and all work to be done before, or beside, communication. That needs

    - ``layout.attention_groups: idle``: groups that share the batch have less communication, and caches of their own;
    - ``layout.kv_placement: spread``: where the cache lies with its heads, fewer ranks hold fewer copies of it;
    - ``experts.parallel_counts: requests``: the ranges of a table begin where micro-batches begin to be spread, in
      sequences and not in their new tokens;
    - ``experts.all_to_all_traffic: as_all_reduce``: the floor of a collective knows no traffic over a rank's own link;
    - ``experts.replicated_tokens: exchanged``: otherwise fewer attention ranks turn an all-reduce into an exchange;
    - ``experts.imbalance: 1`` and ``experts.spread: even``: the busiest rank has more work the more ranks there are;
    - ``network.link_domains: whole`` or ``exact``: placed ranks may touch fewer domains where there are more of them;
    - ``experts.redundant: null``: chips that hold copies have more work the more of them there are;
    - ``layout.residual_stream: whole``: norms have less work where more ranks share them;
    - ``network.two_batch_overlap: never``: half of the communication would hide behind the work of the other half;
    - ``network.hidden: 0`` and ``chip.prefetched_bytes: 0``: communication would hide behind work.
    """
    layout, experts = assumptions.layout, assumptions.experts
    return (
        (layout.attention_groups, layout.kv_placement, layout.residual_stream) == ("idle", "spread", "whole")
        and (experts.parallel_counts, experts.all_to_all_traffic) == ("requests", "as_all_reduce")
        and (experts.replicated_tokens, experts.spread, experts.imbalance) == ("exchanged", "even", 1)
        and (assumptions.network.two_batch_overlap, experts.redundant) == ("never", None)
        and (assumptions.network.hidden, assumptions.chip.prefetched_bytes) == (0, 0)
        and assumptions.network.link_domains != "placed"
    )


def attention_floor(setup: Setup, smallest: Plans, largest: Plans) -> Array:
    """Least time for attention over the variants of a range of stages [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    smallest, largest : Plans
        Where attention may run at both ends of the range, shape (variants, ...). The floor holds for larger
        micro-batches too: no part of it falls with them.

    Returns
    -------
    ndarray, shape (sums, ...)
        Work and communication [s], one row for each sum that bounds the work of a step: arithmetic and
        memory traffic under ``overlap: step``, otherwise a single one.
    """
    large = setup.work(largest)
    communication = _least_communication(setup, setup.work(smallest), large, on_attention_ranks=True)
    sums = _sums(setup, large, [operator for operator in large.operators if operator.on_attention_ranks])
    return np.stack([(work + communication).min(axis=0) for work in sums])


def range_bound(setup: Setup, smallest: Plans, largest: Plans, attention_floor: Array | float = 0.0) -> Array:
    """A time that no instance in a range of stages beats, with these or larger micro-batches [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    smallest, largest : Plans
        Unpipelined, attention on every chip, equal batches, shape (...). All plans that have this or a larger
        micro-batch and a stage between the two are meant, whatever their depth. Where expert parallelism starts
        at some micro-batch, larger ones than that are not meant for ranges that begin below it.
    attention_floor : ndarray, shape (sums, ...)
        From :func:`attention_floor` for the same range [s].

    Returns
    -------
    ndarray, broadcastable to (...)
        Work per chip falls with the chips, and the ranks of a collective grow with them.
    """
    large = setup.work(largest)
    communication = _least_communication(setup, setup.work(smallest), large, on_attention_ranks=False)
    everything = _sums(setup, large, large.operators)
    elsewhere = _sums(setup, large, [operator for operator in large.operators if not operator.on_attention_ranks])
    floors = np.broadcast_to(attention_floor, (len(everything), *np.shape(attention_floor)[1:]))
    least = [*everything, *(other + floor for other, floor in zip(elsewhere, floors, strict=True))]
    alone = launch_seconds(setup, large) + setup.assumptions.host.step_overhead
    return np.asarray(functools.reduce(np.maximum, least) + communication + alone)


def _sums(setup: Setup, work: Work, operators: Iterable[Operator]) -> list[Array]:
    """Work of some operators, summed in each way that bounds the work of a step; the largest is the step's."""
    rooflines = [operator_roofline(setup, operator, work) for operator in operators]
    if setup.assumptions.chip.overlap == "step":
        sums = [[roofline.compute, roofline.memory] for roofline in rooflines]
    elif setup.assumptions.chip.overlap == "none":
        sums = [[roofline.compute + roofline.memory] for roofline in rooflines]
    else:
        sums = [[np.maximum(roofline.compute, roofline.memory)] for roofline in rooflines]
    return [np.asarray(sum(column)) for column in zip(*sums, strict=True)]


def _least_communication(setup: Setup, small: Work, large: Work, *, on_attention_ranks: bool) -> Array:
    """Communication over a range of stages, of attention or of everything else, in the better cut."""
    totals, network = [], Network.of(setup.hardware, setup.assumptions.network)
    for layout in setup.assumptions.layout.tensor_layouts:
        total = np.zeros(())
        for low, high in zip(small.operators, large.operators, strict=True):
            if low.on_attention_ranks == on_attention_ranks:
                pairs = zip(low.collectives.get(layout, ()), high.collectives.get(layout, ()), strict=True)
                for first, last in pairs:
                    repeats = low.repeats * first.repeats
                    total = total + repeats * collective_floor(network, first, last, small.tokens)
        totals.append(total)
    return functools.reduce(np.minimum, totals)
