"""Short keys that change all layers of a model: ``model.layers``, ``model.kv_heads``, ``model.parallel``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from inference_econ.errors import InputError
from inference_econ.inputs.whole_sizes import spread

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Value
    from inference_econ.inputs.model import ModelSpec

#: What a short key changes: a part of each block, a field of it, and one that the kinds have which are meant.
_FIELDS: Mapping[str, tuple[str, str, str]] = {
    "query_heads": ("attention", "query_heads", "query_heads"),
    "kv_heads": ("attention", "kv_heads", "kv_heads"),
    "head_dim": ("attention", "head_dim", "head_dim"),
    "experts": ("feed_forward", "experts", "experts"),
    "active_experts": ("feed_forward", "active_experts", "experts"),
    "expert_size": ("feed_forward", "intermediate_size", "experts"),
}
#: All short keys.
SHORT_KEYS = ("layers", *_FIELDS, "attention", "parallel")
#: Sizes of latent attention over the width of a head [1], and KV heads of grouped queries in its place [1]: those of
#: DeepSeek-V2 and V3 (hf_deepseek_v2: 512, 1536 and 64 of heads of 128), and of most models with grouped queries.
_RANK, _QUERY_RANK, _ROTARY, _KV_HEADS = 4, 12, 0.5, 8

Change = tuple[tuple[str, ...], "Value"]


def changes(data: Mapping[str, Value], key: str, value: Value, origin: str) -> Iterator[Change]:
    """Changes of a short key in the data of a model.

    Parameters
    ----------
    data : mapping
        A model as a file holds it.
    key : str
        One of :data:`SHORT_KEYS`.
    value : int, str or bool
        Layers, heads or experts [1], a kind of attention, or whether attention and feed-forward block run side by side.
    origin : str
        What to call it in messages.

    Yields
    ------
    (path, value)
        Paths from the top of the file.

    Raises
    ------
    InputError
        If the value is no whole number or kind, or no layer has what it changes.
    """
    blocks = _blocks(data, origin)
    if key == "attention":
        yield from _attention(blocks, value, origin)
        return
    if key == "parallel":
        if not isinstance(value, bool):
            raise InputError(f"{origin}: true or false is needed, got {value!r}")
        yield from ((("blocks", str(at), "parallel"), value) for at in range(len(blocks)))
        return
    number = _whole(value, origin)
    if key == "layers":
        counts = [_whole(cast("Value", block["layers"]), origin) for block in blocks]
        yield from ((("blocks", str(at), "layers"), count) for at, count in enumerate(_spread(counts, number, origin)))
        return
    part, field, marker = _FIELDS[key]
    places = [at for at, block in enumerate(blocks) if marker in block[part]]
    if not places:
        there = ", ".join(sorted({str(block[part].get("kind")) for block in blocks}))
        raise InputError(f"{origin}: no layer has {field}; its layers are of the kind {there}")
    yield from ((("blocks", str(at), part, field), number) for at in places)


def value_of(model: ModelSpec, key: str) -> float | None:
    """The number behind a short key; None if layers differ in it, or none has it.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> value_of(catalog.model("deepseek_v3"), "experts"), value_of(catalog.model("deepseek_v3"), "kv_heads")
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


def _blocks(data: Mapping[str, Value], origin: str) -> list[dict[str, dict[str, Value]]]:
    """The blocks, if they are such: what is wrong in them is said once nothing changes them."""
    blocks = data.get("blocks")
    whole = (
        isinstance(blocks, list)
        and blocks
        and all(
            isinstance(block, dict)
            and "layers" in block
            and all(isinstance(block.get(part), dict) for part in ("attention", "feed_forward"))
            for block in blocks
        )
    )
    if not whole:
        raise InputError(f"{origin}: the model has no blocks of layers, attention and feed_forward to change")
    return cast("list[dict[str, dict[str, Value]]]", blocks)


def _whole(value: Value, origin: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
        raise InputError(f"{origin}: a whole number from 1 on is needed, got {value!r}")
    return int(value)


def _spread(counts: list[int], total: int, origin: str) -> list[int]:
    try:
        return spread(counts, total)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error


def _attention(blocks: list[dict[str, dict[str, Value]]], kind: Value, origin: str) -> Iterator[Change]:
    """Latent attention in the place of grouped queries, or the other way round; windows stay as they are."""
    convert = {"latent": _latent, "grouped_query": _grouped}.get(str(kind))
    if convert is None:
        raise InputError(f"{origin}: got {kind!r}; allowed: latent, grouped_query")
    other = "grouped_query" if kind == "latent" else "latent"
    replaced = [at for at, block in enumerate(blocks) if _is_full(block["attention"], other)]
    if not replaced:
        raise InputError(f"{origin}: no layer has {other} attention over the whole context, which {kind} could replace")
    yield from ((("blocks", str(at), "attention"), convert(blocks[at]["attention"], origin)) for at in replaced)


def _is_full(attention: Mapping[str, Value], kind: str) -> bool:
    limited = any(attention.get(name) is not None for name in ("window", "chunk", "index_top_k"))
    return attention.get("kind") == kind and not limited


def _latent(attention: Mapping[str, Value], origin: str) -> Value:
    width = _whole(attention.get("head_dim"), origin)
    return {
        "kind": "latent",
        "query_heads": attention.get("query_heads"),
        "kv_rank": _RANK * width,
        "query_rank": _QUERY_RANK * width,
        "nope_head_dim": width,
        "rope_head_dim": int(_ROTARY * width),
        "value_head_dim": width,
    }


def _grouped(attention: Mapping[str, Value], origin: str) -> Value:
    heads, width = _whole(attention.get("query_heads"), origin), attention.get("value_head_dim")
    return {"kind": "grouped_query", "query_heads": heads, "kv_heads": min(_KV_HEADS, heads), "head_dim": width}
