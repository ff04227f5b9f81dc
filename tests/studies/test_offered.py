"""Offers of providers compared with the frontiers of the study."""

from __future__ import annotations

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import OfferedPoints, Scenario, catalog, known_offers
from inference_econ.report.questions.scenario import scenario_tables
from inference_econ.studies.results import Result, beside
from inference_econ.studies.scenario import run
from tests.reading import present

LLAMA = "meta-llama/llama-3.3-70b-instruct"
OWN_CHIPS = ("Groq", "Cerebras", "SambaNova", "Google")


def _points(**changes: object) -> OfferedPoints:
    wanted = {"series": ("ours",), "model_as_written": LLAMA, "date": "2025-06-27", "without": OWN_CHIPS}
    return OfferedPoints.model_validate(wanted | changes)


def test_only_offers_that_no_other_beats() -> None:
    """Compare with every pair of offers of that day."""
    that_day = [
        offer
        for offer in known_offers()
        if offer.model_as_written == LLAMA and offer.tokens_per_second and offer.provider not in OWN_CHIPS
    ]
    best = [
        mine.provider
        for mine in that_day
        if not any(
            (other.tokens_per_second or 0) >= (mine.tokens_per_second or 0)
            and other.dollars_per_million_output_tokens <= mine.dollars_per_million_output_tokens
            and other is not mine
            for other in that_day
        )
    ]
    assert [found.offer.provider for found in beside([_points()], ["ours"])] == [
        *("Fireworks", "Friendli", "Lambda", "DeepInfra", "Crusoe")
    ]
    assert sorted(best) == sorted(found.offer.provider for found in beside([_points()], ["ours"]))


def test_offers_of_series_that_are_not_there_are_none() -> None:
    assert beside([_points()], ["another"]) == ()


@pytest.mark.rows
def test_offers_that_nobody_knows(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        beside([_points(**changes)], ["ours"])


def _with_offers(name: str, series: str) -> Scenario:
    scenario = catalog.scenario(name)
    figure = present(scenario.figure).replace(offers=(_points(series=(series,)),))
    return scenario.replace(figure=figure)


def test_offers_of_a_series_that_a_figure_does_not_have() -> None:
    with pytest.raises(SpecError, match=r"offers of 'Llama 9': it is not a series; series: Llama 3 70B \(1M tok/s\), "):
        _with_offers("paper/figure_1", "Llama 9")
    with pytest.raises(SpecError, match=r"offers of 'Llama 9': it is not a series; series: none"):
        _with_offers("paper/figure_2", "Llama 9")


def test_offers_of_a_series_that_no_panel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = catalog.scenario("paper/figure_1")
    panels = _with_offers("paper/figure_5", "Llama 9")
    panels = panels.replace(ask=panels.ask.model_copy(update={"scenarios": ("paper/figure_1",)}))
    monkeypatch.setattr(catalog, "scenario", lambda _: toy)
    with pytest.raises(InputError, match=r"offers of 'Llama 9': no panel has such a series; series: Llama 3 70B \(10K"):
        run(panels)


def test_the_points_of_the_study_lie_where_its_text_says() -> None:
    """Section 2.2.2: both within a small factor of the fastest, and of the cost, of the toy model."""
    result = run("paper/figure_1")
    fastest = {curve.label: curve.tokens_per_second.max() for curve in result.curves}
    drawn = [found for found in result.offers if found.source.source.ref == "erdil2025code"]
    assert [fastest[found.series] / found.tokens_per_second < 1.5 for found in drawn] == [True, True]
    costs = [record["series_dollars_per_million_output_tokens"] for record in _offers(result)[:2]]
    assert costs == [pytest.approx(1.14, abs=0.005), pytest.approx(0.170, abs=0.0005)]


def test_an_offer_that_is_faster_than_its_series_has_no_cost_of_it() -> None:
    result = run("paper/figure_1")
    slow = Result(
        result.scenario,
        tuple(curve for curve in result.curves if curve.label != "Llama 3 70B (10K tok/s)"),
        beside([_points(series=(result.curves[0].label,), without=())], [result.curves[0].label]),
    )
    records = {record["provider"]: record for record in _offers(slow)}
    assert records["Groq"]["series_dollars_per_million_output_tokens"] is None
    *_, table = scenario_tables(slow)
    assert {row[0]: row[-2:] for row in table.rows}["Groq"] == ("too fast for it", "-")


def _offers(result: Result) -> list[dict[str, object]]:
    records = result.record()["offers"]
    assert isinstance(records, list)
    return records
