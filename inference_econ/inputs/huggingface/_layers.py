"""Parts that the families share: layers, and those that most of them build alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inference_econ.inputs._spec import Dtype
from inference_econ.inputs.huggingface._reader import ConfigReader
from inference_econ.inputs.layers import Attention, FeedForward
from inference_econ.inputs.layers.attention import GroupedQueryAttention, RecurrentMixer
from inference_econ.inputs.layers.feed_forward import DenseFeedForward, ExpertFeedForward
from inference_econ.inputs.models.model import UnknownPart

QkNorm = Literal["none", "per_head", "full"]
_STATE_FORMATS: dict[str, Dtype] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
#: Keys of the number of routed experts.
ROUTED = ("n_routed_experts", "num_experts", "num_local_experts")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; equal layers become one block."""

    attention: Attention
    feed_forward: FeedForward
    norms: int = 2
    norm_bias: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Architecture that a family reads from a configuration."""

    hidden_size: int
    vocab_size: int
    layers: Sequence[Layer]
    tied_embeddings: bool
    max_context: int | None
    mtp_layers: int = 0
    learned_positions: int = 0
    output_bias: bool = False
    residual_streams: int = 1
    residual_span: int | None = None
    residual_fold: bool = True
    beside: tuple[UnknownPart, ...] = ()
    """Parts that no layer here has: tables that are looked up, and what reads them."""


def hidden_size(c: ConfigReader) -> int:
    """Width of the residual stream."""
    return c.size("hidden_size", "n_embd", "d_model")


def context(c: ConfigReader) -> int | None:
    """Longest context."""
    return c.size_if("max_position_embeddings", "n_positions", "max_seq_len")


def architecture(
    c: ConfigReader, layers: Sequence[Layer], *, tied: bool = False, max_context: int | None = None, **others: Any
) -> Architecture:
    """Layers with what every configuration states around them, and other fields of :class:`Architecture`.

    ``tied`` is the default of the published class.
    """
    return Architecture(
        hidden_size=hidden_size(c),
        vocab_size=c.size("vocab_size"),
        layers=layers,
        tied_embeddings=c.tied(default=tied),
        max_context=context(c) if max_context is None else max_context,
        **others,
    )


def heads(c: ConfigReader) -> int:
    """Query heads."""
    return c.size("num_attention_heads", "n_head", "n_heads")


def kv_heads(c: ConfigReader, *, default: int | None = None) -> int:
    """Heads of keys and values; null means one per query head, and so does ``default`` None if absent."""
    queries = heads(c)
    count = c.size_if("num_key_value_heads")
    if count is None and "num_key_value_heads" in c.data:
        count = queries
    elif count is None:
        count = c.without("num_key_value_heads", queries if default is None else default)
    return whole_groups(c, queries, count)


def whole_groups(c: ConfigReader, queries: int, count: int) -> int:
    """Check that query heads split into groups, one for each key-value head."""
    if queries % count:
        c.stop(f"{queries} query heads do not split into groups for {count} key-value heads")
    return count


def head_dim(c: ConfigReader, *, default: int | None = None) -> int:
    """Width of a head: stated, the class's default, or the width of the model over the heads."""
    stated = c.size_if("head_dim")
    if stated is not None:
        return stated
    if default is not None and "head_dim" not in c.data:
        return c.without("head_dim", default)
    hidden, queries = hidden_size(c), heads(c)
    if hidden % queries:
        c.stop(f"head_dim is missing, and hidden_size {hidden} is no multiple of num_attention_heads {queries}")
    return hidden // queries


def grouped_query(
    c: ConfigReader, *, kv: int | None = None, width: int | None = None, window: int | None = None, **others: Any
) -> GroupedQueryAttention:
    """Grouped-query attention with the usual keys, and other fields of :class:`GroupedQueryAttention`.

    A window or chunk that no context exceeds is none.
    """
    longest = context(c)
    spans = {"window": window, "chunk": others.pop("chunk", None)}
    others |= {name: None if span and longest and span >= longest else span for name, span in spans.items()}
    return GroupedQueryAttention(
        kind="grouped_query",
        query_heads=others.pop("query_heads", None) or heads(c),
        kv_heads=kv_heads(c) if kv is None else kv,
        head_dim=head_dim(c) if width is None else width,
        **others,
    )


def dense(width: int, *, gated: bool = True, bias: bool = False) -> DenseFeedForward:
    """A feed-forward block with or without a gate."""
    return DenseFeedForward(kind="dense", intermediate_size=width, input_matrices=1 + gated, bias=bias)


def experts(
    c: ConfigReader,
    width: int,
    *,
    count_keys: Sequence[str],
    active_keys: Sequence[str] = ("num_experts_per_tok",),
    shared: int | None = None,
    gated: bool = True,
    **others: Any,
) -> ExpertFeedForward:
    """Mixture of experts whose number stands under one of ``count_keys``; others are fields of its class."""
    count, active = c.size(*count_keys), c.size(*active_keys)
    if active > count:
        c.stop(f"{active_keys[0]} must be <= {count_keys[0]} ({count}), got {active}")
    groups, reached = c.size_if("n_group"), c.size_if("topk_group")
    if groups in (None, 1) or c.data.get("topk_method") == "greedy":  # no limit on what a token may reach
        groups = reached = None
    elif reached is None:
        c.stop(f"n_group is {groups}, but topk_group is missing")
    elif reached > groups or count % groups or active > reached * count // groups:
        c.stop(f"{active} of {count} experts in at most {reached} (topk_group) of {groups} groups (n_group) cannot be")
    return ExpertFeedForward(
        kind="experts",
        experts=count,
        active_experts=active,
        intermediate_size=width,
        input_matrices=1 + gated,
        shared_intermediate_size=shared,
        routing_groups=groups,
        active_groups=reached,
        **others,
    )


