"""What names may mean while somebody else asks: entries of the catalogue and texts that came along, never files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

#: Texts of models' configurations by name, where files are out of reach; None where names may be paths.
_MODELS: ContextVar[Mapping[str, str] | None] = ContextVar("models", default=None)


@contextmanager
def names_only(models: Mapping[str, str]) -> Iterator[None]:
    """Have no name mean a file: requests of others say what they like.

    Parameters
    ----------
    models : mapping of str to str
        Texts of published ``config.json`` files, by the names that models go by beside those of the catalogue.
    """
    token = _MODELS.set(models)
    try:
        yield
    finally:
        _MODELS.reset(token)


def files_allowed() -> bool:
    """Whether names may be paths."""
    return _MODELS.get() is None


def configuration(name: str) -> str | None:
    """The text of a configuration that came along; None of all other names."""
    return (_MODELS.get() or {}).get(name)
