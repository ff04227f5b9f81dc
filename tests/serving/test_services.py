"""Layouts as services: their list, the maximum concurrency, and the steady states below it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import Pins, Plans, Setup, prompts_together, whole_grid
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests, catalog
from inference_econ.serving import Service, every_service, slots_of
from inference_econ.serving.services import services
from inference_econ.serving.simulation import arrivals, simulator
from inference_econ.serving.steady import steady
from tests import asking
from tests.offered import EIGHT_CHIPS, offer_of, service_of
from tests.reading import tables

# Layouts as services: their list, the maximum concurrency, and the steady states below it.

REQUESTS = Requests(1000, 200)


def test_every_layout_of_four_chips() -> None:
    """Heads 32 and 8, 32 layers: written out by hand; dp is the remaining factor."""
    plans = offer_of("llama_3_8b", most=4, engine="any").plans
    found = list(
        zip(*(axis.astype(int) for axis in (plans.accelerators, plans.pp, plans.attention_ranks)), strict=True)
    )
    expected = {
        *((1, 1, 1), (2, 1, 1), (2, 1, 2), (2, 2, 1)),
        *((4, 1, 1), (4, 1, 2), (4, 1, 4), (4, 2, 1), (4, 2, 2), (4, 4, 1)),
    }
    assert set(found) == expected
    assert len(found) == len(expected)
    assert found == sorted(found)
    # Groups of a dense model are separate instances in every engine, and stages are for chips without a fast link.
    started = offer_of("llama_3_8b", most=4).plans
    assert set(zip(started.accelerators, started.pp, started.attention_ranks, strict=True)) == {
        (size, pp, ranks) for size, pp, ranks in expected if size == ranks and pp == 1
    }


@pytest.mark.parametrize("model", ["llama_3_8b", "qwen3_30b_a3b", "deepseek_v2"])
def test_as_many_requests_as_fit_and_not_one_more(model: str) -> None:
    found = offer_of(model, isl="4000", most=16)
    most = slots_of(found.setup, found.plans)
    for count, fits in ((most, True), (most + 1.0, False)):
        needed = found.setup.memory(replace(found.plans, batch=count))
        assert (np.broadcast_to(needed.fits, count.shape) == fits).all()
    assert (found.slots <= most).all()


def test_no_more_requests_than_prompts_begin_during_an_answer() -> None:
    found = offer_of("llama_3_8b", isl="4000", osl="101", most=8)
    chunk = found.setup.assumptions.serving.prefill_chunk
    groups = prompts_together(found.setup, found.plans)
    begun = 1.0 + np.floor(100.0 * chunk * groups / 4000.0)
    most = slots_of(found.setup, found.plans)
    np.testing.assert_array_equal(found.slots, np.minimum(most, begun))
    assert (begun < most).any() and (begun > 1.0).all()


def test_one_of_them() -> None:
    found = offer_of("qwen3_30b_a3b", most=4)
    for index in (0, len(found) - 1):
        one = found.service(index)
        assert one.accelerators == found.plans.accelerators[index]
        assert one.slots == found.slots[index]
        np.testing.assert_array_equal(one.states.tpot_seconds, found.states.tpot_seconds[index])
        again = steady(found.setup, replace(one.plans, batch=one.states.batch), found.requests)
        np.testing.assert_allclose(one.states.ttft_seconds, again.ttft_seconds)
        # With a full memory, prompts are recomputed.
        assert (one.states.requests_per_second <= again.requests_per_second * (1.0 + 1e-9)).all()
        room = one.states.batch < 0.8 * one.most_in_flight
        np.testing.assert_allclose(one.states.requests_per_second[room], again.requests_per_second[room])


def test_states_in_between() -> None:
    one = service_of("llama_3_8b")
    possible = one.states.concurrency <= one.most_in_flight
    known = one.at(one.states.concurrency[possible])
    np.testing.assert_allclose(known.tpot_seconds, one.states.tpot_seconds[possible])
    np.testing.assert_allclose(known.requests_per_second, one.states.requests_per_second[possible])
    between = one.at(np.sqrt(one.states.concurrency[:-1] * one.states.concurrency[1:]))
    assert (between.tpot_seconds >= one.states.tpot_seconds[:-1]).all()
    assert (between.tpot_seconds <= one.states.tpot_seconds[1:]).all()
    # Compared with the engine itself.
    batch = one.at(100.0).batch
    exact = steady(one.setup, replace(one.plans, batch=np.atleast_1d(batch)), one.requests)
    assert float(one.at(100.0).tpot_seconds) == pytest.approx(float(exact.tpot_seconds[0]), rel=5e-3)
    assert float(exact.concurrency[0]) == pytest.approx(100.0, rel=5e-3)


def test_no_more_in_flight_than_slots_and_no_less_than_one() -> None:
    one = service_of("llama_3_8b")
    for asked, meant in ((0.0, 1.0), (10.0 * one.slots, one.slots)):
        assert one.at(asked).tpot_seconds == one.at(meant).tpot_seconds
    assert one.most_requests_per_second == one.at(one.slots).requests_per_second
    assert one.most_requests_per_second == pytest.approx(one.states.requests_per_second[-1], rel=0.02)


def test_layouts_that_are_given() -> None:
    setup, plan = service_of("llama_3_8b").setup, np.ones(1)
    found = services(setup, REQUESTS, Plans(plan, plan, plan, plan, plan, whole=True), np.array([32.0]), batches=5)
    assert found.states.batch.shape == (1, 5)
    assert found.service(0).states.batch == pytest.approx([32.0 ** (k / 4) for k in range(5)])


def test_what_does_not_fit_is_told() -> None:
    setup = offer_of("llama_3_8b").setup
    big = replace(setup, model=catalog.model("llama_3_70b"))
    message = r"nothing fits: Llama 3\.1 70B \(bf16\) on NVIDIA H100 SXM5 80GB, 1 accelerator: "
    with pytest.raises(NothingFitsError, match=message):
        every_service(big, REQUESTS, whole_grid(1.0, pipeline=False, largest=1))
    with pytest.raises(NothingFitsError, match=r"no layout of 3 accelerators divides heads"):
        every_service(setup, REQUESTS, whole_grid(1.0, pipeline=False, pins=Pins(tp=3, dp=1, pp=1)))


def test_long_contexts_leave_less_room() -> None:
    short, long = (service_of("llama_3_8b", isl=isl).slots for isl in ("1000", "10000"))
    assert short == pytest.approx(9 * long, rel=0.2)


def test_instances_that_are_too_small() -> None:
    with pytest.raises(NothingFitsError, match=r"alone need 2 accelerators \(.*\); at most 1 are allowed"):
        asking.offer("llama_3_70b", "h200_sxm", REQUESTS, max_accelerators=1)
    with pytest.raises(InputError, match=r"tp=8, dp=1, pp=1: 8 GPUs are needed, and at most 4 are allowed"):
        asking.offer("llama_3_70b", "h100_sxm", REQUESTS, pins=Pins(tp=8), max_accelerators=4)
    with pytest.raises(NothingFitsError, match=r"1 accelerator: on the largest, 141\.1 GB of weights and"):
        asking.offer("llama_3_70b", "h100_sxm", REQUESTS, pins=Pins(tp=1, dp=1, pp=1))


def test_a_pinned_layout_is_the_only_one() -> None:
    found = offer_of("llama_3_70b", pins=EIGHT_CHIPS)
    assert len(found) == 1
    assert found.service(0).accelerators == 8


#: Engines that reserve memory for full outputs, for part of them, and for none.
ENGINES = ("trtllm", "sglang", "vllm")


def _held(setup: Setup, plans: Plans, context: float) -> float:
    """Return the cache of one request with a given context [B]."""
    needed = replace(setup, context=context, spread=0.0).memory(replace(plans, batch=np.ones(1)))
    return float(np.ravel(needed.kv_bytes)[0])


@pytest.mark.parametrize(
    ("engine", "own", "others"), [("trtllm", 1.0, 1.0), ("sglang", 1.0, 0.098), ("vllm", 0.0, 0.0)]
)
def test_engines_let_in_whom_they_keep_room_for(engine: str, own: float, others: float) -> None:
    """With prompts of 32,000 tokens and outputs of 16,000, the last request finds the others at 40,000 on average."""
    service = service_of("llama_3_8b", "32000", "16000", engine=engine)
    setup, plans = service.setup, replace(service.plans, batch=np.ones(1))
    needed = setup.memory(replace(plans, batch=np.array([float(service.slots)])))
    room = float(np.ravel(needed.available_bytes - needed.weight_bytes)[0])
    prompt, mean, whole = (_held(setup, plans, tokens) for tokens in (32_000.0, 40_000.0, 48_000.0))
    other = mean + others * (whole - mean)
    last = prompt + own * (whole - prompt)
    assert service.slots == min(int(room / mean), 1 + int((room - last) / other))
    if engine == "trtllm":
        # Full outputs at the same time.
        assert service.slots == int(room / whole) < int(room / mean)


@settings(max_examples=12, deadline=None)
@given(
    engine=st.sampled_from(ENGINES),
    share=st.floats(0.3, 0.9),
    more=st.floats(0.0, 0.1),
    isl=st.integers(100, 60_000),
    osl=st.integers(2, 30_000),
)
def test_more_memory_never_holds_fewer_and_no_rule_more_than_fit(
    engine: str, share: float, more: float, isl: int, osl: int
) -> None:
    service = service_of("llama_3_8b", "1000", "200", engine=engine)
    requests = Requests(isl, osl)
    setup = replace(service.setup, context=requests.mean_context, spread=requests.spread)
    small, large = (
        replace(setup, assumptions=setup.assumptions.changed({"capacity.usable_memory": usable}))
        for usable in (share, share + more)
    )
    held, holds = (float(slots_of(some, service.plans)[0]) for some in (small, large))
    assert held <= holds
    # Without known outputs, memory alone decides.
    assert held <= float(slots_of(replace(small, spread=0.0), service.plans)[0])


@pytest.mark.parametrize("engine", ["trtllm", "sglang"])
@pytest.mark.rows
def test_a_saturated_server_completes_what_is_said(engine: str, model: str, isl: str, osl: str) -> None:
    service = service_of(model, isl, osl, engine=engine)
    completed = _completed(service, rounds=30, load=1.1, seed=5)
    assert completed == pytest.approx(service.most_requests_per_second, rel=0.03)


# Concurrency with a full memory, compared with the simulated server.


def _service(
    slots: int, isl: str, osl: str, *, engine: str = "vllm", shared: float = 0.0, model: str = "llama_3_8b"
) -> Service:
    """Return a chip whose memory holds a number of requests of the mean context, and a third of another."""
    requests = Requests(isl, osl, shared_prefix=shared)

    memory, most = 4e11, float(slots)
    for _ in range(4):
        # The reserve of an engine follows from the memory.
        settings = {"price": 2.0, "pins": ie.Pins(tp=1, dp=1, pp=1), "changes": [f"hardware.hbm_bytes={memory}"]}
        service = asking.offer(model, "h100_sxm", requests, engine=engine, **settings).service(0)
        needed = replace(service.setup, spread=0.0).memory(replace(service.plans, batch=np.array([most])))
        weights, cache, available = needed.of_one_plan()
        prefix = float(np.ravel(needed.prefix_bytes)[0])
        wanted = weights + prefix + (cache - prefix) * (most + 1.0 / 3.0) / most
        memory += (wanted - available) / service.setup.assumptions.capacity.usable_memory
    return service


def _completed(service: Service, rounds: int = 20, load: float = 1.3, seed: int = 1) -> float:
    """Return the rate of a server at a load above its predicted capacity, over some rounds of all slots [1/s]."""
    lengths = service.requests
    stream = arrivals.draw(
        max(1500, rounds * service.slots),
        load * service.most_requests_per_second,
        simulator.length_sampler(lengths.isl),
        simulator.length_sampler(lengths.osl),
        seed=seed,
    )
    isl = np.maximum(stream.isl - round(lengths.cached), 1)
    simulated = simulator.server(service, isl)
    return simulator.play(service, simulated, replace(stream, isl=isl), warm_up=0.3, cool_down=0.1).requests_per_second


#: Long prompts, long outputs, short ones, and varying lengths; slots.
FULL: dict[str, list[Any]] = tables(Path(__file__))["FULL"]


@pytest.mark.parametrize(
    ("isl", "osl", "slots"), [(*lengths, slots) for lengths, every in FULL.values() for slots in every]
)
def test_a_server_whose_memory_is_full_completes_what_is_said(isl: str, osl: str, slots: int) -> None:
    service = _service(slots, isl, osl)
    assert service.slots == slots
    assert 0.93 <= service.most_requests_per_second / _completed(service) <= 1.035


@pytest.mark.parametrize("model", ["gpt_oss_20b", "qwen3_32b"])
def test_what_is_read_again_counts_whatever_the_model(model: str) -> None:
    """Long outputs compared with prompts, of one length: all slots would complete 7% to 10% more."""
    service = _service(80, "500", "2000", model=model)
    assert abs(service.most_requests_per_second / _completed(service, rounds=40) - 1.0) <= 0.03
    # A slightly lower concurrency completes more, because nothing is recomputed.
    rates = service.states.requests_per_second
    assert rates[-1] < rates.max()


def test_what_all_prompts_begin_with_is_held_once() -> None:
    service = _service(20, "5000", "500", shared=4000.0)
    assert service.slots == 20
    assert 0.93 <= service.most_requests_per_second / _completed(service) <= 1.035


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_engines_that_keep_room_free_complete_what_is_said(engine: str) -> None:
    service = _service(20, "3000", "1000", engine=engine)
    assert 0.93 <= service.most_requests_per_second / _completed(service) <= 1.035
    if engine == "trtllm":
        # No request is preempted.
        assert service.most_in_flight == service.slots