def recurrent(
    c: ConfigReader, variant: Literal["mamba2", "gated_delta", "kda"], keys: Sequence[str], **others: Any
) -> RecurrentMixer:
    """Recurrent mixer with its sizes, and other fields of its class.

    ``keys`` are those of value heads and their width, key heads and theirs, and the convolution; words of one are names
    of the same.
    """
    fields = ("value_heads", "value_head_dim", "key_heads", "key_head_dim", "convolution")
    sizes: dict[str, Any] = {
        field: c.size(*key.split()) for field, key in zip(fields, keys, strict=True) if field not in others
    }
    return RecurrentMixer(kind="recurrent", variant=variant, **sizes, **others)


def mamba2_mixer(
    c: ConfigReader,
    keys: Sequence[str],
    biases: tuple[str, str] = ("use_bias", "use_conv_bias"),
    state: str = "",
    **others: Any,
) -> RecurrentMixer:
    """Mixer of Mamba-2, see :func:`recurrent`; ``biases`` are keys of those of its projections and its convolution.

    ``state`` is the key of the format of its state, which has 32 bits without one.
    """
    others["input_bias"] = others["output_bias"] = c.flag(biases[0], default=False)
    others["convolution_bias"] = c.flag(biases[1], default=True)
    if state:
        others["state_dtype"] = state_format(c, state)
    return recurrent(c, "mamba2", keys, **others)


def state_format(c: ConfigReader, key: str) -> Dtype:
    """Number format of a recurrent state, of 32 bits unless a key says another."""
    _, value = c.find(key)
    if value is None:
        return "fp32"
    if not isinstance(value, str) or value not in _STATE_FORMATS:
        c.stop(f"{key} is {value!r}; understood: {', '.join(_STATE_FORMATS)}")
    return _STATE_FORMATS[value]


def windows(c: ConfigReader, default: Sequence[bool], width_key: str = "sliding_window") -> list[int | None]:
    """Window of each layer, by ``layer_types`` or else by the class's own pattern (True slides)."""
    slides = c.marks("layer_types", ("full_attention", "sliding_attention"), default)
    if not any(slides):
        c.unused(width_key)
        return [None] * len(slides)
    width = c.size(width_key)
    return [width if is_sliding else None for is_sliding in slides]


def qwen_windows(c: ConfigReader) -> list[int | None]:
    """Qwen's windows: off unless ``use_sliding_window``, then in all layers from ``max_window_layers`` on."""
    layers = c.layers()
    first = c.whole("max_window_layers", default=28)
    if not c.flag("use_sliding_window", default=False):
        c.words("layer_types", ("full_attention",), layers)
        c.unused("sliding_window")
        return [None] * layers
    return windows(c, [index >= first for index in range(layers)])


def split(c: ConfigReader) -> int:
    """Width of a head where no key can state another."""
    hidden, count = hidden_size(c), heads(c)
    if hidden % count:
        c.stop(f"hidden_size {hidden} is no multiple of the {count} heads")
    return hidden // count


def sparse_by_step(c: ConfigReader, mixture: FeedForward) -> list[FeedForward]:
    """Qwen's rule: a mixture in every ``decoder_sparse_step``-th layer, except where listed."""
    step, layers = c.size_or("decoder_sparse_step", default=1), c.layers()
    only = c.numbers("mlp_only_layers") or []
    if any(index >= layers for index in only):
        c.stop(f"mlp_only_layers names layer {max(only)}, but there are only {layers}, counted from 0")
    sparse = [index not in only and (index + 1) % step == 0 for index in range(layers)]
    if all(sparse):
        c.unused("intermediate_size")
        return [mixture] * layers
    plain = dense(c.size("intermediate_size"))
    return [mixture if is_sparse else plain for is_sparse in sparse]


def dense_first(c: ConfigReader, default_first: int, default_shared: int) -> list[FeedForward]:
    """DeepSeek's rule: the first ``first_k_dense_replace`` layers dense, then routed and shared experts.

    ``mlp_layer_types`` states the same per layer. The defaults are those of the published class.
    """
    layers = c.layers()
    c.only("moe_layer_freq", 1)
    c.only("mlp_bias", False)
    first = c.whole("first_k_dense_replace", default=default_first)
    if first > layers:
        c.stop(f"first_k_dense_replace is {first}, but there are only {layers} layers")
    sparse = c.marks("mlp_layer_types", ("dense", "sparse"), [index >= first for index in range(layers)])
    plain = None if all(sparse) else dense(c.size("intermediate_size"))
    c.unused("intermediate_size")
    width = c.size("moe_intermediate_size")
    count = c.whole("n_shared_experts", "num_shared_experts", default=default_shared)
    active = ("num_experts_per_tok", "num_experts_per_token")
    mixture = experts(c, width, count_keys=ROUTED, active_keys=active, shared=count * width or None)
    return [mixture if plain is None or is_sparse else plain for is_sparse in sparse]
