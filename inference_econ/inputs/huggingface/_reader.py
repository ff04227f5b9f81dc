"""Reader of a configuration that records which keys were read, and the table of model families.

``families.toml`` has an entry for each ``model_type``. The fields of :class:`ArchitectureFamily` describe most
families. For other families, the entry names the function that reads the configuration, and the keys that the function
ignores.
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

#: Content of ``families.toml``, including the keys that change no shape in any family.
TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("families.toml").read_text(encoding="utf-8"))
_WITHOUT_SHAPE, _ENDINGS = frozenset(TABLE["without_shape"]), tuple(TABLE["endings_without_shape"])


class ConfigReader:
    """Configuration of one model, with a record of the keys that were read.

    Parameters
    ----------
    data : mapping
        Configuration, or its text part.
    file : str
        File name in messages.
    family : str
        ``model_type`` in messages.
    outer : mapping
        Full configuration if ``data`` is its text part; some keys may be in either configuration.
    """

    def __init__(self, data: Mapping[str, Any], file: str, family: str, outer: Mapping[str, Any] | None = None) -> None:
        self.data, self.file, self.family, self.outer = data, file, family, outer or {}
        self.read: list[str] = []
        self.assumed: dict[str, int | bool | None] = {}
        for key, families in TABLE["never_null"].items():
            if family in families and data.get(key, key) is None:
                self.stop(f"{key} is null; state a value or remove the key")

    def stop(self, problem: str) -> NoReturn:
        """Raise an error that names the file."""
        raise SpecError(f"{self.file}: {problem} (family {self.family})")

    def has(self, key: str) -> bool:
        """True if a key has a value other than null."""
        return self.data.get(key) is not None

    def find(self, *keys: str) -> tuple[str, Any]:
        """Find the first of several alternative keys that has a value; the value is None if no key has one."""
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
        """Value of the first given key that is set, a positive integer; None if no key is set."""
        key, value = self.find(*keys)
        return None if value is None else self._whole(key, value, 1)

    def size(self, *keys: str) -> int:
        """Value of the first given key that is set, a positive integer. If no key is set, an error is raised."""
        value = self.size_if(*keys)
        if value is None:
            stated = next((key for key in keys if key in self.data), None)
            self.stop(f"{stated or keys[0]} is {'null' if stated else 'missing'}; an integer > 0 is needed")
        return value

    def size_or(self, *keys: str, default: int) -> int:
        """Value of the first given key that is set, a positive integer; else ``default``, from the published class."""
        value = self.size_if(*keys)
        return self.without(keys[0], default) if value is None else value

    def whole(self, *keys: str, default: int = 0) -> int:
        """Value of the first given key that is set, an integer >= 0; else ``default``, from the published class."""
        key, value = self.find(*keys)
        if value is None:
            return self.without(keys[0], default) if default else 0
        return self._whole(key, value, 0)

    def flag(self, key: str, *, default: bool) -> bool:
        """Boolean value of a key, or the default if the key is missing.

        Null is rejected, as in the published classes.
        """
        _, value = self.find(key)
        if value is None and key in self.data:
            self.stop(f"{key} is null; true or false is needed")
        if value is None:
            return self.without(key, default)
        if not isinstance(value, bool):
            self.stop(f"{key} must be true or false, got {_short(value)}")
        return value

    def only(self, key: str, *allowed: object) -> None:
        """Reject an unsupported value of a key; the key may be absent or null."""
        _, value = self.find(key)
        if value is not None and not any(
            value is permitted or (value == permitted and type(value) is type(permitted)) for permitted in allowed
        ):
            listed = " or ".join(_short(permitted) for permitted in allowed) or "null"
            self.stop(f"{key} is {_short(value)}; only {listed} is understood")

    def skip(self, *keys: str) -> None:
        """Mark keys as read without using their values, because the keys change no shape in this family."""
        self.read.extend(key for key in keys if key in self.data and key not in self.read)

    def unused(self, *keys: str) -> None:
        """Mark the keys of sizes that this family does not use as read. The values must be integers."""
        for key in keys:
            # Published classes divide by the number of KV heads, even where no parameter depends on it.
            self.size_if(key) if key == "num_key_value_heads" else self.whole(key)

    def without(self, key: str, default: T) -> T:
        """Return the default of the published class for a missing key. The default is recorded for messages.

        If the default is not None, a key with the value null is rejected, as in the published classes.
        """
        if self.data.get(key, default) is None and default is not None:
            self.stop(f"{key} is null; state a value or remove the key")
        if key not in self.data:
            self.assumed[key] = default
        return default

    def assume(self, **defaults: int) -> None:
        """Use the defaults of the published class for missing keys."""
        missing = {key: self.without(key, value) for key, value in defaults.items() if key not in self.data}
        self.data = {**self.data, **missing}

    def left_out(self) -> tuple[str, ...]:
        """Missing sizes with the values that are assumed for them, followed by missing flags."""
        ordered = sorted(self.assumed.items(), key=lambda item: isinstance(item[1], bool))
        return tuple(f"{key} {'none' if value is None else _json(value)}" for key, value in ordered)

    def layers(self) -> int:
        """Number of layers."""
        count = self.size("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        if count > _MAX_LAYERS:
            self.stop(f"num_hidden_layers must be <= {_MAX_LAYERS}, got {count}")
        return count

    def words(self, key: str, allowed: Sequence[str], layers: int) -> list[str] | None:
        """Words of a list that has one supported word per layer; None if the configuration has no such list."""
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
        """One boolean per layer: from words under ``key``, from 0 and 1 under ``numbers_key``, or ``default``."""
        kinds = self.words(key, words, len(default))
        numbers = self.stated_marks(numbers_key, len(default)) if numbers_key and self.has(numbers_key) else default
        return list(numbers) if kinds is None else [kind == words[1] for kind in kinds]

    def stated_marks(self, key: str, layers: int) -> list[bool]:
        """One boolean per layer, from a list of 0 and 1 under a key."""
        numbers = self.numbers(key)
        if numbers is None or len(numbers) != layers or not set(numbers) <= {0, 1}:
            self.stop(f"{key} must have 0 or 1 for each of {layers} layers, got {numbers}")
        return [number == 1 for number in numbers]

    def numbers(self, key: str) -> list[int] | None:
        """List of integers under a key; None if the key is absent."""
        _, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.stop(f"{key} must be a list of integers, got {_short(value)}")
        return [self._whole(key, entry, 0) for entry in value]

    def tied(self, *, default: bool) -> bool:
        """True if input and output embedding are one matrix.

        The text part or the full configuration may contain the key.
        """
        key = "tie_word_embeddings"
        around = ConfigReader(self.outer, self.file, self.family).flag(key, default=default)
        inner = self.flag(key, default=around)
        if self.outer.get(key) is not None:
            self.assumed.pop(key, None)
        if inner != around and self.outer.get(key) is not None:
            self.stop(f"tie_word_embeddings is {_json(around)} at the top and {_json(inner)} in text_config")
        return inner

    def inside(self, key: str) -> Self:
        """Reader for the mapping that is the value of a key."""
        _, value = self.find(key)
        if not isinstance(value, Mapping):
            self.stop(f"{key} must be a JSON object, got {_short(value)}")
        return type(self)(value, self.file, f"{self.family}, {key}")

    def finish(self) -> None:
        """Reject unread keys that may change a shape.

        Raises
        ------
        SpecError
            If the configuration has such keys; the message names all of them.
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
            raise SpecError(*mistakes)

    def unread(self) -> list[str]:
        """Keys that were not read and that may change a shape."""
        return [
            key
            for key, value in self.data.items()
            if value is not None and key not in self.read and not without_shape(key)
        ]

    def _whole(self, key: str, value: object, least: int) -> int:
        sign = "> 0" if least else ">= 0"
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.stop(f"{key} must be an integer {sign}, got {_short(value)}")
        if value > _MAX_SIZE:
            self.stop(f"{key} must be <= {_MAX_SIZE}, got {_short(value)}")
        return value


