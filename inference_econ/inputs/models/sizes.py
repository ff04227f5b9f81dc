"""Models with scaled widths and scaled numbers of layers and heads, rounded so that chips can share the matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Source
from inference_econ.inputs.dtype import SHARE, columns, nearest, power_of_two
from inference_econ.inputs.layers import Block
from inference_econ.inputs.models.model import ModelSpec
from inference_econ.inputs.scenario_kinds import GridName

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Value

#: The number of layers stays a multiple of this number of pipeline stages, if a model has at least this number of
#: layers [1].
_STAGES, _MANY_LAYERS = 4, 32
#: The width of the residual stream stays a multiple of this number, as in all models of the catalog [1]. Very narrow
#: models are exempt.
_HIDDEN = 64


def resized(blocks: Sequence[Block], depth: float, width: float) -> tuple[Block, ...]:
    """Blocks with ``depth`` times the layers, and ``width`` times the query heads and feed-forward widths.

    Parameters
    ----------
    blocks : sequence of Block
        Original blocks.
    depth, width : float
        Ratio of the number of layers, and ratio of query heads and feed-forward widths [1].

    Returns
    -------
    tuple of Block
        Scaled blocks. Head widths, KV heads, cached latents and the number of experts are unchanged, as in families
        with several sizes (Llama 3, DeepSeek, Qwen3). All changed sizes are rounded so that they split over chips.
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
    """Width of the residual stream at which the layers have a given number of parameters.

    Parameters
    ----------
    blocks : sequence of Block
        Layers of the model.
    parameters : float
        Attention and feed-forward parameters of all layers [1].
    near : float
        Current width [1].

    Returns
    -------
    int
        Width of the residual stream. The width is a multiple of the largest power of two, up to 64, that divides
        ``near``.

    Raises
    ------
    InputError
        If the number of parameters is too small for any width.
    """
    slope = (layer_parameters(blocks, 2 * near) - layer_parameters(blocks, near)) / near
    rest = layer_parameters(blocks, near) - slope * near
    wanted = (parameters - rest) / slope if slope > 0 else near
    if wanted <= 0:
        raise InputError(f"{parameters:.3g} parameters are fewer than these layers have at any width of the model")
    return nearest(wanted, power_of_two(near, min(_HIDDEN, wanted / SHARE)))


def layer_parameters(blocks: Sequence[Block], hidden: float) -> float:
    """Attention and feed-forward parameters of all layers."""
    return math.fsum(
        block.layers * (block.attention.parameters(hidden).total + block.feed_forward.parameters(hidden).total)
        for block in blocks
    )


