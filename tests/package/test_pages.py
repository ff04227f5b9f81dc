"""The documents as pages: built without a warning, without broken links or network requests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

#: Building the pages takes a minute.
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Elements whose addresses a browser fetches without a click, and their attribute.
FETCHED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """Collect identifiers of a page, the targets of its links, and its fetched files."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in FETCHED and FETCHED[tag] in values:
            self.fetched.append(values[FETCHED[tag]])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the output of ``sh run.sh docs`` in another folder."""
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-b", "html"]
    command += ["-d", str(folder / "trees"), "docs", str(folder / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}


def test_no_link_leads_nowhere(pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                continue
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in pages[target].ids):
                dead.append(f"{path.name}: {link}")
    assert not dead


def test_no_page_asks_a_network(built: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 50
    for path, page in pages.items():
        assert not [it for it in page.fetched if urlsplit(it).scheme in ("http", "https") or it.startswith("//")], path
    for path in built.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_seven_ways_in(built: Path) -> None:
    front = (built / "index.html").read_text(encoding="utf-8")
    assert front.count('class="toctree-l1') <= 7


def test_equations_are_drawn_by_the_browser(built: Path) -> None:
    page = (built / "model" / "token.html").read_text(encoding="utf-8")
    assert page.count("<math") > 40
    assert "$" not in re.sub(r"<code.*?</code>|<script.*?</script>", "", page, flags=re.DOTALL)


def test_no_markup_is_left_over(built: Path) -> None:
    """Unknown directives and roles remain in the text as typed."""
    for path in built.rglob("*.html"):
        shown = re.sub(r"<(code|pre|script).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"\.\. \w[\w-]*::|\{\w[\w-]*\}\s*<|:::|```", shown), path


def test_what_is_typed_stands_out(built: Path) -> None:
    page = (built / "tutorials" / "capacity_planner.html").read_text(encoding="utf-8")
    assert page.count("highlight-session") + page.count("highlight-pycon") == 6
    assert page.count('class="gp"') == 7 + 3


def test_references_are_made_of_the_code(pages: dict[Path, Page], built: Path) -> None:
    assert "inference_econ.frontier" in pages[built / "reference" / "python.html"].ids
    assert "inference-econ-frontier" in pages[built / "reference" / "commands" / "frontier.html"].ids
    fields = (built / "reference" / "yaml.html").read_text(encoding="utf-8")
    assert "hbm_bytes_per_second" in fields
    assert "Main memory bandwidth [B/s]." in fields


def test_the_notebook_was_run(built: Path) -> None:
    page = (built / "notebooks" / "three_questions.html").read_text(encoding="utf-8")
    assert page.count("<svg") + page.count("<img") >= 4
    assert "Traceback" not in page


@pytest.mark.skipif(not BROWSER, reason="no Chromium here: apt-get install chromium")
def test_search_works_from_a_disk(built: Path, tmp_path: Path) -> None:
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
    address = f"{(built / 'search.html').as_uri()}?q=touched_fraction"
    assert BROWSER
    command = [BROWSER, *options, f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", "--dump-dom", address]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "reference/formulas.html" in found
    assert "did not match any documents" not in found
