"""Meaning of names inside of a block: no files while somebody else asks, and entries that nobody copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

#: Texts that came along, by name, where files are out of reach; None where names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)
#: Whether entries of the catalogue are handed out as they are.
_UNCOPIED: ContextVar[bool] = ContextVar("uncopied", default=False)


@contextmanager
def uncopied() -> Iterator[None]:
    """Have entries of the catalogue handed out as they are, for a block that changes none of what it reads.

    Copies keep what somebody changes inside of an entry from others, and take a third of the time of a frontier.
    """
    token = _UNCOPIED.set(True)
    try:
        yield
    finally:
        _UNCOPIED.reset(token)


def is_uncopied() -> bool:
    """Whether entries of the catalogue are handed out as they are."""
    return _UNCOPIED.get()


@contextmanager
def names_only(texts: Mapping[str, str]) -> Iterator[None]:
    """Have no name mean a file: requests of others say what they like.

    Parameters
    ----------
    texts : mapping of str to str
        Texts that take the place of files: configurations of models, results of load generators, saved answers.
    """
    token = _TEXTS.set(texts)
    try:
        yield
    finally:
        _TEXTS.reset(token)


def files_allowed() -> bool:
    """Whether names may be paths."""
    return _TEXTS.get() is None


def text_of(name: str) -> str | None:
    """A text that came along; None of all other names."""
    return (_TEXTS.get() or {}).get(name)
