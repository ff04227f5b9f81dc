"""One configuration, read key by key so that a key nobody read can be refused, and the table of families.

``families.toml`` has an entry for each ``model_type``. A function reads only what the fields of
:class:`ArchitectureFamily` cannot say; the entry names it, and still has the keys that it need not look at.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar

from inference_econ.errors import SpecError

T = TypeVar("T", bound=int | None)
_MAX_SIZE = 1_000_000_000
_MAX_LAYERS = 10_000

#: Table of families, which has the keys that change no shape in any of them, too.
TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("families.toml").read_text(encoding="utf-8"))
_WITHOUT_SHAPE, _ENDINGS = frozenset(TABLE["without_shape"]), tuple(TABLE["endings_without_shape"])


class ConfigReader:
    """The keys of one configuration, and which of them have been read.

    Parameters
    ----------
    data : mapping
        The configuration, or its text part.
    file : str
        What to call the file in messages.
    family : str
        Its model_type, for messages.
    outer : mapping
        What stands around the text part, for the keys that may be at either level.
    """

    def __init__(self, data: Mapping[str, Any], file: str, family: str, outer: Mapping[str, Any] | None = None) -> None:
        self.data, self.file, self.family, self.outer = data, file, family, outer or {}
        self.read: list[str] = []
        self.assumed: dict[str, int | bool | None] = {}

    def stop(self, problem: str) -> NoReturn:
        """Refuse the file."""
        raise SpecError([f"{self.file}: {problem} (family {self.family})"])

    def has(self, key: str) -> bool:
        """Whether a key is given and not null."""
        return self.data.get(key) is not None

    def find(self, *keys: str) -> tuple[str, Any]:
        """The value under whichever of several names of one thing is given; None if none is."""
        stated = [key for key in keys if self.data.get(key) is not None]
        self.read.extend(key for key in keys if key in self.data and key not in self.read)
        if not stated:
            return keys[0], None
        first = stated[0]
        for other in stated[1:]:
            if self.data[other] != self.data[first]:
                self.stop(f"{first} is {self.data[first]!r} but {other} is {self.data[other]!r}; they mean the same")
        return first, self.data[first]

    def size_if(self, *keys: str) -> int | None:
        """A whole number above zero, or None if absent or null."""
        key, value = self.find(*keys)
        return None if value is None else self._whole(key, value, 1)

    def size(self, *keys: str) -> int:
        """A whole number above zero."""
        value = self.size_if(*keys)
        if value is None:
            stated = next((key for key in keys if key in self.data), None)
            self.stop(f"{stated or keys[0]} is {'null' if stated else 'missing'}; a whole number > 0 is needed")
        return value

    def size_or(self, *keys: str, default: int) -> int:
        """A whole number above zero; the published class has a default."""
        value = self.size_if(*keys)
        return self.without(keys[0], default) if value is None else value

    def whole(self, *keys: str, default: int = 0) -> int:
        """A whole number that may be zero; a default that is not zero is that of the published class."""
        key, value = self.find(*keys)
        if value is None:
            return self.without(keys[0], default) if default else 0
        return self._whole(key, value, 0)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false; null, which the published classes take for false, is no way to leave out what is true."""
        _, value = self.find(key)
        if value is None and default and key in self.data:
            self.stop(f"{key} is null; true or false is needed")
        if value is None:
            return self.without(key, default)
        if not isinstance(value, bool):
            self.stop(f"{key} must be true or false, got {_short(value)}")
        return value

    def only(self, key: str, *allowed: object) -> None:
        """Refuse a key whose value is not one of those whose meaning is certain; absent and null are fine."""
        _, value = self.find(key)
        if value is not None and not any(
            value is permitted or (value == permitted and type(value) is type(permitted)) for permitted in allowed
        ):
            listed = " or ".join(_short(permitted) for permitted in allowed) or "null"
            self.stop(f"{key} is {_short(value)}; only {listed} is understood")

    def skip(self, *keys: str) -> None:
        """Keys that are known not to change any shape in this family."""
        self.read.extend(key for key in keys if key in self.data and key not in self.read)

    def unused(self, *keys: str) -> None:
        """Sizes that this family does not use, or uses none of here; they must be whole numbers all the same."""
        for key in keys:
            self.whole(key)

    def without(self, key: str, default: T) -> T:
        """The default of the published class for a key that a file leaves out; None where it has no such part."""
        if key not in self.data:
            self.assumed[key] = default
        return default

    def assume(self, **defaults: int) -> None:
        """Defaults of the published class for keys that its files may leave out."""
        missing = {key: self.without(key, value) for key, value in defaults.items() if key not in self.data}
        self.data = {**self.data, **missing}

    def left_out(self) -> tuple[str, ...]:
        """Sizes that the file leaves out, with what is counted for them, then flags."""
        ordered = sorted(self.assumed.items(), key=lambda item: isinstance(item[1], bool))
        return tuple(f"{key} {'none' if value is None else _json(value)}" for key, value in ordered)

    def layers(self) -> int:
        """Number of layers."""
        count = self.size("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        if count > _MAX_LAYERS:
            self.stop(f"num_hidden_layers must be <= {_MAX_LAYERS}, got {count}")
        return count

    def words(self, key: str, allowed: Sequence[str], layers: int) -> list[str] | None:
        """One word per layer out of those that are understood; None if absent."""
        _, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.stop(f"{key} must be a list with one entry per layer, got {_short(value)}")
        if len(value) != layers:
            self.stop(f"{key} has {len(value)} entries for {layers} layers")
        for entry in value:
            if entry not in allowed:
                self.stop(f"{key} has the entry {_short(entry)}; understood: {', '.join(allowed)}")
        return list(value)

    def marks(self, key: str, words: tuple[str, str], default: Sequence[bool], numbers_key: str = "") -> list[bool]:
        """One mark per layer: the second of two words, or else 1 of 0 and 1 under another key, or else the default."""
        kinds = self.words(key, words, len(default))
        numbers = self.stated_marks(numbers_key, len(default)) if numbers_key and self.has(numbers_key) else default
        return list(numbers) if kinds is None else [kind == words[1] for kind in kinds]

    def stated_marks(self, key: str, layers: int) -> list[bool]:
        """One mark per layer, of a list of 0 and 1."""
        numbers = self.numbers(key)
        if numbers is None or len(numbers) != layers or not set(numbers) <= {0, 1}:
            self.stop(f"{key} must have 0 or 1 for each of {layers} layers, got {numbers}")
        return [number == 1 for number in numbers]

    def numbers(self, key: str) -> list[int] | None:
        """A list of whole numbers; None if absent."""
        _, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.stop(f"{key} must be a list of whole numbers, got {_short(value)}")
        return [self._whole(key, entry, 0) for entry in value]

    def tied(self, *, default: bool) -> bool:
        """Whether one matrix serves as both embeddings; the key may stand at either level."""
        key = "tie_word_embeddings"
        around = ConfigReader(self.outer, self.file, self.family).flag(key, default=default)
        inner = self.flag(key, default=around)
        if self.outer.get(key) is not None:
            self.assumed.pop(key, None)
        if inner != around and self.outer.get(key) is not None:
            self.stop(f"tie_word_embeddings is {_json(around)} at the top and {_json(inner)} in text_config")
        return inner

    def inside(self, key: str) -> Self:
        """The reader of a mapping that stands under a key."""
        _, value = self.find(key)
        if not isinstance(value, Mapping):
            self.stop(f"{key} must be a JSON object, got {_short(value)}")
        return type(self)(value, self.file, f"{self.family}, {key}")

    def finish(self) -> None:
        """Refuse keys that nobody read, unless they are known to change no shape.

        Raises
        ------
        SpecError
            Naming each of them.
        """
        mistakes = []
        for key in self.unread():
            near = difflib.get_close_matches(key, [*self.read, *_WITHOUT_SHAPE], n=1, cutoff=0.8)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            mistakes.append(
                f"{self.file}: unknown key {key!r} = {_short(self.data[key])} in a configuration of the family "
                f"{self.family}: it might change the architecture, so nothing is counted{hint}"
            )
        if mistakes:
            raise SpecError(mistakes)

    def unread(self) -> list[str]:
        """Keys that nobody read and that are not known to change no shape."""
        return [
            key
            for key, value in self.data.items()
            if value is not None and key not in self.read and not without_shape(key)
        ]

    def _whole(self, key: str, value: object, least: int) -> int:
        sign = "> 0" if least else ">= 0"
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.stop(f"{key} must be a whole number {sign}, got {_short(value)}")
        if value > _MAX_SIZE:
            self.stop(f"{key} must be <= {_MAX_SIZE}, got {_short(value)}")
        return value


def without_shape(key: str) -> bool:
    """Whether a key changes no shape in any family."""
    return key in _WITHOUT_SHAPE or key.startswith("_") or key.endswith(_ENDINGS)


def _json(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def _short(value: object) -> str:
    text = _json(value)
    return text if len(text) <= 60 else text[:57] + "..."


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
