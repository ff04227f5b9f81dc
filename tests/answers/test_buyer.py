"""The speed at which tokens are priced without an SLO."""

from __future__ import annotations

import re
import statistics

import pytest

from inference_econ.answers.price import price, usual_speed
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import catalog, known_offers
from inference_econ.report.questions.price import PricePage, break_even, usual_speed_label
from tests.offered import offer_of
from tests.reading import present


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
    assert usual_speed_label(usual) == f"150 tokens/s per user ({usual.source})"
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
    assert usual.targets == Targets(tpot_seconds=0.05, tpot_percentile="mean")


def test_tokens_are_priced_at_that_speed_unless_something_else_is_promised() -> None:
    layouts = offer_of(most=4)
    usual, slow, own = (price(layouts, 5.0, targets=targets) for targets in (None, Targets(), Targets(0.5)))
    assert present(usual.tokens_per_second_per_user) >= 150.354
    assert usual.usual == usual_speed(layouts.setup.model)
    assert usual.dollars_per_hour >= slow.dollars_per_hour
    assert (slow.usual, own.usual) == (None, None)
    assert (slow.targets, own.targets) == (Targets(), Targets(0.5))
    record = PricePage(usual).plain()
    assert record["usual_speed"] == {
        "tokens_per_second": 150.354,
        "source": usual.usual.source if usual.usual else "",
        "offered": True,
    }
    assert PricePage(slow).plain()["usual_speed"] is None


@pytest.mark.parametrize("targets", [Targets(), Targets(tpot_seconds=0.05, percentile="mean"), None])
def test_the_default_rate_is_four_fifths_of_an_instance_of_the_layout_that_is_chosen(targets: Targets | None) -> None:
    """The default rate is 0.8 of the largest rate at which the layout's steady states meet the SLO (by hand)."""
    layouts = offer_of(most=4)
    sheet = price(layouts, targets=targets)
    carried = sheet.load.requests_per_second / FILLED
    state = sheet.service.at(sheet.service.slots)
    if sheet.targets.given:
        batches = [1.0 + share * (sheet.service.slots - 1.0) for share in (step / 2000.0 for step in range(2001))]
        kept = [batch for batch in batches if sheet.service.at(batch).tpot_seconds <= sheet.targets.tpot_seconds]
        state = sheet.service.at(max(kept))
    assert carried == pytest.approx(float(state.requests_per_second), rel=0.01)
    assert sheet.replicas == 1


def test_where_nothing_is_as_fast_twenty_is_taken_and_said() -> None:
    sheet = price(offer_of(most=1, changes=("host.step_overhead=10 ms",)), 2.0)
    assert sheet.targets == Targets(tpot_seconds=0.05, tpot_percentile="mean")
    reason = "nothing here reaches 150, the median of 21 API offers of 2025-06-27, openrouter2025"
    assert usual_speed_label(present(sheet.usual)) == f"20 tokens/s per user ({reason})"


def test_where_nothing_is_that_fast_either_it_is_said_what_to_do() -> None:
    layouts = offer_of(most=1, changes=("host.step_overhead=60 ms",))
    with pytest.raises(NothingFitsError) as caught:
        price(layouts, 1.0)
    assert str(caught.value).startswith("no deployment keeps TPOT 50 ms (mean), even with one request in flight")
    assert str(caught.value).endswith(
        "No speed was promised; promise one (--tpot), or none (--any-speed; in Python targets=Targets())"
    )
    assert price(layouts, 1.0, targets=Targets()).tokens_per_second_per_user < 20.0  # type: ignore[operator]


def test_whether_a_fleet_that_earns_its_bill_is_still_as_fast() -> None:
    layouts = offer_of(most=4)
    sheet = price(layouts, targets=Targets(tpot_seconds=0.012, percentile="mean"))
    charged = {kind: 0.8 * cost for kind, cost in sheet.average.items()}
    assert re.search(r"breaks even at [\d.]+ requests/s, where it violates the TPOT SLO\.$", break_even(sheet, charged))
    paid = {kind: 1.1 * cost for kind, cost in sheet.average.items()}
    assert re.search(r"breaks even at [\d.]+ requests/s\.$", break_even(sheet, paid))
