"""Measured servers shown with results: the same model, chip and format, and similar requests."""

from __future__ import annotations

import pytest

from inference_econ.engine import Setup
from inference_econ.extras.servers.accuracy import ALIKE, servers_like
from inference_econ.extras.servers.measurements import Measurement, shipped
from inference_econ.inputs import catalog


def setup(weights: str | None = "fp8", **settings: object) -> Setup:
    return Setup.of("llama_3_70b", "h200_sxm", weights=weights, **settings)  # type: ignore[arg-type]


def rows(dataset: str) -> list[Measurement]:
    return [row for row in shipped([dataset]) if isinstance(row, Measurement)]


def test_servers_are_of_the_same_model_chip_and_format() -> None:
    servers = servers_like(setup(), 1024, 1024)
    wanted = {
        1.0 / row.tpot_seconds
        for row in rows("serving_points")
        if (row.model, row.hardware, row.weights) == ("llama_3_70b", "h200_sxm", "fp8")
        and row.isl == row.osl == pytest.approx(921.6)
        and row.tpot_seconds
    }
    assert len(servers) == 44
    assert {server.tokens_per_second_per_user for server in servers} <= wanted
    assert {server.engine for server in servers} == {"vllm", "trtllm"}
    assert servers_like(setup(None), 1024, 1024) == []
    assert servers_like(Setup.of("llama_3_70b", "b200", weights="fp8"), 1024, 1024) == []


def test_formats_that_are_published_need_not_be_named() -> None:
    gpt = Setup.of("gpt_oss_120b", "h200_sxm")
    assert {server.dataset for server in servers_like(gpt, 1024, 1024)} == {"serving_points", "inferencemax_aggregated"}
    assert servers_like(Setup.of("llama_3_8b", "a100_pcie_80", weights="bf16"), 512, 256)  # measured in fp16


def test_what_ifs_are_like_nothing_that_was_measured() -> None:
    assert servers_like(setup(changes=["hardware.link_domain=4"]), 1024, 1024) == []
    assert servers_like(setup(changes=["model.vocab_size=70000"]), 1024, 1024) == []


@pytest.mark.parametrize(
    ("isl", "osl", "near"), [(921.6 * ALIKE, 921.6, True), (921.6, 740.0, True), (2000, 500, False)]
)
def test_requests_are_alike_within_a_factor(isl: float, osl: float, near: bool) -> None:
    assert bool(servers_like(setup(), isl, osl)) is near


def test_littles_law_against_throughputs_that_were_measured() -> None:
    """Medians of latencies replace means, and runs are finite: within 12% for nine of ten rows."""
    ratios = sorted(
        law / row.output_tokens_per_second_per_accelerator
        for row in rows("inferencemax_aggregated")
        if row.output_tokens_per_second_per_accelerator and (law := row.closed_loop_rate) is not None
    )
    assert len(ratios) > 100
    low, high = ratios[len(ratios) // 20], ratios[-len(ratios) // 20]
    assert 0.88 < low < high < 1.12


def test_little_says_nothing_of_streams_or_of_unknown_latencies() -> None:
    assert all(row.closed_loop_rate is None for row in rows("poisson_load_a100"))
    assert "poisson_load_a100" in catalog.server_files()
