"""Prefill over a chain of processes: Cho et al. (2024), by hand, by steps and in limits."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ._types import Array
from inference_econ.extras.papers.runahead_formulas import (
    LayerWork,
    ProcessRates,
    all_gather_seconds,
    balanced_partition,
    best_partition,
    chain_seconds,
    even_partition,
    interpolated_partition,
    layer_seconds,
    searched_partition,
    single_seconds,
)

#: Llama 7B, and a machine like an A100 without fused attention.
WORK = LayerWork(32, 2 * 3 * 4096**2, 2 * (4096**2 + 3 * 4096 * 11008), 4 * 4096, 16384)
FREE = ProcessRates(166e12, 27e12, 0.0, float("inf"), 0.0)

parts = st.lists(st.floats(1.0, 5000.0), min_size=1, max_size=8)


def by_steps(work: LayerWork, machine: ProcessRates, partition: list[float]) -> float:
    """Simulate the chain event by event: process by process and layer by layer."""
    done = [0.0] * len(partition)
    link_is_free = [0.0] * len(partition)
    for _ in range(work.layers):
        complete = 0.0  # when a process has the cache of this layer for itself and all before it
        for rank, tokens in enumerate(partition):
            before_it = sum(partition[:rank])
            first, second = (float(part) for part in layer_seconds(work, machine, tokens, before_it + tokens))
            own = done[rank] + first
            if rank == 0:
                complete = own
            else:
                start = max(complete, link_is_free[rank])
                link_is_free[rank] = (
                    start + before_it * work.kv_bytes / machine.link_bytes_per_second + machine.link_latency
                )
                complete = max(own, link_is_free[rank])
            done[rank] = complete + second
    return done[-1]


@given(partition=parts, overhead=st.sampled_from([0.0, 3e-3]), link=st.sampled_from([1e9, 1e10, 3e11, float("inf")]))
def test_the_chain_by_steps(partition: list[float], overhead: float, link: float) -> None:
    machine = ProcessRates(166e12, 27e12, overhead, link, 1e-5)
    assert chain_seconds(WORK, machine, partition) == pytest.approx(by_steps(WORK, machine, partition), rel=1e-12)


def test_chains_are_vectors() -> None:
    partitions = np.array([[[100.0, 200.0], [150.0, 150.0]], [[10.0, 20.0], [5.0, 25.0]]])
    machine = ProcessRates(166e12, 27e12, 1e-4, 1e9, 1e-5)
    found = chain_seconds(WORK, machine, partitions)
    assert found.shape == (2, 2)
    for index in np.ndindex(2, 2):
        assert found[index] == pytest.approx(by_steps(WORK, machine, partitions[index].tolist()), rel=1e-12)


@given(context=st.floats(1.0, 1e5))
def test_one_process_is_a_chain_and_an_all_gather_of_one(context: float) -> None:
    machine = ProcessRates(166e12, 27e12, 1e-3, 1e9, 1e-5)
    alone = pytest.approx(float(single_seconds(WORK, machine, context)), rel=1e-12)
    assert chain_seconds(WORK, machine, [context]) == alone
    assert all_gather_seconds(WORK, machine, context, 1) == alone


@given(context=st.floats(100.0, 1e5), processes=st.integers(2, 8), link=st.floats(1e8, 1e12))
def test_even_parts_compute_what_an_all_gather_does_and_send_less(context: float, processes: int, link: float) -> None:
    """The last of equal parts multiplies with the full prompt, as every process of an all-gather does."""
    even = even_partition(context, processes)
    assert chain_seconds(WORK, FREE, even) == pytest.approx(
        float(all_gather_seconds(WORK, FREE, context, processes)), rel=1e-9
    )
    machine = FREE._replace(link_bytes_per_second=link)
    # The last link of the chain transfers the same bytes as each of a ring; the chain fills once, and then overlaps.
    filling = sum(even[:rank].sum() for rank in range(processes)) * WORK.kv_bytes / link
    gathered = float(all_gather_seconds(WORK, machine, context, processes))
    assert chain_seconds(WORK, machine, even) <= (gathered + filling) * (1 + 1e-9)
    # Section 3 of Cho et al.: a chain moves half of a ring's total.
    chain = sum(even[:rank].sum() for rank in range(processes))
    ring = processes * context * (processes - 1) / processes
    assert chain == pytest.approx(ring / 2, rel=1e-9)


@given(partition=parts, factor=st.floats(1.0, 100.0))
def test_a_faster_machine_or_link_is_never_slower(partition: list[float], factor: float) -> None:
    slow = ProcessRates(166e12, 27e12, 0.0, 1e9, 1e-5)
    seconds = float(chain_seconds(WORK, slow, partition)) * (1 + 1e-12)
    for name in ("matmul_flops_per_second", "attention_flops_per_second", "link_bytes_per_second"):
        assert chain_seconds(WORK, slow._replace(**{name: getattr(slow, name) * factor}), partition) <= seconds


def test_the_launches_are_the_least_time_of_a_layer() -> None:
    before, after = layer_seconds(WORK, FREE._replace(overhead_seconds=1.0), [1.0, 100.0], 100.0)
    assert (before + after).tolist() == pytest.approx([1.0, 1.0])
    assert single_seconds(WORK, FREE._replace(overhead_seconds=3e-3), 10.0) == pytest.approx(32 * 3e-3)


# Partitions


def polished(machine: ProcessRates, partition: np.ndarray, tries: int = 300) -> float:
    """Return the best of many random changes of a partition."""
    random = np.random.default_rng(0)
    best, least = partition, float(chain_seconds(WORK, machine, partition))
    for scale in (0.3, 0.1, 0.03, 0.01, 0.003):
        for _ in range(tries // 10):
            tried = best * np.exp(random.normal(0.0, scale, (100, partition.size)))
            tried *= partition.sum() / tried.sum(axis=-1, keepdims=True)
            seconds = chain_seconds(WORK, machine, tried)
            if seconds.min() < least:
                best, least = tried[seconds.argmin()], float(seconds.min())
    return least


@pytest.mark.parametrize("processes", [2, 4, 8])
@pytest.mark.parametrize("link", [1e9, 1e10, 3e11])
@pytest.mark.parametrize("context", [2048, 10000, 16384])
def test_the_search_finds_about_the_best(processes: int, link: float, context: int) -> None:
    machine = ProcessRates(166e12, 27e12, 3.1e-3, link, 1e-5)
    found = searched_partition(WORK, machine, context, processes)
    assert found.sum() == pytest.approx(context, rel=1e-9)
    assert found.min() >= 1.0
    assert chain_seconds(WORK, machine, found) <= polished(machine, found) * 1.01


@pytest.mark.parametrize("processes", [2, 3])
def test_the_search_against_every_partition(processes: int) -> None:
    machine = ProcessRates(166e12, 27e12, 0.0, 1e10, 1e-5)
    context, step = 8192, 64
    cuts = np.arange(step, context, step)
    if processes == 2:
        every = np.stack([cuts, context - cuts], axis=-1)
    else:
        first, second = np.meshgrid(cuts, cuts)
        every = np.stack([first, second, context - first - second], axis=-1).reshape(-1, 3)
        every = every[every.min(axis=-1) > 0]
    best = chain_seconds(WORK, machine, every).min()
    found = chain_seconds(WORK, machine, searched_partition(WORK, machine, context, processes))
    assert found <= best * 1.002


def test_later_processes_get_less_where_computing_limits() -> None:
    """Section 4 of Cho et al.: later tokens cost more."""
    found = searched_partition(WORK, FREE, 16384, 4)
    assert (np.diff(found) < 0.0).all()
    assert found[0] > 1.5 * found[-1]


def test_a_slow_link_gives_the_first_process_less() -> None:
    slow = searched_partition(WORK, FREE._replace(link_bytes_per_second=1e9), 8192, 2)
    assert slow[0] < slow[1]


def test_where_the_launches_limit_the_even_partition_stays() -> None:
    machine = ProcessRates(166e12, 27e12, 3.1e-3, 3e11, 0.0)
    assert searched_partition(WORK, machine, 1024, 8).tolist() == [128.0] * 8


def test_one_process_gets_everything() -> None:
    assert searched_partition(WORK, FREE, 1000, 1).tolist() == [1000.0]
    assert searched_partition(WORK, FREE, 4, 4).sum() == 4.0


def test_interpolated_parts() -> None:
    contexts, known = [100, 200, 400], [[60, 40], [100, 100], [160, 240]]
    for context, partition in zip(contexts, known, strict=True):
        assert interpolated_partition(contexts, known, context).tolist() == pytest.approx(partition)
    assert interpolated_partition(contexts, known, 150).tolist() == pytest.approx([82.5, 67.5])
    assert interpolated_partition(contexts, known, 50).tolist() == pytest.approx([30.0, 20.0])
    assert interpolated_partition(contexts, known, 1000).tolist() == pytest.approx([400.0, 600.0])


def test_balanced_parts_take_equally_long() -> None:
    def times(partition: Array) -> Array:
        return np.asarray(sum(layer_seconds(WORK, FREE, partition, np.cumsum(partition))))

    balanced = balanced_partition(times, 16384.0, 6)
    assert balanced.sum() == pytest.approx(16384.0, rel=1e-12)
    assert times(balanced) == pytest.approx(times(balanced).mean(), rel=1e-9)
    # With free links, the chain is optimal except for the wait for the first keys.
    searched = best_partition(partial(chain_seconds, WORK, FREE), 16384.0, 6, balanced)
    assert chain_seconds(WORK, FREE, searched) == pytest.approx(chain_seconds(WORK, FREE, balanced), rel=5e-3)
