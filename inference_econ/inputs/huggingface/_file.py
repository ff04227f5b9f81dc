"""Read the files of a published model: small, strict JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs.text_file import read_text

CONFIG_NAME = "config.json"
QUANTISATION_NAME = "hf_quant_config.json"
_MAX_BYTES = 4_000_000


def find_config(path: Path) -> Path:
    """The configuration that a path means: a JSON file, or the one inside a folder.

    Raises
    ------
    InputError
        If there is none.
    """
    try:
        if path.is_dir():
            if not (path / CONFIG_NAME).is_file():
                raise InputError(f"{path}: a folder without a {CONFIG_NAME}")
            return path / CONFIG_NAME
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return path


def quantisation_beside(config: Path) -> Path | None:
    """The ``hf_quant_config.json`` that belongs to a configuration, if there is one.

    A file named ``ORGANISATION--NAME_config.json`` has it as ``ORGANISATION--NAME_hf_quant_config.json``.
    """
    prefix = config.name.removesuffix(CONFIG_NAME)
    if not config.name.endswith(CONFIG_NAME):
        return None
    beside = config.with_name(prefix + QUANTISATION_NAME)
    return beside if beside.is_file() else None


def read_json(path: Path, most_bytes: int = _MAX_BYTES) -> dict[str, Any]:
    """Read one JSON object.

    Raises
    ------
    InputError
        If the file cannot be read or is larger than ``most_bytes`` [B].
    SpecError
        If it is no JSON object, repeats a key, or nests too deep.
    """
    try:
        text = read_text(path, most_bytes)
    except UnicodeDecodeError as error:
        raise SpecError([f"{path}:1: not a text file in UTF-8 ({error.reason})"]) from error
    return parsed_json(text, path)


def parsed_json(text: str, path: Path) -> dict[str, Any]:
    """The JSON object that a text is; ``path`` is what to call it in messages.

    Raises
    ------
    SpecError
        If it is none, repeats a key, or nests too deep.
    """

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        if repeated:
            raise SpecError([f"{path}: {key!r} is given twice; keep one" for key in repeated])
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise SpecError([f"{path}:{error.lineno}: not valid JSON: {error.msg}"]) from error
    except RecursionError as error:
        raise SpecError([f"{path}:1: nested too deep for a configuration"]) from error
    except ValueError as error:  # a number with thousands of digits
        raise SpecError([f"{path}:1: not valid JSON: {str(error).partition(';')[0]}"]) from error
    if not isinstance(data, dict):
        raise SpecError([f"{path}:1: a JSON object is needed, found {type(data).__name__}"])
    return data


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
        # Commits that the main revision was at when it was downloaded.
        references = [folder / "refs" / "main" for folder in models]
        commits = {path.read_text(encoding="utf-8").strip() for path in references if path.is_file()}
        newest_last = sorted(configs, key=lambda path: (path.parent.name in commits, path.stat().st_mtime))
    except OSError:  # no cache, or not ours to read
        return None
    return newest_last[-1] if newest_last else None
