"""The command that holds API offers against machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record

ASKED = ("buy", "llama_3_8b", "h100_sxm", "--tp", 1)


def test_every_way_to_pay_beside_the_recorded_offers(command: Command) -> None:
    answer = record(command, *ASKED)
    assert {row["paid"] for row in answer["crossovers"]} == {"reserved", "on_demand", "owned"}
    assert answer["offers"] == sorted(answer["offers"], key=lambda offer: offer["dollars_per_request"])
    text = command(*ASKED).out
    assert "of which the cheapest and the one in the middle are compared" in text
    # A lot is as full as the promise allows: a measured one is about as likely to break it as to keep it.
    kept = re.search(r"Fleets promise a usual speed: .* A full lot: TPOT kept with (\d+) %", " ".join(text.split()))
    assert kept is not None
    assert 30 <= int(kept[1]) <= 70


def test_pools_are_billed_and_named(command: Command) -> None:
    asked = ("buy", "llama_3_70b", "b200", "--request-rate", 50, "--pay", "on_demand")
    text = command(*asked).said
    assert "Instances that read prompts (P) and that decode (D): 13P6D on 25 x NVIDIA B200" in text
    together, apart = (
        record(command, *asked, option)["crossovers"][0]["rate_bill"]["accelerators"]
        for option in ("--together", "--apart")
    )
    assert apart == 25 < together


def test_typed_prices_stand_for_all_offers(command: Command) -> None:
    answer = record(command, *ASKED, "--api-prices", "input=1,output=3", "--pay", "owned", "--ttft", 500)
    (row,) = answer["crossovers"]
    assert (row["offer"], row["paid"]) == ("given", "owned")
    assert row["cheaper_from"] <= row["always_cheaper_from"]


def test_a_request_rate_is_billed_and_marked(command: Command, tmp_path: Path) -> None:
    asked = (*ASKED, "--api-prices", "input=0.1,output=0.3", "--ttft", 500, "--request-rate", 40)
    (row, *_) = record(command, *asked)["crossovers"]
    bill, (best, *_) = (
        row["rate_bill"],
        record(command, "recommend", *ASKED[1:], "--ttft", 500, "--request-rate", 40)["choices"],
    )
    # 2,000 input and 500 output tokens, 730 hours.
    assert bill["offer_dollars_per_month"] == pytest.approx(40 * 3600 * 730 * (2000 * 0.1 + 500 * 0.3) / 1e6)
    assert bill["accelerators"] == best["accelerators"] > row["accelerators"]
    outcome = command(*asked, "--plot", tmp_path / "buy.svg")
    text = outcome.said
    assert "Buy tokens, rent or own for 40 requests/s: Llama 3.1 8B" in text and "offer $ a month" in text
    assert "At 40 requests/s" in text and "cost the least: $" in text
    assert "asked: 40 requests/s" in (tmp_path / "buy.svg").read_text(encoding="utf-8")
