"""Least-recently-used caches of replies and uploaded texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from inference_econ.extras.web.questions import Fields, RefusedError

T = TypeVar("T")
#: Prefix of the names of uploaded texts.
OWN = "own/"
#: Length of a text's digest [hexadecimal digits].
_DIGITS = 16
_NAME = re.compile(rf"{OWN}[0-9a-f]{{{_DIGITS}}}\.(?:json|csv)")


class Recent(Generic[T]):
    """Cache by key, with least-recently-used eviction.

    Parameters
    ----------
    most_bytes : int
        Capacity [B].
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, key: str) -> T | None:
        """Look up an entry; None if missing."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """Insert an entry of a size [B], unless it exceeds the capacity."""
        if key in self._entries or size > self._most:
            return
        self._entries[key] = value, size
        self._bytes += size
        while self._bytes > self._most:
            _, (_, gone) = self._entries.popitem(last=False)
            self._bytes -= gone


class Texts:
    """Uploaded texts, named by their content; never files.

    Parameters
    ----------
    most_bytes : int
        Capacity [B].
    """

    def __init__(self, most_bytes: int) -> None:
        self._texts: Recent[str] = Recent(most_bytes)

    def keep(self, content: bytes) -> str:
        """Store a text and return its name. The extension of the name depends on the kind of file.

        Raises
        ------
        RefusedError
            If it is not UTF-8.
        """
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RefusedError(f"not a text in UTF-8 ({error.reason})") from error
        ending = "json" if text.lstrip().startswith(("{", "[")) else "csv"
        name = f"{OWN}{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{ending}"
        self._texts.put(name, text, len(content) + 1)
        return name

    def named(self, fields: Fields) -> Mapping[str, str]:
        """Uploaded texts that options name.

        Raises
        ------
        RefusedError
            If a text was evicted.
        """
        texts = {}
        for field, name in _own_names(fields):
            text = self._texts.get(name)
            if text is None:
                raise RefusedError(f"{name[:60]}: this text is not kept any more; send it again", field)
            texts[name] = text
        return texts


def _own_names(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Options with names of uploaded texts, also within the settings of series."""
    for field, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            for name in _NAME.findall(item) if isinstance(item, str) else ():
                yield field, name


def key(*parts: object) -> str:
    """Cache key of a reply, independent of the order of options."""
    return json.dumps(parts, sort_keys=True)
