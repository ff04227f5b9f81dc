"""Full-mesh links, one program per step, and small memories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import Collective, Network, Plans, Setup, collective_floor, collective_seconds, evaluate
from inference_econ.errors import InputError
from inference_econ.inputs import NetworkAssumptions, catalog
from tests import asking
from tests.planned import plan_of
from tests.reading import scalar

_SIMPLE = "{Simple: {base: 0 us, per_rank: 0 us, per_domain_doubling: 0 us, bandwidth_factor: 1}}"
_KERNEL = "{one_shot: {shape: one_shot, base: 0 us, per_rank: 0 us, bandwidth_factor: 1}}"
_BARE = f"network.collectives={{kind: nccl_tree, version: '1', protocols: {_SIMPLE}}}"
_ONE_SHOT = f"network.collectives={{kind: nccl_tree, version: '1', protocols: {_SIMPLE}, kernels: {_KERNEL}}}"


def _network(*changes: str, chip: str = "mi300x") -> Network:
    assumed: NetworkAssumptions = catalog.assumptions("deployable", changes=changes).network
    return Network.of(catalog.hardware(chip), assumed)


def _sent(kind: str, ranks: float, domains: float = 1.0, *, own_link: bool = False) -> Collective:
    ones = np.ones(1)
    return Collective(kind, ranks * ones, domains * ones, 448e6 * ones, own_link=own_link)  # type: ignore[arg-type]


@pytest.mark.rows
def test_every_pair_of_a_mesh_has_a_seventh_of_the_links(
    kind: str, ranks: int, own_link: bool, milliseconds: float
) -> None:
    seconds = collective_seconds(_network(_BARE), _sent(kind, ranks, own_link=own_link), np.ones(1))
    assert scalar(seconds) * 1e3 == pytest.approx(milliseconds)


@pytest.mark.parametrize(("ranks", "links"), [(2, 1), (4, 3), (8, 7)])
def test_one_shot_sends_the_whole_tensor_over_every_link_of_the_group(ranks: int, links: int) -> None:
    # R - 1 tensors of 448 MB arrive over R - 1 links of 64 GB/s: 7 ms for every R; two shots are faster from 4 on.
    network = _network(_ONE_SHOT)
    kernel = replace(network, protocols=[one for one in network.protocols if one.shape == "one_shot"])
    assert scalar(network.inside_for(np.ones(1) * ranks, np.ones(1))) == pytest.approx(links * 64e9)
    assert scalar(collective_seconds(kernel, _sent("all_reduce", ranks), np.ones(1))) == pytest.approx(7e-3)


@pytest.mark.parametrize(("ranks", "factor"), [(2, 7.0), (4, 7 / 3), (8, 1.0)])
def test_a_switch_and_links_that_are_pooled_give_a_pair_all_of_it(ranks: int, factor: float) -> None:
    mesh, pooled = _network(_BARE), _network(_BARE, "network.mesh_links=pooled")
    sent = _sent("all_reduce", ranks)
    ratio = collective_seconds(mesh, sent, np.ones(1)) / collective_seconds(pooled, sent, np.ones(1))
    assert scalar(ratio) == pytest.approx(factor)
    assert _network(_BARE, chip="h100_sxm").peers is None


@settings(deadline=None)
@given(ranks=st.tuples(st.floats(1.0, 64.0), st.floats(1.0, 8.0)), domains=st.floats(1.0, 8.0), at=st.floats(0.0, 1.0))
def test_floors_hold_in_a_mesh(ranks: tuple[float, float], domains: float, at: float) -> None:
    low, high = ranks[0] * domains, ranks[0] * ranks[1] * domains
    network = _network()
    first, last = _sent("all_reduce", low, 1.0), _sent("all_reduce", high, domains)
    between = _sent("all_reduce", low + at * (high - low), 1.0 + at * (domains - 1.0))
    floor = collective_floor(network, first, last, np.ones(1))
    assert scalar(floor) <= scalar(collective_seconds(network, between, np.ones(1))) * (1.0 + 1e-12)


def test_more_chips_than_a_mesh_has_links_for_are_refused() -> None:
    text = r"link_peers is 7, so a full mesh has at most 8 accelerators, got link_domain 16; .* leave link_peers out"
    with pytest.raises(InputError, match=text):
        catalog.hardware("mi300x", changes=["link_domain=16"])
    assert catalog.hardware("mi300x", changes=["link_domain=16", "link_peers=null"]).link_peers is None


def _plan(batch: float = 4) -> Plans:
    return plan_of(8, ep=8, batch=batch)


def test_kernels_of_latent_attention_may_take_another_fixed_time() -> None:
    def launches(model: str, *changes: str) -> float:
        setup = Setup.of(model, "mi300x", context=1500.0, assumptions="deployable", changes=changes)
        return scalar(evaluate(setup, _plan(), "1d").parts["launches"])

    own = "assumptions.attention.latent_graph_launch=24 us"
    # 61 layers of 12 kernels: down and output of one, up of four, each with one to quantize, and three for scores and
    # new cache entries. They take 20 us more than the 4 us of the others.
    assert launches("deepseek_v3", own) - launches("deepseek_v3") == pytest.approx(61 * 12 * 20e-6)
    assert launches("llama_3_70b", own) == launches("llama_3_70b")


@pytest.mark.parametrize("chip", ["tpu_v6e", "trainium2", "tpu_v4"])
def test_a_compiled_step_has_nothing_to_launch(chip: str) -> None:
    setup = Setup.of("llama_3_70b", chip, context=1500.0)
    assert scalar(evaluate(setup, _plan(), "1d").parts["launches"]) == 0.0


def test_a_model_spans_hundreds_of_chips_with_static_memory() -> None:
    # 70.6 GB of int8 weights in 207 MB per chip, less activations of 128 tokens: hundreds, in stages of one layer.
    setup = Setup.of("llama_3_70b", "groq_lpu", weights="int8", price=1.0, context=600.0)
    assert setup.precision.activations == "fp16"
    points = asking.frontier("llama_3_70b", "groq_lpu", ie.Traffic(context=600), price=1.0, weights="int8").points()
    assert {point.accelerators for point in points} == {512.0, 896.0, 1024.0}


def test_a_what_if_is_no_exception_from_a_family() -> None:
    changes = ["assumptions.capacity.workspace_tokens=8192", "assumptions.host.graph_launch=2 us"]
    assumed = Setup.of("llama_3_8b", "groq_lpu", weights="int8", price=1.0, changes=changes).assumptions
    assert (assumed.capacity.workspace_tokens, assumed.host.graph_launch, assumed.host.launch) == (8192, 2e-6, 0.0)


@pytest.mark.parametrize(("batch", "measured"), [(1, 17.500), (4, 18.858), (8, 20.161)])
def test_llama_on_mi300x_is_as_quick_as_amd_measured(batch: int, measured: float) -> None:
    # ROCm/vllm, docs/dev-docker/README.md at 040de12: 2,048 tokens in and out, fp8, tp8; mean context of decode 3,072.
    setup = Setup.of("llama_3_70b", "mi300x", weights="fp8", context=3072.0)
    seconds = scalar(evaluate(setup, _plan(batch), "1d").seconds)
    assert 2048 * seconds == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(
    ("batch", "milliseconds"), [(1, 17.0), (2, 18.1), (4, 18.7), (8, 20.3), (16, 23.3), (32, 29.8), (64, 33.9)]
)
def test_two_machines_of_h100_decode_as_measured(batch: int, milliseconds: float) -> None:
    """DeepSeek-V3 with tp 16 on two machines, SGLang 0.5.8 without speculation, 922 and 7,373 tokens (InferenceX).

    The rows are in scenarios/measured/servers/serving_points.csv, with one decode instance.
    """
    setup = Setup.of("deepseek_v3", "h100_sxm", engine="sglang@0.5.8")
    step = ie.explain(setup, ie.Pins(tp=16, ep=1, batch=batch), context=922 + 7373 / 2)
    assert 1e3 * float(step.seconds) == pytest.approx(milliseconds, rel=0.16)


@pytest.mark.parametrize(("model", "hardware", "tp"), [("llama_3_70b", "h100_sxm", 8), ("llama_3_8b", "tpu_v5e", 8)])
def test_latency_of_collectives_in_one_number(model: str, hardware: str, tp: int) -> None:
    changes = [[f"assumptions.network.latency_factor={factor}"] for factor in (0.0, 1.0, 2.0)]
    setups = [Setup.of(model, hardware, weights="int8", changes=change) for change in changes]
    steps = [ie.explain(setup, ie.Pins(tp=tp, batch=4)) for setup in setups]
    latencies = [float(np.ravel(step.costs.parts["all_reduce_latency"])[0]) for step in steps]
    assert latencies[0] == 0.0
    # With a longer latency, a protocol with fewer hops may be the fastest.
    assert 1.0 < latencies[2] / latencies[1] <= 2.0 * (1.0 + 1e-9)
    assert steps[0].seconds < steps[1].seconds < steps[2].seconds
