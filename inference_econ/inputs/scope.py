"""What names may mean while somebody else asks: entries of the catalogue and texts that came along, never files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

#: Texts that came along, by name, where files are out of reach; None where names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)


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
