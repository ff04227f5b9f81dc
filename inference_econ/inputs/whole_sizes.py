"""Sizes of models in whole numbers that still split over chips: layers, heads, widths."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inference_econ.errors import InputError
from inference_econ.inputs import counting
from inference_econ.inputs.layers import (
    Attention,
    Block,
    CompressedAttention,
    FeedForward,
    GroupedQueryAttention,
    LatentAttention,
    RecurrentMixer,
)

#: Groups of chips that heads should go on splitting over where they did [1].
_GROUPS = (8, 4, 2, 1)
#: Stages that layers go on splitting into where they did, and the layers from which rounding to them is small [1].
_STAGES, _MANY_LAYERS = 4, 32
#: Widths keep the power of two that they are multiples of, up to this or a sixteenth of the width: block formats share
#: a scale per 128 columns, and the hidden size makes up for the rounding.
_COLUMNS, _SHARE = 128, 16
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
                "attention": _attention(block.attention, width),
                "feed_forward": _feed_forward(block.feed_forward, width),
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
    return nearest(wanted, _power_of_two(near, min(_HIDDEN, wanted / _SHARE)))


def layer_parameters(blocks: Sequence[Block], hidden: float) -> float:
    """Parameters of the attention and feed-forward parts of all layers."""
    return math.fsum(
        block.layers * (counting.attention(block.attention, hidden) + counting.feed_forward(block.feed_forward, hidden))
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


def nearest(number: float, step: int) -> int:
    """The multiple of ``step`` nearest to a number, one at least."""
    return max(1, round(number / step)) * step


def _attention(spec: Attention, ratio: float) -> Attention:
    if isinstance(spec, GroupedQueryAttention):
        return _grouped_query(spec, ratio)
    if isinstance(spec, LatentAttention):
        rank = None if spec.query_rank is None else columns(spec.query_rank, ratio)
        return spec.model_copy(update={"query_heads": heads(spec.query_heads, 1, ratio), "query_rank": rank})
    if isinstance(spec, CompressedAttention):
        changes = {
            "query_heads": heads(spec.query_heads, spec.output_groups, ratio),
            "query_rank": columns(spec.query_rank, ratio),
            "output_rank": columns(spec.output_rank, ratio),
        }
        return spec.model_copy(update=changes)
    if isinstance(spec, RecurrentMixer):
        return spec.model_copy(update={"value_heads": heads(spec.value_heads, spec.key_heads, ratio)})
    return spec


def _grouped_query(spec: GroupedQueryAttention, ratio: float) -> GroupedQueryAttention:
    """Query heads in whole groups; where every query head has its own keys, it keeps them."""
    multi_head = spec.kv_heads == spec.query_heads
    count = heads(spec.query_heads, 1 if multi_head else spec.kv_heads, ratio)
    return spec.model_copy(update={"query_heads": count, "kv_heads": count if multi_head else spec.kv_heads})


def heads(count: float, groups: float, ratio: float) -> int:
    """Heads, ``ratio`` times as many, in whole groups, that split over 8, 4 or 2 chips if they did.

    Examples
    --------
    >>> heads(64, 8, 1.26), heads(40, 10, 1.26), heads(71, 1, 1.26)
    (80, 50, 89)
    """
    kept = next(d for d in _GROUPS if not count % d and (not groups % d or not d % groups))
    return nearest(count * ratio, math.lcm(round(groups), kept))


def columns(width: float, ratio: float) -> int:
    """A width, ``ratio`` times as large, that is a multiple of a power of two that the old one was.

    Examples
    --------
    >>> columns(28672, 1.26), columns(2048, 1.26), columns(2880, 1.26)
    (35840, 2560, 3648)
    """
    return nearest(width * ratio, _power_of_two(width, max(_COLUMNS, width / _SHARE)))


def _power_of_two(width: float, most: float) -> int:
    """The largest power of two, up to ``most``, that a width is a multiple of; 1 at least."""
    step = 1
    while not round(width) % (2 * step) and 2 * step <= most:
        step *= 2
    return step


def _feed_forward(spec: FeedForward, ratio: float) -> FeedForward:
    if spec.kind == "none":
        return spec
    names = ["intermediate_size", *(("shared_intermediate_size", "latent_size") if spec.kind == "experts" else ())]
    widths = {name: width for name in names if (width := getattr(spec, name)) is not None}
    return spec.model_copy(update={name: columns(width, ratio) for name, width in widths.items()})
