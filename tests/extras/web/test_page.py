"""The page without a browser: its state, the commands of its panels, and sent data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inference_econ.extras.web import RefusedError, page, questions
from inference_econ.extras.web import page as asking
from inference_econ.extras.web.page import MOST_SERIES, OF_SERIES, state

if TYPE_CHECKING:
    from starlette.testclient import TestClient

STATIC = Path(page.__file__).parent / "static"
ROW = dict.fromkeys(OF_SERIES, "")
H100 = {**ROW, "model": "llama_3_8b", "hardware": "h100_sxm", "weights": "fp8"}
QUERY = "model=llama_3_8b&hardware=h100_sxm&weights=fp8&isl=1000&osl=200&request_rate=2&percentile=p90"
POINT = "row=0&at.tp=2&at.dp=1&at.pp=1&at.ep=1&at.batch=8&at.engine=sglang,%20vllm"


def test_an_empty_address_is_a_question_that_can_be_answered() -> None:
    shown = state([])

    assert shown.series[0]["model"] == "llama_3_70b"
    assert shown.shared["isl"] == "2000"


def test_series_are_the_values_of_an_address_side_by_side() -> None:
    shown = state(
        [("model", "a"), ("hardware", "x"), ("model", "b"), ("hardware", "y"), ("weights", "fp8"), ("isl", "")]
    )

    assert [dict(row) for row in shown.series] == [
        {**ROW, "model": "a", "hardware": "x", "weights": "fp8"},
        {**ROW, "model": "b", "hardware": "y"},
    ]
    assert shown.shared["isl"] == ""
    assert shown.shared["osl"] == ""


def test_an_address_holds_so_many_series_and_no_more() -> None:
    assert len(state([("model", str(index)) for index in range(20)]).series) == MOST_SERIES


def test_labels_say_what_is_different_and_are_different() -> None:
    assert asking.labels([H100]) == ["llama_3_8b, h100_sxm"]
    assert asking.labels([H100, {**H100, "hardware": "b200"}]) == ["h100_sxm", "b200"]
    assert asking.labels([H100, {**H100, "weights": ""}]) == ["fp8", "weights by default"]
    assert asking.labels([H100, H100]) == ["llama_3_8b, h100_sxm", "llama_3_8b, h100_sxm (2)"]


@pytest.mark.rows
def test_panels_ask_what_the_page_says(client: TestClient, question: str, command: str) -> None:
    shown = client.get(f"/view/{question}?{QUERY}&{POINT}").raise_for_status().json()

    words = re.sub(r"<[^>]*>", "", shown["html"]).replace("&#39;", "'")
    assert all(word in words for word in command.split())


def _asked(question: str, address: list[tuple[str, str]], point: dict[str, str]) -> Mapping[str, object]:
    """Return the command of a panel for llama_3_8b on an H100 with some controls set."""
    shown = state([("model", "llama_3_8b"), ("hardware", "h100_sxm"), *address])
    return asking.fields(questions()[question], shown, [0], point)


TOGETHER = {"tp": "2", "dp": "1", "pp": "1", "ep": "1", "batch": "8", "engine": "vllm", "kv": "fp8"}


@pytest.mark.rows
def test_controls_and_the_chosen_deployment_are_asked(
    panels: list[str], address: dict[str, str], point: dict[str, str], asked: dict[str, object], not_asked: list[str]
) -> None:
    for panel in panels:
        fields = _asked(panel, list(address.items()), TOGETHER | point if point else {})
        assert {name: fields.get(name, "") for name in asked} == asked, panel
        assert not {*not_asked} & {*fields}, panel


def test_a_load_of_pools_is_refused() -> None:
    with pytest.raises(RefusedError, match="This panel simulates aggregated deployments only"):
        _asked("load", [], {**TOGETHER, "disaggregated": "true", "speculation": "no_speculation"})


def test_a_comparison_has_what_can_be_chosen(client: TestClient) -> None:
    shown = client.get(f"/view/compare?{QUERY}&row=0").raise_for_status().json()

    (series,) = shown["series"]
    point = series["points"][0]
    assert series["price"] > 0
    assert point["low"] <= point["dollars"] <= point["high"]
    assert point["at"]["batch"] % (point["at"]["dp"] * point["at"]["pp"]) == 0
    assert float(point["at"]["tpot"]) == pytest.approx(1e3 / point["speed"], rel=1e-3)
    assert list(shown["charts"])


def test_what_is_said_in_an_address_is_text_and_no_html(client: TestClient) -> None:
    shown = client.get("/", params={"isl": '"><script>alert(1)</script>', "model": "<b>"}).raise_for_status().text

    assert "<script>alert" not in shown
    assert "<option selected>&lt;b&gt;</option>" in shown


def test_a_panel_that_nobody_has_is_not_found(client: TestClient) -> None:
    reply = client.get("/view/hardware")

    assert reply.status_code == 404
    assert reply.json()["error"]["message"] == "there is no panel 'hardware'"


def test_a_mistake_names_its_control(client: TestClient) -> None:
    reply = client.get(f"/view/explain?{QUERY.replace('isl=1000', 'isl=-1')}&{POINT}")

    assert reply.status_code == 422
    assert reply.json()["error"]["field"] == "isl"
    assert "got '-1'" in reply.json()["error"]["message"]


def test_the_page_offers_what_the_catalogue_has_and_tells_who_has_no_javascript(client: TestClient) -> None:
    text = client.get("/").raise_for_status().text

    assert text.count("<option>qwen3_8b</option>") == MOST_SERIES
    assert "<noscript>" in text
    assert "style=" not in text


def test_what_draws_is_served_here_and_kept_by_browsers(client: TestClient) -> None:
    reply = client.get("/static/vega.js").raise_for_status()

    assert "vegaEmbed" in reply.text
    assert reply.headers["cache-control"] == "max-age=86400"


def test_hand_written_javascript_stays_small() -> None:
    assert len((STATIC / "page.js").read_text().splitlines()) <= 370


@pytest.mark.long
@pytest.mark.rows
def test_javascript_is_checked(command: str) -> None:
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("no npx on this machine: with Node.js the types and the style of page.js are checked")
    words = [npx, "--yes", *command.split(), str(STATIC / "page.js")]
    checked = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if re.search(r"npm error code (ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT)", checked.stderr):
        pytest.skip("no npm registry from this machine: with one the types and the style of page.js are checked")

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_themes_are_those_of_charts(client: TestClient) -> None:
    text = client.get("/").text
    themes = json.loads(text.partition('id="themes">')[2].partition("</script>")[0])

    assert themes["light"]["background"] != themes["dark"]["background"]


def test_controls_of_power_are_asked_and_drawn(client: TestClient) -> None:
    """Charts over speed show joules of the boards; a budget replaces a rate where both are available."""
    told = _asked("recommend", [("power_budget", "20kW"), ("carbon", "japan"), ("power_cap", "500W")], TOGETHER)
    assert (told["power_budget"], told["carbon"], told["power_cap"]) == ("20kW", "japan", "500W")
    assert "request_rate" not in told
    assert _asked("price", [("power_budget", "20kW"), ("request_rate", "3")], TOGETHER)["request_rate"] == "3"

    drawn, free = (
        client.get(f"/view/compare?{QUERY}&arrangement=together&row=0{further}").raise_for_status().json()
        for further in ("&y=joules&power_cap=400W", "")
    )
    joules = [point["y"] for point in drawn["series"][0]["points"]]
    assert all(0.01 < value < 20.0 for value in joules) and joules[-1] > joules[0]
    assert all(point["y"] == point["dollars"] for point in free["series"][0]["points"])


@pytest.mark.rows
def test_impossible_power_is_refused(client: TestClient, question: str, further: str, field: str, message: str) -> None:
    refused = client.get(f"/view/{question}?{QUERY}&row=0&{further}")
    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == field
    assert message in refused.json()["error"]["message"]