def spread(counts: Sequence[int], total: int) -> list[int]:
    """Distribute a number of layers over runs of equal layers, in about the same proportions as before.

    Parameters
    ----------
    counts : sequence of int
        Layers in each run of equal layers [1].
    total : int
        New total of layers [1].

    Returns
    -------
    list of int
        Layers of each run, at least one. Proportional numbers are rounded down. The layers that remain go to the runs
        with the largest remainders.

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


def scaled(model: ModelSpec, factor: float, *, depth_exponent: float = 1 / 3, grid: GridName = "whole") -> ModelSpec:
    """Model with about ``factor`` times the parameters and the same proportions.

    Parameters
    ----------
    model : ModelSpec
        Original model.
    factor : float
        Ratio of parameters without embeddings [1].
    depth_exponent : float
        Exponent from 0 (scale only the width) to 1 (scale only the depth) [1]. Layers grow by factor^depth_exponent,
        and widths by factor^((1 - depth_exponent) / 2). With 1/3, depth and width scale equally. Eq. 19 assumes 1/4 for
        dense models.
    grid : {'whole', 'paper'}
        ``whole`` for integer sizes that split over chips, or ``paper`` for the fractional rule of the published study.

    Returns
    -------
    ModelSpec
        Scaled model.

        With ``whole``, layers, query heads and feed-forward widths are rounded, and the hidden size is adapted to reach
        the number of parameters. Head widths, KV heads, cached latents and the number of experts stay the same. With
        ``paper``, the number of heads (rounded up) and the head width grow by the square root of the width ratio. KV
        heads stay the same, layers are rounded down, and other sizes are fractional.

    Raises
    ------
    InputError
        If the factor is not positive, the exponent is out of range, or a run of layers is left empty.

    Notes
    -----
    ``paper`` is the rule in the code of Erdil (2025). Unlike that code, ``paper`` does not change the fields of latent
    attention.

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
    if not isinstance(model, ModelSpec):
        raise InputError(f"a model specification is needed, for example ie.model('llama_3_8b'), got {model!r}")
    if not (factor > 0 and math.isfinite(factor)):
        raise InputError(f"the factor must be a positive number, got {factor:g}")
    if not 0 <= depth_exponent <= 1:
        raise InputError(f"depth_exponent must be from 0 (width alone) to 1 (depth alone), got {depth_exponent:g}")
    if grid not in ("whole", "paper"):
        raise InputError(f"grid must be 'whole' or 'paper', got {grid!r}")
    if factor == 1.0:
        return model
    depth, width = factor**depth_exponent, factor ** ((1 - depth_exponent) / 2)
    if grid == "paper":
        blocks, hidden = tuple(_block(block, width, depth) for block in model.blocks), model.hidden_size * width
    else:
        blocks = resized(model.blocks, depth, width)
        parameters = factor * layer_parameters(model.blocks, model.hidden_size)
        hidden = hidden_size(blocks, parameters, model.hidden_size)
    how = Source(ref="derived", where=f"{model.name} scaled by {factor:g}", kind="derived")
    return model.replace(
        name=f"{model.name} x {factor:g}",
        hidden_size=hidden,
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
            "attention": block.attention.scaled(math.sqrt(ratio)),
            "feed_forward": block.feed_forward.widened(lambda width: width * ratio),
        }
    )


#: Part of a block and field in it that each short key changes. The third name is a field that changed blocks must have.
_FIELDS: Mapping[str, tuple[str, str, str]] = {
    "query_heads": ("attention", "query_heads", "query_heads"),
    "kv_heads": ("attention", "kv_heads", "kv_heads"),
    "head_dim": ("attention", "head_dim", "head_dim"),
    "experts": ("feed_forward", "experts", "experts"),
    "active_experts": ("feed_forward", "active_experts", "experts"),
    "expert_size": ("feed_forward", "intermediate_size", "experts"),
}
#: Short keys at the top of a model file, for example ``experts``. A key changes its field in all layers.
SHORT_KEYS = ("layers", *_FIELDS, "attention", "parallel")
#: Widths of latent attention divided by the width of a head [1]. They are those of DeepSeek-V2 and V3 (hf_deepseek_v2:
#: 512, 1536 and 64 with heads of 128). The last value is the number of KV heads if grouped-query attention replaces
#: latent attention [1]. Most models have this number.
_RANK, _QUERY_RANK, _ROTARY, _KV_HEADS = 4, 12, 0.5, 8
#: Decimal places to which a product of a size and a factor is rounded [1].
_DIGITS = 9

Change = tuple[tuple[str, ...], "Value"]


