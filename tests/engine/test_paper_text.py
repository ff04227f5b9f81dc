"""Erdil (2025): its equations as printed, and network time hidden behind reads, which it assumes away."""

from __future__ import annotations

import math

import pytest

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Plans, Setup, Space, evaluate, fastest_cut
from inference_econ.formulas.collectives import reduced_bytes
from inference_econ.inputs import Traffic
from tests.planned import plan_of
from tests.reading import scalar

# Equations (29) to (44) of Erdil (2025) as printed: the preset ``paper_text`` against the equations by hand.

#: Fastest tokens per second of Llama 3 70B in 8 bits, by a program of the equations alone, and on how many chips.
FASTEST = {"h100": (131.7, 15.6), "a100": (114, 23.6), "v100": (94.2, 40)}


@pytest.mark.parametrize("chip", FASTEST)
def test_the_equations_alone_are_slower_than_the_tables(chip: str) -> None:
    setup = Setup.of("paper/llama_3_70b", f"paper/{chip}", weights="int8", assumptions="paper_text", price=2.0)
    front = decode_frontier(setup, Traffic(context=0), Space(grid="paper", pipeline=False))
    speed, chips = FASTEST[chip]
    assert front.tokens_per_second[-1] == pytest.approx(speed, rel=4e-3)
    assert front.accelerators[-1] == pytest.approx(chips, rel=1e-2)


@pytest.mark.parametrize(("chips", "batch"), [(16.0, 1.0), (64.0, 8.0)])
def test_one_step_by_hand(chips: float, batch: float) -> None:
    setup = Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper_text")
    nodes, plan = chips / 8, plan_of(chips, batch=batch, whole=False)
    sizes = {"hidden_size": 8192, "intermediate_size": 28672, "query_heads": 64, "kv_heads": 8, "head_dim": 128}
    summed = float(reduced_bytes(batch, 80, **sizes, bytes_per_element=2.0, input_matrices=2.0))
    inter, intra = 2 * (math.sqrt(nodes) - 1), 2 * (math.sqrt(chips / nodes) - 1) * math.sqrt(nodes)
    # Half of the one-way rate of links, under LL: 25 GB/s between nodes, 225 GB/s inside.
    transfers = summed * (inter / (chips * 25e9) + intra / (chips * 225e9))
    reduction = 6.8e-6 + 1.2e-6 * (math.sqrt(chips / nodes) - 1) + 10e-6 * math.log2(math.sqrt(nodes))
    parameters = setup.model.total_parameters - 8192 * 128_256
    # Eq. (35), with the input of the gate's matrix.
    reads = (parameters + 2 * 80 * batch * (5 * 8192 + (64 + 16 + 64) * 128 + 3 * 28672)) / (chips * 0.75 * 3.3e12)
    expected = 80 * 4 * (4e-6 + reduction) + transfers + reads
    assert float(evaluate(setup, plan, "2d").seconds[0]) == pytest.approx(expected, rel=1e-9)


# Network time hidden behind reads: sections 2.2 (1) and 3.4 of Erdil (2025), which assumes no overlap.

NETWORK = ("all_reduce_latency", "all_reduce_bandwidth")


def _setup(*changes: str) -> Setup:
    changed = [f"assumptions.{change}" for change in (*changes, "host.launch=0 us", "host.step_overhead=0 us")]
    return Setup.of("llama_2_70b", "h100_sxm", assumptions="paper", changes=changed)


def _parts(setup: Setup, plan: Plans) -> tuple[float, float, float]:
    costs = evaluate(setup, plan, "1d")
    network = sum(scalar(costs.parts[name]) for name in NETWORK)
    return scalar(costs.seconds), network, scalar(costs.parts["weights"])


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(("chips", "batch"), [(2, 1), (8, 64), (64, 8)])
def test_a_share_hides_behind_the_rest(share: float, chips: float, batch: float) -> None:
    whole, network, _ = _parts(_setup(), plan_of(chips, batch=batch))
    seconds, left, _ = _parts(_setup(f"network.hidden={share}"), plan_of(chips, batch=batch))
    hidden = share * min(network, whole - network)
    assert seconds == pytest.approx(whole - hidden, rel=1e-12)
    assert left == pytest.approx(network - hidden, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("chips", [8, 32, 64])
def test_thirty_five_chips_hold_a_layer_in_their_caches(chips: float) -> None:
    """Footnote 1: 70 billion parameters in 80 layers of 16 bits are 1.75 GB each, and 35 times 50 MB hold one."""
    whole, network, weights = _parts(_setup(), plan_of(chips))
    seconds, *_ = _parts(_setup("chip.prefetched_bytes=50e6"), plan_of(chips))
    ahead = weights * min(chips * 50e6 / (weights * chips * 0.75 * 3.35e12 / 80), 1.0)
    assert (ahead == weights) is (chips > 35)
    assert whole - seconds == pytest.approx(min(ahead, network), rel=0.01)


def test_arithmetic_is_not_read_ahead() -> None:
    """Above the critical batch, reads already hide behind arithmetic."""
    full, none = (
        _parts(_setup(change), plan_of(8, batch=4096))[0]
        for change in ("chip.prefetched_bytes=50e6", "host.launch=0 us")
    )
    assert full == none


def test_the_quick_way_and_the_parts_agree_and_frontiers_gain() -> None:
    space = Space(max_accelerators=32, pipeline=False)
    fronts = {}
    for change in ("network.hidden=0", "network.hidden=0.5", "chip.prefetched_bytes=50e6"):
        setup = _setup(change)
        plan = plan_of(8, batch=32)
        assert scalar(fastest_cut(setup, plan)) <= _parts(setup, plan)[0] * (1 + 1e-12)
        fronts[change] = decode_frontier(setup, Traffic(context=500), space)
    fastest = [front.tokens_per_second[-1] for front in fronts.values()]
    assert fastest[0] < min(fastest[1:])
