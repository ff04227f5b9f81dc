"""The analytical load model compared with servers under Poisson arrivals, and its errors."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compared_point import ComparedPoint
from benchmarks.components import validate
from benchmarks.components.report import Report
from inference_econ.errors import InputError
from inference_econ.inputs import catalog


@cache
def report() -> Report:
    return validate("load")


def points(*words: str) -> list[ComparedPoint]:
    return [point for point in report().points if all(word in point.series for word in words)]


def errors(*words: str) -> list[float]:
    return [error for point in points(*words) if (error := point.log_error) is not None]


def test_every_row_is_predicted() -> None:
    assert {point.note for point in report().points} == {""}
    assert all(point.log_error is not None for point in report().points)
    assert len(points("tokens/s")) == len(points("$/M")) == len(points("TPOT by rate")) == 56
    # A TTFT with queueing depends on the length of the run.
    assert len(points("TTFT")) == len(points("TTFT", "kept up")) == 20
    # One server that sustained its load is predicted saturated: 7.7 of 10 requests/s were completed, 8.0 are predicted.
    full = {point.id for point in points("TPOT by rate", "kept up")} - {point.id for point in points("TTFT")}
    (rate,) = [point for point in points("tokens/s", "kept up") if point.id in full]
    assert "Mixtral-8x7B-Instruct-v0.1 (float16), 2 x A100_80GB_PCIe, 10 requests/s" in rate.subject
    assert abs(rate.log_error or 1.0) < 0.1


def test_a_row_by_hand() -> None:
    """The first row: Llama 3.1 8B on one card, 100 requests/s offered, 11.3 completed."""
    first = {point.series: point for point in report().points if point.id == report().points[0].id}
    tokens, cost = first["tokens/s, vllm, queue"], first["$/M, vllm, queue"]
    assert tokens.measured == pytest.approx(2899.07, abs=0.01)
    assert cost.measured == pytest.approx(0.35165, abs=1e-5)
    # 3.67 dollars per hour over the completed requests.
    assert cost.predicted == pytest.approx(3.67 / 3600 / (tokens.predicted or 0.0) * 1e6)
    assert first["TPOT by rate, vllm, queue"].measured == pytest.approx(79.72, abs=0.01)
    assert "Meta-Llama-3.1-8B-Instruct (float16), 1 x A100_80GB_PCIe, 100 requests/s" in tokens.subject


def test_how_far_off_vllm_is_without_calibration() -> None:
    """Half of the errors are within a third to a half.

    Predictions are too fast, since `deployable` omits losses of hosts and kernels.
    """
    for words, median in (
        (("TPOT by number in flight", "vllm"), 0.35),
        (("TPOT by rate", "vllm", "queue"), 0.35),
        (("tokens/s", "vllm", "queue"), 0.5),
        (("tokens/s", "vllm", "kept up"), 0.1),
        (("$/M", "vllm", "queue"), 0.5),
    ):
        assert np.median(np.abs(errors(*words))) < median, words
    assert np.mean(errors("TPOT by number in flight", "vllm")) < 0.0
    assert np.mean(errors("tokens/s", "vllm", "queue")) > 0.0


def test_more_load_is_slower_in_both() -> None:
    """Predictions rank the loads of a server as measurements do, until the server is full."""
    servers: dict[str, list[tuple[float, float]]] = {}
    for point in points("TPOT by rate", "vllm", "kept up"):
        server, _, _ = point.subject.rpartition(", ")
        servers.setdefault(server, []).append((point.measured or 0.0, point.predicted or 0.0))
    assert len(servers) >= 6
    for pairs in servers.values():
        assert [pair[1] for pair in sorted(pairs)] == sorted(pair[1] for pair in pairs)


def test_other_assumptions_and_files(tmp_path: Path) -> None:
    path = catalog.measured_files()["poisson_load_a100"]
    lines = path.read_text(encoding="utf-8").splitlines()
    small = tmp_path / "few.csv"
    unknown = lines[1].replace("meta-llama/Meta-Llama-3.1-8B-Instruct", "nobody/nothing-9b")
    large = lines[1].replace("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct")
    small.write_text("\n".join([lines[0], lines[1], unknown, large]) + "\n", encoding="utf-8")
    found = validate("load", file=small, assumptions=("ideal", "deployable"))
    assert found.assumptions == ("ideal", "deployable")
    notes = [point.note for point in found.points if point.note]
    assert notes[0].startswith("unknown model 'nobody/nothing-9b'")
    assert notes[1] == "Llama 3.1 70B does not fit 1 x a100_pcie_80"
    bound = [point for point in found.points if "tokens/s" in point.series and point.predicted is not None]
    by_name = {point.assumptions: point.predicted or 0.0 for point in bound}
    assert by_name["ideal"] > by_name["deployable"] > 0.0


def test_a_file_that_lacks_columns(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("engine,model\nvllm,llama_3_8b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.csv: lacks the columns precision, hardware, gpus"):
        validate("load", file=path)
