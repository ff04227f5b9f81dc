"""One configuration, read key by key, so that a key nobody read can be refused."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from inference_econ.errors import SpecError

T = TypeVar("T", bound=int | None)
_MAX_SIZE = 1_000_000_000
_MAX_LAYERS = 10_000

#: Table of families (``_families.py``), which has the keys that change no shape in any of them, too.
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
