"""Which page shows which answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inference_econ.answers.explain import Explanation
from inference_econ.report.explain import ExplanationPage
from inference_econ.report.page import Page

_PAGES: Mapping[type, Callable[[Any], Page]] = {
    Explanation: ExplanationPage,
}


def page(answer: object) -> Page:
    """The page of an answer, with what its command shows when nothing else is wanted."""
    return _PAGES[type(answer)](answer)
