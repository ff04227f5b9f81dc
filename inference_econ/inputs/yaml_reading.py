"""YAML that other programs wrote, whose rules are not those of our own files (:mod:`inference_econ.inputs._yaml`)."""

from __future__ import annotations

import yaml

from inference_econ.errors import InputError


def foreign_yaml(text: str, origin: str) -> object:
    """The data of a YAML text; infinity is a number here.

    Raises
    ------
    InputError
        If it is not YAML; with the line.
    """
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise InputError(f"{origin}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
