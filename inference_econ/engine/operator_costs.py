"""Operator table of a step, with the time and energy of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.collectives import Network
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.operators.work import Work
from inference_econ.engine.power import chip_power, operator_joules
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import communication, operator_roofline
from inference_econ.inputs import TensorLayout


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """Time, traffic and energy of one operator, summed over all of its occurrences in a step.

    Attributes
    ----------
    name, unit : str
        Name of the operator, and the math unit on which it runs.
    repeats : float
        Number of times that a token passes through this operator [1].
    flop, moved_bytes : float
        Arithmetic [FLOP] and memory traffic [B] of one accelerator.
    collective_bytes : float
        Size of the tensors that a group of ranks reduces or exchanges in collectives [B].
    compute_seconds, memory_seconds, network_seconds, launch_seconds : float
        Time of arithmetic, memory traffic, communication and kernel launches, each without overlap [s].
    achieved : float
        Efficiency of the operator: the larger of its share of peak arithmetic and its share of peak memory bandwidth
        [1].
    together_seconds : float
        Time of arithmetic and memory traffic with the assumed overlap [s].
    joules : float or None
        Energy of one accelerator [J], in addition to idle power and without a power cap; None if the hardware file
        lists no power.
    """

    name: str
    unit: str
    repeats: float
    flop: float
    moved_bytes: float
    collective_bytes: float
    compute_seconds: float
    memory_seconds: float
    network_seconds: float
    launch_seconds: float
    achieved: float
    together_seconds: float
    joules: float | None = None

    @property
    def seconds(self) -> float:
        """Total time of the operator: arithmetic and memory traffic with overlap, network, and kernel launches [s]."""
        return self.together_seconds + self.network_seconds + self.launch_seconds

    @property
    def bound(self) -> str:
        """Part of the operator's time that is the longest: compute, memory, network or launch."""
        times = {
            "compute": self.compute_seconds,
            "memory": self.memory_seconds,
            "network": self.network_seconds,
            "launch": self.launch_seconds,
        }
        return max(times, key=times.__getitem__)


def operator_costs(setup: Setup, plans: Plans, layout: TensorLayout) -> list[OperatorCosts]:
    """Compute the operator table of a single plan, with the time of each operator.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    plans : Plans
        One deployment, shape (1,).
    layout : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).

    Returns
    -------
    list of OperatorCosts
        Operators that take time, in the order of the step. The sum of their network times is the network time of the
        step.
    """
    rows, chip = every_row(setup, setup.work(plans), layout), chip_power(setup.hardware)
    if chip is not None:
        spent = (_first(joules) for _, joules in operator_joules(setup, chip, plans))
        rows = [replace(row, joules=joules) for row, joules in zip(rows, spent, strict=True)]
    return [row for row in rows if row.seconds]


def every_row(setup: Setup, work: Work, layout: TensorLayout) -> list[OperatorCosts]:
    """Compute the costs of every operator of the table, including operators that take no time."""
    network, rates, costs = Network.of(setup.hardware, setup.assumptions.network), setup.rates, []
    by_operator = setup.assumptions.host.launches == "per_operator"
    for operator in work.operators:
        roofline = operator_roofline(setup, operator, work)
        compute, worked, repeats = _first(roofline.compute), _first(roofline.seconds), _first(operator.repeats)
        network_seconds = _first(communication(network, work, layout, [operator]))
        launched = repeats * _first(rates.fixed_seconds(operator, work)) if by_operator else 0.0
        together = worked + network_seconds + launched
        flop = compute / _first(operator.padding) * _first(rates.operator_flops_per_second(operator))
        moved = _first(
            roofline.weights * rates.weight_bytes_per_second(operator.dtype, operator.kind, operator.rates)
            + roofline.activations * rates.bytes_per_second
            + roofline.kv_cache / operator.kv_padding * rates.kv_bytes_per_second(operator)
        )
        unit = rates.operator_unit(operator)
        ideal = max(flop / rates.peaks[unit], moved / setup.hardware.hbm_bytes_per_second)
        row = OperatorCosts(
            name=operator.name,
            unit=unit,
            repeats=repeats,
            flop=flop,
            moved_bytes=moved,
            collective_bytes=_first(work.collective_bytes(operator, layout)),
            compute_seconds=compute,
            memory_seconds=_first(roofline.memory),
            network_seconds=network_seconds,
            launch_seconds=launched,
            achieved=ideal / together if together else 0.0,
            together_seconds=worked,
        )
        costs.append(row)
    return costs


def _first(values: Array | float) -> float:
    """Value of an array that has a single plan."""
    return float(np.ravel(values)[0])
