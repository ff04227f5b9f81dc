"""Every control of the page, its effect, and the message when it has none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.explorer import QUICK, address, command, commands, open_page, panel, settled, typed, wrong
from tests.reading import present, tables

CHIPS = ("h100_sxm", "h200_sxm", "b200", "mi300x", "l40s", "a100_sxm_80")


def _series(*chips: str) -> str:
    """Return the address of a page with one series per chip."""
    return "?" + "&".join(f"model=llama_3_8b&hardware={chip}&weights=" for chip in chips)


SIX = _series(*CHIPS)


def test_the_first_page_answers_its_question_with_pictures_bars_and_a_command_to_start(page: Page, server: str) -> None:
    open_page(page, server, "")

    assert "llama_3_70b" in command(page, "compare")
    expect(page.locator("#bars tr")).to_have_count(1)
    expect(page.locator("#chosen-said")).to_contain_text("concurrent requests")
    speed = re.search(r"([\d.]+) tokens/s per user", str(page.locator("#chosen-said").text_content()))
    assert speed is not None
    expect(panel(page, "launch").locator("pre").first).to_contain_text("serve")
    # Prices and launches use the selected speed.
    kept = {re.findall(r"--tpot mean:(\S+)", command(page, question))[0] for question in ("price", "launch")}
    assert [1e3 / float(tpot) for tpot in kept] == [pytest.approx(float(speed[1]), rel=0.01)]
    expect(page.locator("#status")).to_contain_text("1 series")
    # Messages below controls name other controls, not options of the command line.
    said = " ".join(page.locator("small.help").all_text_contents())
    assert "Workload with lengths and arrivals" in said
    assert not re.search(r"(?<!command line option )--[a-z]", said)


TABLES = tables(Path(__file__))
#: Controls with a value and the resulting query; without pools, since these have no simulation of workloads.
CONTROLS: dict[str, list[str]] = TABLES["CONTROLS"]
#: A result of a load generator, and the configuration of a small model.
RESULT, CONFIG = TABLES["RESULT"], TABLES["CONFIG"]


@pytest.mark.long
def test_every_control_is_asked_and_stands_in_the_address(page: Page, server: str) -> None:
    open_page(page, server, QUICK.replace("&arrangement=aggregated", ""))

    for name, (value, question, said) in CONTROLS.items():
        control = page.locator(f"[name={name}]").first
        if control.evaluate("control => control.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
            page.keyboard.press("Tab")
        expect(commands(page, question)).to_contain_text(said)

    wanted = {name: value for name, (value, *_) in CONTROLS.items()}
    assert {name: values[0] for name, values in address(page).items() if name in wanted} == wanted
    controls = page.locator("#question fieldset:not([hidden]) :is(input, select, textarea)").all()
    assert {control.get_attribute("name") for control in controls} == set(wanted)


@pytest.mark.long
def test_six_series_stand_in_one_picture_and_a_seventh_is_not_offered(page: Page, server: str) -> None:
    open_page(page, server, SIX)

    expect(page.locator("#bars tr")).to_have_count(6)
    expect(page.get_by_role("button", name="Add a series")).to_be_disabled()
    page.get_by_role("button", name="Remove series B").click()
    expect(page.locator("#bars tr")).to_have_count(5)
    assert "h200_sxm" not in address(page)["hardware"]


@pytest.mark.long
def test_a_further_series_begins_as_the_last_one(page: Page, server: str) -> None:
    open_page(page, server)

    page.get_by_role("button", name="Add a series").click()
    second = page.get_by_role("group", name="Series B")
    expect(second.locator("[name=weights]")).to_have_value("fp8")
    expect(second.locator("[name=hardware]")).to_be_focused()
    second.locator("[name=hardware]").select_option("h200_sxm")

    expect(page.locator("#bars tr")).to_have_count(2)
    assert address(page)["hardware"] == ["h100_sxm", "h200_sxm"]


@pytest.mark.long
def test_the_slider_chooses_deployments_of_all_series(page: Page, server: str) -> None:
    open_page(page, server, f"{QUICK}&model=llama_3_8b&hardware=h200_sxm&weights=fp8")
    slowest = command(page, "explain")

    page.locator("#speed").focus()
    page.keyboard.press("Home")

    expect(commands(page, "explain")).not_to_have_text(slowest)
    assert float(address(page)["speed"][0]) == pytest.approx(
        float(str(page.locator("#speed").get_attribute("min"))), rel=1e-3
    )
    page.get_by_role("radio", name=re.compile("h200_sxm")).check()
    expect(commands(page, "explain")).to_contain_text("h200_sxm")
    assert address(page)["chosen"] == ["1"]


@pytest.mark.long
def test_a_click_on_a_curve_chooses_its_deployment(page: Page, server: str) -> None:
    open_page(page, server)
    before = page.locator("#chosen-said").text_content()

    picture = present(panel(page, "compare").locator("figure svg").bounding_box())
    page.mouse.click(picture["x"] + 0.2 * picture["width"], picture["y"] + 0.5 * picture["height"])

    expect(page.locator("#chosen-said")).not_to_have_text(str(before))
    assert "speed" in address(page)


def test_a_mistake_is_said_beside_its_control_until_it_is_mended(page: Page, server: str) -> None:
    open_page(page, server)
    control = page.locator("[name=isl]")

    typed(page, "Input tokens", "-5")

    assert "-5" in wrong(control)
    expect(page.locator(".error").first).to_contain_text("-5")
    typed(page, "Input tokens", "1500")
    expect(control).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator(".error")).to_have_count(0)


@pytest.mark.long
def test_a_what_if_of_nothing_is_said_beside_the_what_ifs(page: Page, server: str) -> None:
    open_page(page, server)

    typed(page, "What-ifs", "hardware.wats=3")

    assert "wats" in wrong(page.locator("[name=set]"))


@pytest.mark.long
def test_mistakes_name_controls_and_no_options_of_the_command_line(page: Page, server: str) -> None:
    open_page(page, server)

    page.locator("select[name=hardware]").first.select_option("h20_sxm")

    expect(page.locator(".error").first).to_contain_text("for example 'Price of a GPU-hour' 2.50")
    said = page.evaluate("worded('give --ttft, --weights or --tp 8, without --no-speculation')")
    assert said == "give 'TTFT', 'Weights' or the command line option --tp 8, without 'Speculative decoding'"


@pytest.mark.long
def test_a_series_that_cannot_be_is_said_beside_it_and_the_others_are_shown(page: Page, server: str) -> None:
    open_page(page, server, f"{_series('h100_sxm', 'mi300x')}&engine=vllm&engine=trtllm&arrangement=aggregated")

    assert "trtllm" in wrong(page.get_by_role("group", name="Series B").locator("[name=engine]"))
    expect(page.locator("#bars tr")).to_have_count(1)
    expect(page.locator(".error")).to_have_count(1)


@pytest.mark.long
def test_the_state_is_read_from_the_address_again(page: Page, server: str) -> None:
    open_page(page, server, f"{QUICK}&tpot=50&price=2.5&set=hardware.link_domain%3D4&speed=60&chosen=0")
    before = {name: command(page, name) for name in ("compare", "explain", "price", "launch")}

    page.reload()

    assert {name: command(page, name) for name in before} == before
    expect(page.locator("[name=tpot]")).to_have_value("50")
    expect(page.locator("[name=set]")).to_have_value("hardware.link_domain=4")


@pytest.mark.long
def test_the_back_button_takes_a_change_back(page: Page, server: str) -> None:
    open_page(page, server)
    typed(page, "Output tokens", "300")
    expect(commands(page, "compare")).to_contain_text("--osl 300")

    page.go_back()

    expect(page.locator("[name=osl]")).to_have_value("200")
    expect(commands(page, "compare")).to_contain_text("--osl 200")


@pytest.mark.long
def test_a_lost_server_is_said_and_asked_again_on_the_next_change(page: Page, server: str) -> None:
    open_page(page, server)
    # A pending reply would replace the message.
    settled(page)
    page.context.set_offline(True)

    typed(page, "Output tokens", "300")

    expect(page.locator("#lost")).to_contain_text("The server does not respond")
    page.context.set_offline(False)
    typed(page, "Output tokens", "301")
    expect(commands(page, "compare")).to_contain_text("--osl 301")
    expect(page.locator("#lost")).to_be_hidden()


@pytest.mark.long
def test_answers_are_saved_as_files(page: Page, server: str) -> None:
    open_page(page, server)
    links = panel(page, "compare").get_by_role("list", name="Download").get_by_role("link")

    replies = {str(it.text_content()): page.request.get(server + str(it.get_attribute("href"))) for it in links.all()}

    assert set(replies) == {"CSV", "JSON", "YAML", "SVG", "PNG", "Report"}
    assert all(reply.ok for reply in replies.values())
    assert replies["CSV"].text().startswith("series,")
    assert "kind: frontier" in replies["YAML"].text()
    assert replies["PNG"].body().startswith(b"\x89PNG")
    assert replies["SVG"].text().startswith("<svg")
    assert replies["Report"].text().lower().startswith("<!doctype html>")


@pytest.mark.long
def test_nothing_is_asked_while_nothing_has_changed(page: Page, server: str) -> None:
    open_page(page, server)
    settled(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    typed(page, "Input tokens", "1000")
    page.locator("[name=isl]").dispatch_event("change")
    # Requests of these events are sent before this one.
    page.evaluate("fetch('/openapi.json').then((reply) => reply.text())")

    assert asked == [f"{server}/openapi.json"]


def _paste(page: Page, text: str) -> None:
    page.locator("#pasted").fill(text)
    page.get_by_role("button", name="Read text").click()


@pytest.mark.long
def test_a_result_of_ones_own_is_held_against_the_chosen_deployment(page: Page, server: str) -> None:
    open_page(page, server)

    _paste(page, json.dumps(RESULT))

    expect(commands(page, "validate")).to_contain_text("--hardware h100_sxm")
    expect(panel(page, "validate")).to_contain_text("interval")


def test_a_configuration_of_ones_own_becomes_the_model(page: Page, server: str) -> None:
    open_page(page, server)

    _paste(page, json.dumps(CONFIG))

    expect(commands(page, "compare")).to_contain_text("model=own/")
    assert address(page)["model"][0].startswith("own/")


@pytest.mark.long
@pytest.mark.parametrize(("text", "said"), [("{", "JSON"), ('{"a": 1}', "no result of a known load generator")])
def test_what_is_pasted_and_not_understood_is_said_beside_it(page: Page, server: str, text: str, said: str) -> None:
    open_page(page, server)

    _paste(page, text)

    assert said in wrong(page.locator("#pasted"))


@pytest.mark.long
def test_a_configuration_that_is_not_understood_is_said_beside_the_model(page: Page, server: str) -> None:
    open_page(page, server)

    _paste(page, json.dumps({**CONFIG, "model_type": "unheard_of"}))

    assert "unheard_of" in wrong(page.get_by_role("group", name="Series A").locator("[name=model]"))


@pytest.mark.long
def test_another_model_begins_in_the_formats_that_it_is_published_in(page: Page, server: str) -> None:
    open_page(page, server)

    page.locator("[name=model]").first.select_option("qwen3_8b")

    expect(page.locator("[name=weights]").first).to_have_value("")
    expect(commands(page, "compare")).to_contain_text("qwen3_8b")
    assert page.locator(".error").count() == 0


@pytest.mark.long
def test_on_a_phone_the_picture_comes_before_the_controls(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, server)

    tops = [
        box["y"]
        for locator in (panel(page, "compare"), page.locator("#question"), panel(page, "explain"))
        if (box := locator.bounding_box()) is not None
    ]
    assert len(tops) == 3
    assert tops == sorted(tops)
    assert tops[0] < 844
