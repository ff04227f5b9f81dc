"""KV caches in host memory: the larger capacity, the cost, and rejected inputs."""

from __future__ import annotations

import pytest

from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Pins, Setup, Space, evaluate, fastest_cut
from inference_econ.errors import InputError, NothingFitsError, SpecError
from inference_econ.inputs import Traffic
from inference_econ.report.questions.explain import ExplanationPage
from inference_econ.serving.services import slots_of
from tests.planned import plan_of
from tests.reading import scalar

#: Llama 3 70B: 80 layers of 8 key and value heads of 128 numbers in 16 bits [B].
TOKEN = 80 * 2 * 8 * 128 * 2.0
CONTEXT = 100_000


def _setup(share: float, *changes: str) -> Setup:
    paged = f"assumptions.capacity.host_cache={share}"
    return Setup.of(
        "llama_3_70b", "h100_sxm", weights="fp8", assumptions="deployable", context=CONTEXT, changes=[paged, *changes]
    )


@pytest.mark.parametrize(("tp", "pp", "batch"), [(4, 1, 30), (8, 1, 40), (4, 2, 40)])
def test_what_has_no_room_is_read_over_the_link(tp: float, pp: float, batch: float) -> None:
    setup, plan = _setup(0.99), plan_of(tp, pp=pp, batch=batch)
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
        with_host, without = (evaluate(_setup(share), plan_of(4, batch=batch), "1d") for share in (0.99, 0.0))
        assert scalar(with_host.seconds) == scalar(without.seconds)


def test_slots_end_where_both_memories_are_full() -> None:
    plan, lengths = plan_of(4, batch=1), CONTEXT * TOKEN
    (few,), (some,), (most,) = (slots_of(_setup(share), plan) for share in (0.0, 0.5, 0.99))
    assert some == pytest.approx(2 * few, abs=2)
    # Four hosts' shares of 256 GB, in addition to the chips' memory.
    assert most == few + 1024e9 // lengths + 1 or most == few + 1024e9 // lengths


def test_a_frontier_goes_on_to_more_sequences() -> None:
    space = Space(Pins(tp=4), max_accelerators=4)
    alone, paging = (decode_frontier(_setup(share), Traffic(context=CONTEXT), space) for share in (0.0, 0.9))
    assert paging.batch.max() >= alone.batch.max()
    assert paging.tokens_per_second.max() == pytest.approx(alone.tokens_per_second.max())
    longer = Traffic(context=CONTEXT * 10)
    with pytest.raises(NothingFitsError):
        decode_frontier(_setup(0.0), longer, space)
    assert decode_frontier(_setup(0.9), longer, space).batch.max() >= 1


def test_it_is_seen_in_the_step() -> None:
    token = explain(_setup(0.99), Pins(tp=4, batch=35), context=CONTEXT)
    assert token.limited_by == "host_memory"
    notes = " ".join(ExplanationPage(token).tables()[0].every_note)
    assert "GB of KV cache from host memory." in notes
    assert token.held["free"] == pytest.approx(0.0, abs=1e3)
    assert sum(token.held.values()) == pytest.approx(token.setup.hardware.hbm_bytes)
    assert "paged_bytes" in token.record()


def test_what_cannot_be() -> None:
    with pytest.raises(NothingFitsError, match=r"KV cache \(beside 1024.0 GB on the hosts\) > .*; at least 20 acc"):
        explain(_setup(0.99), Pins(tp=4, batch=200), context=CONTEXT)
    with pytest.raises(InputError, match=r"host_cache is 0.5, but .* lists no link to the memory of its host; set"):
        Setup.of("llama_3_8b", "tpu_v5p", changes=["assumptions.capacity.host_cache=0.5"])
    with pytest.raises(SpecError, match=r"host_cache must be <= 0.99, got 1"):
        _setup(1)
    with pytest.raises(InputError, match="flash"):
        explain(_setup(0.5, "assumptions.capacity.host_memory=flash"), Pins(tp=4, batch=9), context=CONTEXT)
