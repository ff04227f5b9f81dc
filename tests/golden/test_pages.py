"""Golden pages: every command's text at 80 columns, and a digest of each key of its JSON and of each chart.

After an intended change, ``sh run.sh golden [WORD...]`` renews them; the commit lists each changed page and key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks import pages

DIGESTS = json.loads((pages.GOLDEN / "digests.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _in_folder_of_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, pages.in_folder_of_files():
        patch.setenv("COLUMNS", "80")
        yield


def test_every_page_has_a_command() -> None:
    files = {path.stem for path in (pages.GOLDEN / "pages").glob("*.txt")}
    assert files == pages.COMMANDS.keys() == DIGESTS.keys()


@pytest.mark.parametrize("key", pages.COMMANDS)
def test_a_command_shows_its_golden_page(key: str) -> None:
    text, digests = pages.golden(pages.COMMANDS[key])
    assert text == (pages.GOLDEN / "pages" / f"{key}.txt").read_text(encoding="utf-8")
    assert digests == DIGESTS[key]
