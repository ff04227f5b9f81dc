"""The command that holds API offers against machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Command, record

ASKED = ("buy", "llama_3_8b", "h100_sxm", "--tp", 1)


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
