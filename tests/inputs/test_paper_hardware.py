"""The study's chips, and its caps, launches and prices."""

from __future__ import annotations

import math

import pytest

from inference_econ.inputs import catalog, math_unit


def test_paper_hardware_equals_the_studys_code(hardware_row: dict[str, str]) -> None:
    chip = catalog.hardware(f"paper/{hardware_row['name'].lower()}")
    value = {name: float(text) for name, text in hardware_row.items() if name != "name" and text}
    peaks = {str(unit): peak for unit, peak in chip.dense_flops_per_second.items()}
    for bits, dtypes in ((4, ("fp4", "int4")), (8, ("fp8", "int8")), (16, ("bf16", "fp16"))):
        for dtype in dtypes:
            # Every number as the code has it, exactly.
            assert peaks.get(dtype) == value.get(f"theoretical_flops_{bits}")
    assert chip.hbm_bytes == value["hbm_bytes"]
    assert chip.hbm_bytes_per_second == value["hbm_Bps_theoretical"]
    assert chip.link_domain == value["node_size"]
    assert chip.nic_bytes_per_second_one_way == 2 * value["internode_Bps_halved"]
    if math.isfinite(value["intranode_Bps_halved"]):
        assert chip.link_bytes_per_second_one_way == 2 * value["intranode_Bps_halved"]
    else:
        assert chip.link_bytes_per_second_one_way is None
    # Prices are products there (3.5 / 2.5 x 2.1): relative 1e-12.
    assert chip.prices[0].dollars_per_accelerator_hour == pytest.approx(value["price_per_hour"], rel=1e-12)
    assert chip.prices[0].kind == "paper"


def test_the_preset_has_the_studys_caps_and_launches(hardware_row: dict[str, str]) -> None:
    chip = catalog.hardware(f"paper/{hardware_row['name'].lower()}")
    assumed = catalog.assumptions("paper").for_chip(chip)
    assert assumed.chip.math_efficiency == float(hardware_row["arith_cap"])
    assert assumed.chip.hbm_efficiency == float(hardware_row["mem_cap"])
    assert assumed.host.launch == pytest.approx(float(hardware_row["kernel_launch_s"]), rel=1e-15)


@pytest.mark.parametrize(("weights", "rate"), [("int8", 2e15), ("int4_channel", 2e15), ("bf16", 1e15)])
def test_the_studys_rate_follows_the_width_of_the_weights(weights: str, rate: float) -> None:
    chip = catalog.hardware("paper/h100")
    peaks = {str(unit): peak for unit, peak in chip.dense_flops_per_second.items()}
    assert peaks[math_unit(weights, peaks, chip.name)] == rate
