"""Models that have been downloaded before: the cache of the Hugging Face hub on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from inference_econ.inputs.huggingface._file import CONFIG_NAME

#: The hub's names have at most 96 characters.
_IDENTITY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")


def is_identity(text: str) -> bool:
    """Whether a text has the form ``ORGANISATION/NAME``.

    Examples
    --------
    >>> is_identity("Qwen/Qwen3-32B"), is_identity("./config.json"), is_identity("a/b/config.json")
    (True, False, False)
    """
    return _IDENTITY.fullmatch(text) is not None


def cached_config(identity: str, cache: Path) -> Path | None:
    """The configuration of a model in the cache, of the revision ``main`` if that is there; None if it is not.

    Parameters
    ----------
    identity : str
        ``ORGANISATION/NAME``, in any case.
    cache : Path
        The folder of the cache, which holds ``models--ORGANISATION--NAME/snapshots/COMMIT/config.json``
        (documentation of the hub, "Hub Local Cache").
    """
    wanted = f"models--{identity.replace('/', '--')}".lower()
    try:
        models = [folder for folder in sorted(cache.iterdir()) if folder.name.lower() == wanted]
        configs = [path for folder in models for path in folder.glob(f"snapshots/*/{CONFIG_NAME}")]
        commits = {_main(folder) for folder in models}
        newest_last = sorted(configs, key=lambda path: (path.parent.name in commits, path.stat().st_mtime))
    except OSError:  # no cache, or not ours to read
        return None
    return newest_last[-1] if newest_last else None


def _main(folder: Path) -> str:
    """The commit that a model's main revision was at when it was downloaded; empty if unknown."""
    reference = folder / "refs" / "main"
    return reference.read_text(encoding="utf-8").strip() if reference.is_file() else ""
