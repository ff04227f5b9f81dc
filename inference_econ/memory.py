"""Whether a deployment fits: the only capacity check there is (floor 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ.plans import DEPTH_TOLERANCE, Plans, indivisible
from inference_econ.spec import counting
from inference_econ.spec.assumptions import Assumptions, TensorLayout
from inference_econ.spec.dtype import BYTES_PER_ELEMENT
from inference_econ.spec.model import ModelSpec
from inference_econ.work import Precision

Array = npt.NDArray[np.float64]

#: Reasons by code; 0 means that a plan fits.
REASONS = (
    "fits",
    "weights exceed the memory",
    "weights and KV cache exceed the memory",
    "pipeline deeper than the accelerators or the batch",
    "no network between link domains in the hardware file",
    "heads, layers, experts or widths do not divide",
)
FITS, WEIGHTS, CACHE, DEPTH, NETWORK, DIVIDE = range(6)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that plans need, summed over the accelerators of an instance.

    Attributes
    ----------
    weight_bytes : float
        All weights [B].
    kv_bytes : ndarray, shape (...)
        Cache that must fit [B].
    available_bytes : ndarray, shape (...)
        Memory of the instance [B].
    """

    weight_bytes: float
    kv_bytes: Array
    available_bytes: Array

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Whether weights and cache fit, shape (...)."""
        return np.asarray(self.available_bytes >= self.kv_bytes + self.weight_bytes)


def weight_bytes(model: ModelSpec, precision: Precision) -> float:
    """All weights of a model as stored [B]."""
    routed = 0.0
    for block in model.blocks:
        if block.feed_forward.kind == "experts":
            routed += block.layers * block.feed_forward.experts * counting.expert(block.feed_forward, model.hidden_size)
    other = sum(model.parameter_parts().values()) - routed
    return other * BYTES_PER_ELEMENT[precision.weights] + routed * BYTES_PER_ELEMENT[precision.experts]


def kv_bytes_per_sequence(model: ModelSpec, precision: Precision, context: float) -> float:
    """Cache of one sequence of ``context`` tokens over all layers [B]."""
    elements = 0.0
    for block in model.blocks:
        limit = counting.window(block.attention)
        kept = context if limit is None else min(context, float(limit))
        elements += block.layers * counting.cached_elements(block.attention) * kept
    return elements * BYTES_PER_ELEMENT[precision.kv]


def need(
    model: ModelSpec,
    precision: Precision,
    plans: Plans,
    context: float,
    hbm_bytes: float,
    assumptions: Assumptions,
    reserved_bytes: float = 0.0,
) -> Memory:
    """What plans need and have.

    Parameters
    ----------
    model, precision
        What is served, and in which formats.
    plans : Plans
        Deployments, shape (...).
    context : float
        Tokens in the cache of each sequence [tokens].
    hbm_bytes : float
        Memory of one accelerator [B].
    assumptions : Assumptions
        ``kv_capacity`` says how many micro-batches are counted.
    reserved_bytes : float
        Memory of the instance that is taken already, for example by a draft model's weights [B].

    Returns
    -------
    Memory
        Entries of shape (...).
    """
    sequences = plans.batch if assumptions.kv_capacity == "batch" else plans.micro_batch
    cache = kv_bytes_per_sequence(model, precision, context) * sequences
    return Memory(weight_bytes(model, precision) + reserved_bytes, cache, plans.accelerators * hbm_bytes)


def could_fit(memory: Memory, plans: Plans) -> npt.NDArray[np.bool_]:
    """Whether memory and the depth of the pipeline allow the plans, broadcastable to ``plans.shape``."""
    return memory.fits & ~_too_deep(plans)


def _too_deep(plans: Plans) -> npt.NDArray[np.bool_]:
    return np.asarray(plans.pp > np.minimum(plans.accelerators, plans.batch) * (1.0 + DEPTH_TOLERANCE))


def reasons(
    model: ModelSpec, memory: Memory, plans: Plans, layout: TensorLayout, domain_limit: int | None
) -> npt.NDArray[np.intp]:
    """Why each plan cannot run, as codes of :data:`REASONS`, broadcastable to ``plans.shape``.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    memory : Memory
        From :func:`need`.
    plans : Plans
        The same deployments.
    layout : {'1d', '2d'}
        How weight matrices are cut.
    domain_limit : int or None
        Accelerators that can reach each other at all [1]; None if there is no limit.
    """
    too_small = np.where(memory.available_bytes < memory.weight_bytes, WEIGHTS, CACHE)
    code = np.where(_too_deep(plans), DEPTH, np.where(memory.fits, FITS, too_small))
    if domain_limit is not None:
        code = np.where(plans.accelerators > domain_limit, NETWORK, code)
    if plans.whole:
        for _, uneven in indivisible(model, plans, layout):
            code = np.where(uneven, DIVIDE, code)
    return code
