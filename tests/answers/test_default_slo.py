"""The default TPOT SLO of ``recommend``, ``price`` and ``buy``, and its fallbacks."""

from __future__ import annotations

import statistics

import pytest

import inference_econ as ie
from inference_econ.answers.deployments.default_slo import UsualSpeed, usual_speed, with_default_slo
from inference_econ.answers.deployments.recommend import Users, most_traffic, recommend, recommend_for_users
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.price import price
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import FULLEST, Targets
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog, known_offers
from inference_econ.report.headings import targets_label
from inference_econ.report.questions.recommend import RecommendationPage
from inference_econ.report.service import default_slo_notes
from tests.offered import offer_of
from tests.reading import present

#: CPU time per step with which no deployment reaches the median speed, and with which none reaches 20 tokens/s.
SLOWER, SLOWEST = ("host.step_overhead=10 ms",), ("host.step_overhead=60 ms",)


def test_it_is_the_median_of_the_offers_of_the_last_day() -> None:
    """Recompute the median from 21 speeds of Llama 3.1 8B on 2025-06-27; the single offer of 2024 is ignored."""
    speeds = [
        offer.tokens_per_second
        for offer in known_offers()
        if offer.model == "llama_3_8b" and offer.date == "2025-06-27" and offer.tokens_per_second
    ]
    usual = usual_speed(catalog.model("llama_3_8b"))
    assert len(speeds) == 21
    assert usual.tokens_per_second == statistics.median(speeds) == 150.354
    assert usual.source == "median of 21 API offers of 2025-06-27, openrouter2025"
    speed = f"150 tokens/s per user ({usual.source})"
    said = f"Default TPOT SLO: {speed}. Change it with --tpot, or remove it with --any-speed."
    assert default_slo_notes(usual) == (said,)
    assert default_slo_notes(None) == ()
    assert "openrouter2025" in catalog.references()


def test_other_formats_and_what_ifs_are_offered_under_the_name_of_the_model() -> None:
    usual = usual_speed(catalog.model("deepseek_v3"))
    assert usual_speed(catalog.model("deepseek_v3_nvfp4")) == usual
    assert usual_speed(catalog.model("deepseek_v3", changes=["mtp_layers=0"])) == usual


@pytest.mark.parametrize("name", ["gpt_oss_120b", "gemma_2_9b", "llama_2_7b"])
def test_without_three_offers_it_is_twenty(name: str) -> None:
    """Gemma 2 9B has one offer: 1,015 tokens/s, from a provider with its own chips."""
    usual = usual_speed(catalog.model(name))
    assert (usual.tokens_per_second, usual.source) == (20.0, "fewer than three API offers are recorded")
    assert usual.targets(Targets()) == Targets(tpot_seconds=0.05, tpot_percentile="mean", is_default=True)


def test_the_default_keeps_percentile_and_confidence_of_the_query() -> None:
    asked = Targets(percentile="p95", confidence=0.8, is_default=True)
    offered = [Candidate(offer_of(most=4))]
    answered, promised, usual = with_default_slo(offered, asked, lambda targets: targets)
    assert answered == promised == present(usual).targets(asked)
    assert (promised.confidence, promised.percentile, promised.fullest) == (0.8, "p95", FULLEST)
    assert targets_label(promised) == "default mean TPOT 6.65 ms (confidence 80%)"
    with pytest.raises(InputError, match="there is no SLO to meet"):
        Targets(confidence=0.8)


@pytest.mark.parametrize("targets", [Targets(), Targets(0.5), Targets(tpot_seconds=0.02, confidence=0.8)])
def test_other_queries_have_no_default(targets: Targets) -> None:
    found = with_default_slo([Candidate(offer_of(most=4))], targets, lambda promised: promised)
    assert found == (targets, targets, None)


