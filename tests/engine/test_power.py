"""Power of boards: energies add up, no part exceeds its limit, and a cap lowers the clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inference_econ.answers.explain import explain
from inference_econ.engine import Pins, Plans, Setup, chip_power, evaluate, power, step_seconds, token_joules
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from tests.planned import plan_of
from tests.reading import present


def one_step(batch: float, ranks: float = 8.0, **changes: Any) -> Plans:
    return plan_of(ranks, batch=batch, **changes)


def setup_of(*changes: str, model: str = "llama_3_70b", chip: str = "h100_sxm") -> Setup:
    return Setup.of(model, chip, context=2000, changes=changes)


def watts_of(setup: Setup, plans: Plans) -> float:
    chip = present(chip_power(setup.hardware))
    return float(chip.board_watts(power.step_joules(setup, chip, plans), step_seconds(setup, plans)[0])[0])


@pytest.mark.parametrize("model", ["llama_3_70b", "qwen3_30b_a3b"])
@pytest.mark.parametrize("prompt", [None, 4000.0])
def test_energies_of_operators_add_up_to_the_step(model: str, prompt: float | None) -> None:
    step = explain(Setup.of(model, "h100_sxm"), Pins(tp=4, batch=2), prompt=prompt)
    assert step.joules is not None and step.idle_joules is not None
    parts = step.idle_joules + sum(row.joules or 0.0 for row in step.operators)
    assert parts == pytest.approx(step.joules)
    record = step.record()
    assert record["board_watts"] == pytest.approx(4 * step.joules / step.seconds)
    assert record["board_watts"] <= 4 * 700.0 * (1 + 1e-12)
    tokens = 2 * (prompt or 1.0)
    assert record["joules_per_token"] == pytest.approx(4 * step.joules / tokens)
    assert all((row.joules or 0.0) > 0.0 for row in step.operators if row.flop or row.moved_bytes)


def test_energy_by_hand() -> None:
    """One chip without a cache: 16 GB of weights in two bytes with two operations each."""
    setup = Setup.of("llama_3_8b", "h100_sxm", context=0)
    chip = present(chip_power(setup.hardware))
    shares = catalog.power().generations["hopper"]
    assert chip.joules_per_byte == pytest.approx(shares.memory * 700.0 / 3.35e12)
    joules = float(power.step_joules(setup, chip, one_step(1, 1))[0])
    weights = 8.03e9 - 0.525e9  # without the input embedding
    assert joules == pytest.approx(
        2 * weights * (chip.joules_per_byte + shares.arithmetic * 700.0 / 989.4e12), rel=0.02
    )


def test_chips_without_rows_take_shares_of_their_board_power() -> None:
    spec = catalog.power()
    h200, mi300x = (chip_power(catalog.hardware(name)) for name in ("h200_sxm", "mi300x"))
    assert h200 is not None and h200.shares == spec.generations["hopper"]
    assert mi300x is not None and mi300x.shares == spec.otherwise
    assert mi300x.idle_watts == pytest.approx(spec.otherwise.idle * 750.0)
    assert chip_power(catalog.hardware("h100_sxm", changes=["watts=null"])) is None


@pytest.mark.parametrize(
    ("chip", "published"),
    [("h100_sxm", 1730), ("h200_sxm", 1730), ("b200", 2170), ("mi300x", 1790), ("mi325x", 2180), ("mi355x", 2650),
     ("gb200_nvl72", 2100)],
)  # fmt: skip
def test_provisioned_power_is_near_that_of_inferencex(chip: str, published: float) -> None:
    """Compare with the utility power of a GPU in packages/app/src/lib/constants.ts at 77ca49a (within 5%)."""
    drawn = chip_power(catalog.hardware(chip))
    assert drawn is not None and drawn.provisioned_watts == pytest.approx(published, rel=0.05)
    assert drawn.provisioned_watts == pytest.approx(1.2 * (drawn.limit_watts + drawn.provisioned_host_watts))


@pytest.mark.parametrize("batch", [1, 64, 512])
def test_more_bandwidth_never_costs_more_joules(batch: float) -> None:
    def joules(*changes: str) -> float:
        setup, plans = setup_of(*changes), one_step(batch)
        return watts_of(setup, plans) * float(step_seconds(setup, plans)[0][0])

    least = joules()
    for faster in ("4 TB/s", "6.7 TB/s", "20 TB/s"):
        assert joules(f"hardware.hbm_bytes_per_second={faster}") <= least * (1 + 1e-12)


def test_a_cap_is_kept_and_costs_arithmetic_more_than_memory() -> None:
    capped, free = setup_of("hardware.power_cap=400 W"), setup_of()
    slower = {}
    for name, plans in {"decode": one_step(64), "prompt": one_step(1, new_tokens=4000.0, prefill=True)}.items():
        slower[name] = float(step_seconds(capped, plans)[0][0] / step_seconds(free, plans)[0][0])
        assert watts_of(capped, plans) <= 400.0 * (1 + 1e-9) < watts_of(free, plans)
        costs = evaluate(capped, plans, "1d")
        assert float(costs.seconds[0]) == pytest.approx(float(step_seconds(capped, plans)[0][0]))
        assert float(np.sum(list(costs.parts.values()))) == pytest.approx(float(costs.seconds[0]))
    assert 1.0 <= slower["decode"] < 1.05 < slower["prompt"] < 2.0
    idle = setup_of("hardware.power_cap=690 W")
    assert step_seconds(idle, one_step(1))[0][0] == pytest.approx(step_seconds(free, one_step(1))[0][0])


def test_a_lower_cap_is_never_faster() -> None:
    plans, caps = one_step(1, new_tokens=4000.0, prefill=True), (700, 650, 550, 450, 350, 260, 230)
    times = [float(step_seconds(setup_of(f"hardware.power_cap={cap} W"), plans)[0][0]) for cap in caps]
    assert times == sorted(times)


def test_speculation_takes_energy_for_all_that_is_verified() -> None:
    from inference_econ.engine import Speculation

    setup = setup_of()
    chip = present(chip_power(setup.hardware))
    proposer = Speculation.of("eagle", acceptance=0.0, longest=3, setup=setup).of_one_length()
    plain, wasted = (token_joules(setup, chip, one_step(8), who) for who in (None, proposer))
    assert float(wasted[0]) > float(plain[0])


@pytest.mark.parametrize("cap", [150, 800])
def test_impossible_caps_are_refused(cap: int) -> None:
    with pytest.raises(InputError, match=rf"between the 226 W .* and the 700 W that it draws at most, got {cap} W"):
        step_seconds(setup_of(f"hardware.power_cap={cap} W"), one_step(1))
    with pytest.raises(InputError, match=r"NVIDIA H100 SXM5 80GB lists no watts; give them, for example --set"):
        step_seconds(setup_of("hardware.power_cap=300 W", "hardware.watts=null"), one_step(1))
