"""Weights in host memory: the freed memory, the cost, and rejected inputs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut, memory
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Requests
from inference_econ.report.questions.explain import ExplanationPage
from tests.planned import plan_of
from tests.reading import scalar


def _setup(share: float, chip: str = "h100_sxm", *changes: str) -> Setup:
    shared = f"assumptions.capacity.host_weights={share}"
    return Setup.of(
        "llama_3_70b", chip, weights="fp8", assumptions="deployable", context=2000, changes=[shared, *changes]
    )


# tp, pp, share, accelerators that store the weights of a stage's layers, times stages: reads of one accelerator
STREAMED = [(1, 1, 1.0, 1), (4, 1, 0.5, 4), (4, 2, 0.5, 4), (8, 1, 0.25, 8)]


@pytest.mark.parametrize(("tp", "pp", "share", "chips"), STREAMED)
def test_a_step_takes_no_less_than_its_weights(tp: float, pp: float, share: float, chips: float) -> None:
    # Embeddings of 2 x 128,256 x 8,192 remain in 16 bits; a share of the layers' 68.5 GB arrives at 80% of 64 GB/s.
    setup, plan = _setup(share), plan_of(tp, pp=pp, batch=8)
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
    usual, streaming = _setup(0.0, "h200_sxm"), _setup(1.0, "h200_sxm")
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
    some, none, plan = _setup(share), _setup(0.0), plan_of(2, pp=1, batch=batch)
    assert scalar(fastest_cut(some, plan)) >= scalar(fastest_cut(none, plan))
    assert scalar(some.memory(plan).weight_bytes) <= scalar(none.memory(plan).weight_bytes)


def test_smaller_instances_are_offered() -> None:
    requests, one = Requests.model_validate({"isl": 4000, "osl": 2}), Space(Pins(accelerators=1))
    assert offer(_setup(0.9), requests, one).service(0).accelerators == 1
    wide = _setup(0.9, "h100_sxm", "hardware.host_link_bytes_per_second_one_way=450 GB/s")
    fastest = offer(wide, requests, one).service(0)
    assert fastest.prefill_seconds < offer(_setup(0.9), requests, one).service(0).prefill_seconds


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match=r"host_weights is 0.5, but .* lists no link to the memory of its host; set"):
        _setup(0.5, "tpu_v5p")
    with pytest.raises(SpecError, match=r"host_weights must be <= 1, got 1.5"):
        _setup(1.5)
