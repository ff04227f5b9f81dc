"""Locations of catalog files, the names of the entries, and the files that a query may read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from glob import glob
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeVar, get_args

from inference_econ.errors import InputError
from inference_econ.inputs import plugins

Kind = Literal["hardware", "models", "scenarios", "assumptions", "engines", "traffic"]
#: Subfolders of ``assumptions``.
Part = Literal[
    "collectives", "elasticity", "generations", "kernels", "learning", "levels", "ownership", "power", "priors",
    "products", "scores", "tiers",
]  # fmt: skip

_PACKAGE = Path(__file__).resolve().parents[1]


class Meaning(NamedTuple):
    """Catalog entry to which a name from a user refers."""

    name: str
    """Catalog name, or the name of another checkpoint that has the sizes of the entry."""
    remark: str = ""
    """Note that states how the user's name was interpreted; empty for exact names."""
    base: str = ""
    """Catalog name of the model, if the user named another checkpoint of this model."""
    weights: str = ""
    """Weight format of the checkpoint; empty if the checkpoint has the format of the catalog entry."""


@cache
def folder(kind: Kind) -> Path:
    """Folder with the files of one kind of catalog entry, in the installed package or in a checkout.

    Raises
    ------
    InputError
        If the folder does not exist.
    """
    below = f"scenarios/{kind}" if kind in ("assumptions", "engines", "traffic") else kind
    installed, checkout = _PACKAGE / "_catalog" / below, _PACKAGE.parent / below
    if installed.is_dir():
        return installed
    if checkout.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return checkout
    raise InputError(f"the folder {below!r} is missing: neither {installed} nor {checkout} (in a checkout) is there")


def user_folder(variable: str, usual: str) -> Path:
    """Folder in which the program stores files of the user.

    Parameters
    ----------
    variable : str
        Variable of the XDG base directory specification; the variable is used if its value is an absolute path.
    usual : str
        Folder in the user's home that is used without the variable.

    Returns
    -------
    Path
        Folder, which may not exist. For a user without a home, the folder is below ``/dev/null``, where no file can
        exist.
    """
    given = Path(os.environ.get(variable, ""))
    try:
        return given if given.is_absolute() else Path.home() / usual
    except RuntimeError:  # neither HOME nor an entry of the user
        return Path(os.devnull) / usual


def is_shipped(path: Path) -> bool:
    """True if a path is below the folders of the catalog. Links are not followed, and no file is read."""
    places = [*(folder(kind) for kind in get_args(Kind)), *(plugin.path for plugin in plugins.folders())]
    return ".." not in path.parts and any(path.is_relative_to(place) for place in places)


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Names of the catalog entries of one kind, including entries of plug-ins, sorted."""
    return tuple(files(kind))


@cache
def files(kind: Kind) -> Mapping[str, Path]:
    """Files of one kind of catalog entry by name, including files of plug-ins, sorted.

    Raises
    ------
    InputError
        If a plug-in reuses the name of an existing entry.
    """
    hidden = {
        "scenarios": ("assumptions/", "engines/", "measured/", "traffic/"),
        "assumptions": tuple(f"{part}/" for part in get_args(Part)),
        "engines": ("launch/", "options/", "recipes/"),
    }.get(kind, ())
    paths = {name: path for name, path in _below(folder(kind)) if not name.startswith(hidden)}
    origins = dict.fromkeys(paths, "inference-econ")
    for plugin in plugins.folders() if kind in plugins.FOLDERS else ():
        for name, path in _below(plugin.path / kind):
            if name in paths:
                raise InputError(
                    f"{path}: {origins[name]} has {kind}/{name}, too; give the file of {plugin.origin} another name, "
                    "or uninstall that plug-in"
                )
            paths[name], origins[name] = path, plugin.origin
    return {name: paths[name] for name in sorted(paths, key=lambda name: (name.count("/"), name))}


def _below(root: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of each YAML file below a folder."""
    below = glob("**/*.yaml", root_dir=root, recursive=True)  # noqa: PTH207 - faster than Path.rglob
    return ((name.removesuffix(".yaml").replace(os.sep, "/"), root / name) for name in below)


