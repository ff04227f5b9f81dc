"""Concurrency with a full memory, compared with the simulated server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.inputs import Length, Requests
from inference_econ.serving import Service
from inference_econ.serving.simulation import arrivals, simulator
from tests import asking
from tests.reading import tables


def _service(
    slots: int, isl: str, osl: str, *, engine: str = "vllm", shared: float = 0.0, model: str = "llama_3_8b"
) -> Service:
    """Return a chip whose memory holds a number of requests of the mean context, and a third of another."""
    requests = Requests(isl=Length.parse(isl), osl=Length.parse(osl), shared_prefix=shared)

    memory, most = 4e11, float(slots)
    for _ in range(4):
        # The reserve of an engine follows from the memory.
        service = asking.offer(
            model,
            "h100_sxm",
            requests,
            price=2.0,
            pins=ie.Pins(tp=1, dp=1, pp=1),
            engine=engine,
            changes=[f"hardware.hbm_bytes={memory}"],
        ).service(0)
        needed = replace(service.setup, spread=0.0).memory(replace(service.plans, batch=np.array([most])))
        weights, cache, available = needed.of_one_plan()
        prefix = float(np.ravel(needed.prefix_bytes)[0])
        wanted = weights + prefix + (cache - prefix) * (most + 1.0 / 3.0) / most
        memory += (wanted - available) / service.setup.assumptions.capacity.usable_memory
    return service


def _completed(service: Service, rounds: int = 20) -> float:
    """Return the rate of a server at a third more load than its predicted capacity, over some rounds of all slots
    [1/s].
    """
    lengths = service.requests
    stream = arrivals.draw(
        max(1500, rounds * service.slots),
        1.3 * service.most_requests_per_second,
        simulator.length_sampler(lengths.isl),
        simulator.length_sampler(lengths.osl),
        seed=1,
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
