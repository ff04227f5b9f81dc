"""Written YAML reads back to equal data, is narrow, and preserves its digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.inputs import _yaml, catalog, yaml_text
from tests.reading import tables

FOLDERS = [catalog.folder(kind) for kind in ("hardware", "models", "scenarios")]
SHIPPED = [path for folder in FOLDERS for path in folder.rglob("*.yaml")]

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60)
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


def _read(text: str) -> dict[str, Any]:
    return _yaml.parse(text, "written.yaml").data


@given(st.dictionaries(texts, values, min_size=1, max_size=4))
def test_any_data_read_back_equal(data: dict[str, Any]) -> None:
    assert _read(yaml_text(data)) == data


def _tried(number: int, path: Path) -> object:
    """Return a shipped file as a parameter; two of three are marked as long tests."""
    return pytest.param(path, marks=[pytest.mark.long] if number % 3 else [], id=f"{path.parent.name}/{path.stem}")


@pytest.mark.parametrize("path", [_tried(number, path) for number, path in enumerate(sorted(SHIPPED))])
def test_every_shipped_file_is_written_to_the_same_data(path: Path) -> None:
    data = _yaml.read_yaml(path).data
    text = yaml_text(data)
    assert _read(text) == data
    # Lines end where words do.
    assert all(len(line) <= 120 or max(map(len, line.split())) > 60 for line in text.splitlines())


def test_digits_and_styles() -> None:
    data = tables(Path(__file__))["DATA"] | {"chips": ["h100_sxm"] * 12}
    # Long values are written on separate lines.
    assert yaml_text(data) == tables(Path(__file__))["TEXT"] + "chips:\n" + "  - h100_sxm\n" * 12
