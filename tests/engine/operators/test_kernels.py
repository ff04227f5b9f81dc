"""Kernels of products and of routed experts: the engine's use of their constants, and published times of DeepGEMM."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inference_econ.engine import Plans, Setup, step_seconds
from inference_econ.engine.operator_costs import OperatorCosts, operator_costs
from inference_econ.errors import InputError, SpecError
from inference_econ.formulas.grouped_matmul import padded_share
from inference_econ.inputs import catalog
from tests.planned import plan_of
from tests.reading import present, scalar

# Kernels of routed experts: the engine's use of their constants, and published times of DeepGEMM.

KERNEL = (
    "{fp8: {math_efficiency: 0.8, hbm_efficiency: 0.5, overlap: 0.25, extra_tokens: 64, extra_elements: 512, "
    "passes: 3}}"
)
CHANGES = (f"experts.kernels={KERNEL}", "network.collectives=free", "host.graph_launch=0 us")


def _plans(*, batch: float = 4096.0, ranks: float = 8.0, ep: float = 1.0, tp: float = 8.0) -> Plans:
    return plan_of(tp, ranks / tp, ep=ep, batch=batch)


def _setup(changes: Sequence[str] = CHANGES, model: str = "qwen3_30b_a3b", chip: str = "h100_sxm") -> Setup:
    return Setup.of(model, chip, weights="fp8", assumptions="deployable", changes=[f"assumptions.{c}" for c in changes])


def _rows(setup: Setup, plans: Plans) -> dict[str, OperatorCosts]:
    return {row.name: row for row in operator_costs(setup, plans, "1d")}


def test_experts_by_hand() -> None:
    """Qwen3 30B A3B, 128 experts of 2,048 x 768, 8 active, on 8 H100 that cut each expert; 4,096 tokens.

    Each expert has 4,096 x 8 / 128 = 256 tokens, and 96 of its 768 rows lie on a chip, in 48 layers.

    | | in | out |
    |---|---|---|
    | FLOP of a layer and chip | 2 x 4,096 x 8 x 2 x 2,048 x 96 = 2.577e10 | 1.288e10 |
    | padding | 1.25 x (1 + 512/2,048) x (1 + 512/192) = 5.7292 | 1.25 x (1 + 512/96) x 1.25 = 9.8958 |
    | arithmetic at 0.8 x 1,978.9 TFLOP/s | x 5.7292 = 93.26 us | x 9.8958 = 80.54 us |
    | weights of a layer and chip | 128 x 2 x 2,048 x 96 = 50.33 MB | 25.17 MB |
    | read at 0.5 x 3.35 TB/s | 30.05 us | 15.02 us |
    """
    setup = _setup()
    rows = _rows(setup, _plans())
    peak, bandwidth = setup.peaks["fp8"], setup.hardware.hbm_bytes_per_second
    for side, flop, padding, weights in (
        ("in", 2.5769803776e10, 1.25 * 1.25 * (1 + 512 / 192), 50331648.0),
        ("out", 1.2884901888e10, 1.25 * 1.25 * (1 + 512 / 96), 25165824.0),
    ):
        compute, read = flop * padding / (0.8 * peak), weights / (0.5 * bandwidth)
        row = rows[f"experts {side}"]
        assert row.compute_seconds == pytest.approx(48 * compute)
        assert row.memory_seconds == pytest.approx(48 * read)
        assert row.seconds == pytest.approx(48 * (compute + 0.75 * read))
        assert row.flop == pytest.approx(48 * flop)


def test_tokens_are_moved_beside_the_products() -> None:
    rows, once = (
        _rows(_setup((c, *CHANGES[1:])), _plans()) for c in (CHANGES[0], CHANGES[0].replace("passes: 3", "passes: 1"))
    )
    for side in ("in", "out"):
        assert rows[f"expert tokens {side}"].memory_seconds == pytest.approx(
            3.0 * once[f"expert tokens {side}"].memory_seconds
        )
    total = scalar(step_seconds(_setup(), _plans())[0])
    assert total == pytest.approx(sum(row.seconds for row in rows.values()))


def test_as_many_kernels_are_launched_as_without() -> None:
    with_kernels, without = (
        _setup(changes) for changes in (CHANGES[:1], ("per_family.h100.experts.kernels={}", "experts.kernels={}"))
    )

    def launched(setup: Setup) -> float:
        work = setup.work(_plans())
        rows = [row for row in work.operators if row.launches]
        return sum(float(row.repeats) * float(setup.rates.kernels(row, work)) for row in rows)

    assert launched(with_kernels) == launched(without)


def test_servers_reach_a_share_of_the_kernels() -> None:
    half = _rows(_setup((*CHANGES, "experts.kernel_efficiency=0.5")), _plans())
    for name, row in _rows(_setup(), _plans()).items():
        factor = 2.0 if name in ("experts in", "experts out") else 1.0
        assert half[name].compute_seconds == pytest.approx(factor * row.compute_seconds)
        assert half[name].memory_seconds == pytest.approx(factor * row.memory_seconds)


def test_other_constants_of_experts_are_those_of_formats_without_kernels() -> None:
    further = ("experts.math_efficiency=0.1", "experts.hbm_efficiency=0.1", "experts.overlap=0", "experts.tile=512")
    known, unknown = (
        [_rows(_setup((*changes, *more)), _plans())["experts in"].seconds for more in ((), further)]
        for changes in (CHANGES, (CHANGES[0].replace("{fp8:", "{nvfp4:"), *CHANGES[1:]))
    )
    assert known[0] == known[1]
    assert unknown[0] < unknown[1]


def test_the_busiest_rank_counts_once() -> None:
    """The busiest rank has more tokens per expert, so less of its arithmetic is padding."""
    even, busy = (_setup((*CHANGES, f"experts.imbalance={times}")) for times in (1, 2))
    plans = _plans(ep=8.0, batch=1024.0)
    rows = [next(row for row in setup.work(plans).operators if row.name == "experts in") for setup in (even, busy)]
    assert scalar(rows[1].flop_per_token) == pytest.approx(2.0 * scalar(rows[0].flop_per_token))
    # 64 tokens per expert, then 128; on 8 chips an expert is whole: 1,536 columns.
    along = (1 + 512 / 2048) * (1 + 512 / 1536)
    assert scalar(rows[0].padding) == pytest.approx((1 + 64 / 64) * along, rel=1e-9)
    assert scalar(rows[1].padding) == pytest.approx((1 + 64 / 128) * along, rel=1e-9)


def _published() -> list[dict[str, float]]:
    path = Path(__file__).parents[3] / "scenarios" / "measured" / "kernels.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["op"].startswith("grouped_gemm")]
    return [{key: float(row[key]) for key in ("groups", "m", "n", "k", "value")} for row in rows]


@pytest.mark.parametrize(
    "row", _published(), ids=lambda row: f"{row['groups']:g}x{row['m']:g}x{row['n']:g}x{row['k']:g}"
)
def test_deepgemm_on_h800(row: dict[str, float]) -> None:
    """Compare with the products in DeepGEMM's README; the constants are fitted to these and to full layers."""
    changes = ["assumptions.experts.kernels=hopper_trtllm"]
    setup = Setup.of("deepseek_v3", "h800_sxm", assumptions="deployable", changes=changes)
    kernel = present(setup.assumptions.experts.kernel("fp8_block"))
    flop = 2.0 * row["groups"] * row["m"] * row["n"] * row["k"]
    extra = {"extra_tokens": kernel.extra_tokens, "extra_elements": kernel.extra_elements}
    compute = (
        flop
        * float(padded_share(row["m"], row["n"], row["k"], **extra))
        / setup.rates.flops_per_second("fp8_block", "experts")
    )
    read = row["groups"] * row["n"] * row["k"] / setup.rates.weight_bytes_per_second("fp8_block", "experts")
    seconds = max(compute, read) + (1.0 - kernel.overlap) * min(compute, read)
    assert flop / seconds / 1e12 == pytest.approx(row["value"], rel=0.13)


