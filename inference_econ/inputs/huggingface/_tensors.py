"""Reader of the architecture of models whose family is unknown.

The reader uses the names and shapes of the tensors in the checkpoint.

Most models use the same tensor names for the common parts of layers, regardless of their ``model_type``. Tensors with
unusual names are reported as unknown.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.inputs.dtype import BYTES_PER_ELEMENT
from inference_econ.inputs.huggingface._files import OUTSIDE, Checkpoint, Tensor
from inference_econ.inputs.huggingface._layers import Architecture, Layer, LayerReader
from inference_econ.inputs.huggingface._reader import TABLE
from inference_econ.inputs.layers import (
    Attention,
    DenseFeedForward,
    ExpertFeedForward,
    FeedForward,
    GroupedQueryAttention,
    LatentAttention,
    NoAttention,
    NoFeedForward,
)
from inference_econ.inputs.models.model import ModelSpec, UnknownPart
from inference_econ.inputs.units import integer, list_index

_IN_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.(.+)$")
_TABLE: Mapping[str, Any] = TABLE["tensors"]


def _patterns(table: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    """Patterns of tensor names by role. Names in braces are replaced by parts that several patterns have."""
    return {
        role: re.compile(re.sub(r"\{(\w+)\}", lambda piece: str(_TABLE["pieces"][piece[1]]), text))
        for role, text in table.items()
    }


#: Patterns of tensor names by role, inside layers and outside layers; the first match is used.
_ROLES, _AROUND = _patterns(_TABLE["roles"]), _patterns(_TABLE["around"])
#: Pattern of tensors that recurrent mixers have. Such mixers cache no keys and values.
_RECURRENT = re.compile(r"A_log|dt_bias|decay")
#: Pattern of keys for the number of passes through the layers. Each pass reads all weights.
_PASSES = re.compile(r"loop_num\w*|\w*num_loops|n_\w*loops|\w*num_passes|\w*recurrent_(?:steps|depth)")
_WIDTH, _EXPERT_WIDTH, _COUNT, _ACTIVE = (_TABLE["keys"][of] for of in ("width", "expert_width", "experts", "active"))
#: Keys whose meaning follows from the tensors, and keys for counts that follow from other keys.
_SHOWN: tuple[str, ...] = tuple(TABLE["shown_by_tensors"])
#: Difference between index size and parameter count that is ignored, as a share of the count [1]. Correction biases of
#: routers and scales of matrices cause it.
_NEGLIGIBLE = 1e-3

#: Maximum number of rows of an ordinary matrix in a layer [1]. A matrix with more rows is a lookup table if the
#: vocabulary is smaller, too.
_MOST_ROWS = 200_000

Roles = Mapping[str, Sequence[Tensor]]


def architecture_of(c: LayerReader, checkpoint: Checkpoint) -> Architecture:
    """Architecture of a model from the tensors of its checkpoint and the sizes in its configuration.

    Raises
    ------
    SpecError
        If neither the configuration nor the shapes determine a size.
    """
    count = c.layers()
    c.skip(*_SHOWN)
    passes = [key for key in c.data if _PASSES.fullmatch(key) and c.data[key] not in (None, 0, 1)]
    if passes:
        c.stop(
            f"{passes[0]} is {c.data[passes[0]]}; how often layers are passed is not understood, whatever their shapes"
        )
    stated = str([level.get(key) for level in (c.data, c.outer) for key in ("quantization_config", "expert_dtype")])
    if "fp4" in stated and any(tensor.kind == "I8" for tensor in checkpoint.tensors):
        c.stop("fp4 is stated, and tensors are stored as I8; how many parameters an element holds is not understood")
    around: dict[str, list[Tensor]] = defaultdict(list)
    inside: list[dict[str, list[Tensor]]] = [defaultdict(list) for _ in range(count)]
    for tensor in checkpoint.tensors:
        if tensor.part(count) in OUTSIDE:
            continue
        place = _IN_LAYER.search(tensor.name)
        if place is None:
            around[_role(tensor.name, _AROUND)].append(tensor)
        elif (layer := list_index(place[1], count)) is not None:
            inside[layer][_role(place[2], _ROLES)].append(tensor)
    if not around["embedding"]:
        c.stop(
            "no tensor is called embed_tokens, embed, wte, word_embeddings or tok_embeddings; whose rows are its words?"
        )
    if empty := [number for number, roles in enumerate(inside) if not roles]:
        c.stop(f"num_hidden_layers is {count}, and the checkpoint has no tensor of layer {empty[0]}")
    hidden = c.hidden_size()
    widths = {width for tensor in around["embedding"] for width in tensor.shape[-1:] if not tensor.packed}
    if widths - {hidden}:
        c.stop(f"hidden_size is {hidden}, and the embedding in the checkpoint has {widths.pop()} columns")
    # The tensors show whether embeddings are tied, and their rows. One of the embeddings may be padded.
    stored = [_rows(around, role, hidden) for role in ("embedding", "output") if around[role]]
    counted = {"tie_word_embeddings": not around["output"], **({"vocab_size": min(stored)} if min(stored) else {})}
    c.data, c.outer = {**c.data, **counted}, {**c.outer, "tie_word_embeddings": counted["tie_word_embeddings"]}
    # If ``layer_types`` does not state which layers have a window, the full context is cached.
    _, kinds = c.find("layer_types")
    width = c.size_if("sliding_window", "sliding_window_size")
    if width is None or not isinstance(kinds, list) or len(kinds) != count:
        kinds = [None] * count
    made = []
    for roles, kind in zip(inside, kinds, strict=True):
        norms = [tensor for tensor in roles.get("norm", ()) if not tensor.kind or tensor.parameters == hidden]
        attention = _attention(c, roles, hidden, width if "sliding" in str(kind) else None)
        made.append(Layer(attention, _feed_forward(c, roles, hidden), len(norms), "norm bias" in roles))
    rows = _rows(around, "positions", hidden)
    return c.architecture(made, learned_positions=rows, output_bias=bool(around["output bias"]))


def _role(name: str, roles: Mapping[str, re.Pattern[str]]) -> str:
    return next((role for role, pattern in roles.items() if pattern.fullmatch(name)), "")


def _usual(tensor: Tensor) -> bool:
    place = _IN_LAYER.search(tensor.name)
    return bool(_role(tensor.name, _AROUND) if place is None else _role(place[2], _ROLES))


def _attention(c: LayerReader, roles: Roles, hidden: int, window: int | None) -> Attention:
    """Attention of a layer, given its projections.

    The result is ``NoAttention`` for recurrences, and for projections that cannot be divided into heads.
    """
    if any(_RECURRENT.search(tensor.name) for tensor in roles.get("", ())) or "heads out" not in roles:
        return NoAttention(kind="none")
    if {"latent down", "latent up"} <= roles.keys():
        return _latent(c, roles, hidden)
    if not ({"query", "key"} <= roles.keys() or "all heads" in roles):
        return NoAttention(kind="none")
    queries, stated = c.heads(), c.size_if("head_dim", "kv_channels")
    rows, keys, values = (_rows(roles, role, hidden) for role in ("query", "key", "value"))
    normed = _elements(roles, "key norm")
    # A norm of single heads has the width of a head. A norm over all heads has the width of all of them.
    whole = 0 < normed == keys and _elements(roles, "query norm") == rows > keys // queries
    width = normed if normed and not whole else stated or max((rows or hidden) // queries, 1)
    kv = keys // width if keys else c.size_if("num_key_value_heads", "num_kv_heads") or queries
    if (
        not 0 < kv <= queries
        or (keys and keys % width)
        or (rows and rows not in (queries * width, 2 * queries * width))
    ):
        return NoAttention(kind="none")
    return GroupedQueryAttention(
        kind="grouped_query",
        query_heads=queries,
        kv_heads=kv,
        head_dim=width,
        value_head_dim=None if not values or values == keys else values // kv,
        value_projection="value" in roles or "all heads" in roles,
        window=window,
        qkv_bias="heads bias" in roles,
        output_bias="heads out bias" in roles,
        qk_norm="none" if "key norm" not in roles else "full" if whole else "per_head",
        sinks="sinks" in roles,
        output_gate=rows == 2 * queries * width,
    )


def _latent(c: LayerReader, roles: Roles, hidden: int) -> LatentAttention:
    """Latent attention of a layer.

    Ranks, number of heads and widths are derived from tensor shapes if the shapes are known.
    """
    rank = _elements(roles, "latent norm") or c.size("kv_lora_rank")
    query_rank = (_elements(roles, "query latent norm") or c.size("q_lora_rank")) if "query down" in roles else None
    rope = max(_rows(roles, "latent down", hidden) - rank, 0) or c.whole("qk_rope_head_dim")
    # Widths of the queries, of keys with values, and of values, each over all heads.
    queries = _elements(roles, "query") // hidden if query_rank is None else _elements(roles, "query up") // query_rank
    keys, values = _elements(roles, "latent up") // rank, _rows(roles, "heads out", hidden)
    count = (queries - keys + values) // rope if rope and keys else c.heads()
    shaped = count > 0 and keys > 0 and not (queries % count or values % count)
    return LatentAttention(
        kind="latent",
        query_heads=count if shaped else c.heads(),
        kv_rank=rank,
        query_rank=query_rank,
        nope_head_dim=queries // count - rope if shaped else c.size("qk_nope_head_dim"),
        rope_head_dim=rope,
        value_head_dim=values // count if shaped else c.size("v_head_dim"),
        latent_norms="latent norm" in roles,
    )


def _feed_forward(c: LayerReader, roles: Roles, hidden: int) -> FeedForward:
    if not {"expert in", "expert out"} <= roles.keys():
        if not {"in", "out"} <= roles.keys():
            return NoFeedForward(kind="none")
        matrices = _matrices(roles["in"])
        width = _rows(roles, "in", hidden) // matrices or c.size(*_WIDTH)
        return DenseFeedForward(kind="dense", intermediate_size=width, input_matrices=matrices, bias="bias" in roles)
    numbers = {
        integer(number[1]) for tensor in roles["expert in"] if (number := re.search(r"experts\.(\d+)\.", tensor.name))
    }
    stacked = {tensor.shape[0] for tensor in roles["expert in"] if len(tensor.shape) > 2}
    count = len(numbers) or (stacked.pop() if len(stacked) == 1 else c.size(*_COUNT))
    matrices = _matrices(roles["expert in"])
    width = _rows(roles, "expert in", hidden) // max(count * matrices, 1)
    width = width or c.size_if(*_EXPERT_WIDTH) or c.size(*_WIDTH)
    shared = None
    if "shared in" in roles:
        shared = _rows(roles, "shared in", hidden) // _matrices(roles["shared in"])
        shared = shared or c.size_if("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
        shared = shared or width * c.size_or("n_shared_experts", "num_shared_experts", default=1)
    return ExpertFeedForward(
        kind="experts",
        experts=count,
        active_experts=c.size(*_ACTIVE),
        intermediate_size=width,
        input_matrices=matrices,
        bias="expert bias" in roles,
        shared_intermediate_size=shared,
        shared_gate="shared gate" in roles,
        router="router" in roles,
        router_bias="router bias" in roles,
    )


def _matrices(tensors: Sequence[Tensor]) -> int:
    """Number of matrices in a block or an expert that multiply the residual stream.

    A stacked gate and up matrix is two.
    """
    names = {re.sub(r"experts\.\d+", "experts.N", _IN_LAYER.sub(r"\2", tensor.name)) for tensor in tensors}
    return 2 if any("gate_" in name and "up" in name for name in names) else len(names)


def _elements(roles: Roles, role: str) -> int:
    return sum(tensor.parameters for tensor in roles.get(role, ()))


def _rows(roles: Roles, role: str, hidden: int) -> int:
    """Total rows of a role's matrices that multiply the residual stream [1]; 0 if no shape is known."""
    return _elements(roles, role) // hidden


