"""Frontiers of decode steps and of services: output, and the effect of options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from inference_econ.inputs import catalog
from tests.commands import Command, record

SUBJECT = ("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 4, "--decode-only")


def _points(command: Command, *options: object) -> Any:
    return record(command, *SUBJECT, *options)["points"]


def _degrees(points: Any, name: str) -> set[float]:
    return {point["layout"][name] for point in points}


def test_pipelines_can_be_left_out(command: Command) -> None:
    assert _degrees(_points(command, "--no-pipeline"), "pp") == {1.0}
    assert len(_degrees(_points(command, "--grid", "paper", "--pipeline"), "pp")) > 1


def test_pinned_degrees(command: Command) -> None:
    options = ("--tp", 2, "--dp", 2, "--pp", 1, "--batch", 100, "--any-layout")
    (point,) = _points(command, *options)
    assert (point["accelerators"], point["batch"]) == (4.0, 100.0)
    step = record(command, "explain", "llama_3_8b", "h100_sxm", *options)["step_seconds"]
    assert point["tokens_per_second_per_user"] == pytest.approx(1 / step, rel=1e-12)
    assert _degrees(_points(command, "--instance-gpus", 3, "--grid", "paper"), "pp") >= {1.0}
    (point,) = _points(command, "--grid", "paper", "--instance-gpus", 1.5, "--batch", 2.5, "--no-pipeline")
    assert (point["accelerators"], point["batch"]) == (1.5, 2.5)
    experts = ("frontier", "gpt_oss_20b", "h100_sxm", "--decode-only", "--ep", 4, "--tp", 2, "--dp", "any")
    points = record(command, *experts)["points"]
    assert _degrees(points, "ep") == {4.0}
    assert _degrees(points, "tp") == {2.0}


def test_what_ifs(command: Command) -> None:
    base = _points(command)
    faster = _points(command, "--set", "hardware.hbm_bytes_per_second=6.7 TB/s")
    assert faster[-1]["tokens_per_second_per_user"] > base[-1]["tokens_per_second_per_user"]
    both = ("--set", "model.blocks.0.layers=16", "--set", "assumptions.host.launch=0 us")
    sources = record(command, *SUBJECT, *both, "--quiet")["sources"]
    changed = {source["field"] for source in sources if source["where"].startswith("--set")}
    assert changed == {"blocks.0.layers", "host.launch"}


def test_users_own_files_need_no_registration(command: Command, tmp_path: Path) -> None:
    for kind, name in (("hardware", "h100_sxm"), ("models", "llama_3_8b")):
        text = (catalog.folder(kind) / f"{name}.yaml").read_text(encoding="utf-8")
        (tmp_path / f"my_{kind}.yaml").write_text(text.replace("name: ", "name: My ", 1), encoding="utf-8")
    answer = record(command, "frontier", "my_models.yaml", "./my_hardware.yaml")
    assert answer["model"] == "My Llama 3.1 8B"
    assert answer["hardware"] == "My NVIDIA H100 SXM5 80GB"


def test_scientific_notation_is_a_number(command: Command, tmp_path: Path) -> None:
    text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    old = "hbm_bytes_per_second: 3.35 TB/s"
    assert text.count(old) == 1
    (tmp_path / "chip.yaml").write_text(text.replace(old, "hbm_bytes_per_second: 3.35e12"), encoding="utf-8")
    assert command(*SUBJECT, "--format", "csv").out == command(
        "frontier", "llama_3_8b", "chip.yaml", "--decode-only", "--max-instance-gpus", 4, "--format", "csv"
    ).out.replace("chip.yaml", "h100_sxm")


SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 2)


SERVING = ("frontier", *SMALL)


def test_a_picture_to_point_at_is_a_page_that_loads_nothing(command: Command, tmp_path: Path) -> None:
    outcome = command(*SERVING, "--plot", "a.html")
    assert (outcome.code, outcome.err) == (0, "wrote a.html\n")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>What do services cost at each speed?</title>" in page
    assert "https://cdn" not in page


def test_a_promise_that_nothing_keeps_says_the_least_that_would_be(command: Command, refused: Command) -> None:
    said = refused(*SERVING, "--ttft", "10", "--tpot", "50", code=1).err
    assert "nothing keeps a mean TTFT of 10 ms and TPOT of 50 ms, not even without a queue: Llama 3.1 8B" in said
    found = re.search(r"relax the SLO to a TTFT of ([\d.]+) ms at least$", said.strip())
    assert found is not None, said
    assert command(*SERVING, "--ttft", found[1], "--tpot", "50").code == 0
