"""Reader of the kinds of layers that most model families have, and of the parts of these layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from inference_econ.inputs._spec import Dtype
from inference_econ.inputs.huggingface._reader import FAMILIES, ArchitectureFamily, ConfigReader, Flag
from inference_econ.inputs.layers import (
    Attention,
    DenseFeedForward,
    ExpertFeedForward,
    FeedForward,
    GroupedQueryAttention,
    RecurrentMixer,
)

_STATE_FORMATS: dict[str, Dtype] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
#: Keys for the number of routed experts.
ROUTED = ("n_routed_experts", "num_experts", "num_local_experts")


class Layer(NamedTuple):
    """One layer of a model. All equal layers become one :class:`Block`."""

    attention: Attention
    feed_forward: FeedForward
    norms: int = 2
    norm_bias: bool = False
    parallel: bool = False


class Architecture(NamedTuple):
    """Layers and further fields of a model, as read from a configuration."""

    layers: Sequence[Layer]
    fields: Mapping[str, Any]
    """Further fields of :class:`~inference_econ.inputs.models.model.ModelSpec`."""


def dense(width: int, *, gated: bool = True, bias: bool = False) -> DenseFeedForward:
    """Create a feed-forward block with or without a gate."""
    return DenseFeedForward(kind="dense", intermediate_size=width, input_matrices=1 + gated, bias=bias)


class LayerReader(ConfigReader):
    """Reader of one configuration, with methods for the parts that most families share."""

    @property
    def entry(self) -> ArchitectureFamily:
        """Entry of the model family in the table of families."""
        return FAMILIES[self.family]

    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.size("hidden_size", "n_embd", "d_model")

    def context(self) -> int | None:
        """Longest supported context; None if not stated."""
        if self.data.get("max_position_embeddings", 0) is None:
            self.stop("max_position_embeddings is null; state a value or remove the key")
        return self.size_if("max_position_embeddings", "n_positions", "max_seq_len")

    def architecture(
        self, layers: Iterable[tuple[Any, ...]], *, tied: bool = False, max_context: int | None = None, **others: Any
    ) -> Architecture:
        """Architecture with given layers, and with the fields that all configurations have.

        ``tied`` states whether embeddings are tied by default in the published class. ``others`` are further fields of
        the model.
        """
        fields = {
            "hidden_size": self.hidden_size(),
            "vocab_size": self.size("vocab_size"),
            "tied_embeddings": self.tied(default=tied),
            "max_context": self.context() if max_context is None else max_context,
        }
        return Architecture([Layer(*layer) for layer in layers], {**fields, **others})

    def plain(self, family: ArchitectureFamily | None = None) -> Architecture:
        """Architecture of a family whose properties are all in the table of families."""
        family = family or self.entry
        layers, window = self.layers(), family.window
        if self.has("no_rope_layers"):
            self.stated_marks("no_rope_layers", layers)
        if family.period is not None:
            period = self.size_or(*family.period_keys, default=family.period) if family.period_keys else family.period
            slides = window != "null_is_none" or "sliding_window" not in self.data or self.has("sliding_window")
            widths = self.windows([slides and (index + 1) % period != 0 for index in range(layers)])
        elif window == "qwen":
            widths = self.qwen_windows()
        elif isinstance(window, int) and "sliding_window" not in self.data:
            widths = [self.without("sliding_window", window)] * layers
        else:
            widths = [self.size_if("sliding_window") if window else None] * layers
        made = {width: self.attention(width, family) for width in dict.fromkeys(widths)}

        parts = self.feed_forwards(family)
        parallel = self.stated(family.parallel)
        norms = family.norms_if_parallel if parallel and family.norms_if_parallel else family.norms
        pairs = zip(widths, parts, strict=True)
        return self.architecture(
            [(made[width], part, norms, family.norm_bias, parallel) for width, part in pairs],
            tied=family.tied,
            mtp_layers=self.whole(*family.mtp) if family.mtp else 0,
            learned_positions=self.size(family.positions) + family.more_positions if family.positions else 0,
            output_bias=self.stated(family.head_bias),
            max_context=self.size_if(family.max_context) if family.max_context else None,
        )

    def stated(self, flag: Flag) -> bool:
        """Value of a family's flag.

        The table of families has the value, or the configuration key that states the value.
        """
        if isinstance(flag, bool):
            return flag
        ((key, default),) = flag.items()
        return self.flag(key, default=default)

    def heads(self) -> int:
        """Number of query heads."""
        return self.size("num_attention_heads", "n_head", "n_heads")

    def kv_heads(self, *, default: int | None = None) -> int:
        """Number of key-value heads."""
        queries = self.heads()
        count = self.size_if("num_key_value_heads")
        if count is None and default is None and "num_key_value_heads" in self.data:
            count = queries
        elif count is None:
            count = self.without("num_key_value_heads", queries if default is None else default)
        return self.whole_groups(queries, count)

    def whole_groups(self, queries: int, count: int) -> int:
        """Check that each key-value head has an integer number of query heads."""
        if queries % count:
            self.stop(f"{queries} query heads do not split into groups for {count} key-value heads")
        return count

    def head_dim(self, *, default: int | None = None) -> int:
        """Width of a head.

        If the key is missing, the default applies, or else the model width divided by the number of heads.
        """
        stated = self.size_if("head_dim")
        if stated is not None:
            return stated
        if default is not None:
            return self.without("head_dim", default)
        return self.split()

    def split(self) -> int:
        """Model width divided by the number of heads, which is the width of a head if no key states it."""
        hidden, count = self.hidden_size(), self.heads()
        if hidden % count:
            self.stop(f"hidden_size {hidden} is not a multiple of the {count} heads")
        return hidden // count

    def attention(self, window: int | None = None, family: ArchitectureFamily | None = None) -> GroupedQueryAttention:
        """Attention with or without a window, in a family whose properties are all in the table of families."""
        family = family or self.entry
        kind, width = family.kv_heads, family.head_dim
        if isinstance(kind, Mapping):
            kv = 1 if self.stated(kind) else self.heads()
        elif kind == "stated":
            kv = self.whole_groups(self.heads(), self.size("num_key_value_heads"))
        else:
            kv = self.heads() if kind == "queries" else self.kv_heads(default=kind)  # type: ignore[arg-type]
        return self.grouped_query(
            kv=kv,
            width=self.split() if width == "split" else self.head_dim(default=width),  # type: ignore[arg-type]
            window=window,
            qkv_bias=self.stated(family.qkv_bias),
            output_bias=self.stated(family.output_bias),
            qk_norm=family.qk_norm if self.stated(family.qk_norm_if) else "none",
            sinks=family.sinks,
            output_gate=family.output_gate,
        )

    def grouped_query(
        self, *, kv: int | None = None, width: int | None = None, window: int | None = None, **others: Any
    ) -> GroupedQueryAttention:
        """Grouped-query attention, from keys that most families use.

        A window or chunk longer than the longest context is ignored.

        ``others`` are fields of :class:`GroupedQueryAttention`.
        """
        longest = self.context()
        spans = {"window": window, "chunk": others.pop("chunk", None)}
        others |= {name: None if span and longest and span >= longest else span for name, span in spans.items()}
        return GroupedQueryAttention(
            kind="grouped_query",
            query_heads=others.pop("query_heads", None) or self.heads(),
            kv_heads=self.kv_heads() if kv is None else kv,
            head_dim=self.head_dim() if width is None else width,
            **others,
        )

    def windows(self, default: Sequence[bool]) -> list[int | None]:
        """Window of each layer. Without ``layer_types``, layers with a true value in ``default`` have a window."""
        if not self.has("layer_types") and not isinstance(self.data.get("sliding_window_pattern", 0), int):
            self.stop("layer_types is missing; it states which layers have a window")
        slides = self.marks("layer_types", ("full_attention", "sliding_attention"), default)
        if not any(slides):
            self.unused("sliding_window")
            return [None] * len(slides)
        width = self.size("sliding_window")
        return [width if is_sliding else None for is_sliding in slides]

    def qwen_windows(self) -> list[int | None]:
        """Windows of Qwen models: with ``use_sliding_window``, layers from ``max_window_layers`` on have a window."""
        layers = self.layers()
        first = self.whole("max_window_layers", default=28)
        if not self.flag("use_sliding_window", default=False):
            self.words("layer_types", ("full_attention",), layers)
            self.unused("sliding_window")
            return [None] * layers
        return self.windows([index >= first for index in range(layers)])

    def feed_forwards(self, family: ArchitectureFamily | None = None) -> list[FeedForward]:
        """Feed-forward block of each layer, for a family whose properties are all in the table of families."""
        family = family or self.entry
        if family.dense_first is not None:
            return self.dense_first(**family.dense_first)
        if family.experts is None:
            if family.width_over_hidden is None:
                width = self.size(family.width_key)
            else:
                width = family.width_over_hidden * self.hidden_size()
                if family.width_key and self.data.get(family.width_key, width) is not None:  # null is the default
                    width = self.size_or(family.width_key, default=width)
            return [dense(width, gated=family.gated, bias=self.stated(family.mlp_bias))] * self.layers()
        fields = dict(family.experts)
        width = self.size(fields.pop("width"))
        if "shared_if" in fields:
            fields["shared"] = self.whole(fields.pop("shared_if")) or None
        elif "shared" in fields:
            fields["shared"] = self.size(fields["shared"])
        mixture = self.experts(width, **fields)
        return self.sparse_by_step(mixture) if family.sparse == "by_step" else [mixture] * self.layers()

    def experts(
        self,
        width: int,
        *,
        count_keys: Sequence[str] = ROUTED,
        active_keys: Sequence[str] = ("num_experts_per_tok",),
        shared: int | None = None,
        gated: bool = True,
        **others: Any,
    ) -> ExpertFeedForward:
        """Create an MoE block.

        One of ``count_keys`` states the number of experts; other arguments are fields of the block.
        """
        count, active = self.size(*count_keys), self.size(*active_keys)
        if active > count:
            self.stop(f"{active_keys[0]} must be <= {count_keys[0]} ({count}), got {active}")
        groups, reached = self.size_if("n_group"), self.size_if("topk_group")
        if groups in (None, 1) or self.data.get("topk_method") == "greedy":  # no group limits the routing
            groups = reached = None
        elif reached is None:
            self.stop(f"n_group is {groups}, but topk_group is missing")
        elif reached > groups or count % groups or active > reached * count // groups:
            self.stop(
                f"{active} of {count} experts in at most {reached} (topk_group) of {groups} groups (n_group) cannot be"
            )
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

    def sparse_by_step(self, mixture: FeedForward) -> list[FeedForward]:
        """Feed-forward blocks as in Qwen models: every ``decoder_sparse_step``-th layer has experts.

        Layers in ``mlp_only_layers`` have no experts.
        """
        step, layers = self.size_or("decoder_sparse_step", default=1), self.layers()
        only = self.numbers("mlp_only_layers") or []
        if any(index >= layers for index in only):
            self.stop(f"mlp_only_layers names layer {max(only)}, but there are only {layers}, counted from 0")
        sparse = [index not in only and (index + 1) % step == 0 for index in range(layers)]
        if all(sparse):
            self.unused("intermediate_size")
            return [mixture] * layers
        plain = dense(self.size("intermediate_size"))
        return [mixture if is_sparse else plain for is_sparse in sparse]

    def dense_first(self, default_first: int, default_shared: int | None = None) -> list[FeedForward]:
        """Feed-forward blocks as in DeepSeek models: ``first_k_dense_replace`` dense layers, then layers with experts.

        If ``mlp_layer_types`` exists, it states the kind of each layer. The arguments are the defaults of the published
        class; without a default for shared experts, the configuration must state their number.
        """
        layers = self.layers()
        self.only("moe_layer_freq", 1)
        self.only("mlp_bias", False)
        first = self.whole("first_k_dense_replace", default=default_first)
        if first > layers:
            self.stop(f"first_k_dense_replace is {first}, but there are only {layers} layers")
        sparse = self.marks("mlp_layer_types", ("dense", "sparse"), [index >= first for index in range(layers)])
        plain = None if all(sparse) else dense(self.size("intermediate_size"))
        self.unused("intermediate_size")
        width = self.size("moe_intermediate_size")
        shared = ("n_shared_experts", "num_shared_experts")
        count = self.size(*shared) if default_shared is None else self.whole(*shared, default=default_shared)
        active = ("num_experts_per_tok", "num_experts_per_token")
        mixture = self.experts(width, active_keys=active, shared=count * width or None)
        return [mixture if plain is None or is_sparse else plain for is_sparse in sparse]

    def recurrent(
        self, variant: Literal["mamba2", "gated_delta", "kda"], keys: Sequence[str], **others: Any
    ) -> RecurrentMixer:
        """Recurrent mixer with the sizes in the configuration; other arguments are fields of :class:`RecurrentMixer`.

        ``keys`` are configuration keys for the number and width of value heads, the number and width of key heads, and
        the width of the convolution. Alternative keys are separated by spaces.
        """
        names = ("value_heads", "value_head_dim", "key_heads", "key_head_dim", "convolution")
        sizes: dict[str, Any] = {
            name: self.size(*key.split()) for name, key in zip(names, keys, strict=True) if name not in others
        }
        return RecurrentMixer(kind="recurrent", variant=variant, **sizes, **others)

    def mamba2_mixer(
        self,
        keys: Sequence[str],
        biases: tuple[str, str] = ("use_bias", "use_conv_bias"),
        state: str = "",
        **others: Any,
    ) -> RecurrentMixer:
        """Mixer of Mamba-2; see :meth:`recurrent`.

        ``biases`` are the keys that state whether projections and convolution have biases. ``state`` is the key for the
        number format of the state, which has 32 bits by default.
        """
        others["input_bias"] = others["output_bias"] = self.flag(biases[0], default=False)
        others["convolution_bias"] = self.flag(biases[1], default=True)
        if state:
            others["state_dtype"] = self.state_format(state)
        return self.recurrent("mamba2", keys, **others)

    def state_format(self, key: str) -> Dtype:
        """Number format of a recurrent state: 32 bits, unless a key states another format."""
        _, value = self.find(key)
        if value is None:
            return "fp32"
        if not isinstance(value, str) or value not in _STATE_FORMATS:
            self.stop(f"{key} is {value!r}; understood: {', '.join(_STATE_FORMATS)}")
        return _STATE_FORMATS[value]
