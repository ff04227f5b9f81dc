"""Network time hidden behind reads: sections 2.2 (1) and 3.4 of Erdil (2025), which assumes no overlap."""

from __future__ import annotations

import pytest

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Plans, Setup, Space, evaluate, fastest_cut
from inference_econ.inputs import Traffic
from tests.planned import plan_of
from tests.reading import scalar

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
