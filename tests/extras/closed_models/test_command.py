"""Commands that infer model sizes and prices from offers."""

from __future__ import annotations

import pytest

from inference_econ.formulas.money import revealed_exponents
from inference_econ.formulas.speculation import expected_tokens, implied_acceptance
from tests.commands import Command, record

HOUR = ("infer", "--hour-price", "--truth", "llama_3_8b", "--offer", "input=0.03,output=0.06,speed=60,on=h100_sxm")


def test_the_hour_behind_a_token_pays_for_that_token(command: Command) -> None:
    """At the implied price of an hour, the cheapest service of that speed has the requested cost."""
    asked = record(command, *HOUR)
    price = asked["dollars_per_accelerator_hour"]
    front = record(command, "frontier", "llama_3_8b", "h100_sxm", "--price", price)
    # The slowest point that is fast enough has the cost of the offer.
    rows = [(row["tokens_per_second_per_user"], row["dollars_per_million_output_tokens"]) for row in front["points"]]
    slower, faster = (pick(row for row in rows if (row[0] >= 60) is fast) for pick, fast in ((max, False), (min, True)))
    assert slower[1] <= faster[1] == pytest.approx(0.06 + 0.03 * 2000 / 500)
    assert faster[1] < 1.05 * slower[1]
    half = record(command, *HOUR, "--price-over-cost", 2)
    assert half["dollars_per_accelerator_hour"] == pytest.approx(price / 2)


def test_the_acceptance_behind_a_speedup() -> None:
    for chance in (0.0, 0.3, 0.95, 1.0):
        speedup = expected_tokens(chance, 6) / (1 + 5 * 0.1)
        assert implied_acceptance(speedup, 5, 0.1) == pytest.approx(chance, abs=1e-9)


def test_exponents_behind_choices() -> None:
    """Every exponent inside an interval prefers its offer, and none outside does."""
    speeds, prices = [10.0, 30.0, 35.0, 90.0], [1.0, 2.0, 6.0, 9.0]
    found = revealed_exponents(speeds, prices)
    for exponent in (0.1, 0.5, 0.9, 1.3, 2.0, 5.0):
        best = max(range(4), key=lambda index: speeds[index] ** exponent / prices[index])
        assert [low <= exponent <= high for low, high in zip(*found, strict=True)] == [at == best for at in range(4)]
    assert found.high[2] < found.low[2]