def without_shape(key: str) -> bool:
    """True if a key changes no shape in any family."""
    return key in _WITHOUT_SHAPE or key.startswith("_") or key.endswith(_ENDINGS)


def _json(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def _short(value: object) -> str:
    text = _json(value)
    return text if len(text) <= 60 else text[:57] + "..."


#: Boolean, or a configuration key with the default of the published class.
Flag = bool | Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureFamily:
    """Entry of the table of model families. The defaults of the fields describe Llama without biases."""

    about: str
    """Models of the family, and their special properties."""
    like: str = ""
    """Family whose values this family has by default.

    Supported values and skipped keys of both families are combined.
    """
    reader: str = "plain"
    """Name of the function that reads the architecture."""
    only: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Supported values by key; null is always supported."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Keys that must have the value of another key."""
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Supported words by key, for lists with one word per layer."""
    skip: Sequence[str] = ()
    """Keys that change no shape in this family."""
    skip_beginning: Sequence[str] = ()
    """Prefixes of keys that change no shape in this family."""
    unused: Sequence[str] = ()
    """Keys of sizes that the family does not use."""
    assume: Mapping[str, int] = field(default_factory=dict)
    """Defaults of the published class for keys that published files may omit [1]."""
    inside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Rules for mappings inside the configuration, by key.

    In these rules, the only valid fields are ``only`` and ``skip``.
    """
    qkv_bias: Flag = False
    """True if queries, keys and values have biases."""
    output_bias: Flag = False
    """True if the output of attention has a bias."""
    mlp_bias: Flag = False
    """True if the dense block has biases."""
    head_bias: Flag = False
    """True if the output embedding has a bias."""
    kv_heads: int | str | Mapping[str, bool] | None = None
    """Number of key-value heads that the published class has by default [1].

    ``stated``: no default. ``queries``: one head for each query head. A mapping names the key that selects a single
    head.
    """
    head_dim: int | str | None = None
    """Width of a head in the published class by default [1]; ``split`` for the model width divided by the heads."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Kind of norms of queries and keys. The norms exist if ``qk_norm_if`` is true."""
    qk_norm_if: Flag = True
    """True if queries and keys have norms."""
    sinks: bool = False
    """True if each head has a sink."""
    output_gate: bool = False
    """True if the output of attention has a gate."""
    window: int | str | None = None
    """Window that the published class has by default [tokens].

    ``stated``: no default. ``qwen``: see :meth:`LayerReader.qwen_windows`. ``null_is_none``: windows follow a periodic
    pattern, and a null key means no windows.
    """
    period: int | None = None
    """Number of layers in a period of the pattern of windows by default [1].

    All layers of a period except the last layer have a window.
    """
    period_keys: Sequence[str] = ()
    """Keys for the length of the period."""
    width_key: str = "intermediate_size"
    """Key for the width of the dense feed-forward block."""
    width_over_hidden: int | None = None
    """Width of the dense feed-forward block by default, divided by the width of the model [1]."""
    gated: bool = True
    """True if the dense block has a gate."""
    norms: int = 2
    """Number of norms in a layer [1]."""
    norms_if_parallel: int | None = None
    """Number of norms in a layer whose attention and feed-forward block run in parallel [1]."""
    norm_bias: bool = False
    """True if norms have biases."""
    parallel: Flag = False
    """True if attention and feed-forward of a layer run in parallel."""
    experts: Mapping[str, Any] | None = None
    """Arguments of :meth:`LayerReader.experts`, and the keys for the widths of routed and shared experts."""
    sparse: str = ""
    """``by_step`` if only some layers have experts, as in Qwen models."""
    dense_first: Mapping[str, int] | None = None
    """Defaults of the published class, for models whose first layers are dense, as in DeepSeek models."""
    tied: bool = False
    """True if input and output embedding are one matrix by default."""
    mtp: Sequence[str] = ()
    """Keys for the number of multi-token-prediction layers."""
    positions: str = ""
    """Key for the number of learned positions."""
    more_positions: int = 0
    """Number of learned positions in addition to the value of the key that ``positions`` names [1]."""
    max_context: str = ""
    """Key for the longest context."""

    def check(self, c: ConfigReader) -> None:
        """Reject unsupported values, and mark keys that change no shape as read."""
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
    """Fields of an entry, combined with the fields of the family that ``like`` names."""
    fields = families[name]
    base = _entry(families, fields["like"]) if "like" in fields else {}
    added = {
        "only": {**base.get("only", {}), **fields.get("only", {})},
        "skip": [*base.get("skip", ()), *fields.get("skip", ())],
    }
    return {**base, **fields, **added}


#: Model families by their ``model_type``.
FAMILIES: Mapping[str, ArchitectureFamily] = {
    name: ArchitectureFamily(**_entry(TABLE["family"], name)) for name in TABLE["family"]
}
#: ``model_type`` of the text part of multimodal configurations that do not state it, by their own ``model_type``.
TEXT_PART: Mapping[str, str] = TABLE["text_part"]
