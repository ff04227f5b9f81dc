"""Stack distances against a simulated cache, and against samples of themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.stack_distance import StackDistances

_CHAINS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=40)


def _prefixes(chains: Sequence[Sequence[int]]) -> list[list[Hashable]]:
    """Return block identifiers that are equal if all earlier blocks are equal."""
    return [[tuple(chain[: end + 1]) for end in range(len(chain))] for chain in chains]


def _played(prompts: Sequence[Sequence[Hashable]], room: int) -> int:
    """Return the blocks that a cache of some size finds, block by block."""
    cache: OrderedDict[Hashable, None] = OrderedDict()
    found = 0
    for prompt in prompts:
        for block in prompt:
            if block not in cache:
                break
            found += 1
        for block in reversed(prompt):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > room:
            cache.popitem(last=False)
    return found


@given(_CHAINS, st.integers(6, 40))
def test_a_cache_that_is_played_finds_as_much(chains: list[list[int]], room: int) -> None:
    prompts, distances = _prefixes(chains), StackDistances()
    for prompt in prompts:
        distances.use(prompt)
    uses = sum(map(len, prompts))
    assert distances.uses == uses
    assert distances.found([room])[0] == pytest.approx(_played(prompts, room) / uses)
    assert distances.found([10**9])[0] == pytest.approx(distances.share)


def test_places_are_numbered_again() -> None:
    distances = StackDistances(most=8)
    for _ in range(100):
        assert distances.use([1, 2, 3]) in (0, 3)
    assert distances.share == pytest.approx(297 / 300)
    assert distances.found([2, 3]) == pytest.approx([198 / 300, 297 / 300])


def test_of_many_blocks_a_sample_stands_for_all() -> None:
    random = np.random.default_rng(1)
    exact, sampled = StackDistances(), StackDistances(most=2_000)
    for _ in range(20_000):
        prompt = [int(block) for block in random.zipf(1.3, 2) if block < 10**7]
        exact.use(prompt)
        sampled.use(prompt)
    assert sampled.below < exact.below
    assert sampled.distinct == pytest.approx(exact.distinct, rel=0.1)
    assert len(sampled._last) <= 2_000
