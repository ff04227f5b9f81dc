"""Table of families, and the architecture of those whose layers need no code of their own.

``families.toml`` has an entry for each ``model_type``. A function reads only what the fields of :class:`Family` cannot
say; the entry names it, and still has the keys that it need not look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    QkNorm,
    architecture,
    dense,
    dense_first,
    experts,
    grouped_query,
    head_dim,
    heads,
    hidden_size,
    kv_heads,
    qwen_windows,
    sparse_by_step,
    split,
    whole_groups,
    windows,
)
from inference_econ.inputs.huggingface._reader import TABLE, ConfigReader
from inference_econ.inputs.layers import FeedForward
from inference_econ.inputs.layers.attention import GroupedQueryAttention

#: True or false, or the key that says it with the default of the published class.
Flag = bool | Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureFamily:
    """Entry of a family in the table; fields that are left out are those of Llama without biases.

    Attributes
    ----------
    about : str
        Models that it is of, and what is special about them.
    like : str
        Family whose fields it has where it says nothing; keys to skip and values that are understood add up.
    reader : str
        Function that makes its architecture.
    only : mapping
        Values that are understood by key; no other is, but null.
    same : mapping
        Keys that must have the value of another key.
    words : mapping
        Words by key that each entry of a list with one for each layer may be.
    skip, skip_beginning, unused : sequence of str
        Keys that change no shape, beginnings of such, and sizes that nothing is made of.
    assume : mapping
        Defaults of the published class for keys that published files leave out [1].
    inside : mapping
        Mappings under a key, of which nothing but ``only`` and ``skip`` is read.
    qkv_bias, output_bias, mlp_bias, head_bias : bool or mapping
        Biases of queries, keys and values; of the output of attention; of the dense block; of the output embedding.
    kv_heads : int, str or mapping
        Default of the class [1]; ``stated``: there is none; ``queries``: one for each query head; or the key that says
        whether there is a single one.
    head_dim : int or str
        Default of the class [1]; ``split``: no key states another width than that of the model over its heads.
    qk_norm, qk_norm_if : str, bool or mapping
        Norms of queries and keys, and whether there are any.
    sinks, output_gate : bool
        Each head has a sink; the output of attention has a gate.
    window : int or str
        Default of the class [tokens]; ``stated``: none unless stated; ``qwen``: as :func:`qwen_windows`;
        ``null_is_none``: of a period, unless it is null.
    period, period_keys : int and sequence of str
        Layers of which all but the last slide, if no key says another number [1].
    width_key, width_over_hidden : str and int
        Key of the width of the dense block, and its default over the width of the model [1].
    gated, norms, norms_if_parallel, norm_bias, parallel : bool or int
        A gate in the dense block; norms of a layer, and where both blocks run side by side [1]; their biases.
    experts : mapping
        Arguments of :func:`experts`, with the keys of its width and of that of shared experts.
    sparse : str
        ``by_step``: layers with experts are those of :func:`sparse_by_step`.
    dense_first : mapping
        Arguments of :func:`dense_first`, whose mixtures of experts these are.
    tied : bool
        Default of the class.
    mtp : sequence of str
        Keys of the number of multi-token-prediction layers.
    positions, more_positions, max_context : str and int
        Keys of learned positions, how many more there are than it says [1], and of the longest context.
    """

    about: str
    like: str = ""
    reader: str = "plain"
    only: Mapping[str, Sequence[object]] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    skip: Sequence[str] = ()
    skip_beginning: Sequence[str] = ()
    unused: Sequence[str] = ()
    assume: Mapping[str, int] = field(default_factory=dict)
    inside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    kv_heads: int | str | Mapping[str, bool] | None = None
    head_dim: int | str | None = None
    qk_norm: QkNorm = "none"
    qk_norm_if: Flag = True
    sinks: bool = False
    output_gate: bool = False
    window: int | str | None = None
    period: int | None = None
    period_keys: Sequence[str] = ()
    width_key: str = "intermediate_size"
    width_over_hidden: int | None = None
    gated: bool = True
    norms: int = 2
    norms_if_parallel: int | None = None
    norm_bias: bool = False
    parallel: Flag = False
    experts: Mapping[str, Any] | None = None
    sparse: str = ""
    dense_first: Mapping[str, int] | None = None
    tied: bool = False
    mtp: Sequence[str] = ()
    positions: str = ""
    more_positions: int = 0
    max_context: str = ""

    def check(self, c: ConfigReader) -> None:
        """Refuse values that are not understood, and read what changes no shape."""
        c.assume(**self.assume)
        for key, allowed in self.only.items():
            c.only(key, *allowed)
        for key, other in self.same.items():
            c.only(key, c.size(other))
        for key, allowed_words in self.words.items():
            c.words(key, allowed_words, c.layers())
        c.skip(*self.skip, *(key for key in c.data if self.skip_beginning and key.startswith((*self.skip_beginning,))))
        for name, entry in self.inside.items():
            inner = c.inside(name)
            ArchitectureFamily(about="", **entry).check(inner)
            inner.finish()


def _entry(families: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Fields of a family with those of the one that it is like."""
    fields = families[name]
    base = _entry(families, fields["like"]) if "like" in fields else {}
    added = {
        "only": {**base.get("only", {}), **fields.get("only", {})},
        "skip": [*base.get("skip", ()), *fields.get("skip", ())],
    }
    return {**base, **fields, **added}


