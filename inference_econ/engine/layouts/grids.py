"""Sets of layouts that a search evaluates, and grids of instance sizes and batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, distinct
from inference_econ.engine.layouts import plans as stages
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.engine.layouts.startable import MACHINE, attention_degrees, expert_degrees
from inference_econ.formulas.pipeline import logarithmic_degrees
from inference_econ.inputs import Assumptions, HardwareSpec, LayoutAssumptions, ModelSpec

#: Number of chips in a compute tray of a rack, which engines treat as a node (NVIDIA GB200 NVL72: 18 trays of 4) [1].
_TRAY = 4


def machine(hardware: HardwareSpec) -> int:
    """Number of chips in a machine, or in a fast-link domain if the domain is larger [1].

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> [machine(catalog.hardware(name)) for name in ("l40s", "h100_nvl", "gb200_nvl72")]
    [8, 2, 72]
    """
    return max(hardware.link_domain, node(hardware))


def node(hardware: HardwareSpec) -> int:
    """Number of chips in a node, which is the largest machine that can be rented [1].

    Engines use a node as one pipeline stage. For chips without known rental machines, the result equals
    :func:`machine`. For racks, the result is the number of chips in a compute tray.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> [node(catalog.hardware(name)) for name in ("h100_sxm", "gh200_96", "gb200_nvl72", "h20_sxm")]
    [8, 1, 4, 8]
    """
    if hardware.rented_as:
        return hardware.rented_as[-1]
    return _TRAY if hardware.link_domain > MACHINE else MACHINE


def instance_sizes(hardware: HardwareSpec, largest: float) -> Array:
    """Instance sizes up to the largest, shape (n,) [1]: powers of two of chips, and powers of two of machines.

    Parameters
    ----------
    hardware : HardwareSpec
        Chip, whose machine sizes determine the instance sizes.
    largest : float
        Size of the largest instance [1].

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> instance_sizes(catalog.hardware("h100_sxm"), 24).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    >>> instance_sizes(catalog.hardware("gb200_nvl72"), 144).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 72.0, 128.0, 144.0]
    """
    powers = 2.0 ** np.arange(np.floor(np.log2(max(largest, 1.0))) + 1.0)
    every = distinct(np.append(powers, machine(hardware) * powers))
    return np.asarray(every[every <= largest])


def sensible_stages(accelerators: Array, stage: Array, hardware: HardwareSpec) -> npt.NDArray[np.bool_]:
    """True for stage sizes that engine documentation recommends for pipeline parallelism; arguments are broadcast.

    For instances that are larger than one machine, the documentation recommends one stage per node, with tensor
    parallelism inside the node (``EngineFacts.stages_over``). Chips without a fast link may also have several stages
    within a node. No measured server on one machine used pipeline stages, so predictions for such servers are not
    validated.

    Parameters
    ----------
    accelerators, stage : ndarray
        Number of chips in each instance, and in each pipeline stage of the instance [1].
    hardware : HardwareSpec
        Chip, which determines the size of nodes and machines.

    Examples
    --------
    One or two machines of 8 chips, with a fast link and without a fast link:

    >>> from inference_econ.inputs import catalog
    >>> sizes, stages = np.array([8.0, 16.0, 16.0]), np.array([4.0, 8.0, 4.0])
    >>> h100, l40s = (catalog.hardware(name) for name in ("h100_sxm", "l40s"))
    >>> [sensible_stages(sizes, stages, chip).tolist() for chip in (h100, l40s)]
    [[False, True, False], [True, True, False]]
    """
    whole = node(hardware)
    over_nodes = (stage % whole == 0) & (accelerators > machine(hardware))
    without_link = (accelerators <= whole) & (hardware.link_domain == 1)
    return np.asarray((stage == accelerators) | without_link | over_nodes)


#: Factors on the smallest size that the fixed degrees allow, all of which are searched [1].
_EVERY_SIZE = np.arange(1, 129)


@dataclass(frozen=True, slots=True)
class ContinuousLayouts:
    """Layouts of the published study, in which every parallelism degree is a real number.

    ``depths`` lists the pipeline depths to evaluate for each instance; 0 marks a depth that does not fit. ``variants``
    adds a leading axis for the number of attention ranks. ``attention_ranks`` lists the numbers of attention ranks that
    a stage may have, from which searches compute lower bounds. ``unpinned`` returns layouts without fixed degrees, for
    draft models whose layout differs from the target's layout.

    Attributes
    ----------
    pipeline : bool
        True to search pipeline depths other than 1.
    """

    pipeline: bool

    def depths(self, model: ModelSpec, assumptions: Assumptions, accelerators: Array, batch: Array) -> list[Array]:
        """Pipeline depths for each instance: 1, then real numbers in equal ratios, as in the published study [1]."""
        del accelerators
        assumed, deepest = assumptions.layout, np.full(batch.shape, float(model.layers))
        if not self.pipeline or assumed.pipeline_steps == 0:
            return [np.ones([1] * batch.ndim)]
        if assumed.pipeline_deepest == "layers_or_batch":
            deepest = np.minimum(np.maximum(batch, 1.0), model.layers)
        return list(logarithmic_degrees(deepest, assumed.pipeline_steps))

    def variants(self, model: ModelSpec, assumptions: Assumptions, plans: Plans) -> Plans:
        """Plans with attention on T^(1 - j/steps) chips, for j = 0 .. steps and a stage of T chips."""
        return replace(plans, attention_ranks=self.attention_ranks(model, assumptions, plans.stage))

    def attention_ranks(self, model: ModelSpec, assumptions: Assumptions, stage: Array) -> Array:
        """Attention ranks T^(1 - j/steps) for a stage of T chips and j = 0 .. steps [1]."""
        del model
        steps = assumptions.layout.attention_scale_down_steps
        if steps == 0:
            return stage[None]
        return stage / stage ** _column(np.arange(steps + 1) / steps, stage)

    def unpinned(self) -> ContinuousLayouts:
        """Return the object itself, because real-valued layouts have no fixed degrees."""
        return self


@dataclass(frozen=True, slots=True)
class WholeLayouts:
    """Layouts whose parallelism degrees are integers that divide heads, layers and experts.

    Attributes
    ----------
    pipeline : bool
        True to search pipeline depths other than 1.
    pins : Pins
        Fixed parallelism degrees, which are searched even if they do not divide the model.
    hardware : HardwareSpec or None
        Chip, which limits layouts: a tensor-parallel group must be within one machine, and a pipeline stage is a node.
        Fixed degrees are not limited. Without a chip (None), layouts are not limited.
    """

    pipeline: bool
    pins: Pins = field(default_factory=Pins)
    hardware: HardwareSpec | None = None

    def depths(self, model: ModelSpec, assumptions: Assumptions, accelerators: Array, batch: Array) -> list[Array]:
        """Pipeline depths for each instance; 0 where a depth does not divide the number of chips or the batch [1]."""
        if self.pins.pp is not None:
            return [np.full(np.broadcast_shapes(accelerators.shape, batch.shape), float(self.pins.pp))]
        chips = (self.pins.tp or 1) * (self.pins.dp or 1)
        depths = []
        for depth in stages.depths(model.layers, assumptions.layout) if self.pipeline else [1]:
            possible = (accelerators % (depth * chips) == 0) & (batch % depth == 0)
            if None not in (self.pins.tp, self.pins.dp):
                possible = possible & (accelerators == depth * chips)
            if self.hardware is not None and None in (self.pins.tp, self.pins.dp):
                possible = possible & sensible_stages(accelerators, accelerators / depth, self.hardware)
            if possible.any():
                depths.append(np.where(possible, float(depth), 0.0))
        return depths

    def variants(self, model: ModelSpec, assumptions: Assumptions, plans: Plans) -> Plans:
        """Plans with all numbers of attention ranks and all numbers of expert-parallel ranks, as two leading axes.

        Attention ranks divide the heads, and expert-parallel ranks divide the experts. All numbers divide the stage of
        at least one instance.
        """
        stage = plans.stage
        ranks = self._only_ranks(assumptions.layout, stage)
        if ranks is None:
            ranks = _column(_dividing(self._inside(attention_degrees(model)), stage), stage)
        ep = np.ones(())
        if has_experts(model) and self.pins.ep is not None:
            ep = np.full((), float(self.pins.ep))
        elif has_experts(model) and assumptions.experts.parallel:
            ep = _column(_dividing(expert_degrees(model, assumptions.experts), stage), stage)
        return replace(plans, attention_ranks=ranks[:, None], ep=ep, whole=True, dcp=float(self.pins.dcp or 1))

    def attention_ranks(self, model: ModelSpec, assumptions: Assumptions, stage: Array) -> Array:
        """Numbers of attention ranks that a stage may have: integers up to the stage size [1]."""
        ranks = self._only_ranks(assumptions.layout, stage)
        return np.minimum(_column(self._inside(attention_degrees(model)), stage) if ranks is None else ranks, stage)

    def _inside(self, degrees: Array) -> Array:
        """Select the numbers of attention ranks that are powers of two and fit within one machine [1]."""
        if self.hardware is None:
            return degrees
        powers_of_two = np.mod(np.log2(degrees), 1) == 0
        return np.asarray(degrees[powers_of_two & (degrees <= machine(self.hardware))])

    def _only_ranks(self, assumed: LayoutAssumptions, stage: Array) -> Array | None:
        """Fixed number of attention ranks, shape (1, *stage.shape) [1]; None if the search varies this number."""
        if self.pins.tp is not None:
            return np.full((1, *stage.shape), float(self.pins.tp))
        if self.pins.dp is not None or assumed.attention_scale_down_steps == 0:
            return np.asarray(stage[None] / (self.pins.dp or 1))
        return None

    def unpinned(self) -> WholeLayouts:
        """Return integer layouts without fixed parallelism degrees."""
        return WholeLayouts(self.pipeline)


#: Layouts from which a search chooses for each instance.
Layouts: TypeAlias = ContinuousLayouts | WholeLayouts


def _column(values: Array, instances: Array) -> Array:
    """Reshape values to a first axis, followed by axes of length 1 that broadcast over instances."""
    return values.reshape(-1, *([1] * instances.ndim))


def _dividing(degrees: Array, stage: Array) -> Array:
    """Parallelism degrees that divide the chips of at least one stage."""
    return np.asarray(degrees[(distinct(stage) % degrees[:, None] == 0).any(axis=1)])


@dataclass(frozen=True, slots=True, eq=False)
class InstanceGrid:
    """Grid of instances that a search evaluates: every pair of an instance size and a batch.

    Attributes
    ----------
    accelerators, batch : ndarray, shapes (n,) and (m,)
        Instance sizes [chips] and batches [1].
    layouts : Layouts
        Layouts to evaluate for each pair.
    """

    accelerators: Array
    batch: Array
    layouts: Layouts

    def pairs(self) -> tuple[Array, Array]:
        """Sizes and batches as arrays that broadcast to all pairs, with shapes (n, 1) and (1, m)."""
        return self.accelerators[:, None], self.batch[None, :]


def paper_grid(
    smallest: float, sparsity: float, *, pipeline: bool, points: int = 400, largest: float | None = None
) -> InstanceGrid:
    """Grid of the published study, with instance sizes in equal ratios and batches in equal ratios.

    Parameters
    ----------
    smallest : float
        Number of chips that have just enough memory for the weights, p P / M; may be a fraction [1].
    sparsity : float
        Number of experts divided by the number of active experts [1].
    pipeline : bool
        True to search pipeline depths other than 1.
    points : int
        Number of instance sizes, and number of batches [1].
    largest : float, optional
        Largest instance [1].

    Notes
    -----
    The published code of Erdil (2025) has the sizes 2^linspace(log2(smallest), 18) and the batches 2^linspace(0, 18 +
    log2(s)), with the sparsity s.
    """
    sizes = 2.0 ** np.linspace(np.log2(smallest), 18.0, points)
    batches = 2.0 ** np.linspace(0.0, 18.0 + np.log2(sparsity), points)
    return InstanceGrid(sizes if largest is None else sizes[sizes <= largest], batches, ContinuousLayouts(pipeline))


def whole_grid(
    smallest: float,
    *,
    pipeline: bool,
    largest: int | None = None,
    largest_batch: int = 65536,
    pins: Pins | None = None,
    hardware: HardwareSpec | None = None,
) -> InstanceGrid:
    """Grid of integer instance sizes and batches.

    Parameters
    ----------
    smallest : float
        Number of chips that have just enough memory for the weights; the smallest instance has this size [1].
    pipeline : bool
        True to search pipeline depths other than 1.
    largest : int, optional
        Size of the largest instance [1]; by default the largest of 64, a full machine, and four times the smallest
        size.
    largest_batch : int
        Largest batch [1].
    pins : Pins, optional
        Fixed parallelism degrees. The grid contains only sizes and batches that these degrees allow.
    hardware : HardwareSpec, optional
        Chip, which determines the instance sizes, see :func:`instance_sizes`; without a chip, all sizes are included.
    """
    fixed = Pins() if pins is None else pins
    whole = 0 if hardware is None else machine(hardware)
    top = max(64, whole, 4 * int(np.ceil(smallest)), fixed.chips) if largest is None else largest
    if fixed.size is not None:
        sizes = np.array([float(fixed.size)])
    else:
        rented = np.empty(0) if hardware is None else instance_sizes(hardware, max(top, fixed.chips))
        sizes = rented[rented % fixed.chips == 0]
        if fixed.chips not in rented:
            counts = np.concatenate([_EVERY_SIZE, _whole_steps(21), [int(np.ceil(smallest / fixed.chips))]])
            sizes = distinct(np.append(counts * fixed.chips, top // fixed.chips * fixed.chips)).astype(float)
        # Sizes with enough memory for the weights that match the fixed degrees.
        sizes = sizes[(sizes >= smallest) & (sizes <= top)]
    if fixed.batch is not None:
        batches = np.array([fixed.batch], dtype=float)
    else:
        # The grid has eight batches per factor of two. These batches have many divisors, so pipelines and attention-DP
        # groups can split them evenly. Multiples of the largest instance size are added, because attention-DP groups of
        # this instance can split them evenly.
        steps = _whole_steps(17)
        unit = int(sizes[-1]) if sizes.size else 1
        batches = distinct(np.concatenate([steps * fixed.groups, steps * unit])).astype(float)
        batches = batches[batches <= max(largest_batch, fixed.groups)]
    return InstanceGrid(sizes, batches, WholeLayouts(pipeline, fixed, hardware))


def _whole_steps(doublings: int) -> npt.NDArray[np.intp]:
    """Integers from 1 to 2^doublings: all integers up to 16, then eight per factor of two."""
    return np.concatenate([np.arange(2**k, 2 ** (k + 1), max(1, 2**k // 8)) for k in range(doublings)])
