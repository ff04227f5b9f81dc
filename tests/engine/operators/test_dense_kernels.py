"""Kernels of dense products: the engine's use of their constants."""

from __future__ import annotations

import pytest

from inference_econ.engine import Setup
from inference_econ.engine.operator_costs import OperatorCosts, operator_costs
from inference_econ.errors import SpecError
from inference_econ.inputs import catalog
from tests.planned import plan_of

KERNEL = "{bf16: {math_efficiency: 0.5, hbm_efficiency: 0.8, overlap: 0.25}}"


def _rows(batch: float, *changes: str) -> tuple[Setup, dict[str, OperatorCosts]]:
    what_ifs = [f"chip.products={KERNEL}", "network.collectives=free", "host.graph_launch=0 us", *changes]
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable", changes=[f"assumptions.{c}" for c in what_ifs])
    plans = plan_of(batch=batch)
    return setup, {row.name: row for row in operator_costs(setup, plans, "1d")}


@pytest.mark.parametrize(("batch", "longer"), [(64.0, "memory"), (1024.0, "compute")])
def test_feed_forward_by_hand(batch: float, longer: str) -> None:
    """Llama 3 8B on one H100, gate and up: 2 x 14,336 x 4,096 = 1.174e8 weights of 2 B in 32 layers.

    | tokens | arithmetic at half of the peak | weights at 0.8 of the bandwidth |
    |---|---|---|
    | 64 | 2 x 1.174e8 x 64 = 1.503e10 FLOP | 234.9 MB |
    | 1,024 | 2.405e11 FLOP | 234.9 MB |

    The row takes the longer time plus three quarters of the shorter time.
    """
    setup, rows = _rows(batch)
    weights = 2 * 14336 * 4096
    compute = 2.0 * weights * batch / (0.5 * setup.peaks["bf16"])
    moved = batch * 2.0 * (2 * 4096 + 2 * 14336) / setup.rates.bytes_per_second
    memory = 2.0 * weights / (0.8 * setup.hardware.hbm_bytes_per_second) + moved
    row = rows["ff in"]
    assert row.bound == longer
    assert row.compute_seconds == pytest.approx(32 * compute)
    assert row.memory_seconds == pytest.approx(32 * memory, rel=0.02)
    shorter = min(row.compute_seconds, row.memory_seconds)
    assert row.seconds == pytest.approx(max(row.compute_seconds, row.memory_seconds) + 0.75 * shorter)


def test_servers_reach_a_share_of_kernels_alone() -> None:
    _, alone = _rows(64.0)
    _, served = _rows(64.0, "chip.product_efficiency=0.8")
    assert served["qkv"].compute_seconds == pytest.approx(alone["qkv"].compute_seconds / 0.8)
    # Attention and pointwise operators are not products.
    for name in ("attention", "norms"):
        if name in alone:
            assert served[name].seconds == alone[name].seconds


def test_formats_without_kernels_have_the_shares_of_the_chip() -> None:
    setup, _ = _rows(64.0)
    assert setup.rates.flops_per_second("bf16") == pytest.approx(0.5 * setup.peaks["bf16"])
    assumed = setup.assumptions.chip
    assert setup.rates.flops_per_second("fp8") == pytest.approx(
        assumed.math_efficiency * assumed.narrow_math_efficiency * setup.peaks["fp8"]
    )
    assert setup.rates.weight_bytes_per_second("fp8") == setup.rates.bytes_per_second


@pytest.mark.parametrize(
    ("chip", "products"),
    [("h20_sxm", "hopper"), ("b200", "blackwell"), ("a100_sxm_80", "ampere"), ("l40s", "ada"), ("mi300x", "")],
)
def test_chips_have_the_products_of_their_generation(chip: str, products: str) -> None:
    known = Setup.of("llama_3_8b", chip, assumptions="deployable").assumptions.chip.products
    if not products:
        assert not known
    else:
        expected = catalog.assumptions("deployable", changes=["per_family={}", f"chip.products={products}"])
        assert known == expected.chip.products


def test_block_scales_cost_blackwell_nothing() -> None:
    """A product with block scales takes about the same time as one with a single scale, or less."""
    setup = Setup.of("deepseek_v3", "b200", assumptions="deployable")
    assert setup.rates.flops_per_second("fp8_block") > 0.9 * setup.rates.flops_per_second("fp8")
    assert setup.rates.weight_bytes_per_second("nvfp4") < setup.rates.weight_bytes_per_second("fp8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{fp9: {}}", "fp9"),
        ("{fp8: {math_efficiency: 0.8}}", "fp8.hbm_efficiency"),
        (KERNEL.replace("overlap: 0.25", "overlap: 1.25"), "overlap must be <= 1, got 1.25"),
    ],
)
def test_products_that_cannot_be(change: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        catalog.assumptions("deployable", changes=[f"chip.products={change}"])