def test_all_ways_to_size_a_fleet_use_the_default() -> None:
    layouts = offer_of(most=4)
    usual = usual_speed(layouts.setup.model)
    means = Means(accelerators=8)
    sized = [
        recommend([layouts], 5.0), recommend([layouts], None), recommend_for_users([layouts], Users(50.0)),
        most_traffic([layouts], means),
    ]  # fmt: skip
    for found in sized:
        assert found.usual == usual
        assert found.record()["usual_speed"]["tokens_per_second"] == usual.tokens_per_second
        assert found.targets == usual.targets(Targets())
        assert all(choice.load.tpot_seconds["mean"] <= 1.0 / usual.tokens_per_second for choice in found)
    free = recommend([layouts], 5.0, Targets())
    assert free.usual is None and "usual_speed" not in free.record()
    assert free[0].dollars_per_hour <= sized[0][0].dollars_per_hour
    own = Targets(tpot_seconds=1.0 / usual.tokens_per_second, tpot_percentile="mean")
    assert recommend([layouts], 5.0, own)[0].dollars_per_hour == sized[0][0].dollars_per_hour


def test_a_speed_that_only_an_idle_server_reaches_is_no_default() -> None:
    """On one H100 per instance, tokens at 150 tokens/s cost more than ten times the cheapest tokens."""
    layouts = offer_of(most=1)
    sheet, sized = price(layouts, 2.0), recommend([layouts], 2.0)
    reason = "150, the median of 21 API offers of 2025-06-27, openrouter2025, costs over 10x as much here"
    assert sheet.usual == sized.usual == UsualSpeed(20.0, reason, offered=False)
    fast = Targets(tpot_seconds=1.0 / 150.354, tpot_percentile="mean")
    assert sized[0].replicas == 1 < recommend([layouts], 2.0, fast)[0].replicas


def test_gpus_that_miss_the_slos_are_named() -> None:
    fast, slow = offer_of(most=4), offer_of(most=1, hardware="l40s")
    found = recommend([fast, slow], 5.0, Targets(tpot_seconds=0.01))
    assert found.left_out == ("NVIDIA L40S 48GB",)
    (table,) = RecommendationPage(found).tables()
    assert "Left out: NVIDIA L40S 48GB. No deployment meets the SLOs." in table.notes
    assert recommend([fast], 5.0, Targets(tpot_seconds=0.01)).left_out == ()


def test_where_nothing_is_as_fast_twenty_is_taken_and_said() -> None:
    layouts = offer_of(most=1, changes=SLOWER)
    sheet, sized = price(layouts, 2.0), recommend([layouts], 2.0)
    assert sheet.targets == sized.targets == Targets(tpot_seconds=0.05, tpot_percentile="mean", is_default=True)
    reason = "nothing here reaches 150, the median of 21 API offers of 2025-06-27, openrouter2025"
    assert sheet.usual == sized.usual == UsualSpeed(20.0, reason, offered=False)


def test_where_nothing_is_that_fast_either_there_is_no_slo() -> None:
    layouts = offer_of(most=1, changes=SLOWEST)
    asked = Targets(percentile="p95", is_default=True)
    sheet, sized = price(layouts, 1.0, targets=asked), recommend([layouts], 1.0, asked)
    assert sheet.targets == sized.targets == Targets(percentile="p95")
    assert sheet.targets.fullest == FULLEST
    assert sheet.usual == sized.usual == UsualSpeed(0.0, "nothing here reaches 20", offered=False)
    assert default_slo_notes(sheet.usual) == (
        "No TPOT SLO is set, because nothing here reaches 20 tokens/s per user. Set one with --tpot.",
    )
    assert present(sheet.tokens_per_second_per_user) < 20.0
    with pytest.raises(NothingFitsError, match="1 GPU: Llama"):
        most_traffic([offer_of("llama_3_70b", most=4)], Means(accelerators=1))


def test_commands_agree_on_the_default() -> None:
    """``price`` takes the first deployment of ``recommend`` at the same rate."""
    sized = ie.recommend("llama_3_8b", "h100_sxm", request_rate=5, tp=1)
    priced = ie.price("llama_3_8b", "h100_sxm", request_rate=5, tp=1)
    assert sized[0].dollars_per_hour == priced.dollars_per_hour
    assert (sized.usual, sized.targets) == (priced.usual, priced.targets)
    free = ie.recommend("llama_3_8b", "h100_sxm", request_rate=5, tp=1, any_speed=True)
    assert free.usual is None and not free.targets.given
