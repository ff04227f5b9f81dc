"""Chains of prefill instances: hand calculations, comparisons with single instances, fleets, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.answers.disaggregated import load
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.engine import Setup, Space
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.prefill import prefill
from inference_econ.inputs import Requests
from tests.asking import pools_of

REQUESTS = Requests(16000, 300)
#: Prompts in the steps of 'prefill'.
ALONE = ("assumptions.serving.prefill_chunk=0", "assumptions.host.handover=0 us")


@cache
def _pools(chip: str, chains: tuple[int, ...], *changes: str, assumptions: str = "deployable") -> Pools:
    setup = Setup.of("llama_3_8b", chip, assumptions=assumptions, changes=changes)
    return pools_of(setup, REQUESTS, Space(max_accelerators=4, pipeline=False), chains=chains)


def test_without_links_a_chain_is_so_many_times_as_quick_and_as_dear() -> None:
    """On twice the chips, a prompt takes half the time; without queueing its cost equals that on one process."""
    pool = _pools("h100_sxm", (2, 4), assumptions="ideal").prefill
    single, *chained = (np.flatnonzero(pool.processes == number) for number in (1, 2, 4))
    one = next(index for index in single if pool.accelerators[index] == 1)
    for number, rows in zip((2, 4), chained, strict=True):
        (chain,) = (index for index in rows if pool.accelerators[index] == number)
        assert (
            pool.layouts[chain] == f"chain of {number} x {pool.layouts[one]}"
            and pool.processes_of(int(chain)) == number
        )
        assert pool.prefill_seconds[chain] == pytest.approx(pool.prefill_seconds[one] / number, rel=0.01)
        costs = pool.prefill_busy_seconds * pool.dollars_per_second
        assert costs[chain] == pytest.approx(costs[one], rel=0.01)
        # As many prompts are on their way as there are processes.
        assert pool.waiting_prompts[chain] == pytest.approx(number * pool.waiting_prompts[one])


def test_a_chain_takes_what_one_prompt_on_several_chips_does() -> None:
    """The speedup for one prompt is that of 'prefill'; for a stream, the slowest process of the chain sets it (by
    hand).
    """
    every = _pools("l40s", (4,), *ALONE)
    pool = every.prefill
    (chain,) = np.flatnonzero((pool.processes == 4) & (pool.accelerators == 4))
    (one,) = np.flatnonzero(pool.accelerators * pool.processes == 1)
    ways = prefill(pool.setup, [16000], [4], tp=1)
    way, alone = ways.rows[0].ways["chain"], ways.alone[16000]
    assert pool.prefill_seconds[one] == pytest.approx(alone.seconds, rel=1e-9)
    assert pool.prefill_seconds[chain] == pytest.approx(way.seconds, rel=1e-9)
    assert alone.seconds / 4 < pool.prefill_busy_seconds[chain] < way.seconds
    # The last process alone sends the cache.
    sending = every.transfer.sending_seconds
    assert sending[chain] == pytest.approx(sending[one], rel=1e-12)
    rates = load.prefill_states(every, int(chain), 0, 1).rates
    assert rates[0] == pytest.approx(1 / way.seconds, rel=1e-9)
    assert rates[3] == pytest.approx(1 / pool.prefill_busy_seconds[chain], rel=0.05)


def test_a_fleet_of_a_chain_beside_single_instances() -> None:
    every = _pools("l40s", (4,))
    (chain,) = np.flatnonzero((every.prefill.processes == 4) & (every.prefill.accelerators == 4))
    (one,) = np.flatnonzero(every.prefill.accelerators == 1)
    single = load.pools_under_load(every, (int(one), 0), (4, 2), 0.5)
    chained = load.pools_under_load(every, (int(chain), 0), (1, 2), 0.5)
    assert single.accelerators == chained.accelerators == (4, 2 * int(every.decode.accelerators[0]))
    assert single.dollars_per_hour == chained.dollars_per_hour
    assert chained.load.ttft_seconds["mean"] < 0.5 * single.load.ttft_seconds["mean"]
    assert chained.prefill_utilization == pytest.approx(single.prefill_utilization, rel=0.1)


def test_a_slow_link_is_the_busiest() -> None:
    """Receiving 131,072 B per token takes most of a prompt's time in the last process (by hand)."""
    every = _pools("l40s", (2,), *ALONE, "hardware.nic_bytes_per_second_one_way=1 GB/s")
    pool = every.prefill
    (chain,) = np.flatnonzero((pool.processes == 2) & (pool.accelerators == 2))
    ways = prefill(pool.setup, [16000], [2], tp=1)
    handed = ways.rows[0].ways["chain"].parts[0] * 131_072 / (1e9 * pool.setup.assumptions.network.link_efficiency)
    assert pool.prefill_busy_seconds[chain] == pytest.approx(handed, rel=0.1)
    assert handed > 0.55 * ways.alone[16000].seconds


@pytest.mark.rows
def test_chains_that_cannot_be(chains: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _pools("h100_sxm", tuple(chains))


def test_prompts_caches_and_sizes_that_leave_no_chain() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable")
    with pytest.raises(InputError, match="a prompt of 3 tokens has no token for each of 4 processes"):
        pools_of(setup, Requests(3, 300), chains=(4,))
    with pytest.raises(NothingFitsError, match=r"no layout .* a chain of 8 within 4 GPUs; allow larger"):
        _pools("h100_sxm", (8,))
    bare = replace(setup, assumptions=setup.assumptions.changed({"attention.cache": "recomputed"}))
    with pytest.raises(InputError, match="parts of a prompt need the cache of those before"):
        pools_of(bare, REQUESTS, Space(max_accelerators=4), chains=(2,))
