"""Number formats: stored bytes, and the math unit that runs them."""

from __future__ import annotations

import importlib
import re

import pytest

from inference_econ.engine import Setup
from inference_econ.engine.memory import weight_bytes
from inference_econ.errors import InputError
from inference_econ.inputs import ALIASES, BYTES_PER_ELEMENT, Precision, catalog, check_cache_dtype, math_unit
from inference_econ.inputs.dtype import OF_FILES, block_width, check_dtype, family


@pytest.mark.rows
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


@pytest.mark.rows
def test_stored_bytes_count_block_scales(dtype: str, bits: int, elements: int, scale_bits: int) -> None:
    assert BYTES_PER_ELEMENT[dtype] == (elements * bits + scale_bits) / 8 / elements


@pytest.mark.rows
def test_formats_in_blocks_of_any_size(dtype: str, bits: float, kernels: str, width: int) -> None:
    assert BYTES_PER_ELEMENT[dtype] == bits / 8
    assert (family(dtype), block_width(dtype)) == (kernels, width)
    parameters = importlib.import_module("inference_econ.requests.kinds")
    assert parameters.FormatKind().read(dtype) == check_dtype(dtype, "weights") == dtype
    alike, setup = (Setup.of("qwen3_32b", "b200", weights=name) for name in (kernels, dtype))
    assert setup.rates.flops_per_second(dtype) == alike.rates.flops_per_second(kernels)
    model = setup.model
    layers = model.total_parameters - model.embedding_parameters
    difference = layers * (BYTES_PER_ELEMENT[dtype] - BYTES_PER_ELEMENT[kernels])
    held = [weight_bytes(model, precision) for precision in (setup.precision, alike.precision)]
    assert held[0] - held[1] == pytest.approx(difference)


@pytest.mark.parametrize("dtype", ["fp8_block_0x32", "mxfp8_32", "int4_g", "nvfp4_g32", "fp8_block_64x64x64"])
def test_no_other_name_is_a_format_of_some_size(dtype: str) -> None:
    with pytest.raises(InputError, match=f"weights: unknown number format '{dtype}'"):
        check_dtype(dtype, "weights")
    with pytest.raises(KeyError, match=dtype):
        BYTES_PER_ELEMENT[dtype]


@pytest.mark.rows
def test_files_of_llama_cpp_have_their_published_size(name: str, dtype: str, size: float, rel: float) -> None:
    model = catalog.model(name)
    assert weight_bytes(model, Precision.of(model, dtype)) == pytest.approx(size, rel=rel)


def test_every_list_of_formats_is_the_same() -> None:
    parameters = importlib.import_module("inference_econ.requests.kinds")
    assert set(parameters.FormatKind().words) - set(ALIASES) == set(BYTES_PER_ELEMENT)


@pytest.mark.parametrize("name", ["awq", "gptq"])
def test_what_people_call_four_bits_in_groups_is_that(name: str) -> None:
    parameters = importlib.import_module("inference_econ.requests.kinds")
    assert parameters.FormatKind().read(name) == "int4"
    assert Precision.of(catalog.model("llama_3_8b"), weights=name) == Precision.of(catalog.model("llama_3_8b"), "int4")


def test_stored_bytes_of_published_files() -> None:
    """DeepSeek-V3's safetensors files hold 688,586,727,753 bytes, multi-token prediction included.

    Multi-token prediction is one more layer, both embeddings again and a projection of twice the width in bf16. The
    relative tolerance is 3e-4: norms and routers are published in bf16, but counted in the format of the weights.
    """
    model = catalog.model("deepseek_v3")
    dense, mixture = model.blocks
    model = model.replace(blocks=(dense, mixture.replace(layers=mixture.layers + 1)))
    beside = 2 * (model.embedding_parameters + 2 * model.hidden_size**2)
    assert weight_bytes(model, Precision.of(model)) + beside == pytest.approx(688_586_727_753, rel=3e-4)


def test_stored_bytes_of_experts_in_groups_of_32() -> None:
    # Kimi K2 Thinking: 60 layers of 384 experts in 4.5 bits, all else in 16.
    model = catalog.model("kimi_k2_thinking")
    routed = 60 * 384 * 3 * 7168 * 2048
    others = model.total_parameters - routed
    assert weight_bytes(model, Precision.of(model)) == pytest.approx(routed * 4.5 / 8 + others * 2, rel=1e-12)


@pytest.mark.rows
def test_a_chip_holds_a_cache_of_integers_and_of_floats_that_it_computes_with(
    chip: str, held: list[str], refused: dict[str, str]
) -> None:
    hardware = catalog.hardware(chip)
    peaks = {str(unit): peak for unit, peak in hardware.dense_flops_per_second.items()}
    for dtype in held:
        assert check_cache_dtype(dtype, peaks, chip) == dtype
    for dtype, unit in refused.items():
        message = f"{chip} cannot hold a KV cache of {dtype}: it has no {unit} units; kv can be fp32, "
        with pytest.raises(InputError, match=message) as found:
            check_cache_dtype(dtype, peaks, chip)
        assert f" {dtype}," not in str(found.value).partition("kv can be")[2]


@pytest.mark.parametrize(
    "weights", sorted({name for name, width in BYTES_PER_ELEMENT.items() if width < 1.5} - OF_FILES)
)
def test_narrow_weights_leave_embeddings_in_sixteen_bits(weights: str) -> None:
    assert Precision.of(catalog.model("llama_3_70b"), weights).embeddings == "bf16"
    assert Precision.of(catalog.model("gemma_2_9b"), weights).embeddings == "bf16"  # published in 32 bits
    assert Precision.of(catalog.model("llama_3_70b"), weights, embeddings="as_weights").embeddings == weights


def test_formats_of_embeddings_that_a_model_states_win() -> None:
    assert Precision.of(catalog.model("deepseek_v3"), "nvfp4").embeddings == "bf16"
    told = catalog.model("llama_3_70b", changes=["embedding_weights=fp8"])
    assert Precision.of(told, "int4").embeddings == "fp8"
    # 16-bit formats apply to all weights, and a study's model in one narrow format has one.
    assert Precision.of(told, "bf16").embeddings == "bf16"
    assert Precision.of(catalog.model("paper/deepseek_v3"), "int4_channel").embeddings == "int4_channel"


def test_loaded_weights_of_a_published_log() -> None:
    # vLLM, Llama-3.3-70B in fp8 on one GPU: "Model loading took 67.7 GiB".
    model = catalog.model("llama_3_70b")
    assert weight_bytes(model, Precision.of(model, "fp8")) / 2**30 == pytest.approx(67.7, abs=0.05)
    # The study's presets have one width for all.
    for preset, width in (("paper", "fp8"), ("deployable", "bf16")):
        assert Setup.of(model, "h100_sxm", weights="fp8", assumptions=preset).precision.embeddings == width
