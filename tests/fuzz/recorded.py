"""Changed recordings: traces of requests, results of load generators, pages of metrics."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz import mutations
from tests.fuzz.data import DEPLOYMENT, FORMS
from tests.fuzz.judged import Case

FIXTURES = Path(__file__).parents[1] / "fixtures"
#: Commands about a trace and about a result; the file follows the arguments.
OF_TRACES = (("traffic",), ("traffic", "-o", "fitted.yaml"), ("load", "llama_3_8b", "h100_sxm", "--tp", "1", "--trace"))
OF_RESULTS = (("validate", *DEPLOYMENT),)
SERVED = ("llama_3_8b", "h100_sxm", "--tp", "1", "--isl", "1000", "--osl", "200")


@cache
def _texts(folder: str) -> dict[str, str]:
    """Return the examples of a folder by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((FIXTURES / folder).iterdir())}


@st.composite
def _changed(draw: st.DrawFn, name: str, text: str) -> str:
    """Draw an example after some changes of its text, or of the data of one of its documents."""
    documents = [text] if name.endswith(".json") else text.splitlines()
    at = draw(st.integers(0, len(documents) - 1))
    try:
        documents[at] = json.dumps(draw(mutations.data(json.loads(documents[at]))))
    except json.JSONDecodeError:
        return draw(mutations.texts(text))
    return draw(mutations.texts(text)) if draw(st.booleans()) else "\n".join(documents) + "\n"


@st.composite
def _file(draw: st.DrawFn, folder: str, questions: tuple[tuple[str, ...], ...]) -> Case:
    texts = {name: text for name, text in _texts(folder).items() if not name.endswith(".prom")}
    name = draw(st.sampled_from(sorted(texts)))
    words, form = draw(st.sampled_from(questions)), draw(st.sampled_from(FORMS))
    files = {name: draw(_changed(name, texts[name]))}
    return Case("recorded", (*words, name, "--format", form), files)


@st.composite
def _scrapes(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from([name for name in sorted(_texts("results")) if name.endswith(".prom")]))
    text = _texts("results")[name]
    changed = {"before.prom": text, "after.prom": draw(mutations.texts(text))}
    metrics = [word for file in changed for word in ("--metrics", file)]
    return Case("recorded", ("watch", *SERVED, *metrics), changed)


def cases() -> st.SearchStrategy[Case]:
    """Draw a changed recording and a command that reads it."""
    return st.one_of(_file("traces", OF_TRACES), _file("results", OF_RESULTS), _scrapes())
