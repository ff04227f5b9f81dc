"""Models of other sizes, made from known ones."""

from __future__ import annotations

import math

from inference_econ.errors import InputError
from inference_econ.inputs import whole_sizes
from inference_econ.inputs._base import Source
from inference_econ.inputs.asks import GridName
from inference_econ.inputs.layers import Block
from inference_econ.inputs.model import ModelSpec


def scaled(model: ModelSpec, factor: float, *, depth_exponent: float = 1 / 3, grid: GridName = "whole") -> ModelSpec:
    """A model with about ``factor`` times the parameters and the same proportions.

    Parameters
    ----------
    model : ModelSpec
        Where to start.
    factor : float
        Ratio of parameters without embeddings [1].
    depth_exponent : float
        Layers grow by factor^depth_exponent, widths by what is left, factor^((1 - depth_exponent) / 2), 0 to 1 [1]:
        1/3 is depth and width alike, 0 the width alone, 1 the depth alone, 1/4 what eq. 19 takes for dense models.
    grid : {'whole', 'paper'}
        For layouts in whole numbers, or the published study's fractional rule.

    Returns
    -------
    ModelSpec
        ``whole``: layers, query heads and feed-forward widths are rounded to what splits over chips, and the hidden
        size makes up for the rounding; head widths, KV heads, cached latents and the number of experts are kept.
        ``paper``: heads (rounded up) and head width grow by the root of the width each, KV heads are kept, layers
        are rounded down, all else is fractional.

    Raises
    ------
    InputError
        If the factor is not positive, the exponent not in its range, or a run of layers is left empty.

    Notes
    -----
    ``paper`` is the rule of the code of Erdil (2025), which lost MLA fields on the way; here they are kept.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> llama = catalog.model("llama_3_70b")
    >>> scaled(llama, 1.0) == llama
    True
    >>> double = scaled(llama, 2.0)
    >>> double.layers, double.hidden_size, double.blocks[0].attention.query_heads
    (100, 10496, 80)
    """
    _check(model, factor, depth_exponent, grid)
    if factor == 1.0:
        return model
    depth, width = factor**depth_exponent, factor ** ((1 - depth_exponent) / 2)
    if grid == "paper":
        blocks, hidden = tuple(_block(block, width, depth) for block in model.blocks), model.hidden_size * width
    else:
        blocks = whole_sizes.resized(model.blocks, depth, width)
        parameters = factor * whole_sizes.layer_parameters(model.blocks, model.hidden_size)
        hidden = whole_sizes.hidden_size(blocks, parameters, model.hidden_size)
    how = Source(ref="derived", where=f"{model.name} scaled by {factor:g}", kind="derived")
    return model.replace(
        name=f"{model.name} x {factor:g}",
        hidden_size=hidden,
        blocks=blocks,
        sources={**model.sources, "hidden_size": how, "blocks": how},
    )


def _check(model: ModelSpec, factor: float, depth_exponent: float, grid: GridName) -> None:
    if not isinstance(model, ModelSpec):
        raise InputError(f"a model specification is needed, for example ie.model('llama_3_8b'), got {model!r}")
    if not (factor > 0 and math.isfinite(factor)):
        raise InputError(f"the factor must be a positive number, got {factor:g}")
    if not 0 <= depth_exponent <= 1:
        raise InputError(f"depth_exponent must be from 0 (width alone) to 1 (depth alone), got {depth_exponent:g}")
    if grid not in ("whole", "paper"):
        raise InputError(f"grid must be 'whole' or 'paper', got {grid!r}")


def _block(block: Block, ratio: float, depth: float) -> Block:
    count = int(block.layers * depth)
    if count < 1:
        raise InputError(f"{block.layers} layers scaled by {depth:g} leave none")
    return block.model_copy(
        update={
            "layers": count,
            "attention": block.attention.scaled(math.sqrt(ratio)),
            "feed_forward": block.feed_forward.widened(lambda width: width * ratio),
        }
    )
