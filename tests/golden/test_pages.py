"""Golden pages: every command's text at 80 columns, and a digest of each key of its JSON and of each chart.

After an intended change, ``sh run.sh renew golden [WORD...]`` renews them; the commit lists each changed page and key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from benchmarks import pages
from inference_econ.report.page import Page

#: Widths in which tables must fit [characters].
WIDTHS = (80, 140)
DIGESTS = json.loads((pages.GOLDEN / "digests.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _in_folder_of_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, pages.in_folder_of_files():
        patch.setenv("COLUMNS", "80")
        yield


def test_every_page_has_a_command() -> None:
    files = {path.stem for path in (pages.GOLDEN / "pages").glob("*.txt")}
    assert files == pages.COMMANDS.keys() == DIGESTS.keys()


#: Pages that take more than five seconds; parts of them have pages of their own, or tests of their numbers.
LONG = {"claims", "paper_table_3"}


def _tried(key: str) -> object:
    return pytest.param(key, marks=[pytest.mark.long] if key in LONG else [])


@pytest.mark.parametrize("key", [*map(_tried, pages.COMMANDS)])
def test_a_command_shows_its_golden_page(key: str) -> None:
    answer = pages.ask(pages.COMMANDS[key])
    text, digests = pages.golden(answer)
    assert text == (pages.GOLDEN / "pages" / f"{key}.txt").read_text(encoding="utf-8")
    assert digests == DIGESTS[key]
    if isinstance(answer, Page):
        _fit_and_break_no_word(answer)


def _fit_and_break_no_word(page: Page) -> None:
    widest, *texts = pages.tables(page, (2000, *WIDTHS))
    whole = set(re.split(r"[\s/._]+", widest))
    for width, text in zip(WIDTHS, texts, strict=True):
        assert max(map(len, text.splitlines())) <= width, text
        assert set(re.split(r"[\s/._]+", text)) <= whole | {"─" * len(line) for line in text.splitlines()}
