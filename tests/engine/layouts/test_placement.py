"""Link domains that the groups of a stage span."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.engine.layouts.plans import domains_spanned


def _packed(ranks: int, stride: int, stage: int, link_domain: int) -> int:
    """Return the most domains that any group spans if chips fill domains without gaps; groups of ``stride`` cut across
    blocks.
    """
    block = ranks * stride
    groups = [
        [start + offset + index * stride for index in range(ranks)]
        for start in range(0, stage, block)
        for offset in range(stride)
    ]
    return max(len({chip // link_domain for chip in group}) for group in groups)


def _counted(ranks: int, stride: int, stage: int, link_domain: int) -> int:
    """Return the same if chips may stay empty: equally many per domain, or before blocks that start with a domain."""
    begun = max(len({(offset + index * stride) // link_domain for index in range(ranks)}) for offset in range(stride))
    return min(begun, *(_packed(ranks, stride, stage, used) for used in range(1, link_domain + 1)))


@pytest.mark.rows
def test_domains_by_hand(ranks: int, stride: int, stage: int, link_domain: int, domains: int) -> None:
    assert domains_spanned(ranks, stride, stage, link_domain) == domains
    assert _counted(ranks, stride, stage, link_domain) == domains


@given(
    ranks=st.integers(1, 24),
    stride=st.sampled_from([1, 2, 4, 8, 16]),
    blocks=st.integers(1, 6),
    link_domain=st.sampled_from([1, 2, 4, 8, 16, 72]),
)
def test_domains_are_those_of_the_worst_group_chip_by_chip(
    ranks: int, stride: int, blocks: int, link_domain: int
) -> None:
    stage = ranks * stride * blocks
    counted = _counted(ranks, stride, stage, link_domain)
    placed = float(domains_spanned(ranks, stride, stage, link_domain))
    # Groups that must cross domains are never assumed inside; groups that cut across others may span too many domains.
    assert placed <= _packed(ranks, stride, stage, link_domain) + 1
    assert (placed == 1) == (counted == 1)
    if stride == 1:
        assert placed == counted


@given(
    ranks=st.integers(1, 100),
    stride=st.integers(1, 20),
    blocks=st.integers(1, 6),
    link_domain=st.integers(1, 100),
    more=st.integers(1, 100),
)
def test_a_larger_domain_is_never_used_worse(ranks: int, stride: int, blocks: int, link_domain: int, more: int) -> None:
    group = ranks, stride, ranks * stride * blocks
    assert domains_spanned(*group, link_domain + more) <= domains_spanned(*group, link_domain)


@given(tensor=st.sampled_from([1, 2, 4, 8, 16]), experts=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_groups_that_cut_a_stage_both_ways_cannot_both_lie_inside_a_smaller_domain(tensor: int, experts: int) -> None:
    stage, domain = tensor * experts, 8
    within = domains_spanned(tensor, 1, stage, domain)
    across = domains_spanned(experts, tensor, stage, domain)
    if stage > domain:
        assert max(within, across) > 1 or experts == 1
    assert within * across >= np.ceil(stage / domain) or min(within, across) == 1
