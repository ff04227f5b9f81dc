"""Collectives: the published code's numbers, eqs. (23)-(28) and (39)-(42) of Erdil (2025), NCCL's tuning.cc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.engine import Network
from inference_econ.formulas.collectives import (
    Kind,
    Protocol,
    exchange_seconds_per_byte,
    mesh_parts,
    mesh_share,
    nccl_floor,
    nccl_parts,
    nccl_seconds,
    transfer_seconds_per_byte,
    transfer_seconds_per_byte_floor,
    tree_seconds,
)
from inference_econ.inputs import Mesh, NcclTree, catalog
from tests.reading import fixture_table, scalar

KINDS: dict[str, Kind] = {"allreduce": "all_reduce", "all-to-all": "all_to_all", "p2p": "point_to_point"}
kinds = st.sampled_from(list(KINDS.values()))


@cache
def _protocols(collectives: str = "nccl_2_19") -> tuple[Protocol, ...]:
    model = catalog.assumptions("paper", changes=[f"network.collectives={collectives}"]).network.collectives
    assert isinstance(model, NcclTree)
    return tuple(
        Protocol(name, one.base, one.per_rank, one.per_domain_doubling, one.bandwidth_factor)
        for name, one in model.protocols.items()
    )


#: Chips that kernels of engines were measured on.
ENGINES = {"engines_hopper": "h100_sxm", "engines_blackwell": "b200", "engines_ampere": "a100_sxm_80"}


@cache
def _network(collectives: str) -> Network:
    opinions = catalog.assumptions("paper", changes=[f"network.collectives={collectives}", "per_family={}"])
    return Network.of(catalog.hardware(ENGINES[collectives]), opinions.network)


def _paper_seconds_per_byte(gpu: str, ranks: float, domains: float) -> float:
    chip = fixture_table("hardware", "name")[gpu]
    inside, between = 2 * float(chip["intranode_Bps_halved"]), 2 * float(chip["internode_Bps_halved"])
    return float(transfer_seconds_per_byte(ranks, domains, inside, between))


def test_collectives_of_the_published_code(collectives_row: dict[str, str]) -> None:
    ranks, domains, size = (float(collectives_row[name]) for name in ("nRanks", "nNodes", "bytes"))
    kind, per_byte = KINDS[collectives_row["coll"]], _paper_seconds_per_byte(collectives_row["gpu"], ranks, domains)
    parts = nccl_parts(kind, [ranks], domains, size, _protocols(), per_byte)
    index = int(parts.protocol[0])
    assert ("none" if index < 0 else _protocols()[index].name) == collectives_row["algo"]
    # Relative 1e-12 throughout.
    assert parts.latency_seconds[0] == pytest.approx(float(collectives_row["latency_s"]), rel=1e-12)
    assert parts.bandwidth_seconds[0] == pytest.approx(float(collectives_row["bandwidth_s"]), rel=1e-12)
    total = nccl_seconds(kind, [ranks], domains, size, _protocols(), per_byte)
    assert total[0] == pytest.approx(float(collectives_row["total_s"]), rel=1e-12)


@given(kind=kinds, ranks=st.floats(0.5, 4096.0), domains=st.floats(1.0, 512.0), size=st.floats(0.0, 1e10))
def test_total_is_the_sum_of_its_parts(kind: Kind, ranks: float, domains: float, size: float) -> None:
    groups = min(domains, max(ranks, 1.0))
    per_byte = transfer_seconds_per_byte(max(ranks, 1.0), groups, 450e9, 50e9)
    parts = nccl_parts(kind, [ranks], groups, size, _protocols(), per_byte)
    total = nccl_seconds(kind, [ranks], groups, size, _protocols(), per_byte)
    assert parts.latency_seconds + parts.bandwidth_seconds == pytest.approx(total, rel=1e-12)
    assert (total[0] == 0.0) == (ranks <= 1.0)


def _ways(collectives: str) -> Sequence[Protocol]:
    """Yield the trees of NCCL, or an engine's algorithm inside a domain with a ring."""
    if collectives not in ENGINES:
        return _protocols(collectives)
    return [*_network(collectives).protocols, Protocol("ring", 8e-6, 3.4e-6, 14e-6, 1.0, "ring")]


collective_models = st.sampled_from(["nccl_2_19", *ENGINES])