@pytest.mark.parametrize("name", ["hoper", "x" * 400])
def test_unknown_kernels(name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown kernels '{name}'; known: .*ada, blackwell.*hopper"):
        catalog.assumptions("deployable", changes=[f"experts.kernels={name}"])


@pytest.mark.rows
def test_kernels_that_cannot_be(change: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        catalog.assumptions("deployable", changes=[change])


def test_a_constant_of_a_named_file_can_be_changed() -> None:
    changed = catalog.assumptions("deployable", changes=["experts.kernels.fp8_block.passes=7"])
    assert changed.experts.kernels["fp8_block"].passes == 7
    assert changed.experts.kernels["bf16"].passes != 7


#: Achieved share of a kernel on H100: its unit sustains 0.8, and is 29.58 FLOP ahead of one of fp32.
UNIT = "unit: {vendor: NVIDIA, efficiency: 0.8, per_vector: 29.58}"
SLOW = (
    f"{{math_efficiency: 0.4, hbm_efficiency: 0.5, overlap: 1, extra_tokens: 64, extra_elements: 0, passes: 1, {UNIT}}}"
)


def _carried(chip: str, kernel: str = SLOW, ep: float = 1.0, tp: float = 8.0) -> OperatorCosts:
    changes = (f"experts.kernels={{fp8: {kernel}}}", "network.collectives=free", "host.graph_launch=0 us")
    return _rows(_setup(changes, chip=chip), _plans(ep=ep, tp=tp))["experts in"]


def test_kernels_on_a_chip_with_another_ridge() -> None:
    """A product at 0.4 of the peak in tiles of 256 + 64 rows: the unit sustains 0.8, so it needs half of the time.

    H20's unit is 296 / 44 = 6.73 FLOP ahead of one of fp32, 0.2274 of H100's. The other half therefore takes 0.2274 of
    its time relative to the unit. The product takes 0.5 + 0.5 x 0.2274 = 0.6137 of the time at 0.4 of the peak, which
    is 0.65 of the peak.
    """
    setups = {chip: catalog.hardware(chip).dense_flops_per_second["fp8"] for chip in ("h100_sxm", "h20_sxm")}
    flop = 48 * 2.5769803776e10
    expected = {"h100_sxm": 1.0, "h20_sxm": 0.5 + 0.5 * (296 / 44) / 29.58}
    for chip, peak in setups.items():
        product = _carried(chip)
        assert product.compute_seconds == pytest.approx(flop * 1.25 / (0.4 * peak) * expected[chip], rel=1e-3)
        assert product.flop == pytest.approx(flop)


def test_what_fills_tiles_is_not_the_units() -> None:
    """Narrow cuts cost time that scales with processors; relative to the peak, they cost less on H20 than on H100."""
    narrow = SLOW.replace("extra_elements: 0", "extra_elements: 512")
    cost = {
        chip: _carried(chip, narrow).compute_seconds / _carried(chip).compute_seconds
        for chip in ("h100_sxm", "h20_sxm")
    }
    assert cost["h100_sxm"] == pytest.approx(1.25 * (1 + 512 / 192), rel=1e-3)
    assert 1.0 < cost["h20_sxm"] < cost["h100_sxm"]


@pytest.mark.parametrize("chip", ["h20_sxm", "l40s", "h800_sxm", "gb200_nvl72"])
def test_no_chip_beats_its_unit(chip: str) -> None:
    setup = _setup((f"experts.kernels={{fp8: {SLOW}}}",), chip=chip)
    assert _carried(chip).compute_seconds >= 48 * 2.5769803776e10 * 1.25 / (0.8 * setup.peaks["fp8"]) * (1 - 1e-9)


def test_other_vendors_run_other_kernels() -> None:
    without = SLOW.replace(f", {UNIT}", "")
    assert _carried("mi300x").seconds == _carried("mi300x", without).seconds
    assert _carried("h20_sxm").seconds < _carried("h20_sxm", without).seconds


def test_exchanged_tokens_have_kernels_of_their_own() -> None:
    """Only ranks with separate sequences use all-to-all kernels; prompts and decode steps have one each."""
    fast, faster = (SLOW.replace("0.4", share) for share in ("0.6", "0.7"))
    both = SLOW.removesuffix("}") + f", exchanged: {{prompts: {fast}, decode: {faster}}}}}"
    assert _carried("h100_sxm", both) == _carried("h100_sxm")
    assert _carried("h100_sxm", both, ep=8.0, tp=1.0) == _carried("h100_sxm", faster, ep=8.0, tp=1.0)
    setups = [
        _setup((f"experts.kernels={{fp8: {kernel}}}", "network.collectives=free", "host.graph_launch=0 us"))
        for kernel in (both, fast)
    ]
    prompts = replace(_plans(batch=8.0, ep=8.0, tp=1.0), new_tokens=512, prefill=True)
    assert scalar(step_seconds(setups[0], prompts)[0]) == scalar(step_seconds(setups[1], prompts)[0])


def test_a_table_of_both_kinds_has_each_its_curve() -> None:
    """Plans with and without all-to-all in one table take the same time as each alone."""
    faster = SLOW.replace("0.4", "0.7")
    both = SLOW.removesuffix("}") + f", exchanged: {{prompts: {faster}, decode: {faster}}}}}"
    setup = _setup((f"experts.kernels={{fp8: {both}}}",))
    ones = np.ones(2)
    together = step_seconds(
        setup, Plans(8 * ones, 512 * ones, ones, np.array([8.0, 1.0]), np.array([1.0, 8.0]), whole=True)
    )
    alone = [step_seconds(setup, _plans(batch=512.0, ep=ep, tp=tp)) for ep, tp in ((1.0, 8.0), (8.0, 1.0))]
    np.testing.assert_allclose(together[0], [scalar(seconds[0]) for seconds in alone], rtol=1e-12)


def test_a_kernel_without_a_vendor_is_refused() -> None:
    with pytest.raises(SpecError, match="vendor"):
        _carried("h100_sxm", SLOW.replace("vendor: NVIDIA, ", ""))


def _bounded(chip: str, batch: float, *, bound: bool | None = None) -> float:
    """Return the step time of gpt-oss 20b on one chip [s], without the bound or with that of the preset."""
    changes = [] if bound is None else [f"assumptions.experts.dense_bound={str(bound).lower()}"]
    setup = Setup.of("gpt_oss_20b", chip, changes=changes, context=320.0)
    return scalar(step_seconds(setup, plan_of(1, batch=batch))[0])


def test_a_dense_product_bounds_kernels_of_other_chips() -> None:
    # Measured on L40S: 14 ms for 3.7 GB of weights, which need 3.7 ms at the datasheet bandwidth.
    assert _bounded("rtx_4090", 1, bound=False) > 2.0 * _bounded("rtx_4090", 1)
    # gpt-oss on A100, vLLM 0.11: the kernels of Hopper give the throughput of 1,000 requests within 20 %.
    assert _bounded("a100_sxm_80", 4, bound=False) > 1.3 * _bounded("a100_sxm_80", 4)
    assert _bounded("a100_sxm_80", 256, bound=False) == _bounded("a100_sxm_80", 256)


@pytest.mark.parametrize("chip", ["h100_sxm", "h20_sxm", "b200", "gb300_nvl72"])
def test_measured_kernels_have_no_bound(chip: str) -> None:
    assert _bounded(chip, 4, bound=False) == _bounded(chip, 4)


def test_rubin_has_the_kernels_of_blackwell() -> None:
    assert _bounded("vr200_nvl72", 64) < 1.2 * _bounded("gb300_nvl72", 64)


# Kernels of dense products: the engine's use of their constants.

PRODUCT = "{bf16: {math_efficiency: 0.5, hbm_efficiency: 0.8, overlap: 0.25}}"


def _products(batch: float, *changes: str) -> tuple[Setup, dict[str, OperatorCosts]]:
    what_ifs = [f"chip.products={PRODUCT}", "network.collectives=free", "host.graph_launch=0 us", *changes]
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
    setup, rows = _products(batch)
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
    _, alone = _products(64.0)
    _, served = _products(64.0, "chip.product_efficiency=0.8")
    assert served["qkv"].compute_seconds == pytest.approx(alone["qkv"].compute_seconds / 0.8)
    # Attention and pointwise operators are not products.
    for name in ("attention", "norms"):
        if name in alone:
            assert served[name].seconds == alone[name].seconds


def test_formats_without_kernels_have_the_shares_of_the_chip() -> None:
    setup, _ = _products(64.0)
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
