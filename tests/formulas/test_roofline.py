"""Sections 2.1 and 2.2 of Erdil (2025): equations (1)-(5), (8)-(19), Table 1."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from inference_econ.formulas.roofline import (
    ToyModel,
    ToyNetwork,
    critical_batch,
    single_device_latency,
    square_root_law,
    toy_latency,
    toy_minimum_latency,
)
from tests.reading import fixture_table

#: Bytes per weight, HBM bandwidth [B/s] and arithmetic rate [FLOP/s] of section 2 (uncapped H100, 16 bits).
P, B, C = 2.0, 3.3e12, 1e15
_model: Any = partial(ToyModel, bytes_per_parameter=P, bytes_per_second=B, flops_per_second=C)

parameter_counts = st.floats(1e8, 1e13)
layer_counts = st.integers(1, 500)
batches = st.floats(1.0, 1e6)


@given(parameters=parameter_counts, batch=batches)
def test_equation_1_is_the_slower_of_reads_and_arithmetic(parameters: float, batch: float) -> None:
    reads, arithmetic = P * parameters / B, 2 * parameters * batch / C
    assert single_device_latency(parameters, batch, P, B, C) == pytest.approx(max(reads, arithmetic), rel=1e-14)


def test_equation_2_critical_batch_of_the_h100() -> None:
    # p C / (2 B) = 2 x 1e15 / (2 x 3.3e12), about 300 requests.
    assert critical_batch(P, B, C) == pytest.approx(303.0303030303, rel=1e-12)


@given(parameters=parameter_counts)
def test_equation_2_cost_falls_until_the_critical_batch_and_is_flat_after(parameters: float) -> None:
    batch = critical_batch(P, B, C)
    share = np.array([0.5, 1.0, 2.0])
    device_seconds = single_device_latency(parameters, share * batch, P, B, C) / (share * batch)
    flat = 2 * parameters / C
    assert device_seconds == pytest.approx([2 * flat, flat, flat], rel=1e-12)


@given(parameters=parameter_counts, layers=layer_counts, batch=batches, size=st.floats(1.0, 1e4))
def test_equation_3_adds_reductions_to_the_divided_roofline(
    parameters: float, layers: int, batch: float, size: float
) -> None:
    free, fixed = (
        toy_latency(_model(parameters, layers, network=ToyNetwork(hop_seconds=0.0, base_seconds=seconds)), size, batch)
        for seconds in (0.0, 5e-6)
    )
    device = single_device_latency(parameters, batch, P, B, C) / size
    assert free == pytest.approx(device, rel=1e-14)
    assert fixed == pytest.approx(layers * 4 * 5e-6 + device, rel=1e-13)


def test_equation_4_network_costs_grow_with_the_instance_and_arithmetic_does_not() -> None:
    # GPU-seconds per token, N latency / b: only the first term of eq. (4) has N in it.
    size, batch, reduction = np.array([4.0, 16.0]), 1000.0, 5e-6
    latency = toy_latency(_model(70e9, 80, network=ToyNetwork(hop_seconds=0.0, base_seconds=reduction)), size, batch)
    expected = size / batch * 80 * 4 * reduction + max(P * 70e9 / (batch * B), 2 * 70e9 / C)
    assert size * latency / batch == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("size", "hops"), [(1.0, 0.0), (4.0, 2.0), (9.0, 4.0), (64.0, 14.0)])
def test_equations_5_and_8_a_reduction_crosses_two_sides_of_the_square(size: float, hops: float) -> None:
    latency = toy_latency(_model(1e9, 10), size, 1)
    assert latency == pytest.approx(10 * 4 * hops * 1e-6 + P * 1e9 / (size * B), rel=1e-14)


def test_equation_5_a_fraction_of_a_chip_has_no_network() -> None:
    latency = toy_latency(_model(1e9, 10), 0.25, 1)
    assert latency == pytest.approx(P * 1e9 / (0.25 * B), rel=1e-14)


def test_equation_7_parallel_attention_halves_the_reductions() -> None:
    sequential = ToyModel(1e9, 118, P, math.inf)
    parallel = sequential._replace(network=ToyNetwork(reductions=2))
    assert toy_latency(parallel, 64, 1) == pytest.approx(toy_latency(sequential, 64, 1) / 2, rel=1e-14)


@settings(max_examples=60)
@given(
    parameters=parameter_counts,
    layers=layer_counts,
    bandwidth=st.floats(1e11, 1e14),
    hop=st.floats(1e-7, 1e-4),
    reductions=st.sampled_from([2.0, 4.0]),
)
def test_equations_13_and_14_equal_a_numerical_minimum(
    parameters: float, layers: int, bandwidth: float, hop: float, reductions: float
) -> None:
    model = ToyModel(parameters, layers, P, bandwidth, network=ToyNetwork(reductions, hop))
    best = toy_minimum_latency(model)

    def latency(log_size: float) -> float:
        return float(toy_latency(model, math.exp(log_size), 1))

    # Searched over the logarithm of the size, in which the latency has one minimum; the search never tries its ends.
    found = minimize_scalar(latency, bounds=(0.0, math.log(1e9)), method="bounded", options={"xatol": 1e-9})
    least, where = min((float(found.fun), math.exp(float(found.x))), (latency(0.0), 1.0))
    # A minimum is flat: the latency's error is the square of the size's error.
    assert float(best.seconds) == pytest.approx(least, rel=1e-9)
    assert float(best.accelerators) == pytest.approx(where, rel=1e-3)
    assert float(best.seconds) == pytest.approx(latency(math.log(float(best.accelerators))), rel=1e-10)


def test_equations_10_to_12_the_two_slopes_are_equal_at_the_optimum() -> None:
    size = float(toy_minimum_latency(_model(70.55e9, 80)).accelerators)
    network, reads = 80 * 4 * 1e-6 * size**-0.5, P * 70.55e9 / (size**2 * B)
    assert network == pytest.approx(reads, rel=1e-12)


def test_equation_14_a_small_model_stays_on_one_chip() -> None:
    best = toy_minimum_latency(_model(1e8, 100, network=ToyNetwork(hop_seconds=1e-4)))
    assert best.accelerators == 1.0
    assert best.seconds == pytest.approx(P * 1e8 / B, rel=1e-14)


def test_equations_15_to_17_fastest_costs_up_to_three_times_the_cheapest() -> None:
    parameters, layers = 1e15, 100
    best = toy_minimum_latency(_model(parameters, layers))
    cost = float(best.accelerators / critical_batch(P, B, C) * best.seconds)
    cheapest = 2 * parameters / C
    # 3 - 2 / sqrt(N*): approaches 3 from below, slowly.
    assert cost / cheapest == pytest.approx(3 - 2 / math.sqrt(float(best.accelerators)), rel=1e-12)
    assert 2.9 < cost / cheapest < 3


@pytest.mark.parametrize("growth", [1e2, 1e4])
def test_equations_18_and_19_latency_grows_as_the_root_if_depth_grows_as_the_fourth_root(growth: float) -> None:
    parameters, layers = 1e13, 200.0
    small, large = (toy_minimum_latency(_model(factor * parameters, factor**0.25 * layers)) for factor in (1.0, growth))
    leading = 3 * (layers * 4 * 1e-6) ** (2 / 3) * (P * parameters / B) ** (1 / 3)
    # Eq. (18) drops 2 L R T_h, which is 2 / (3 sqrt(N*)) of it: 3.4 % here.
    dropped = 2 / (3 * math.sqrt(float(small.accelerators)))
    assert dropped < 0.035
    assert float(small.seconds) == pytest.approx(leading * (1 - dropped), rel=1e-12)
    law = float(square_root_law(growth * parameters, parameters, float(small.seconds)))
    assert float(large.seconds) == pytest.approx(law, rel=dropped)


def test_equation_19_square_root_law() -> None:
    seconds = square_root_law(np.array([1e9, 4e9, 100e9]), 1e9, 0.01)
    assert seconds == pytest.approx([0.01, 0.02, 0.1], rel=1e-14)


@pytest.mark.parametrize(
    ("code_name", "tokens_per_second", "accelerators"),
    [("Llama_3_8B", 966, 11), ("Llama_3_70B", 234, 26), ("GPT_3", 148, 42), ("PaLM_540B", 86, 79), ("GPT_4", 56, 173)],
)
def test_table_1(code_name: str, tokens_per_second: int, accelerators: int) -> None:
    # Uncapped bandwidth, all parameters, four reductions even for PaLM; to the printed digit.
    model = fixture_table("models", "code_name")[code_name]
    best = toy_minimum_latency(_model(float(model["total_params"]), float(model["layers"])))
    assert round(1 / float(best.seconds)) == tokens_per_second
    assert round(float(best.accelerators)) == accelerators


def test_section_2_2_equals_the_published_code(latency_row: dict[str, str]) -> None:
    model = fixture_table("models", "code_name")[latency_row["model"]]
    chip = fixture_table("hardware", "name")[latency_row["gpu"]]
    size, batch = float(latency_row["n_gpu"]), float(latency_row["batch"])
    width, parameters = float(model["weight_precision_bytes"]), float(model["total_params"])
    cache = float(model["kv_cache_bytes_per_token"]) * float(latency_row["input_len"]) * batch
    toy = ToyModel(
        parameters,
        float(model["layers"]),
        width,
        float(chip["hbm_Bps_theoretical"]) * float(chip["mem_cap"]),
        float(chip[f"theoretical_flops_{8 * width:.0f}"]) * float(chip["arith_cap"]),
        ToyNetwork(2 if latency_row["model"].startswith("PaLM") else 4, base_seconds=6e-6),
    )
    seconds = toy_latency(toy, size, batch)
    fits = size * float(chip["hbm_bytes"]) >= cache + width * parameters
    expected = float(latency_row["section22_s"])
    assert fits == math.isfinite(expected)
    if fits:
        assert float(seconds) == pytest.approx(expected, rel=1e-12)
