"""Number formats: stored bytes, and the maths unit that runs them."""

from __future__ import annotations

import re

import pytest

from inference_econ import catalog
from inference_econ.errors import InputError
from inference_econ.spec.dtype import BYTES_PER_ELEMENT, check_dtype, math_unit


@pytest.mark.parametrize(
    ("dtype", "chip", "unit"),
    [
        ("fp8", "a100_sxm_80", "bf16"),
        ("int8", "a100_sxm_80", "int8"),
        ("int4", "h100_sxm", "int8"),
        ("mxfp4", "h100_sxm", "fp8"),
        ("nvfp4", "h100_sxm", "fp8"),
        ("mxfp4", "b200", "fp4"),
        ("fp8", "h100_sxm", "fp8"),
        ("bf16", "h100_sxm", "bf16"),
        ("fp16", "v100_sxm2_32", "fp16"),
        ("fp8", "v100_sxm2_32", "fp16"),
        ("mxfp4", "v100_sxm2_32", "fp16"),
    ],
)
def test_a_format_runs_on_its_own_unit_or_the_next_wider_one(dtype: str, chip: str, unit: str) -> None:
    peaks = {str(unit): peak for unit, peak in catalog.hardware(chip).dense_flops_per_second.items()}
    assert math_unit(dtype, peaks, chip) == unit


def test_bf16_on_a_v100_is_an_error_that_lists_its_peaks() -> None:
    chip = catalog.hardware("v100_sxm2_32")
    peaks = {str(unit): peak for unit, peak in chip.dense_flops_per_second.items()}
    has = ", ".join(peaks)
    assert "fp16" in has
    message = f"{chip.name} has no peak for bf16 nor for a wider one of its kind; it has: {has}"
    with pytest.raises(InputError, match=re.escape(message)):
        math_unit("bf16", peaks, chip.name)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="weights: unknown number format 'fp7'; known: fp32, bf16, fp16, fp8, int8"):
        check_dtype("fp7", "weights")
    with pytest.raises(InputError, match="number format: unknown number format 'fp7'"):
        math_unit("fp7", {"bf16": 1e15}, "chip")


def test_stored_bytes_count_block_scales() -> None:
    # OCP MX: one 8-bit scale per 32 elements; NVFP4: one per 16.
    assert BYTES_PER_ELEMENT["mxfp4"] == (32 * 4 + 8) / 8 / 32
    assert BYTES_PER_ELEMENT["nvfp4"] == (16 * 4 + 8) / 8 / 16
    assert {dtype: BYTES_PER_ELEMENT[dtype] for dtype in ("fp32", "bf16", "fp8", "int4")} == {
        "fp32": 4.0,
        "bf16": 2.0,
        "fp8": 1.0,
        "int4": 0.5,
    }
