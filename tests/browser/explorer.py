"""Actions on the explorer page for tests."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

#: A fast command: one small layout space, of an engine that quantizes published weights to fp8 while it loads, with
#: aggregated instances that have a load.
QUICK = (
    "?model=llama_3_8b&hardware=h100_sxm&weights=fp8&engine=vllm&isl=1000&osl=200&request_rate=2&percentile=p90"
    "&arrangement=aggregated"
)
#: Upper limit of waits: only failures last that long, and a busy machine starts slowly [ms].
PATIENCE_MS = 120_000


def open_page(page: Page, server: str, query: str = QUICK) -> None:
    """Open the page with a query, and wait for its chart and bars."""
    page.goto(f"{server}/{query}")
    expect(page.locator("#chosen-said")).not_to_be_empty()


def settled(page: Page) -> None:
    """Wait until all panels show their results."""
    expect(panel(page, "load").locator(".links")).to_be_visible()
    expect(page.locator(".waiting")).to_have_count(0)


def panel(page: Page, question: str) -> Locator:
    """Return the panel of a command."""
    return page.locator(f'[data-question="{question}"]')


def command(page: Page, question: str) -> str:
    """Return the equivalent command line of a panel."""
    return str(commands(page, question).text_content())


def commands(page: Page, question: str) -> Locator:
    """Return the place where a panel shows its equivalent command line."""
    return panel(page, question).locator("details:has(> pre) pre")


def address(page: Page) -> dict[str, list[str]]:
    """Return the query of the address."""
    return parse_qs(urlsplit(page.url).query, keep_blank_values=True)


def typed(page: Page, label: str, value: str) -> None:
    """Type into a control and leave it."""
    control = page.get_by_label(re.compile(f"^{label}"))
    control.fill(value)
    control.press("Tab")


def wrong(control: Locator) -> str:
    """Return the message next to an invalid control."""
    expect(control).to_have_attribute("aria-invalid", "true")
    said = control.get_attribute("aria-describedby")
    return str(control.page.locator(f"[id='{said}']").text_content())
