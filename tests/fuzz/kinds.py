"""All generators of inputs, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.fuzz import configurations, data, options, recorded, specifications
from tests.fuzz.judged import Case

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

KINDS: Mapping[str, Callable[[], SearchStrategy[Case]]] = {
    "options": options.cases,
    "specifications": specifications.cases,
    "configurations": configurations.cases,
    "data": data.cases,
    "recorded": recorded.cases,
}