@cache
def part_names(part: Part) -> tuple[str, ...]:
    """Names of the files in a subfolder of ``assumptions``, sorted."""
    return tuple(sorted(path.stem for path in (folder("assumptions") / part).glob("*.yaml")))


#: Texts by the file name that they replace, while file access is disabled. None if names may be paths.
_TEXTS: ContextVar[Mapping[str, str] | None] = ContextVar("texts", default=None)
#: Status of each file that was read; None outside :func:`noting_files`.
_READ: ContextVar[list[os.stat_result] | None] = ContextVar("read", default=None)
#: True while catalog entries are returned without copies.
_UNCOPIED: ContextVar[bool] = ContextVar("uncopied", default=False)
_T = TypeVar("_T")


@contextmanager
def _during(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Set a variable in a block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def uncopied() -> AbstractContextManager[None]:
    """Make the catalog return shared entries instead of copies in a block, which must not modify these entries.

    A copy protects an entry that several callers share. Copying takes a third of the run time of a frontier.
    """
    return _during(_UNCOPIED, True)


def is_uncopied() -> bool:
    """True inside :func:`uncopied`."""
    return _UNCOPIED.get()


def names_only(texts: Mapping[str, str]) -> AbstractContextManager[None]:
    """Disable file access in a block, so that names in untrusted requests are never paths.

    Parameters
    ----------
    texts : mapping of str to str
        Texts that replace files, by name: model configurations, results of load generators, saved results.
    """
    return _during(_TEXTS, texts)


def files_allowed() -> bool:
    """True if names may be paths."""
    return _TEXTS.get() is None


def text_of(name: str) -> str | None:
    """Text that replaces the file with a name (:func:`names_only`); None if there is no such text."""
    return (_TEXTS.get() or {}).get(name)


def noting_files() -> AbstractContextManager[None]:
    """Record the files that are read in a block, so that a command does not overwrite its input files."""
    return _during(_READ, [])


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. All files that users name are opened by this function."""
    stream = path.open("rb")
    noted = _READ.get()
    if noted is not None:
        noted.append(os.fstat(stream.fileno()))
    return stream


def is_read(path: Path) -> bool:
    """True if the file at a path was read in a block of :func:`noting_files`."""
    return path.exists() and any(os.path.samestat(path.stat(), status) for status in _READ.get() or ())


#: Maximum size of a file with measurements, log-probabilities or saved results [B].
MOST_BYTES = 100_000_000


def read_text(
    path: Path | str, most_bytes: int = MOST_BYTES, *, encoding: str = "utf-8", rewritten: bool = False
) -> str:
    """Read a text file.

    Parameters
    ----------
    path : path or str
        File to read.
    most_bytes : int
        Maximum size [B].
    encoding : str
        ``utf-8``, or ``utf-8-sig``, which accepts a byte order mark.
    rewritten : bool
        True if the command itself maintains the file, and may therefore overwrite it.

    Raises
    ------
    InputError
        If the file cannot be read, is not a regular file, or is too large.
    UnicodeDecodeError
        If the file is not text; the caller reports the expected format.
    """
    text = text_of(str(path))
    if text is not None:
        return text
    file = Path(path)
    if not (files_allowed() or is_shipped(file)):
        raise InputError(f"{path}: files are not read here; send the text of it")
    try:
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(f"{path}: no regular file; pipes and devices are not read, since they may have no end")
        with file.open("rb") if rewritten else open_file(file) as stream:
            content = stream.read(most_bytes + 1)
        if len(content) > most_bytes:
            size = max(file.stat().st_size, len(content))
            raise InputError(f"{path}: {size / 1e6:.1f} MB is too large; at most {most_bytes / 1e6:.0f} MB is read")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return content.decode(encoding)
