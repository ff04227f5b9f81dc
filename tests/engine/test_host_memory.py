"""Host memory: KV caches, weights and layers of the CPU in it; the gain, the cost and rejected inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.fits import fits
from inference_econ.answers.layout_services import cpu_layers_advice, decode_frontier, offer
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut, memory
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.engine.step import cpu_seconds
from inference_econ.errors import InputError, NothingFitsError, SpecError
from inference_econ.inputs import Requests, Traffic
from inference_econ.report.notes import cpu_notes
from inference_econ.report.questions.explain import ExplanationPage
from inference_econ.serving.services import slots_of
from tests.planned import plan_of
from tests.reading import fixture_rows, scalar

# KV caches in host memory: the larger capacity, the cost, and rejected inputs.

#: Llama 3 70B: 80 layers of 8 key and value heads of 128 numbers in 16 bits [B].
TOKEN = 80 * 2 * 8 * 128 * 2.0
CONTEXT = 100_000


def _paging(share: float, *changes: str) -> Setup:
    paged = f"assumptions.capacity.host_cache={share}"
    return Setup.of(
        "llama_3_70b", "h100_sxm", weights="fp8", assumptions="deployable", context=CONTEXT, changes=[paged, *changes]
    )


@pytest.mark.parametrize(("tp", "pp", "batch"), [(4, 1, 30), (8, 1, 40), (4, 2, 40)])
def test_what_has_no_room_is_read_over_the_link(tp: float, pp: float, batch: float) -> None:
    setup, plan = _paging(0.99), plan_of(tp, pp=pp, batch=batch)
    needed = setup.memory(plan)
    room = scalar(needed.available_bytes) - scalar(needed.weight_bytes)
    beyond = batch * CONTEXT * TOKEN - room
    assert scalar(needed.paged_bytes) == pytest.approx(beyond, rel=1e-12) and scalar(needed.fits)
    # Each chip reads its part at 80% of 64 GB/s; in a pipeline, one stage after the other reads that of a micro-batch.
    seconds = beyond / pp / tp / (0.8 * 64e9)
    costs = evaluate(setup, plan, "1d")
    overhead = setup.assumptions.host.step_overhead + setup.assumptions.host.sequence_overhead * batch / pp
    assert scalar(costs.seconds) == pytest.approx(seconds + overhead, rel=1e-9)
    assert scalar(fastest_cut(setup, plan)) == pytest.approx(scalar(costs.seconds), rel=1e-12)


def test_nothing_is_paged_while_there_is_room() -> None:
    for batch in (1, 6):
        with_host, without = (evaluate(_paging(share), plan_of(4, batch=batch), "1d") for share in (0.99, 0.0))
        assert scalar(with_host.seconds) == scalar(without.seconds)


def test_slots_end_where_both_memories_are_full() -> None:
    plan, lengths = plan_of(4, batch=1), CONTEXT * TOKEN
    (few,), (some,), (most,) = (slots_of(_paging(share), plan) for share in (0.0, 0.5, 0.99))
    assert some == pytest.approx(2 * few, abs=2)
    # Four hosts' shares of 256 GB, in addition to the chips' memory.
    assert most == few + 1024e9 // lengths + 1 or most == few + 1024e9 // lengths


def test_a_frontier_goes_on_to_more_sequences() -> None:
    space = Space(Pins(tp=4), max_accelerators=4)
    alone, paging = (decode_frontier(_paging(share), Traffic(context=CONTEXT), space) for share in (0.0, 0.9))
    assert paging.batch.max() >= alone.batch.max()
    assert paging.tokens_per_second.max() == pytest.approx(alone.tokens_per_second.max())
    longer = Traffic(context=CONTEXT * 10)
    with pytest.raises(NothingFitsError):
        decode_frontier(_paging(0.0), longer, space)
    assert decode_frontier(_paging(0.9), longer, space).batch.max() >= 1


def test_it_is_seen_in_the_step() -> None:
    token = explain(_paging(0.99), Pins(tp=4, batch=35), context=CONTEXT)
    assert token.limited_by == "host_memory"
    notes = " ".join(ExplanationPage(token).tables()[0].every_note)
    assert "GB of KV cache from host memory." in notes
    assert token.held["free"] == pytest.approx(0.0, abs=1e3)
    assert sum(token.held.values()) == pytest.approx(token.setup.hardware.hbm_bytes)
    assert "paged_bytes" in token.record()


def test_caches_that_cannot_be_paged() -> None:
    with pytest.raises(NothingFitsError, match=r"KV cache \(beside 1024.0 GB on the hosts\) > .*; at least 20 acc"):
        explain(_paging(0.99), Pins(tp=4, batch=200), context=CONTEXT)
    with pytest.raises(InputError, match=r"host_cache is 0.5, but .* lists no link to the memory of its host; set"):
        Setup.of("llama_3_8b", "tpu_v5p", changes=["assumptions.capacity.host_cache=0.5"])
    with pytest.raises(SpecError, match=r"host_cache must be <= 0.99, got 1"):
        _paging(1)
    with pytest.raises(InputError, match="flash"):
        explain(_paging(0.5, "assumptions.capacity.host_memory=flash"), Pins(tp=4, batch=9), context=CONTEXT)


# Weights in host memory: the freed memory, the cost, and rejected inputs.


def _streaming(share: float, chip: str = "h100_sxm", *changes: str) -> Setup:
    shared = f"assumptions.capacity.host_weights={share}"
    return Setup.of(
        "llama_3_70b", chip, weights="fp8", assumptions="deployable", context=2000, changes=[shared, *changes]
    )


# tp, pp, share, accelerators that store the weights of a stage's layers, times stages: reads of one accelerator
STREAMED = [(1, 1, 1.0, 1), (4, 1, 0.5, 4), (4, 2, 0.5, 4), (8, 1, 0.25, 8)]


@pytest.mark.parametrize(("tp", "pp", "share", "chips"), STREAMED)
def test_a_step_takes_no_less_than_its_weights(tp: float, pp: float, share: float, chips: float) -> None:
    # Embeddings of 2 x 128,256 x 8,192 remain in 16 bits; a share of the layers' 68.5 GB arrives at 80% of 64 GB/s.
    setup, plan = _streaming(share), plan_of(tp, pp=pp, batch=8)
    embeddings = 2 * 128_256 * 8192 * 2.0
    layers = memory.weight_bytes(setup.model, setup.precision) - embeddings
    streamed = share * layers / chips / 51.2e9
    costs = evaluate(setup, plan, "1d")
    overhead = setup.assumptions.host.step_overhead + setup.assumptions.host.sequence_overhead * 8
    assert scalar(costs.seconds) == pytest.approx(streamed + overhead, rel=1e-12)
    assert scalar(fastest_cut(setup, plan)) == pytest.approx(scalar(costs.seconds), rel=1e-12)
    held = embeddings + (1 - share) * layers
    assert scalar(setup.memory(plan).weight_bytes) == pytest.approx(held, rel=1e-12)


def test_a_long_prompt_hides_what_a_token_waits_for() -> None:
    # 16,384 tokens of a 70B model are 2.3 PFLOP, more than a second at 1,385 TFLOP/s; its weights arrive in 1.34 s.
    usual, streaming = _streaming(0.0, "h200_sxm"), _streaming(1.0, "h200_sxm")
    alone, beside = (explain(setup, Pins(batch=1), prompt=16_384) for setup in (usual, streaming))
    assert beside.seconds == pytest.approx(alone.seconds, rel=1e-12)
    token = explain(streaming, Pins(batch=1), context=2000)
    assert token.limited_by == "host_memory" and token.seconds > 1.0
    assert token.streamed_seconds == pytest.approx(token.seconds, rel=0.01)
    notes = " ".join(ExplanationPage(token).tables()[0].every_note)
    assert "reads 68.5 GB of weights from host memory. This takes 1337.0 ms at 51.2 GB/s" in notes
    assert beside.held["free"] > alone.held["free"] + 60e9


@settings(deadline=None)
@given(share=st.floats(0.0, 1.0), batch=st.integers(1, 64))
def test_the_more_the_host_holds_the_slower_and_the_more_room(share: float, batch: int) -> None:
    some, none, plan = _streaming(share), _streaming(0.0), plan_of(2, pp=1, batch=batch)
    assert scalar(fastest_cut(some, plan)) >= scalar(fastest_cut(none, plan))
    assert scalar(some.memory(plan).weight_bytes) <= scalar(none.memory(plan).weight_bytes)


def test_smaller_instances_are_offered() -> None:
    requests, one = Requests.model_validate({"isl": 4000, "osl": 2}), Space(Pins(accelerators=1))
    assert offer(_streaming(0.9), requests, one).service(0).accelerators == 1
    wide = _streaming(0.9, "h100_sxm", "hardware.host_link_bytes_per_second_one_way=450 GB/s")
    fastest = offer(wide, requests, one).service(0)
    assert fastest.prefill_seconds < offer(_streaming(0.9), requests, one).service(0).prefill_seconds


def test_weights_that_cannot_be_streamed() -> None:
    with pytest.raises(InputError, match=r"host_weights is 0.5, but .* lists no link to the memory of its host; set"):
        _streaming(0.5, "tpu_v5p")
    with pytest.raises(SpecError, match=r"host_weights must be <= 1, got 1.5"):
        _streaming(1.5)


# Layers on the CPU: their time, their memory, measured speeds, and rejected values.

#: Layers of Llama 3.1 70B, and the share of the peak that host memory delivers.
LAYERS, EFFICIENCY = 80, 0.65


def _split(count: int, *changes: str, context: float = 0.0, chip: str = "rtx_4090") -> Setup:
    placed = [f"assumptions.cpu.layers={count}", *changes]
    return Setup.of("llama_3_70b", chip, weights="q4_k_m", engine="llama_cpp", context=context, changes=placed)


def _layer_bytes(setup: Setup) -> float:
    """Return the weights of one layer; embeddings are 2 x 128,256 x 8,192 elements [B]."""
    groups = memory.weight_bytes(setup.model, setup.precision), memory.weight_bytes(setup.model, setup.precision, 1.0)
    return (groups[0] - groups[1]) / LAYERS


def test_a_step_takes_the_time_of_both_parts() -> None:
    plan, half, none = plan_of(batch=1), _split(40), _split(0)
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
    setup, plan = _split(40), plan_of(batch=16)
    flop = sum(row.repeats * row.flop_per_token for row in setup.work(plan).in_host_memory)
    assert scalar(cpu_seconds(setup, setup.work(plan))) == pytest.approx(16 * scalar(flop) / 0.5e12, rel=1e-3)


def test_long_prompts_copy_the_layers_to_the_gpu() -> None:
    # From 32 tokens on the GPU computes all layers; 1,100 tokens are three batches of 512, at 80 % of 32 GB/s.
    setup, none = _split(40), _split(0)
    for tokens, copies in ((32, 1), (1100, 3)):
        plan = plan_of(batch=1, new_tokens=tokens, prefill=True)
        copied = scalar(fastest_cut(setup, plan)) - scalar(fastest_cut(none, plan))
        assert copied == pytest.approx(copies * 40 * _layer_bytes(setup) / 25.6e9, rel=0.01)


@settings(deadline=None, max_examples=20)
@given(count=st.integers(0, LAYERS - 2), batch=st.integers(1, 40))
def test_more_layers_on_the_cpu_are_slower_and_free_memory(count: int, batch: int) -> None:
    fewer, more, plan = _split(count, context=2000), _split(count + 1, context=2000), plan_of(batch=batch)
    assert scalar(fastest_cut(more, plan)) > scalar(fastest_cut(fewer, plan))
    less, needed = more.memory(plan), fewer.memory(plan)
    assert scalar(less.weight_bytes + less.kv_bytes) < scalar(needed.weight_bytes + needed.kv_bytes)
    total = needed.kv_bytes + needed.cpu_kv_bytes
    assert scalar(total) == pytest.approx(scalar(_split(0, context=2000).memory(plan).kv_bytes), rel=1e-9)


def test_no_layer_on_the_cpu_changes_nothing() -> None:
    usual = Setup.of("llama_3_70b", "rtx_4090", weights="q4_k_m", engine="llama_cpp", context=2000)
    none, plan = _split(0, context=2000), plan_of(2, batch=4)
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
    advice = cpu_layers_advice(_split(0, context=requests.longest), "One")
    needed = 42 * _layer_bytes(_split(42)) / 1e9
    assert advice == f"One GPU is enough with --cpu-layers 42 (llama.cpp) and {needed:.3g} GB of host memory"
    (note,) = cpu_notes(_split(42))
    assert f"42 of 80 layers, which need {needed:.3g} GB of host memory and " in note
    assert fits(_split(42), requests).instances[0].service.accelerators == 1
    with pytest.raises(NothingFitsError, match=r"at most 1 are allowed .* one GPU is enough with --cpu-layers 42"):
        offer(_split(20), requests)
    assert cpu_layers_advice(Setup.of("llama_3_70b", "h100_sxm")) == ""
    assert cpu_layers_advice(Setup.of("llama_3_405b", "m4_max")) == ""


def test_host_memory_limits_the_requests() -> None:
    requests = Requests.model_validate({"isl": 2000, "osl": 500})
    open_slots, few = (
        offer(_split(45, *changes), requests).slots for changes in ([], ["assumptions.cpu.memory_bytes=25 GB"])
    )
    held = (25e9 - 45 * _layer_bytes(_split(45))) / (45 * 2250 * 2 * 8 * 128 * 2.0)
    assert few[0] == np.floor(held) < open_slots[0]


def test_layers_that_the_cpu_cannot_compute() -> None:
    with pytest.raises(InputError, match=r"--cpu-layers: Llama 3.1 70B has 80 layers .got 80.; one at least stays on"):
        _split(80)
    with pytest.raises(InputError, match=r"--cpu-layers: Apple M4 Max 128GB lists no link to a separate host memory"):
        _split(4, chip="m4_max")
    with pytest.raises(InputError, match=r"--host-memory: 45 layers of Llama 3.1 70B need 23.6 GB .got 16."):
        _split(45, "assumptions.cpu.memory_bytes=16 GB")
    with pytest.raises(InputError, match=r"--cpu-layers: only llama_cpp computes layers on the CPU .got vllm."):
        Setup.of("llama_3_70b", "rtx_4090", engine="vllm", changes=["assumptions.cpu.layers=4"])
    with pytest.raises(InputError, match=r"layers on the CPU are modeled for one GPU .got tp=2"):
        explain(_split(45), Pins(tp=2, batch=1), context=0)
