"""Files of the catalogue, changed line by line, asked about."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from inference_econ.inputs import Kind, catalog
from tests.fuzz import mutations
from tests.fuzz.judged import Case

#: Questions about a file of each kind, which is mine.yaml.
QUESTIONS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "hardware": (
        ("explain", "llama_3_8b", "mine.yaml"),
        ("recommend", "llama_3_8b", "mine.yaml", "--max-instance-gpus", "2", "--request-rate", "2"),
        ("hour-cost", "mine.yaml", "--purchase", "30000"),
        ("hardware", "mine.yaml"),
        ("hardware", "mine.yaml", "--prices"),
        ("cache", "llama_3_8b", "mine.yaml"),
    ),
    "models": (
        ("explain", "mine.yaml", "h100_sxm"),
        ("frontier", "mine.yaml", "h200_sxm", "--max-instance-gpus", "2"),
        ("models", "mine.yaml"),
        ("speculate", "llama_3_8b", "h100_sxm", "--draft", "mine.yaml"),
    ),
    "assumptions": (
        ("explain", "mixtral_8x7b", "h200_sxm", "--tp", "2", "--assumptions", "mine.yaml"),
        ("load", "llama_3_8b", "h100_sxm", "--tp", "2", "--assumptions", "mine.yaml"),
        ("assumptions", "mine.yaml"),
    ),
    "engines": (("engines", "mine.yaml"),),
    "traffic": (
        ("traffic", "mine.yaml"),
        ("load", "llama_3_8b", "h100_sxm", "--tp", "1", "--traffic", "mine.yaml"),
        ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", "1", "--traffic", "mine.yaml"),
    ),
    "scenarios": (("scenarios", "mine.yaml"), ("run", "mine.yaml")),
}
#: Scenarios that are answered in a moment; others are shown only.
QUICK = ("examples/opening_question", "paper/table_1", "seeds/mla_notes", "examples/speculation")


@cache
def _texts(kind: Kind) -> dict[str, str]:
    """Every file of a kind by name."""
    return {name: catalog.locate(kind, name).read_text(encoding="utf-8") for name in catalog.names(kind)}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A file of the catalogue after some changes, and a question about it."""
    kind: Kind = draw(st.sampled_from(sorted(QUESTIONS)))
    texts = _texts(kind)
    question = draw(st.sampled_from(QUESTIONS[kind]))
    name = draw(st.sampled_from(QUICK if question[0] == "run" else sorted(texts)))
    form = draw(st.sampled_from(("json", "csv", "table", "markdown")))
    return Case("specifications", (*question, "--format", form), {"mine.yaml": draw(mutations.texts(texts[name]))})