#: Families by their ``model_type``.
FAMILIES: Mapping[str, ArchitectureFamily] = {
    name: ArchitectureFamily(**_entry(TABLE["family"], name)) for name in TABLE["family"]
}
#: Text part of a configuration of several modalities that does not say it, by the kind of the whole.
TEXT_PART: Mapping[str, str] = TABLE["text_part"]


def plain(c: ConfigReader, family: ArchitectureFamily | None = None) -> Architecture:
    """Architecture that the fields of a family say."""
    family = family or FAMILIES[c.family]
    layers, window = c.layers(), family.window
    if family.period is not None:
        period = c.size_or(*family.period_keys, default=family.period) if family.period_keys else family.period
        slides = window != "null_is_none" or "sliding_window" not in c.data or c.has("sliding_window")
        widths = windows(c, [slides and (index + 1) % period != 0 for index in range(layers)])
    elif window == "qwen":
        widths = qwen_windows(c)
    elif isinstance(window, int) and "sliding_window" not in c.data:
        widths = [c.without("sliding_window", window)] * layers
    else:
        widths = [c.size_if("sliding_window") if window else None] * layers
    made = {width: attention(c, family, width) for width in dict.fromkeys(widths)}

    parts = feed_forwards(c, family)
    parallel = _flag(c, family.parallel)
    norms = family.norms_if_parallel if parallel and family.norms_if_parallel else family.norms
    return architecture(
        c,
        [
            Layer(made[width], part, norms, family.norm_bias, parallel)
            for width, part in zip(widths, parts, strict=True)
        ],
        tied=family.tied,
        mtp_layers=c.whole(*family.mtp) if family.mtp else 0,
        learned_positions=c.size(family.positions) + family.more_positions if family.positions else 0,
        output_bias=_flag(c, family.head_bias),
        max_context=c.size_if(family.max_context) if family.max_context else None,
    )


def attention(c: ConfigReader, family: ArchitectureFamily, window: int | None = None) -> GroupedQueryAttention:
    """Attention of a layer that slides over a window, or sees all tokens."""
    kind = family.kv_heads
    if isinstance(kind, Mapping):
        kv = 1 if _flag(c, kind) else heads(c)
    elif kind == "stated":
        kv = whole_groups(c, heads(c), c.size("num_key_value_heads"))
    else:
        kv = heads(c) if kind == "queries" else kv_heads(c, default=kind)  # type: ignore[arg-type]
    return grouped_query(
        c,
        kv=kv,
        width=split(c) if family.head_dim == "split" else head_dim(c, default=family.head_dim),  # type: ignore[arg-type]
        window=window,
        qkv_bias=_flag(c, family.qkv_bias),
        output_bias=_flag(c, family.output_bias),
        qk_norm=family.qk_norm if _flag(c, family.qk_norm_if) else "none",
        sinks=family.sinks,
        output_gate=family.output_gate,
    )


def feed_forwards(c: ConfigReader, family: ArchitectureFamily) -> list[FeedForward]:
    """Feed-forward block of each layer."""
    if family.dense_first is not None:
        return dense_first(c, **family.dense_first)
    if family.experts is None:
        if family.width_over_hidden is None:
            width = c.size(family.width_key)
        else:
            width = family.width_over_hidden * hidden_size(c)
            width = c.size_or(family.width_key, default=width) if family.width_key else width
        return [dense(width, gated=family.gated, bias=_flag(c, family.mlp_bias))] * c.layers()
    fields = dict(family.experts)
    width = c.size(fields.pop("width"))
    if "shared_if" in fields:
        fields["shared"] = c.whole(fields.pop("shared_if")) or None
    elif "shared" in fields:
        fields["shared"] = c.size(fields["shared"])
    mixture = experts(c, width, **fields)
    return sparse_by_step(c, mixture) if family.sparse == "by_step" else [mixture] * c.layers()


def _flag(c: ConfigReader, flag: Flag) -> bool:
    if isinstance(flag, bool):
        return flag
    ((key, default),) = flag.items()
    return c.flag(key, default=default)
