"""Collectives compared with measurements: reading of rows, predictions, and fitted constants."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import components
from benchmarks.compared_point import ComparedPoint
from benchmarks.components import DATASETS
from benchmarks.components.report import Report
from inference_econ.errors import InputError
from inference_econ.extras.servers import accuracy
from inference_econ.inputs import catalog
from tests.reading import tables, write_csv

H100 = {"hardware": "H100-80GB SXM", "n_gpus": "8", "n_nodes": "1"}
NCCL = {**H100, "op": "all_reduce", "backend": "NCCL 2.29.2", "metric": "latency", "value": "25", "unit": "us"}
LOW_LATENCY: dict[str, str] = tables(Path(__file__))["LOW_LATENCY"]
NORMAL: dict[str, str] = tables(Path(__file__))["NORMAL"]


def _compare(tmp_path: Path, *rows: dict[str, str], assumptions: str = "nccl_2_23") -> list[ComparedPoint]:
    columns = ["id", *DATASETS["collectives"].columns, "groups", "interconnect", "source", "notes"]
    path = write_csv(tmp_path / "mine.csv", rows, columns)
    return list(components.validate("collectives", file=path, assumptions=[assumptions]).points)


@pytest.fixture(scope="module")
def report() -> Report:
    return components.validate("collectives")


def test_every_row_is_there_for_every_model(report: Report) -> None:
    with catalog.measured_files()["collectives"].open(encoding="utf-8", newline="") as stream:
        ids = [row["id"] for row in csv.DictReader(stream)]
    assert len(ids) == 173
    assert report.assumptions == ("deployable", "nccl_2_23", "nccl_2_19")
    for name in report.assumptions:
        assert [point.id for point in report.points if point.assumptions == name] == ids
    predicted = Counter(point.assumptions for point in report.points if point.predicted is not None)
    assert predicted == {"deployable": 168, "nccl_2_23": 132, "nccl_2_19": 132}


def test_what_is_not_compared_says_why(report: Report) -> None:
    reasons = {
        (point.id, point.note)
        for point in report.points
        if point.predicted is None and "deployable" in point.assumptions
    }
    assert reasons == {
        ("C0348", "0.01 GB/s is rounded too coarsely"),
        *((row, "no size is recorded, so the bandwidth gives no time") for row in ("C0361", "C0362", "C0363")),
        ("C0367", "unknown hardware 'H100/H800'; nearest: h800_sxm or h200_sxm"),
    }
    others = {point.note for point in report.points if point.predicted is None and point.assumptions == "nccl_2_23"}
    assert "nccl_2_23 has no engine kernels" in others
    assert all(point.note == "" for point in report.points if point.predicted is not None)


def test_rows_that_constants_were_fitted_to_are_told_from_others(report: Report) -> None:
    fitted = [point for point in report.points if point.fitted]
    assert {point.assumptions for point in fitted} == {"deployable"}
    assert Counter(point.series for point in fitted) == {
        "all-reduce": 30,
        "all-reduce, bus bandwidth": 24,
        "all-reduce, engine's kernel": 36,
    }
    # All chips have Hopper's constants: those of the B200 were measured on another chip.
    alone = components.validate("collectives", assumptions=["engines_hopper"]).points
    assert Counter(point.subject.split(" x ")[1].split(",")[0] for point in alone if point.fitted) == {
        "NVIDIA H100 SXM5 80GB": 33
    }


def test_what_was_fitted_is_near(report: Report) -> None:
    fitted = [point for point in report.points if point.fitted]
    measured = [point.measured or 0.0 for point in fitted]
    found = accuracy.accuracy(measured, [point.predicted or 0.0 for point in fitted])
    # The files state 3% to 5% at the median.
    assert found.median is not None and found.median < 0.06


def test_an_all_reduce_by_hand(tmp_path: Path) -> None:
    (point,) = _compare(tmp_path, {**NCCL, "message_bytes": "1048576"})
    assert point.series == "all-reduce"
    assert point.measured == pytest.approx(25e-6, rel=1e-12)
    # LL over 8 ranks: 6.8 + 2 x 7 x 0.6 us, and 7/8 of the bytes at half of 225 GB/s.
    assert point.predicted == pytest.approx(15.2e-6 + 2**20 * 7 / 8 / 112.5e9, rel=1e-12)
    assert not point.fitted


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "alltoall"])
def test_one_pass_by_hand(tmp_path: Path, operation: str) -> None:
    (point,) = _compare(tmp_path, {**NCCL, "op": operation, "message_bytes": "1048576"})
    # LL over 8 ranks: 6.8 + 7 x 0.6 us, and 7/8 of the bytes at half of 450 GB/s.
    assert point.predicted == pytest.approx(11e-6 + 2**20 * 7 / 8 / 225e9, rel=1e-12)


def test_bus_bandwidth_becomes_time(tmp_path: Path) -> None:
    bus = {**NCCL, "metric": "busbw", "value": "400", "unit": "GB/s", "message_bytes": "1e9"}
    reduced, gathered = _compare(tmp_path, bus, {**bus, "op": "all_gather"})
    assert reduced.measured == pytest.approx(2 * 7 / 8 * 1e9 / 400e9, rel=1e-12)
    assert gathered.measured == pytest.approx(7 / 8 * 1e9 / 400e9, rel=1e-12)
    assert reduced.series == "all-reduce, bus bandwidth"


def test_kernels_and_nccl_are_not_mixed(tmp_path: Path) -> None:
    small = {**NCCL, "message_bytes": "8192"}
    by_nccl, by_kernel = _compare(tmp_path, small, {**small, "backend": "vLLM custom"}, assumptions="engines_hopper")
    assert by_nccl.predicted is not None and by_kernel.predicted is not None
    # The engine would use the kernel for both.
    assert by_kernel.predicted < by_nccl.predicted / 2
    assert by_kernel.series == "all-reduce, engine's kernel"


def test_dispatch_sends_one_byte_and_combine_two(tmp_path: Path) -> None:
    combine = {**LOW_LATENCY, "op": "moe_combine (DeepEP low-latency)", "dtype": "bf16"}
    first, second = _compare(tmp_path, LOW_LATENCY, combine)
    size = 128 * 8 * 7168
    assert first.subject.endswith(f"{size:g} B")
    assert second.subject.endswith(f"{2 * size:g} B")
    # One pass over 8 ranks. LL: 6.8 + 7 x 0.6 us at half of 450 GB/s; LL128: 14 + 7 x 1.25 us; Simple: 8.4 + 7 x 4 us.
    ways = (11e-6, 0.5), (22.75e-6, 0.95), (36.4e-6, 1.0)
    for point, width in ((first, 1), (second, 2)):
        expected = min(base + width * size * 7 / 8 / (450e9 * factor) for base, factor in ways)
        assert point.predicted == pytest.approx(expected, rel=1e-12)


def test_pure_rdma_uses_the_network_inside_a_box_too(tmp_path: Path) -> None:
    (point,) = _compare(tmp_path, {**LOW_LATENCY, "backend": "DeepEP LL (pure RDMA)", "hardware": "H800-80GB SXM"})
    assert point.series == "dispatch, low latency, network only"
    size = 128 * 8 * 7168
    # LL128 over 8 domains: 14 + 3 x 8.5 us, and 7/8 of the bytes at 0.95 of 50 GB/s.
    assert point.predicted == pytest.approx(39.5e-6 + size * 7 / 8 / 47.5e9, rel=1e-12)


def test_the_bandwidth_of_normal_kernels_counts_domains_reached(tmp_path: Path) -> None:
    normal = LOW_LATENCY | NORMAL
    inside, two, eight = _compare(
        tmp_path, normal, {**normal, "n_gpus": "16", "n_nodes": "2"}, {**normal, "n_gpus": "64", "n_nodes": "8"}
    )
    token = 7168 * (1 + 4 / 128)  # fp8 with its scales
    for point, reached in ((inside, 8 * (1 - (7 / 8) ** 8)), (two, 2 * (1 - 0.5**8)), (eight, 4.0)):
        assert point.measured == pytest.approx(4096 * reached * token / 43e9, rel=1e-12)
    assert inside.series == "dispatch, normal"
    assert eight.series == "dispatch, normal, between domains"
    # Between domains each token travels once per domain: Simple, 8.4 + 7 x 4 + 3 x 14 us, and 7/8 of four copies.
    assert eight.predicted == pytest.approx(78.4e-6 + 4096 * 4 * 7168 * 7 / 8 / 50e9, rel=1e-12)


@pytest.mark.rows
def test_a_row_that_cannot_be_compared(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    (point,) = _compare(tmp_path, {**NCCL, "message_bytes": "8192", **changes})
    assert (point.predicted, point.note) == (None, reason)
    assert point.id == "line 2"


def test_the_nodes_of_a_rack_share_its_links(tmp_path: Path) -> None:
    row = {**NCCL, "hardware": "GB200 NVL72", "n_gpus": "16", "n_nodes": "4", "message_bytes": "1048576"}
    inside, between = _compare(tmp_path, row, {**row, "n_gpus": "144", "n_nodes": "36"})
    assert inside.series == "all-reduce"
    assert between.series == "all-reduce, between domains"
    assert "16 x NVIDIA GB200 NVL72 186GB, 1 domains" in inside.subject
    assert "144 x NVIDIA GB200 NVL72 186GB, 2 domains" in between.subject


def test_assumptions_without_times_of_their_own(tmp_path: Path) -> None:
    (point,) = _compare(tmp_path, {**NCCL, "message_bytes": "8192"}, assumptions="ideal")
    assert (point.predicted, point.note) == (None, "ideal takes communication for free")
    kernel = {**NCCL, "message_bytes": "8192", "backend": "vLLM custom", "n_gpus": "16", "n_nodes": "2"}
    (point,) = _compare(tmp_path, kernel, assumptions="deployable")
    assert point.note == "deployable has no kernel for this size or these domains"
    (point,) = _compare(tmp_path, {**NCCL, "message_bytes": "8192"}, assumptions="mesh")
    # Twice around: 2 x 7 x 1 us, and 7/8 of the bytes at 225 GB/s.
    assert point.predicted == pytest.approx(14e-6 + 8192 * 7 / 8 / 225e9, rel=1e-12)


@pytest.mark.rows
def test_numbers_that_are_none_are_errors(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _compare(tmp_path, {**NCCL, "message_bytes": "8192", **changes})
