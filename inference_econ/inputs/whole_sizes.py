"""Sizes of models in whole numbers that still split over chips: layers, heads, widths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from inference_econ.errors import InputError
from inference_econ.inputs.layers import Block
from inference_econ.inputs.rounding import SHARE, columns, nearest, power_of_two

#: Stages that layers go on splitting into where they did, and the layers from which rounding to them is small [1].
_STAGES, _MANY_LAYERS = 4, 32
#: The residual stream stays a multiple of this, as in all models of the catalogue, unless it is very narrow [1].
_HIDDEN = 64


def resized(blocks: Sequence[Block], depth: float, width: float) -> tuple[Block, ...]:
    """Blocks of another depth and width whose heads and columns split over chips as before.

    Parameters
    ----------
    blocks : sequence of Block
        Where to start.
    depth, width : float
        Ratio of layers, and of query heads and feed-forward widths [1].

    Returns
    -------
    tuple of Block
        Head widths, KV heads, cached latents and numbers of experts are kept, as in the families that are published in
        several sizes (Llama 3, DeepSeek, Qwen3); other sizes are rounded to what splits.
    """
    counts = [block.layers for block in blocks]
    layers = sum(counts) * depth
    step = math.gcd(sum(counts), _STAGES) if layers >= _MANY_LAYERS else 1
    return tuple(
        block.model_copy(
            update={
                "layers": count,
                "attention": block.attention.resized(width),
                "feed_forward": block.feed_forward.widened(partial(columns, ratio=width)),
            }
        )
        for block, count in zip(blocks, spread(counts, nearest(layers, step)), strict=True)
    )


def hidden_size(blocks: Sequence[Block], parameters: float, near: float) -> int:
    """Width of the residual stream with which layers have a number of parameters.

    Parameters
    ----------
    blocks : sequence of Block
        The layers.
    parameters : float
        Of attention and feed-forward parts of all layers [1].
    near : float
        The width that they have now [1].

    Returns
    -------
    int
        A multiple of the power of two, 64 at most, that ``near`` is one of.

    Raises
    ------
    InputError
        If no width has so few.
    """
    slope = (layer_parameters(blocks, 2 * near) - layer_parameters(blocks, near)) / near
    rest = layer_parameters(blocks, near) - slope * near
    wanted = (parameters - rest) / slope if slope > 0 else near
    if wanted <= 0:
        raise InputError(f"{parameters:.3g} parameters are fewer than these layers have at any width of the model")
    return nearest(wanted, power_of_two(near, min(_HIDDEN, wanted / SHARE)))


def layer_parameters(blocks: Sequence[Block], hidden: float) -> float:
    """Parameters of the attention and feed-forward parts of all layers."""
    return math.fsum(
        block.layers * (block.attention.parameters(hidden).total + block.feed_forward.parameters(hidden).total)
        for block in blocks
    )


def spread(counts: Sequence[int], total: int) -> list[int]:
    """Runs of layers that add up to a number, in the same proportions.

    Parameters
    ----------
    counts : sequence of int
        Layers of each run [1].
    total : int
        Layers of all together [1].

    Returns
    -------
    list of int
        Every run has one layer at least; what is left goes to the runs that rounding down took most from.

    Raises
    ------
    InputError
        If there are fewer layers than runs.

    Examples
    --------
    >>> spread([3, 58], 30), spread([36, 12], 60)
    ([1, 29], [45, 15])
    """
    if total < len(counts):
        raise InputError(f"{total} layers are too few: the model has {len(counts)} kinds of layers; give each one")
    shares = [count * total / sum(counts) for count in counts]
    whole = [max(1, math.floor(share)) for share in shares]
    while sum(whole) != total:
        sign = 1 if sum(whole) < total else -1
        allowed = [run for run in range(len(counts)) if whole[run] + sign >= 1]
        whole[max(allowed, key=lambda run: sign * (shares[run] - whole[run]))] += sign
    return whole
