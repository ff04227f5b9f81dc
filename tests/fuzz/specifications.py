"""Catalog files, changed line by line, and commands that use them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from inference_econ.inputs import Kind, catalog
from tests.fuzz import mutations
from tests.fuzz.judged import Case
from tests.reading import tables

#: Questions about a file of each kind, which is mine.yaml.
QUESTIONS: dict[Kind, list[list[str]]] = tables(Path(__file__))["QUESTIONS"]
#: Scenarios that are answered in a moment; others are shown only.
QUICK = ("examples/opening_question", "paper/table_1", "seeds/mla_notes", "examples/speculation")


@cache
def _texts(kind: Kind) -> dict[str, str]:
    """Return every file of a kind by name."""
    return {name: catalog.locate(kind, name).read_text(encoding="utf-8") for name in catalog.names(kind)}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a changed catalog file and a command that uses it."""
    kind: Kind = draw(st.sampled_from(sorted(QUESTIONS)))
    texts = _texts(kind)
    question = draw(st.sampled_from(QUESTIONS[kind]))
    name = draw(st.sampled_from(QUICK if question[0] == "run" else sorted(texts)))
    form = draw(st.sampled_from(("json", "csv", "table", "markdown")))
    return Case("specifications", (*question, "--format", form), {"mine.yaml": draw(mutations.texts(texts[name]))})