@given(collectives=collective_models, kind=kinds, ranks=st.floats(1.01, 4096.0), size=st.floats(0.0, 1e10))
def test_the_best_protocol_is_taken(collectives: str, kind: Kind, ranks: float, size: float) -> None:
    # Kernels of engines are of all-reduces alone.
    ways, kind = _ways(collectives), "all_reduce" if collectives in ENGINES else kind
    per_byte = transfer_seconds_per_byte(ranks, 1.0, 450e9, 50e9)
    times = [float(nccl_seconds(kind, [ranks], 1.0, size, [way], per_byte)[0]) for way in ways]
    parts = nccl_parts(kind, [ranks], 1.0, size, ways, per_byte)
    assert nccl_seconds(kind, [ranks], 1.0, size, ways, per_byte)[0] == min(times)
    assert times[int(parts.protocol[0])] == pytest.approx(min(times), rel=1e-14)


def test_arrays_broadcast() -> None:
    ranks = np.array([[1.0], [8.0], [16.0]])
    domains = np.ceil(ranks / 8)
    per_byte = transfer_seconds_per_byte(ranks, domains, 450e9, 50e9)
    parts = nccl_parts("all_reduce", ranks, domains, np.array([0.0, 1e3, 1e6, 1e9]), _protocols(), per_byte)
    assert all(part.shape == (3, 4) for part in parts)
    assert parts.protocol[0].tolist() == [-1, -1, -1, -1]


def test_equation_23_tree_all_reduce_under_ll() -> None:
    ll = _protocols()[0]
    assert ll.name == "LL"
    for ranks, domains in ((8.0, 1.0), (16.0, 2.0), (64.0, 8.0), (100.0, 13.0)):
        expected = 6.8e-6 + 1.2e-6 * (ranks / domains - 1) + 10e-6 * math.log2(domains)
        found = nccl_seconds("all_reduce", ranks, domains, 0.0, [ll], 0.0)
        assert float(found) == pytest.approx(expected, rel=1e-14)


def test_equation_24_seven_eighths_of_the_bytes_cross_twice() -> None:
    # 10,000 words of 2 bytes for 100 requests over 8 ranks at 112 GB/s (half of a half of 450): about 16 us.
    ll = Protocol("LL", 0.0, 0.0, 0.0, 0.5)
    size, link = 2 * 10000 * 100, 4 * 112e9
    seconds = nccl_seconds("all_reduce", 8, 1, size, [ll], transfer_seconds_per_byte(8, 1, link, 50e9))
    assert float(seconds) == pytest.approx(2 * 10000 * 100 * 7 / (8 * 112e9), rel=1e-12)
    assert round(float(seconds) * 1e6) == 16


@pytest.mark.parametrize(("ranks", "domains"), [(8.0, 1.0), (16.0, 2.0), (256.0, 32.0), (22.6, 8.0)])
def test_equations_41_and_42_bytes_inside_and_between(ranks: float, domains: float) -> None:
    # Both all-reduce terms over the ranks: 2 (R/n - 1) n and 2 (n - 1) times the bytes, at one-way rates.
    inside = 2 * (ranks / domains - 1) * domains / ranks / 450e9
    between = 2 * (domains - 1) / ranks / 50e9
    overlapped = transfer_seconds_per_byte(ranks, domains, 450e9, 50e9)
    added = transfer_seconds_per_byte(ranks, domains, 450e9, 50e9, overlap=False)
    assert float(overlapped) == pytest.approx(max(inside, between), rel=1e-13)
    assert float(added) == pytest.approx(inside + between, rel=1e-13)  # eqs. (28) and (39)


def test_a_missing_link_costs_nothing_and_a_single_rank_neither() -> None:
    assert transfer_seconds_per_byte(16, 2, math.inf, math.inf) == 0.0
    assert transfer_seconds_per_byte(1, 1, 450e9, 50e9) == 0.0
    # Groq and TPU v4 in the study: every chip is a domain.
    assert float(transfer_seconds_per_byte(4, 4, math.inf, 50e9)) == pytest.approx(2 * 3 / 4 / 50e9, rel=1e-14)


