"""Table of families: ``families.toml`` has an entry for each ``model_type``.

A function reads only what the fields of :class:`ArchitectureFamily` cannot say; the entry names it, and still has the
keys that it need not look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inference_econ.inputs.huggingface._reader import TABLE, ConfigReader

#: True or false, or the key that says it with the default of the published class.
Flag = bool | Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureFamily:
    """Entry of a family in the table; fields that are left out are those of Llama without biases."""

    about: str
    """Models that it is of, and what is special about them."""
    like: str = ""
    """Family whose fields it has where it says nothing; keys to skip and values that are understood add up."""
    reader: str = "plain"
    """Function that makes its architecture."""
    only: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Values that are understood by key; no other is, but null."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Keys that must have the value of another key."""
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words by key that each entry of a list with one for each layer may be."""
    skip: Sequence[str] = ()
    """Keys that change no shape."""
    skip_beginning: Sequence[str] = ()
    """Beginnings of keys that change no shape."""
    unused: Sequence[str] = ()
    """Sizes that nothing is made of."""
    assume: Mapping[str, int] = field(default_factory=dict)
    """Defaults of the published class for keys that published files leave out [1]."""
    inside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Mappings under a key, of which nothing but ``only`` and ``skip`` is read."""
    qkv_bias: Flag = False
    """Queries, keys and values have biases."""
    output_bias: Flag = False
    """The output of attention has a bias."""
    mlp_bias: Flag = False
    """The dense block has biases."""
    head_bias: Flag = False
    """The output embedding has a bias."""
    kv_heads: int | str | Mapping[str, bool] | None = None
    """Default of the class [1]; ``stated``: there is none; ``queries``: one for each query head; or the key that says
    whether there is a single one."""
    head_dim: int | str | None = None
    """Default of the class [1]; ``split``: no key states another width than that of the model over its heads."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Norms of queries and keys."""
    qk_norm_if: Flag = True
    """There are norms of queries and keys."""
    sinks: bool = False
    """Each head has a sink."""
    output_gate: bool = False
    """The output of attention has a gate."""
    window: int | str | None = None
    """Default of the class [tokens]; ``stated``: none unless stated; ``qwen``: see :meth:`LayerReader.qwen_windows`;
    ``null_is_none``: of a period, unless it is null."""
    period: int | None = None
    """Layers of which all but the last slide, if no key says another number [1]."""
    period_keys: Sequence[str] = ()
    """Keys of that number."""
    width_key: str = "intermediate_size"
    """Key of the width of the dense block."""
    width_over_hidden: int | None = None
    """Default of that width over the width of the model [1]."""
    gated: bool = True
    """The dense block has a gate."""
    norms: int = 2
    """Norms of a layer [1]."""
    norms_if_parallel: int | None = None
    """Norms of a layer whose blocks run side by side [1]."""
    norm_bias: bool = False
    """Norms have biases."""
    parallel: Flag = False
    """Both blocks of a layer run side by side."""
    experts: Mapping[str, Any] | None = None
    """Arguments of :meth:`LayerReader.experts`, with the keys of its width and of that of shared experts."""
    sparse: str = ""
    """``by_step``: only some layers have experts (Qwen)."""
    dense_first: Mapping[str, int] | None = None
    """Defaults of a mixture of experts behind dense layers (DeepSeek)."""
    tied: bool = False
    """Default of the class: one matrix serves as both embeddings."""
    mtp: Sequence[str] = ()
    """Keys of the number of multi-token-prediction layers."""
    positions: str = ""
    """Key of learned positions."""
    more_positions: int = 0
    """Positions beyond what that key says [1]."""
    max_context: str = ""
    """Key of the longest context."""

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
