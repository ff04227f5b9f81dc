"""Locations of catalog files, and the names of the entries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from inference_econ.errors import InputError
from inference_econ.inputs import plugins

Kind = Literal["hardware", "models", "scenarios", "assumptions", "engines", "traffic"]
#: Subfolders of ``assumptions``.
Part = Literal[
    "collectives",
    "elasticity",
    "generations",
    "kernels",
    "learning",
    "levels",
    "ownership",
    "power",
    "priors",
    "products",
    "scores",
    "tiers",
]

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
    return ((path.relative_to(root).with_suffix("").as_posix(), path) for path in root.rglob("*.yaml"))


@cache
def part_names(part: Part) -> tuple[str, ...]:
    """Names of the files in a subfolder of ``assumptions``, sorted."""
    return tuple(sorted(path.stem for path in (folder("assumptions") / part).glob("*.yaml")))
