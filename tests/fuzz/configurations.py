"""Published configurations of every family, changed key by key."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from data.published_counts import FOLDER, configurations
from tests.fuzz import mutations
from tests.fuzz.judged import Case

#: Questions about a configuration.
QUESTIONS = (
    ("import-model", "config.json"),
    ("import-model", "."),
    ("import-model", "config.json", "-o", "mine.yaml"),
    ("explain", "config.json", "h200_sxm"),
)


@cache
def by_family() -> dict[str, list[Any]]:
    """Return configurations by their ``model_type``."""
    known: dict[str, list[Any]] = {}
    for _, config in configurations():
        known.setdefault(config["model_type"], []).append(config)
    return known


@cache
def _beside() -> list[Any]:
    """Return files that quantization tools write next to a configuration."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*_hf_quant_config.json"))]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a changed configuration, sometimes with a file of number formats."""
    family = draw(st.sampled_from(sorted(by_family())))
    config = draw(mutations.data(draw(st.sampled_from(by_family()[family]))))
    text = json.dumps(config)
    if draw(st.integers(0, 9)) == 0:
        text = draw(mutations.texts(json.dumps(config, indent=1)))
    files = {"config.json": text}
    if draw(st.integers(0, 9)) == 0:
        files["hf_quant_config.json"] = json.dumps(draw(mutations.data(draw(st.sampled_from(_beside())))))
    form = draw(st.sampled_from(("json", "csv", "table", "markdown")))
    return Case("configurations", (*draw(st.sampled_from(QUESTIONS)), "--format", form), files)
