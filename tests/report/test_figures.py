"""Pictures: written whole, the same bytes every time, and without a trace in the style of others."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.report import figures
from tests import asking

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def front() -> ie.Frontier:
    return asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(context=100), max_accelerators=2)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".PNG"])
def test_a_frontier_is_drawn_the_same_every_time(front: ie.Frontier, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        figures.draw_frontier(front, path, "A title")
    content = first.read_bytes()
    assert content == second.read_bytes()
    start = {".svg": b"<?xml", ".png": PNG, ".pdf": b"%PDF"}[suffix.lower()]
    assert content.startswith(start)
    assert len(content) > 3000


def test_the_picture_of_a_frontier_says_what_it_shows(front: ie.Frontier, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    figures.draw_frontier(front, path, "Costs $2 and not $3, at 5 % of a_b^c")
    text = path.read_text(encoding="utf-8")
    for words in (
        "tokens per second per user",
        "US dollars per million output tokens",
        "Llama 3.1 8B",
        "Costs $2 and not $3, at 5 % of a_b^c",
    ):
        assert words in text, words


def test_unwritable_pictures(front: ie.Frontier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing/a\.svg: cannot be written: No such file or directory"):
        figures.draw_frontier(front, tmp_path / "missing" / "a.svg", "t")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match=r"folder\.png: cannot be written: Is a directory"):
        figures.draw_frontier(front, tmp_path / "folder.png", "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png"]


def test_drawing_leaves_the_style_of_others_alone(front: ie.Frontier, tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.draw_frontier(front, tmp_path / "a.svg", "t")
    assert dict(mpl.rcParams) == before