def changes(
    data: Mapping[str, Value], key: str, value: Value, origin: str, factor: float | None = None
) -> Iterator[Change]:
    """Changes in the data of a model for a key of :data:`SHORT_KEYS`, such as ``layers`` or ``experts``.

    Parameters
    ----------
    data : mapping
        Data of a model file.
    key : str
        One of :data:`SHORT_KEYS`.
    value : int, str or bool
        Number of layers, heads or experts [1]; a kind of attention; or true if attention and feed-forward run in
        parallel.
    origin : str
        Name for messages.
    factor : float, optional
        Factor on the current numbers, in place of ``value`` [1].

    Yields
    ------
    (path, value)
        Path from the top of the file, and new value.

    Raises
    ------
    InputError
        If the value is invalid, or no layer has the field.
    """
    listed = data.get("blocks")
    # Only the form that this function needs is checked. Other mistakes in the blocks are reported later.
    if not isinstance(listed, list) or not listed or not all(map(_is_block, listed)):
        raise InputError(f"{origin}: the model has no blocks of layers, attention and feed_forward to change")
    blocks = cast("list[dict[str, dict[str, Value]]]", listed)
    if key == "attention":
        yield from _attention(blocks, value, origin)
        return
    if key == "parallel":
        if not isinstance(value, bool):
            raise InputError(f"{origin}: true or false is needed, got {value!r}")
        yield from ((("blocks", str(at), "parallel"), value) for at in range(len(blocks)))
        return

    def number(current: Value) -> int:
        return _whole(value if factor is None else round(_whole(current, origin) * factor, _DIGITS), origin)

    if key == "layers":
        counts = [_whole(cast("Value", block["layers"]), origin) for block in blocks]
        total = number(sum(counts))
        try:
            counts = spread(counts, total)
        except InputError as error:
            raise InputError(f"{origin}: {error}") from error
        yield from ((("blocks", str(at), "layers"), count) for at, count in enumerate(counts))
        return
    part, field, marker = _FIELDS[key]
    places = [at for at, block in enumerate(blocks) if marker in block[part]]
    if not places:
        there = ", ".join(sorted({str(block[part].get("kind")) for block in blocks}))
        raise InputError(f"{origin}: no layer has {field}; its layers are of the kind {there}")
    yield from ((("blocks", str(at), part, field), number(blocks[at][part].get(field))) for at in places)


def model_value(model: ModelSpec, key: str) -> float | None:
    """Current value of the field that a key of :data:`SHORT_KEYS` changes.

    The result is None if layers differ or lack the field.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> model_value(catalog.model("deepseek_v3"), "experts"), model_value(catalog.model("deepseek_v3"), "kv_heads")
    (256.0, None)
    """
    if key == "layers":
        return float(model.layers)
    if key not in _FIELDS:
        return None
    part, field, marker = _FIELDS[key]
    parts = (getattr(block, part) for block in model.blocks)
    values = {float(getattr(spec, field)) for spec in parts if hasattr(spec, marker)}
    return values.pop() if len(values) == 1 else None


def _is_block(data: Value) -> bool:
    parts = ("attention", "feed_forward")
    return isinstance(data, dict) and "layers" in data and all(isinstance(data.get(part), dict) for part in parts)


def _whole(value: Value, origin: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
        raise InputError(f"{origin}: an integer >= 1 is needed, got {value!r}")
    return int(value)


def _attention(blocks: list[dict[str, dict[str, Value]]], kind: Value, origin: str) -> Iterator[Change]:
    """Replace grouped-query attention by latent attention, or the reverse. Layers with windows are unchanged."""
    if kind not in ("latent", "grouped_query"):
        raise InputError(f"{origin}: got {kind!r}; allowed: latent, grouped_query")
    other = "grouped_query" if kind == "latent" else "latent"
    limits = ("window", "chunk", "index_top_k")
    replaced = [
        (at, attention)
        for at, attention in enumerate(block["attention"] for block in blocks)
        if attention.get("kind") == other and all(attention.get(name) is None for name in limits)
    ]
    if not replaced:
        raise InputError(f"{origin}: no layer has {other} attention over the whole context, which {kind} could replace")
    for at, attention in replaced:
        sizes: dict[str, Value]
        if kind == "latent":
            width = _whole(attention.get("head_dim"), origin)
            sizes = {
                "query_heads": attention.get("query_heads"),
                "kv_rank": _RANK * width,
                "query_rank": _QUERY_RANK * width,
                "nope_head_dim": width,
                "rope_head_dim": int(_ROTARY * width),
                "value_head_dim": width,
            }
        else:
            heads, head_dim = _whole(attention.get("query_heads"), origin), attention.get("value_head_dim")
            sizes = {"query_heads": heads, "kv_heads": min(_KV_HEADS, heads), "head_dim": head_dim}
        yield ("blocks", str(at), "attention"), {"kind": kind, **sizes}
