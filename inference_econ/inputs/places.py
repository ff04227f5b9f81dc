"""Where the files of the catalogue are, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from inference_econ.errors import InputError
from inference_econ.inputs import plugins

Kind = Literal["hardware", "models", "scenarios", "assumptions", "engines", "traffic"]
#: Folders inside of ``assumptions`` whose files are parts of assumptions.
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
    """The entry of the catalogue that a text stands for."""

    name: str
    """Name in the catalogue; of another checkpoint of the sizes of an entry its own."""
    remark: str = ""
    """Meaning that it was taken for, where that is not plain; empty otherwise."""
    base: str = ""
    """Name in the catalogue of the model that a checkpoint is of."""
    weights: str = ""
    """The format that a checkpoint has its weights in; empty where it is that of the entry."""


@cache
def folder(kind: Kind) -> Path:
    """The folder that holds the files of one kind: in the installed package, or in a checkout.

    Raises
    ------
    InputError
        If neither has it.
    """
    below = f"scenarios/{kind}" if kind in ("assumptions", "engines", "traffic") else kind
    installed, checkout = _PACKAGE / "_catalog" / below, _PACKAGE.parent / below
    if installed.is_dir():
        return installed
    if checkout.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return checkout
    raise InputError(f"the folder {below!r} is missing: neither {installed} nor {checkout} (in a checkout) is there")


def is_shipped(path: Path) -> bool:
    """Whether a path is inside of the catalogue, as it is written: no link is followed and no file is looked at."""
    places = [*(folder(kind) for kind in get_args(Kind)), *(plugin.path for plugin in plugins.folders())]
    return ".." not in path.parts and any(path.is_relative_to(place) for place in places)


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Every name of one kind that comes with the package or a plug-in, sorted."""
    return tuple(files(kind))


@cache
def files(kind: Kind) -> Mapping[str, Path]:
    """The file behind every name of one kind, sorted by name.

    Raises
    ------
    InputError
        If a plug-in has a name that there is already.
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
    """The files of a folder by their names."""
    return ((path.relative_to(root).with_suffix("").as_posix(), path) for path in root.rglob("*.yaml"))


@cache
def part_names(part: Part) -> tuple[str, ...]:
    """Every file of a folder inside of ``assumptions`` that assumptions, or commands, can name, sorted."""
    return tuple(sorted(path.stem for path in (folder("assumptions") / part).glob("*.yaml")))