@pytest.mark.parametrize("kind", ["all_to_all", "point_to_point"])
def test_other_collectives_pass_the_tree_once_with_half_of_the_traffic(kind: Kind) -> None:
    one = Protocol("LL", 0.0, 0.6e-6, 5e-6, 1.0)
    per_byte = transfer_seconds_per_byte(16, 2, 450e9, 50e9)
    other, reduce = (nccl_parts(name, 16, 2, 1e6, [one], per_byte) for name in (kind, "all_reduce"))
    assert float(2 * other.latency_seconds) == pytest.approx(float(reduce.latency_seconds), rel=1e-14)
    assert float(2 * other.bandwidth_seconds) == pytest.approx(float(reduce.bandwidth_seconds), rel=1e-14)


@pytest.mark.rows
def test_latencies_of_protocols_are_those_of_nccl(collectives: str, protocol: str, constants: list[float]) -> None:
    found = {protocol.name: protocol for protocol in _protocols(collectives)}
    assert list(found) == ["LL", "LL128", "Simple"]
    # Read from "6.8 us": accurate to the last digit.
    assert found[protocol][1:5] == pytest.approx(constants, rel=1e-15)


def test_with_nccl_2_23_large_reductions_use_simple_and_are_quicker() -> None:
    per_byte = transfer_seconds_per_byte(8, 1, 450e9, 50e9)
    before = nccl_parts("all_reduce", [8], 1, 1e9, _protocols("nccl_2_19"), per_byte)
    after = nccl_parts("all_reduce", [8], 1, 1e9, _protocols("nccl_2_23"), per_byte)
    assert _protocols()[int(before.protocol[0])].name == "LL128"
    assert _protocols()[int(after.protocol[0])].name == "Simple"
    # 8.4 us + 2 x 7 x 4 us.
    assert after.latency_seconds[0] == pytest.approx(64.4e-6, rel=1e-12)
    assert after.latency_seconds + after.bandwidth_seconds < before.latency_seconds + before.bandwidth_seconds


@given(kind=kinds, ranks=st.floats(1.0, 4096.0), size=st.floats(0.0, 1e9), more=st.floats(1.0, 10.0))
def test_larger_is_never_quicker(kind: Kind, ranks: float, size: float, more: float) -> None:
    per_byte = transfer_seconds_per_byte(ranks, 1.0, 450e9, 50e9)
    small, large = nccl_seconds(kind, ranks, 1.0, np.array([size, more * size]), _protocols(), per_byte)
    assert small <= large


unit = st.floats(0.0, 1.0)


@given(
    collectives=collective_models,
    kind=kinds,
    ends=st.tuples(st.floats(1.0, 4096.0), st.floats(1.0, 4096.0)),
    domains=st.tuples(st.floats(1.0, 64.0), st.floats(1.0, 64.0)),
    inside=st.tuples(unit, unit),
    size=st.floats(0.0, 1e9),
    overlap=st.booleans(),
)
def test_floors_hold_for_everything_in_their_range(
    collectives: str,
    kind: Kind,
    ends: tuple[float, float],
    domains: tuple[float, float],
    inside: tuple[float, float],
    size: float,
    overlap: bool,
) -> None:
    protocols = _ways(collectives)
    ranks = np.array([min(ends)]), np.array([max(ends)])
    groups = np.array([min(domains)]), np.array([max(domains)])
    one_ranks = ranks[0] + inside[0] * (ranks[1] - ranks[0])
    one_groups = np.minimum(groups[0] + inside[1] * (groups[1] - groups[0]), one_ranks)
    if one_groups < groups[0]:
        return
    floor_per_byte = transfer_seconds_per_byte_floor(ranks, groups, 450e9, 50e9, overlap=overlap)
    per_byte = transfer_seconds_per_byte(one_ranks, one_groups, 450e9, 50e9, overlap=overlap)
    assert (floor_per_byte <= per_byte * (1 + 1e-12) + 1e-30).all()
    floor = nccl_floor(kind, ranks, groups, size, protocols, floor_per_byte)
    seconds = nccl_seconds(kind, one_ranks, one_groups, 1.5 * size, protocols, per_byte)
    assert (floor <= seconds * (1 + 1e-12)).all()


