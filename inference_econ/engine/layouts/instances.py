"""Sizes of instances that somebody starts, and where stages of a pipeline end: machines are whole."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.divisibility import MACHINE
from inference_econ.inputs import HardwareSpec

#: Chips of a compute tray of a rack, which engines see as a node (NVIDIA GB200 NVL72: 18 trays of 4) [1].
_TRAY = 4


def machine(hardware: HardwareSpec) -> int:
    """Chips that share a machine, or a fast link if that reaches further [1].

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> [machine(catalog.hardware(name)) for name in ("l40s", "h100_nvl", "gb200_nvl72")]
    [8, 2, 72]
    """
    return max(hardware.link_domain, node(hardware))


def node(hardware: HardwareSpec) -> int:
    """Chips that engines see as a node, and make stages of a pipeline of [1]: the whole machine as it is rented.

    Where nobody was found to rent the chip it is a machine, or a tray of a rack.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> [node(catalog.hardware(name)) for name in ("h100_sxm", "gh200_96", "gb200_nvl72", "h20_sxm")]
    [8, 1, 4, 8]
    """
    if hardware.rented_as:
        return hardware.rented_as[-1]
    return _TRAY if hardware.link_domain > MACHINE else MACHINE


def tensor_degrees(degrees: Array, hardware: HardwareSpec) -> Array:
    """Those of some numbers of attention ranks that engines' documents tell one to use: powers of two in a machine."""
    return np.asarray(degrees[(np.mod(np.log2(degrees), 1) == 0) & (degrees <= machine(hardware))])


def sizes(hardware: HardwareSpec, largest: float) -> Array:
    """Sizes of instances up to the largest [1], shape (n,): powers of two inside a machine, and of machines.

    Parameters
    ----------
    hardware : HardwareSpec
        Whose :func:`machine` counts.
    largest : float
        No instance is larger [1].

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> sizes(catalog.hardware("h100_sxm"), 24).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    >>> sizes(catalog.hardware("gb200_nvl72"), 144).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 72.0, 144.0]
    """
    whole = machine(hardware)
    inside = 2.0 ** np.arange(np.ceil(np.log2(whole)))
    machines = whole * 2.0 ** np.arange(max(np.floor(np.log2(max(largest / whole, 1.0))), 0.0) + 1.0)
    every = np.concatenate([inside, machines])
    return np.asarray(every[every <= largest])


def sensible_stages(
    accelerators: Array, stage: Array, hardware: HardwareSpec, smallest: float
) -> npt.NDArray[np.bool_]:
    """Return whether engines' documents tell one to cut instances into such stages, broadcast.

    Engines' documents make each node a stage, with tensor parallelism inside of it, where a model is too large for one
    (``EngineFacts.stages_over``); inside of one, stages are for chips without a fast link. No measured server on one
    machine had any, so that predictions of them are not held against anything.

    Parameters
    ----------
    accelerators, stage : ndarray
        Chips of instances, and of their stages [1].
    hardware : HardwareSpec
        Whose nodes and machines count.
    smallest : float
        Chips that the weights just fill [1].

    Examples
    --------
    A model for 12 chips, and one for two, on one machine of 8 and on two, whose chips have a fast link, or none:

    >>> from inference_econ.inputs import catalog
    >>> sizes, stages = np.array([8.0, 16.0, 16.0]), np.array([4.0, 8.0, 4.0])
    >>> h100, l40s = (catalog.hardware(name) for name in ("h100_sxm", "l40s"))
    >>> [sensible_stages(sizes, stages, h100, least).tolist() for least in (12.0, 2.0)]
    [[False, True, False], [False, False, False]]
    >>> sensible_stages(sizes, stages, l40s, 2.0).tolist()
    [True, False, False]
    """
    whole = node(hardware)
    over_nodes = (stage % whole == 0) & (smallest > machine(hardware))
    without_link = (accelerators <= whole) & (hardware.link_domain == 1)
    return np.asarray((stage == accelerators) | without_link | over_nodes)