def less_stored(file: str, model: ModelSpec, checkpoint: Checkpoint) -> str:
    """Error message if some part of the model has more parameters than in the checkpoint; empty otherwise."""
    if checkpoint.packed or not checkpoint.elements:
        return ""
    parts, stored = model.parameter_parts(), checkpoint.parameters
    return next(
        (
            f"{file}: its sizes make {count:,.0f} parameters of {part.replace('_', ' ')}, and tensors beside it hold "
            f"{stored.get(part, 0):,}"
            for part, count in parts.items()
            if stored.get(part, 0) < round(count)
        ),
        "",
    )


def unknown_parts(model: ModelSpec, checkpoint: Checkpoint, *, by_family: bool) -> list[UnknownPart]:
    """Parts of a checkpoint that the parameter count of a model does not include.

    If tensors with uncommon names explain the difference between checkpoint and parameter count, each is one part.
    Otherwise all such tensors are one part. For a known family, tensors without known shapes are ignored, because known
    families also have tensors with uncommon names.
    """
    if not checkpoint.elements:
        # The total size determines the unknown part if no shapes are known.
        formats = {model.weights, model.expert_weights, model.shared_expert_weights, model.attention_weights}
        formats |= {model.attention_output_weights, model.embedding_weights}
        names = dict.fromkeys(
            tensor.family
            for tensor in checkpoint.tensors
            if tensor.part(model.layers) in OUTSIDE or not (by_family or _usual(tensor))
        )
        if checkpoint.size is not None and len(formats - {None}) <= 1:
            beyond = math.floor(checkpoint.size / BYTES_PER_ELEMENT[model.weights]) - model.total_parameters
            if beyond > _NEGLIGIBLE * model.total_parameters:
                return [UnknownPart(name=_modules(names) or "tensors with usual names", parameters=beyond)]
        return [UnknownPart(name=name) for name in names] if not by_family else []
    if by_family and checkpoint.packed:
        return []
    unusual: dict[str, Counter[str]] = defaultdict(Counter)
    tables: set[str] = set()
    for tensor in checkpoint.tensors:
        part = tensor.part(model.layers)
        if part not in OUTSIDE and not _usual(tensor):
            unusual[part][tensor.family] += tensor.parameters
            if tensor.shape[0:1] > (max(model.vocab_size, _MOST_ROWS),) and len(tensor.shape) == 2:
                tables.add(tensor.family)
    if not (by_family or checkpoint.packed):
        # An unknown part may also consist of tensors with common names, for example a projection of another mixer.
        for part in {"attention", "feed_forward"} - unusual.keys():
            unusual[part].update({name: n for (its, name), n in checkpoint.elements.items() if its == part})
    counted, parts = model.parameter_parts(), []
    for part, families in unusual.items():
        beyond = checkpoint.parameters.get(part, 0) - round(counted.get(part, 0.0))
        for name in tables & families.keys():
            parts.append(UnknownPart(name=name, parameters=families[name], looked_up=True))
            beyond -= families.pop(name)
        if checkpoint.packed or beyond == families.total():
            parts += [UnknownPart(name=name, parameters=count) for name, count in families.items()]
        elif beyond > 0:
            parts.append(UnknownPart(name=_modules(families), parameters=beyond))
    return parts


def _modules(families: Iterable[str]) -> str:
    """Name of a part with several tensors: short names of its first two modules, and the number of further modules."""
    modules = list(dict.fromkeys(re.sub(r"(\.N\.\w+)\..*", r"\1", family) for family in families))
    return " with ".join(modules[:2]) + (f" and {len(modules) - 2} more" if modules[2:] else "")
