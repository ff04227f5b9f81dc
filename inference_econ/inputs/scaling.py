"""Models of other sizes, made from known ones."""

from __future__ import annotations

import math

from inference_econ.errors import InputError
from inference_econ.inputs.layers import Attention, Block, FeedForward, GroupedQueryAttention, LatentAttention
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.source import Source


def scaled(model: ModelSpec, factor: float, *, layers: bool = True) -> ModelSpec:
    """A model with about ``factor`` times the parameters and the same proportions.

    Parameters
    ----------
    model : ModelSpec
        Where to start.
    factor : float
        Ratio of parameters without embeddings [1].
    layers : bool
        Scale the depth along with the width; otherwise the width alone.

    Returns
    -------
    ModelSpec
        Fractional widths are kept. The width grows by r, heads and head width by sqrt(r) each (heads rounded
        up, KV heads kept), the depth by r (rounded down), with r = factor^(1/3), or factor^(1/2) at equal depth.

    Raises
    ------
    InputError
        If the factor is not positive or leaves a run of layers empty.

    Notes
    -----
    The rule of the code of Erdil (2025), which lost MLA fields on the way; here they are kept.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> llama = catalog.model("paper/llama_3_70b")
    >>> scaled(llama, 1.0).total_parameters == llama.total_parameters
    True
    """
    if not isinstance(model, ModelSpec):
        raise InputError(f"a model specification is needed, for example ie.model('llama_3_8b'), got {model!r}")
    if not (factor > 0 and math.isfinite(factor)):
        raise InputError(f"the factor must be a positive number, got {factor:g}")
    if factor == 1.0:
        return model
    ratio = factor ** (1 / 3) if layers else factor**0.5
    blocks = tuple(_block(block, ratio, ratio if layers else 1.0) for block in model.blocks)
    how = Source(ref="derived", where=f"{model.name} scaled by {factor:g}", kind="derived")
    return model.replace(
        name=f"{model.name} x {factor:g}",
        hidden_size=model.hidden_size * ratio,
        blocks=blocks,
        sources={**model.sources, "hidden_size": how, "blocks": how},
    )


def _block(block: Block, ratio: float, depth: float) -> Block:
    count = int(block.layers * depth)
    if count < 1:
        raise InputError(f"{block.layers} layers scaled by {depth:g} leave none")
    return block.model_copy(
        update={
            "layers": count,
            "attention": _attention(block.attention, math.sqrt(ratio)),
            "feed_forward": _feed_forward(block.feed_forward, ratio),
        }
    )


def _attention(spec: Attention, root: float) -> Attention:
    if not isinstance(spec, (GroupedQueryAttention, LatentAttention)):
        raise InputError(
            f"layers of the kind {spec.kind!r} have no rule to be scaled by; grouped_query and latent have"
        )
    heads = math.ceil(spec.query_heads * root)
    if isinstance(spec, GroupedQueryAttention):
        changes = {"query_heads": heads, "head_dim": spec.head_dim * root}
        if spec.value_head_dim is not None:
            changes["value_head_dim"] = spec.value_head_dim * root
        return spec.model_copy(update=changes)
    return spec.model_copy(
        update={
            "query_heads": heads,
            "nope_head_dim": spec.nope_head_dim * root,
            "value_head_dim": spec.value_head_dim * root,
            "kv_rank": spec.kv_rank * root**2,
            "query_rank": None if spec.query_rank is None else spec.query_rank * root**2,
        }
    )


def _feed_forward(spec: FeedForward, ratio: float) -> FeedForward:
    if spec.kind == "none":
        return spec
    changes = {"intermediate_size": spec.intermediate_size * ratio}
    if spec.kind == "experts" and spec.shared_intermediate_size is not None:
        changes["shared_intermediate_size"] = spec.shared_intermediate_size * ratio
    if spec.kind == "experts" and spec.latent_size is not None:
        changes["latent_size"] = spec.latent_size * ratio
    return spec.model_copy(update=changes)
