"""Times that plans cannot beat, at a fraction of the effort of their exact time.

Valid where chips beyond the attention ranks wait (``attention_groups: idle``) and the cache is
spread evenly (``kv_placement: spread``): attention on every chip is then the least work.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from inference_econ.engine.collectives import Network, collective_floor
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.operators.work import Work
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import launch_seconds, operator_roofline

Array = npt.NDArray[np.float64]


def lower_bound(setup: Setup, plans: Plans, attention_floor: Array | float = 0.0) -> Array:
    """A time that these instances cannot beat, wherever their attention runs [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    plans : Plans
        Instances with attention on every chip of a stage, shape (...).
    attention_floor : ndarray, shape (sums, ...)
        From :func:`attention_floor` [s].

    Returns
    -------
    ndarray, broadcastable to (...)
        :func:`step_seconds` without the communication of attention, or with the floor for all of attention,
        whichever is more. Attention on fewer chips only adds work to either.
    """
    work = setup.work(plans)
    communication = _least_communication(setup, work, work, on_attention_ranks=False)
    return _bound(setup, work, communication, attention_floor)


def attention_floor(setup: Setup, variants: Plans, largest: Plans | None = None) -> Array:
    """Least time for attention over the variants of some instances [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    variants : Plans
        Shape (variants, ...). The floor holds for larger micro-batches too: no part of it falls with them.
    largest : Plans, optional
        The floor shall hold for all stages from those of ``variants`` to these, of the same shape.

    Returns
    -------
    ndarray, shape (sums, ...)
        Work and communication [s], one row for each sum that bounds the work of a step: arithmetic and
        memory traffic under ``overlap: step``, otherwise a single one.
    """
    small = setup.work(variants)
    large = small if largest is None else setup.work(largest)
    communication = _least_communication(setup, small, large, on_attention_ranks=True)
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
    return _bound(setup, large, communication, attention_floor)


def _bound(setup: Setup, work: Work, communication: Array, attention: Array | float) -> Array:
    sums = _sums(setup, work, work.operators)
    elsewhere = _sums(setup, work, _elsewhere(work))
    floors = np.broadcast_to(attention, (len(sums), *np.shape(attention)[1:]))
    for everything, other, floor in zip(list(sums), elsewhere, floors, strict=True):
        sums.append(np.maximum(everything, other + floor))
    alone = launch_seconds(setup, work) + setup.assumptions.host.step_overhead
    return np.asarray(functools.reduce(np.maximum, sums) + communication + alone)


def _elsewhere(work: Work) -> list[Operator]:
    return [operator for operator in work.operators if not operator.on_attention_ranks]


def _sums(setup: Setup, work: Work, operators: Iterable[Operator]) -> list[Array]:
    """Work of some operators, summed in each way that bounds the work of a step; the largest is the step's."""
    rooflines = [operator_roofline(setup, operator, work) for operator in operators]
    if setup.assumptions.chip.overlap == "step":
        each = [[roofline.compute, roofline.memory] for roofline in rooflines]
    elif setup.assumptions.chip.overlap == "none":
        each = [[roofline.compute + roofline.memory] for roofline in rooflines]
    else:
        each = [[np.maximum(roofline.compute, roofline.memory)] for roofline in rooflines]
    return [np.asarray(sum(column)) for column in zip(*each, strict=True)]


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
