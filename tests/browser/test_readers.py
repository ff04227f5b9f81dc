"""Accessibility of the page: keyboard, phone, dark mode, screen reader."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.explorer import QUICK, address, open_page, panel, settled, typed, wrong

DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
DARK: dict[str, Any] = {**DESK, "color_scheme": "dark"}
TWO = f"{QUICK}&model=llama_3_8b&hardware=h200_sxm&weights=fp8"


def faults(page: Page) -> list[str]:
    """Return the serious and critical faults that axe finds, with their places."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


@pytest.mark.long
@pytest.mark.parametrize("reader", [DESK, PHONE, DARK], ids=["light", "phone", "dark"])
def test_accessibility_has_no_serious_fault(page: Page, server: str) -> None:
    open_page(page, server, TWO)
    settled(page)
    for details in page.locator("summary").all():
        details.click()

    assert faults(page) == []


@pytest.mark.long
def test_accessibility_of_a_page_with_mistakes_has_no_serious_fault(page: Page, server: str) -> None:
    open_page(page, server)
    typed(page, "Input tokens", "-5")
    assert wrong(page.locator("[name=isl]"))

    assert faults(page) == []


@pytest.mark.long
@pytest.mark.parametrize("reader", [PHONE])
def test_a_phone_shows_all_without_scrolling_sideways(page: Page, server: str) -> None:
    open_page(page, server, TWO)

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    width = page.evaluate("document.querySelector('[data-question=compare] figure svg').getBoundingClientRect().width")
    assert 300 <= width <= 390


@pytest.mark.long
@pytest.mark.parametrize("reader", [DARK])
def test_who_reads_in_the_dark_has_a_dark_page_and_dark_pictures(page: Page, server: str) -> None:
    open_page(page, server)

    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    picture = page.evaluate("getComputedStyle(document.querySelector('figure svg')).backgroundColor")
    assert ground == picture == "rgb(22, 24, 29)"


@pytest.mark.long
def test_the_keyboard_alone_reaches_and_changes_everything(page: Page, server: str) -> None:
    open_page(page, server)

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the results")).to_be_focused()
    reached = []
    for _ in range(100):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "document.activeElement.name || document.activeElement.id || document.activeElement.tagName"
        )
        reached.append(str(focused))
        if focused == "model":
            page.keyboard.press("End")
        if focused == "osl":
            page.keyboard.type("400")
        if focused == "paste":
            break

    wanted = [
        *("model", "hardware", "weights", "kv", "engine", "add", "isl", "osl", "traffic", "request_rate", "ttft"),
        *("tpot", "percentile", "price", "set", "arrangement", "speculation", "acceptance", "speed", "pick"),
        *("pasted", "paste"),
    ]
    assert [name for name in reached if name in wanted] == wanted
    assert address(page)["osl"] == ["400"]
    assert address(page)["model"] != ["llama_3_8b"]


@pytest.mark.long
def test_focus_can_be_seen(page: Page, server: str) -> None:
    open_page(page, server)

    page.locator("[name=isl]").focus()
    page.keyboard.press("Tab")

    assert page.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"


@pytest.mark.long
@pytest.mark.parametrize("reader", [{**DESK, "reduced_motion": "reduce"}])
def test_nothing_moves_for_who_wants_it_still(page: Page, server: str) -> None:
    open_page(page, server)

    seconds = "[...document.querySelectorAll('*')].map((each) => parseFloat(getComputedStyle(each).transitionDuration))"
    assert set(page.evaluate(seconds)) == {0}


@pytest.mark.long
def test_a_link_for_the_keyboard_goes_to_the_answers(page: Page, server: str) -> None:
    open_page(page, server)

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator("#answers")).to_be_focused()


@pytest.mark.long
def test_each_panel_is_a_region_with_a_name(page: Page, server: str) -> None:
    open_page(page, server)

    for question, name in (("compare", "Pareto frontier"), ("price", "Cost per token at this load")):
        expect(panel(page, question)).to_have_accessible_name(name)
