"""Golden pages: every command's text at 80 columns, and a digest of each key of its JSON and of each chart.

After an intended change, ``sh run.sh renew golden [WORD...]`` renews them; the commit lists each changed page and key.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
import textwrap
from collections.abc import Iterator

import pytest

from benchmarks import pages
from inference_econ.report.page import Page, Table
from inference_econ.report.schema import FieldsPage
from tests.package.test_english import problems

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


#: Pages that take more than five seconds; parts of them have separate pages, or tests of their numbers.
LONG = {"claims", "paper_table_3"}


def _tried(key: str) -> object:
    return pytest.param(key, marks=[pytest.mark.long] if key in LONG else [])


@pytest.mark.parametrize("key", [*map(_tried, pages.COMMANDS)])
def test_a_command_shows_its_golden_page(key: str) -> None:
    answer = pages.ask(pages.COMMANDS[key])
    text, digests = pages.golden(answer)
    assert text == (pages.GOLDEN / "pages" / f"{key}.txt").read_text(encoding="utf-8")
    assert digests == DIGESTS[key]
    _have_known_headings(answer)
    # The thousands of lines of all assumptions are shown once.
    if isinstance(answer, Page) and len(text) < MOST_CHARACTERS:
        _fit_and_break_no_word(answer)
        if DESCRIBED.match(pages.COMMANDS[key]):
            _have_short_notes_in_plain_english(answer)


def _have_known_headings(answer: Page | str) -> None:
    """Every heading of a page is in the glossary; an unknown one raises an error."""
    blocks = [] if isinstance(answer, str) else answer.blocks()
    for heading in {name for block in blocks if isinstance(block, Table) for name in block.columns if name}:
        FieldsPage(heading)


#: Longest page that is shown in several widths [characters].
MOST_CHARACTERS = 200_000


#: Commands with limits on notes. Studies quote their authors; ``validate``, ``list`` and ``show`` describe data files.
DESCRIBED = re.compile(
    r"(assess|buy|cache|compare|estimate|explain|fits|fleet|frontier|gpu-cost|infer|load|price|recommend|rollout"
    r"|sensitivity|speculate) "
)


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_pages_are_written_into_a_named_folder(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pages", *words])
    with pytest.raises(SystemExit, match="give a FOLDER for the pages"):
        runpy.run_path(str(pages.__file__), run_name="__main__")


def _have_short_notes_in_plain_english(page: Page) -> None:
    """Check that notes without ``--why`` have 25 words, titles two lines at 100 columns, long tables 60 words around
    them.

    Words in parentheses and the sign x are not included.
    """
    room, texts = pages.show.MOST_NOTES, list[str]()
    for table in (block for block in page.blocks() if isinstance(block, Table)):
        notes = pages.show.first_notes(table, room)
        room -= len(notes)
        assert len(textwrap.wrap(table.title, 100)) <= 2, table.title
        bare = [re.sub(r" \([^()]*\)| x ", " ", note) for note in notes]
        assert max((len(note.split()) for note in bare), default=0) <= 25, notes
        assert not 5 <= len(table.rows) <= 12 or len(" ".join([table.title, *bare]).split()) <= 60, table.title
        texts += table.title, *table.every_note
    # Items of a list are sentences, and a sentence may start with a number.
    found = [problem for text in texts for problem in problems(re.sub(r"[;:] |\. (?=\d)", ".\n\n", text))]
    assert not found, "\n".join(found)


def _fit_and_break_no_word(page: Page) -> None:
    widest, *texts = pages.tables(page, (2000, *WIDTHS))
    whole = set(re.split(r"[\s/._]+", widest))
    for width, text in zip(WIDTHS, texts, strict=True):
        assert max(map(len, text.splitlines())) <= width, text
        assert set(re.split(r"[\s/._]+", text)) <= whole | {"─" * len(line) for line in text.splitlines()}
