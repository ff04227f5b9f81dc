"""Better inputs never make a result slower or more expensive: some setups of ``sh run.sh sturdiness orders``."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from benchmarks import orders
from benchmarks.orders import FIELDS, NOT_DRAWN, Order, better_field, better_option, drawn_options
from inference_econ.inputs import HardwareSpec
from inference_econ.inputs.options import OPTIONS


@pytest.mark.parametrize("number", [10, 12, 14, 19, 20, 34])
def test_better_inputs_are_never_worse(number: int) -> None:
    found = list(orders.orders(1, number))
    assert found
    assert not [order for order in found if order.violated]


def test_every_input_with_a_good_direction_is_drawn() -> None:
    """The directions are in the table of options and in the fields of GPUs."""
    signed = {name for name, option in OPTIONS.items() if option.good}
    assert {option.good for option in OPTIONS.values()} == {"high", "low", ""}
    drawn = set(drawn_options(random.Random(1), 1000, 100)) - {"slo"}
    assert drawn.isdisjoint(NOT_DRAWN)
    assert drawn | NOT_DRAWN == signed
    rates = {name for name in HardwareSpec.fields if "per_second" in name and not name.endswith("both_ways")}
    assert set(FIELDS) == rates | {"hbm_bytes", "link_domain", "power_cap"}


def test_better_values() -> None:
    base = {"isl": 1000, "cached": 900, "price": 2.0, "percentile": "p95", "aggregated": True, "hardware": "l40s"}
    better = {name: better_option(name, base, 1.5)[name] for name in ("isl", "cached", "price", "percentile")}
    assert better == {"isl": 666, "cached": 999, "price": pytest.approx(2.0 / 1.5), "percentile": "p63.33"}
    assert better_option("aggregated", base, 1.5)["aggregated"] is False
    before, after = better_field("hbm_bytes_per_second", base, 10.0)
    assert (before, after["changes"]) == (base, ["hardware.hbm_bytes_per_second=8640000000000.0"])


def test_a_worse_result_is_a_violation() -> None:
    assert [Order("cost", ratio, "").violated for ratio in (0.5, 1.005, 1.02, math.inf)] == [False, False, True, True]


def test_a_run_continues_and_repeats_violated_setups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run violates an order in its second setup, and a later run repeats this setup."""
    ratios = {1: 2.0}
    monkeypatch.setattr(orders, "orders", lambda _, number: [Order("cost", ratios.get(number, 1.0), "")])
    run = ["--state", str(tmp_path / "orders.json"), "--setups", "3"]
    assert orders.main(run) == 1
    del ratios[1]
    assert orders.main(run) == 0
    state = orders.State(tmp_path / "orders.json")
    assert (state.next, state.tried, state.violated) == (6, {"cost": 6}, {})