@given(kind=kinds, ranks=st.floats(1.0, 4096.0), share=st.floats(0.0, 1.0), size=st.floats(0.0, 1e9))
def test_the_floor_of_a_point_is_the_time_itself(kind: Kind, ranks: float, share: float, size: float) -> None:
    at, groups = np.array([ranks]), np.array([ranks**share])
    floor_per_byte = transfer_seconds_per_byte_floor((at, at), (groups, groups), 450e9, 50e9)
    per_byte = transfer_seconds_per_byte(at, groups, 450e9, 50e9)
    # A difference of near-equal numbers: absolute, of 1 / 225 GB/s.
    assert floor_per_byte == pytest.approx(per_byte, rel=1e-12, abs=1e-26)
    floor = nccl_floor(kind, (at, at), (groups, groups), size, _protocols(), per_byte)
    assert floor == pytest.approx(nccl_seconds(kind, at, groups, size, _protocols(), per_byte), rel=1e-12)


@pytest.mark.parametrize(("kind", "passes"), [("all_reduce", 2), ("all_to_all", 1), ("point_to_point", 1)])
def test_mesh_of_the_published_code(kind: Kind, passes: int) -> None:
    model = catalog.assumptions("paper").for_chip(catalog.hardware("tpu_v4")).network.collectives
    assert isinstance(model, Mesh)
    ranks, size, bandwidth = np.array([0.5, 1.0, 2.0, 16.0]), 1e6, 5e11
    parts = mesh_parts(kind, ranks, size, model.hop, bandwidth)
    hops = np.array([0.0, 0.0, 1.0, 15.0])
    # m (n - 1) 1 us + m (n - 1) X / (2 n b), b half of one direction; their code halves all collectives except
    # all-reduces.
    assert parts.latency_seconds == pytest.approx(passes * hops * 1e-6, rel=1e-14)
    transfer = passes * hops / (2 * np.maximum(ranks, 1)) * size / (bandwidth / 2)
    assert parts.bandwidth_seconds == pytest.approx(transfer, rel=1e-14)
    assert parts.protocol.tolist() == [-1, -1, 0, 0]


def test_an_exchange_over_own_links_counts_what_leaves_each_rank() -> None:
    # Eight ranks in one domain retain 1/8; sixteen in two domains send half away.
    assert exchange_seconds_per_byte(8, 1, 1.0, 1.0) == pytest.approx(7 / 8)
    assert exchange_seconds_per_byte(16, 2, np.inf, 2.0) == pytest.approx(0.25)
    assert exchange_seconds_per_byte(1, 1, 1.0, 1.0) == 0.0
    together = exchange_seconds_per_byte(16, 2, 1.0, 1.0, overlap=False)
    assert together == pytest.approx(15 / 16)


# Collectives of serving engines inside a domain, and NCCL's ring between domains.


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("size", [0.0, 8192.0, 3e7])
def test_an_all_reduce_kernel_moves_what_its_shape_says(ranks: int, size: float) -> None:
    link, base, step, payload = 450e9, 3e-6, 0.5e-6, 0.6
    received = {
        # Whole tensors of all others; a part of each twice around; one tensor, summed and copied by the switch.
        "one_shot": (ranks - 1) * size,
        "two_shot": 2 * (ranks - 1) / ranks * size,
        "multicast": size,
    }
    per_byte = transfer_seconds_per_byte(ranks, 1, link, 50e9)
    for shape, moved in received.items():
        kernel = Protocol(shape, base, step, 0.0, payload, shape)  # type: ignore[arg-type]
        expected = base + (ranks - 1) * step + moved / (link * payload)
        found = nccl_seconds("all_reduce", ranks, 1, size, [kernel], per_byte)
        assert float(found) == pytest.approx(expected, rel=1e-12), shape


def test_kernels_all_reduce_small_tensors_in_one_domain_and_nothing_else() -> None:
    kernel = Protocol("one-shot", 1e-6, 0.0, 0.0, 1.0, "one_shot", 1e6)
    tree = Protocol("LL", 50e-6, 0.0, 0.0, 1.0)

    def chosen(kind: Kind, domains: float, size: float) -> str:
        per_byte = transfer_seconds_per_byte(8, domains, 450e9, 50e9)
        return (tree, kernel)[int(nccl_parts(kind, [8], domains, size, [tree, kernel], per_byte).protocol[0])].name

    assert chosen("all_reduce", 1, 1e6) == "one-shot"
    assert chosen("all_reduce", 1, 1e6 + 1) == "LL"
    assert chosen("all_reduce", 2, 1e3) == "LL"
    # The others have no kernel, so that only the tree is tried.
    for kind in ("all_to_all", "point_to_point"):
        per_byte = transfer_seconds_per_byte(8, 1, 450e9, 50e9)
        alone, both = (nccl_seconds(kind, 8, 1, 1e3, which, per_byte) for which in ([tree], [tree, kernel]))
        assert float(alone) == float(both)


