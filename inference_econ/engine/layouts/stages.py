"""Stages of a pipeline that have not all as many layers: how deep it may be, and what the fullest one costs."""

from __future__ import annotations

import math

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans
from inference_econ.inputs import LayoutAssumptions

#: Deepest pipeline that is tried where stages may be uneven, unless it is pinned [1].
_DEEPEST = 16


def fullest_over_mean(layers: int, plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Layers of the fullest stage of a pipeline over those of the mean stage.

    Parameters
    ----------
    layers : int
        Of the model, L [1].
    plans : Plans
        Deployments with pipelines of p stages, shape (...).
    assumed : LayoutAssumptions
        Whether stages may be uneven.

    Returns
    -------
    ndarray, broadcastable to (...), or float
        ceil(L / p) p / L, at least 1 [1]; 1 for plans that need not be whole.

    Notes
    -----
    vLLM, ``get_pp_indices`` (``vllm/distributed/utils.py``): every stage has floor(L / p) layers, and what remains is
    given one by one to the stages from the last but one on, towards the first. While all stages are busy, each of the p
    micro-batches goes on when the slowest stage does, so that it comes around in p times that stage's time.
    """
    if assumed.pipeline_stages == "even" or not plans.whole:
        return 1.0
    # A pipeline with more stages than layers leaves some without work; it is refused elsewhere.
    ratio = np.asarray(np.ceil(layers / plans.pp) * plans.pp / layers)
    return ratio if np.any(ratio > 1.0) else 1.0


def depths(layers: int, assumed: LayoutAssumptions) -> list[int]:
    """Depths of a pipeline that are worth trying, shallowest first [1].

    Those that divide the layers. Where stages may be uneven, up to 16 stages and powers of two among them, unless a
    stage fewer has the same pace, ceil(L / p) (p - 1) >= L.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> depths(61, catalog.assumptions("deployable").layout), depths(61, catalog.assumptions("paper").layout)
    ([1, 2, 4, 8, 16], [1, 61])
    """
    if assumed.pipeline_stages == "even":
        return [depth for depth in range(1, layers + 1) if layers % depth == 0]
    return [depth for depth in range(1, min(layers, _DEEPEST) + 1) if _worth_trying(layers, depth)]


def _worth_trying(layers: int, depth: int) -> bool:
    if layers % depth == 0:
        return True
    return math.log2(depth).is_integer() and math.ceil(layers / depth) * (depth - 1) < layers
