"""Layers on the CPU: their time, their memory, measured speeds, and rejected values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.fits import fits
from inference_econ.answers.layout_services import cpu_layers_advice, offer
from inference_econ.engine import Pins, Setup, evaluate, fastest_cut, memory
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.engine.step import cpu_seconds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests
from tests.planned import plan_of
from tests.reading import fixture_rows, scalar

#: Layers of Llama 3.1 70B, and the share of the peak that host memory delivers.
LAYERS, EFFICIENCY = 80, 0.65


def _setup(count: int, *changes: str, context: float = 0.0, chip: str = "rtx_4090") -> Setup:
    placed = [f"assumptions.cpu.layers={count}", *changes]
    return Setup.of("llama_3_70b", chip, weights="q4_k_m", engine="llama_cpp", context=context, changes=placed)


def _layer_bytes(setup: Setup) -> float:
    """Return the weights of one layer; embeddings are 2 x 128,256 x 8,192 elements [B]."""
    groups = memory.weight_bytes(setup.model, setup.precision), memory.weight_bytes(setup.model, setup.precision, 1.0)
    return (groups[0] - groups[1]) / LAYERS


def test_a_step_takes_the_time_of_both_parts() -> None:
    plan, half, none = plan_of(batch=1), _setup(40), _setup(0)
    # Half of the layers at 65 % of 89.6 GB/s, and 8,192 activations of 2 bytes to the CPU and back.
    host = 40 * _layer_bytes(half) / (EFFICIENCY * 89.6e9) + 2 * 8192 * 2 / (0.8 * 32e9)
    assert scalar(cpu_seconds(half, half.work(plan))) == pytest.approx(host, rel=1e-3)
    # Operators that run once per step, and half of the layers.
    rows = operator_costs(none, plan, "1d")
    once = sum(row.seconds for row in rows if row.repeats == 1.0)
    overhead = none.assumptions.host.step_overhead + none.assumptions.host.sequence_overhead
    chip = once + overhead + sum(row.seconds for row in rows if row.repeats > 1.0) / 2
    costs = evaluate(half, plan, "1d")
    assert scalar(fastest_cut(half, plan)) == pytest.approx(host + chip, rel=1e-4)
    assert scalar(costs.seconds) == pytest.approx(scalar(fastest_cut(half, plan)), rel=1e-12)
    assert scalar(costs.parts["host_memory"]) == pytest.approx(host, rel=1e-3)


def test_many_sequences_wait_for_the_arithmetic_of_the_cpu() -> None:
    setup, plan = _setup(40), plan_of(batch=16)
    flop = sum(row.repeats * row.flop_per_token for row in setup.work(plan).in_host_memory)
    assert scalar(cpu_seconds(setup, setup.work(plan))) == pytest.approx(16 * scalar(flop) / 0.5e12, rel=1e-3)


def test_long_prompts_copy_the_layers_to_the_gpu() -> None:
    # From 32 tokens on the GPU computes all layers; 1,100 tokens are three batches of 512, at 80 % of 32 GB/s.
    setup, none = _setup(40), _setup(0)
    for tokens, copies in ((32, 1), (1100, 3)):
        plan = plan_of(batch=1, new_tokens=tokens, prefill=True)
        copied = scalar(fastest_cut(setup, plan)) - scalar(fastest_cut(none, plan))
        assert copied == pytest.approx(copies * 40 * _layer_bytes(setup) / 25.6e9, rel=0.01)


@settings(deadline=None, max_examples=20)
@given(count=st.integers(0, LAYERS - 2), batch=st.integers(1, 40))
def test_more_layers_on_the_cpu_are_slower_and_free_memory(count: int, batch: int) -> None:
    fewer, more, plan = _setup(count, context=2000), _setup(count + 1, context=2000), plan_of(batch=batch)
    assert scalar(fastest_cut(more, plan)) > scalar(fastest_cut(fewer, plan))
    less, needed = more.memory(plan), fewer.memory(plan)
    assert scalar(less.weight_bytes + less.kv_bytes) < scalar(needed.weight_bytes + needed.kv_bytes)
    total = needed.kv_bytes + needed.cpu_kv_bytes
    assert scalar(total) == pytest.approx(scalar(_setup(0, context=2000).memory(plan).kv_bytes), rel=1e-9)


def test_no_layer_on_the_cpu_changes_nothing() -> None:
    usual = Setup.of("llama_3_70b", "rtx_4090", weights="q4_k_m", engine="llama_cpp", context=2000)
    none, plan = _setup(0, context=2000), plan_of(2, batch=4)
    assert scalar(fastest_cut(none, plan)) == scalar(fastest_cut(usual, plan))
    assert none.work(plan).in_host_memory == ()
    assert scalar(none.memory(plan).kv_bytes) == scalar(usual.memory(plan).kv_bytes)


@pytest.mark.parametrize("row", fixture_rows("cpu_layers"), ids=lambda row: f"{row['source']}-{row['gpu_layers']}")
def test_measured_speeds(row: dict[str, str]) -> None:
    changes = [change for change in row["changes"].split(";") if change]
    layers = Setup.of(row["model"], row["chip"], weights=row["weights"]).model.layers
    placed = f"assumptions.cpu.layers={layers + 1 - int(row['gpu_layers'])}"
    setup = Setup.of(row["model"], row["chip"], weights=row["weights"], changes=[placed, *changes])
    speed = explain(setup, Pins(batch=1), context=64).tokens_per_second
    assert speed == pytest.approx(float(row["tokens_per_second"]), rel=float(row["within"]))


def test_the_fewest_layers_that_fit_one_gpu() -> None:
    requests = Requests.model_validate({"isl": 2000, "osl": 500})
    advice = cpu_layers_advice(_setup(0, context=requests.longest), "One")
    assert advice == "One GPU is enough with --cpu-layers 42 (llama.cpp)"
    assert fits(_setup(42), requests).instances[0].service.accelerators == 1
    with pytest.raises(NothingFitsError, match=r"at most 1 are allowed .* one GPU is enough with --cpu-layers 42"):
        offer(_setup(20), requests)
    assert cpu_layers_advice(Setup.of("llama_3_70b", "h100_sxm")) == ""
    assert cpu_layers_advice(Setup.of("llama_3_405b", "m4_max")) == ""


def test_host_memory_limits_the_requests() -> None:
    requests = Requests.model_validate({"isl": 2000, "osl": 500})
    open_slots, few = (
        offer(_setup(45, *changes), requests).slots for changes in ([], ["assumptions.cpu.memory_bytes=25 GB"])
    )
    held = (25e9 - 45 * _layer_bytes(_setup(45))) / (45 * 2250 * 2 * 8 * 128 * 2.0)
    assert few[0] == np.floor(held) < open_slots[0]


def test_rejected_values() -> None:
    with pytest.raises(InputError, match=r"--cpu-layers: Llama 3.1 70B has 80 layers .got 80.; one at least stays on"):
        _setup(80)
    with pytest.raises(InputError, match=r"--cpu-layers: Apple M4 Max 128GB lists no link to a separate host memory"):
        _setup(4, chip="m4_max")
    with pytest.raises(InputError, match=r"--host-memory: 45 layers of Llama 3.1 70B need 23.6 GB .got 16."):
        _setup(45, "assumptions.cpu.memory_bytes=16 GB")
    with pytest.raises(InputError, match=r"--cpu-layers: only llama_cpp computes layers on the CPU .got vllm."):
        Setup.of("llama_3_70b", "rtx_4090", engine="vllm", changes=["assumptions.cpu.layers=4"])
    with pytest.raises(InputError, match=r"layers on the CPU are modeled for one GPU .got tp=2"):
        explain(_setup(45), Pins(tp=2, batch=1), context=0)