@pytest.mark.parametrize(
    ("ranks", "domains", "steps_inside", "steps_between"),
    # 2 (n - 1) steps, of which 2 N leave a domain.
    [(8, 1, 14, 0), (2, 1, 2, 0), (16, 2, 26, 4), (64, 8, 110, 16), (32, 4, 54, 8)],
)
def test_the_ring_of_nccl(ranks: int, domains: int, steps_inside: int, steps_between: int) -> None:
    # NCCL 2.23, Simple: base 8.4 us, 3.4 us per step over NVLink, 14 us per step over the network.
    ring = Protocol("Simple", 8.4e-6, 3.4e-6, 14e-6, 1.0, "ring")
    expected = 8.4e-6 + steps_inside * 3.4e-6 + steps_between * 14e-6
    assert float(nccl_seconds("all_reduce", ranks, domains, 0.0, [ring], 0.0)) == pytest.approx(expected, rel=1e-12)


def test_between_many_domains_a_tree_beats_the_ring() -> None:
    # A ring passes every rank, a tree the ranks of one domain and every doubling of the domains.
    ring, tree = (Protocol("Simple", 8.4e-6, 4e-6, 14e-6, 1.0, shape) for shape in ("ring", "tree"))
    times = [float(nccl_seconds("all_reduce", 512, 64, 0.0, [one], 0.0)) for one in (ring, tree)]
    assert times[1] == pytest.approx(8.4e-6 + 2 * (7 * 4e-6 + 6 * 14e-6))
    assert times[0] > 10 * times[1]


@pytest.mark.rows
def test_all_reduces_of_engines_as_measured(collectives: str, size: float, measured: float) -> None:
    network = _network(collectives)
    per_byte = transfer_seconds_per_byte(8, 1, network.inside, network.between)
    seconds = float(nccl_seconds("all_reduce", 8, 1, size, network.protocols, per_byte))
    # Versions and engines differ by up to a fifth among themselves.
    assert seconds * 1e6 == pytest.approx(measured, rel=0.16)


@given(
    ranks=st.floats(1.0, 512.0),
    domains=st.tuples(st.floats(1.0, 512.0), st.floats(1.0, 512.0)),
    rank=st.floats(0.0, 1e-5),
    # Zero, or at least the time of light for a centimeter: smaller values overflow quotients.
    doubling=st.one_of(st.just(0.0), st.floats(3e-11, 1e-5)),
    chain=st.sampled_from([1.0, 8.0, 72.0]),
)
def test_a_tree_with_a_longest_chain_is_never_quicker_over_smaller_domains(
    ranks: float, domains: tuple[float, float], rank: float, doubling: float, chain: float
) -> None:
    tree = Protocol("LL", 1e-6, rank, doubling, 1.0, chain=chain)
    few, many = np.minimum(np.sort(domains), ranks)
    larger, smaller = (float(tree_seconds(tree, 2.0, ranks, count)) for count in (few, many))
    assert larger <= smaller * (1 + 1e-12)
    # A domain of the measured size takes the measured time.
    if ranks <= chain:
        plain = tree_seconds(tree._replace(chain=math.inf), 2.0, ranks, 1.0)
        assert float(tree_seconds(tree, 2.0, ranks, 1.0)) == pytest.approx(float(plain), rel=1e-12)


@pytest.mark.rows
def test_a_group_in_a_full_mesh_has_the_links_to_its_members(
    ranks: float, domains: float, peers: float, share: float
) -> None:
    assert scalar(mesh_share(ranks, domains, peers)) == pytest.approx(share)


@given(ranks=st.floats(1.0, 512.0), more=st.floats(1.0, 8.0), domains=st.floats(1.0, 64.0), peers=st.integers(1, 72))
def test_a_larger_group_in_a_mesh_has_no_less_bandwidth_and_never_more_than_all(
    ranks: float, more: float, domains: float, peers: int
) -> None:
    small, large = mesh_share(ranks, domains, peers), mesh_share(ranks * more, domains, peers)
    assert 1.0 / peers <= small <= large <= 1.0
