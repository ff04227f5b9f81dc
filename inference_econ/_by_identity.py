"""Cache for functions, by the identity of their arguments, which must be immutable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
#: Maximum number of cached results per function [1].
_MOST = 64


def by_identity(function: Callable[[*Arguments], T]) -> Callable[[*Arguments], T]:
    """Cache the latest results of a function by the identity of its arguments.

    Unlike :func:`functools.lru_cache`, the cache does not hash the arguments. Specifications with mappings cannot be
    hashed.

    Examples
    --------
    >>> lengths, calls = {"a": 1}, []
    >>> counted = by_identity(lambda given: calls.append(given) or len(given))
    >>> counted(lengths), counted(lengths), len(calls)
    (1, 1, 1)
    """
    known: dict[tuple[int, ...], tuple[tuple[*Arguments], T]] = {}

    def call(*arguments: *Arguments) -> T:
        key = tuple(map(id, arguments))
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            # The arguments are stored too. Otherwise, another object could later have the same identity.
            found = known[key] = (arguments, function(*arguments))
        return found[1]

    return call
