"""Reports in use: without a network, on a phone, in dark mode, on paper, at another price."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

import inference_econ as ie
from inference_econ.extras.web.document import Asked, write
from inference_econ.report.pages import page as page_of
from inference_econ.report.questions.price import PricePage
from tests.browser.conftest import complaints_of
from tests.reading import present

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

SPACE = ie.Space(ie.Pins(tp=1, dp=1, pp=1))
REQUESTS = ie.Requests.build({"isl": 1000, "osl": 200, "cached": 500}, origin="test")
DARK = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
CHEAP, DEAR = 2.0, 5.0


def _front(price: float) -> ie.ServiceFrontier:
    return ie.frontier(ie.Setup.of("llama_3_8b", "h100_sxm", price=price), REQUESTS, SPACE)


def _sheet(price: float, cached: float = 500) -> ie.Sheet:
    requests = ie.Requests.build({"isl": 1000, "osl": 200, "cached": cached}, origin="test")
    return ie.price(ie.layouts(ie.Setup.of("llama_3_8b", "h100_sxm", price=price), requests, SPACE), 5.0)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report with two commands."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write(path, [Asked(page_of(answer)) for answer in (_front(CHEAP), _sheet(CHEAP))], "inference-econ report ...")
    return path


@pytest.fixture
def opened(context: BrowserContext, report: Path) -> Iterator[Page]:
    """Open the report without a network; it must not report errors or contact any other address."""
    context.set_offline(True)
    page = context.new_page()
    complaints = complaints_of(page, (report.as_uri(),))
    page.goto(report.as_uri())
    page.wait_for_selector(".drawing svg")
    yield page
    assert complaints == []


def _cells(page: Page, number: int) -> list[str]:
    """Return the cells of the first table of a command."""
    table = page.locator(f"article:nth-of-type({number}) figure.table table").first
    return [text.strip() for text in table.locator("td").all_inner_texts()]


def _python(answer: Any) -> list[str]:
    return [cell for row in page_of(answer).tables()[0].rows for cell in row]


def _set(page: Page, number: int, name: str, value: float) -> None:
    page.locator(f'article:nth-of-type({number}) input[type="number"][data-slider="{name}"]').fill(f"{value:g}")


@pytest.mark.long
def test_a_slider_says_what_python_says_at_that_price(opened: Page) -> None:
    asks: tuple[Callable[[float], object], ...] = (_front, _sheet)
    for number, ask in enumerate(asks, 1):
        assert _cells(opened, number) == _python(ask(CHEAP))
        _set(opened, number, "price", DEAR)
        assert _cells(opened, number) == _python(ask(DEAR))
        opened.locator(f'article:nth-of-type({number}) button[type="reset"]').click()
        # Controls are reset after their event, and text that is written later after that.
        table = opened.locator(f"article:nth-of-type({number}) figure.table table").first
        expect(table.locator("td")).to_have_text(_python(ask(CHEAP)))


@pytest.mark.long
def test_hours_in_use_divide_what_tokens_cost(opened: Page) -> None:
    _set(opened, 2, "use", 50)
    shown, sheet = _cells(opened, 2), _sheet(CHEAP)
    twice = PricePage(_sheet(2 * CHEAP)).tables()[0]
    assert shown[2] == twice.rows[0][2]
    assert shown[4] == PricePage(sheet).tables()[0].rows[0][4]  # a bill per hour stays


@pytest.mark.long
def test_cached_input_is_a_bill_at_the_prices_of_the_table(opened: Page) -> None:
    costs = _sheet(CHEAP).average
    for share in (0.0, 0.25, 1.0):
        _set(opened, 2, "cached", 100 * share)
        shown = [float(text) for text in opened.locator(".mix output").all_inner_texts()]
        each = (1 - share) * costs["input"] + share * costs["cached_input"]
        assert shown == pytest.approx([each, (1000 * each + 200 * costs["output"]) / 1e3], rel=5e-3)


@pytest.mark.long
def test_what_is_not_a_number_changes_nothing(opened: Page) -> None:
    before = _cells(opened, 1)
    for text in ("", "-3", "1e9"):
        opened.locator('article:nth-of-type(1) input[type="number"][data-slider="price"]').fill(text)
        assert _cells(opened, 1) == before


def test_charts_move_with_the_price(opened: Page) -> None:
    labels = opened.locator(".drawing").first.locator(".role-axis-label text")
    before = labels.all_text_contents()
    assert any(re.fullmatch(r"[\d.,]+", text) for text in before)
    _set(opened, 1, "price", 3 * CHEAP)
    expect(labels).not_to_have_text(before)
    expect(opened.locator("article.changed")).to_have_count(1)


def test_columns_are_sorted(opened: Page) -> None:
    head = opened.locator("article:nth-of-type(1) th").nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    width = opened.locator("article:nth-of-type(1) figure.table thead th").count()
    costs = [float(cell) for cell in _cells(opened, 1)[1::width]]
    assert costs == sorted(costs, reverse=True)


def test_a_table_is_copied_as_rows_of_a_spreadsheet(opened: Page) -> None:
    opened.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value })")
    opened.locator("figure.table .copy").first.click()
    lines = str(opened.evaluate("window.copied")).splitlines()
    assert lines[1].split("\t") == _cells(opened, 1)[: len(lines[0].split("\t"))]


@pytest.mark.parametrize("reader", [PHONE, DARK], ids=["phone", "dark"])
def test_on_a_phone_and_in_the_dark(opened: Page, reader: dict[str, Any]) -> None:
    wide = opened.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1] == reader["viewport"]["width"]
    for drawing in opened.locator(".drawing svg").all():
        box = present(drawing.bounding_box())
        assert box["x"] >= 0 and box["x"] + box["width"] <= wide[1]
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (reader is PHONE)


@pytest.mark.long
def test_every_question_is_one_page_of_paper(opened: Page) -> None:
    printed = opened.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2
