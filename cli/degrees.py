"""Degrees of one instance: as options are typed, and for the fewest GPUs that hold a model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TypeVar

from inference_econ import inputs
from inference_econ.errors import NothingFitsError

from .decorators import Choices

Answer = TypeVar("Answer")


def fewest(choices: Choices, answer: Callable[[Choices], Answer]) -> Answer:
    """The answer for the fewest GPUs that hold the model, where no degree is given; for one GPU and those otherwise.

    Raises
    ------
    NothingFitsError
        If none of the instances that are tried holds it: of 1, 2, 4, .. GPUs of a link domain. That of a single one.
    """
    if any(choices[name] not in (None, 1) for name in ("tp", "pp", "dp", "ep")) or choices["tp"] is not None:
        return answer({**choices, "tp": choices["tp"] or 1})
    domain = inputs.catalog.hardware(choices["hardware"]).link_domain or 1
    sizes = list(takewhile(lambda size: size <= domain, (2**power for power in range(10))))
    first: NothingFitsError | None = None
    for size in sizes:
        try:
            return answer({**choices, "tp": size})
        except NothingFitsError as error:
            first = first or error
    assert first is not None
    raise first


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"
