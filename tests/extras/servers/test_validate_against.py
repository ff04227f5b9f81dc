"""``validate result.json --against answer.json``: intervals, SLOs, and possible explanations."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from inference_econ.engine import Setup
from inference_econ.engine.step import PARTS
from inference_econ.extras import servers
from inference_econ.extras.servers import run_check as held_run
from tests.commands import Command, record
from tests.reading import tables

LLAMA = ("llama_3_70b", "h100_sxm", "--weights", "fp8", "--request-rate", "5", "--tpot", "50 ms", "--ttft", "2 s")
PINNED = (*LLAMA, "--tp", "2", "--dp", "1", "--pp", "1")


@pytest.fixture
def answer(tmp_path: Path, command: Command) -> Path:
    """Write a result of recommend with several instances."""
    path = tmp_path / "answer.json"
    assert command("recommend", *PINNED, "-o", path).code == 0
    return path


def _result(answer: Path, slower: float = 1.0, asked: float = 5.0, **changes: Any) -> Path:
    """Return the output of vllm bench serve for one instance with a multiple of the predicted time per token."""
    choice = json.loads(answer.read_text())["choices"][0]
    rate = asked / choice["replicas"]
    latencies = {"ttft": choice["ttft_seconds"], "tpot": {k: slower * v for k, v in choice["tpot_seconds"].items()}}
    run = {
        f"{'median' if statistic == 'p50' else statistic}_{measure}_ms": 1e3 * value
        for measure, values in latencies.items()
        for statistic, value in values.items()
    }
    run |= {"completed": 300, "request_rate": rate, "max_concurrency": None, "total_input_tokens": 600_000}
    run |= {"total_output_tokens": 150_000, "output_throughput": 500 * rate, **changes}
    path = answer.with_name("result.json")
    path.write_text(json.dumps(run))
    return path


def _held(command: Command, answer: Path, result: Path) -> dict[str, Any]:
    return record(command, "validate", result, "--against", answer)


def test_a_run_as_predicted_keeps_all(command: Command, answer: Path) -> None:
    held = _held(command, answer, _result(answer))
    assert [entry["inside"] for entry in held["numbers"]] == [True, True, True, True, None]
    assert [entry["kept"] for entry in held["numbers"]] == [None, True, None, True, None]
    assert held["suspects"] == []
    assert held["verdict"].startswith("4 of 4 measured numbers are in their 80% intervals")
    assert held["verdict"].endswith("All SLOs were met.")


@pytest.mark.rows
def test_pools_and_recipes_are_held_to_account(command: Command, tmp_path: Path, words: list[object]) -> None:
    path = tmp_path / "answer.json"
    assert command("recommend", *words, "-o", path).code == 0
    rate = json.loads(path.read_text())["choices"][0]["request_rate"]
    held = _held(command, path, _result(path, asked=rate))
    assert all(entry["inside"] is not False for entry in held["numbers"])
    slow = _held(command, path, _result(path, slower=4.0, asked=rate))
    assert any(entry["inside"] is False for entry in slow["numbers"])
    assert slow["suspects"]


def test_throughput_is_that_of_the_instance_that_was_run(command: Command, answer: Path) -> None:
    held = _held(command, answer, _result(answer))
    replicas = json.loads(answer.read_text())["choices"][0]["replicas"]
    assert held["numbers"][-1]["predicted"] == pytest.approx(2500 / replicas)
    whole = _held(command, answer, _result(answer, request_rate=5.0, output_throughput=2400.0))
    assert whole["numbers"][-1]["predicted"] == pytest.approx(2500)


def test_a_slow_run_names_the_parts_that_could_explain_it(command: Command, answer: Path) -> None:
    held = _held(command, answer, _result(answer, slower=1.6))
    medians = next(entry for entry in held["numbers"] if (entry["measure"], entry["statistic"]) == ("tpot", "p50"))
    assert medians["inside"] is False
    assert {"weights", "launches"} <= {suspect["part"] for suspect in held["suspects"]}
    difference = medians["measured"] - medians["predicted"]
    for suspect in held["suspects"]:
        assert (suspect["factor"] - 1.0) * suspect["seconds"] == pytest.approx(difference)
    assert "1 of 2 SLOs were violated" in held["verdict"]


# model, chip, constants of weights and of the cache: curves of kernels are known, or are not
SUSPECTED = [
    ("llama_3_70b", "h100_sxm", ("chip.product_efficiency",), "attention.score_efficiency"),
    ("deepseek_v3", "h200_sxm", ("chip.product_efficiency", "experts.kernel_efficiency"), "attention.score_efficiency"),
    ("llama_3_70b", "mi300x", ("chip.hbm_efficiency",), "attention.kv_hbm_efficiency"),
]


@pytest.mark.parametrize(("model", "chip", "weights", "cache"), SUSPECTED)
def test_suspected_parts_name_constants_of_fits(model: str, chip: str, weights: tuple[str, ...], cache: str) -> None:
    setup = Setup.of(model, chip)
    assert set(held_run.CONSTANTS) <= set(PARTS)
    for part in PARTS:
        assert set(held_run.constants_of(setup, part)) <= set(servers.CONSTANTS)
    assert held_run.constants_of(setup, "weights") == weights
    assert held_run.constants_of(setup, "kv_cache") == (cache,)


def test_a_fast_run_is_not_explained_by_parts_that_are_too_small(command: Command, answer: Path) -> None:
    held = _held(command, answer, _result(answer, slower=0.7))
    assert all(0 < suspect["factor"] < 1 for suspect in held["suspects"])
    assert held["suspects"][0]["part"] == "weights"


def test_what_calibrates_with_the_run_can_be_typed(command: Command, answer: Path) -> None:
    held = _held(command, answer, _result(answer, slower=1.6))
    words = shlex.split(held["calibrate"])
    assert "--fit" not in words, "one run fits levels best"
    outcome = command(*words[1:])
    assert outcome.code == 0, outcome
    assert (answer.parent / "mine.yaml").exists()


def test_a_closed_loop_is_held_to_its_point(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    command("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", "1", "-o", path)
    point = json.loads(path.read_text())["points"][0]
    result = tmp_path / "aiperf.json"
    run, tpot = tables(Path(__file__))["CLOSED_LOOP"], 1e3 * point["tpot_seconds"]
    run["inter_token_latency"] = {"avg": tpot, "p50": tpot, "unit": "ms"}
    run["input_config"] = {"concurrency": round(point["concurrency"])}
    result.write_text(json.dumps(run))
    held = record(command, "validate", result, "--against", path, "--choice", "1")
    assert [entry["statistic"] for entry in held["numbers"]] == ["mean", "mean", "mean"]
    assert held["numbers"][1]["inside"] is True
    assert "The plan has no SLO" in held["verdict"]


@pytest.mark.rows
def test_other_runs_are_refused(refused: Command, answer: Path, changes: dict[str, Any], message: str) -> None:
    outcome = refused("validate", _result(answer, **changes), "--against", answer)
    assert message in outcome.err.replace("\n", " ")


def test_what_is_no_single_result_is_refused(refused: Command, answer: Path) -> None:
    result = _result(answer)
    assert "give one result of a load generator, got 2" in refused("validate", result, result, "--against", answer).err
    assert "give one result of a load generator, got 0" in refused("validate", "--against", answer).err
    several = answer.with_name("several.json")
    several.write_text(json.dumps([json.loads(result.read_text())] * 2))
    assert "2 runs; only a single run can be compared" in refused("validate", several, "--against", answer).err
    several.write_text("{}")
    assert "no result of a known load generator" in refused("validate", several, "--against", answer).err
    assert "not a saved result with its query" in refused("validate", result, "--against", result).warned


def test_options_that_the_answer_has_settled_are_refused(refused: Command, answer: Path) -> None:
    message = refused("validate", _result(answer), "--against", answer, "--hardware", "h100_sxm").err
    assert "--hardware contradicts" in message
    assert "--choice names a deployment of an answer" in refused("validate", "--choice", "1").err


def test_what_is_no_answer_is_refused_and_nothing_is_written(refused: Command, answer: Path, tmp_path: Path) -> None:
    result = _result(answer)
    answer.write_text('{"asked": {"program": "inference-econ"}}')
    message = refused("validate", result, "--against", answer, "-o", "held.json").warned
    assert "write one with 'inference-econ recommend" in message
    assert not (tmp_path / "held.json").exists()


def test_a_folder_is_neither_a_run_nor_an_answer(refused: Command, answer: Path, tmp_path: Path) -> None:
    assert "Is a directory" in refused("validate", _result(answer), "--against", tmp_path).err
    folder = tmp_path / "run.json"
    folder.mkdir()
    assert "Is a directory" in refused("validate", folder, "--against", answer).err


def test_a_promise_of_any_percentile_is_asked_of_the_generator_and_held(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    promised = ("--ttft", "p95:2 s", "--tpot", "mean:50")
    assert command("recommend", *PINNED[:6], *PINNED[-6:], *promised, "--engine", "vllm", "-o", path).code == 0
    started = command("launch", path, "--to", "vllm")
    assert started.code == 0, started
    assert "--metric-percentiles 50,90,95,99" in started.said
    held = _held(command, path, _result(path))
    assert [(entry["measure"], entry["statistic"], entry["kept"]) for entry in held["numbers"]] == [
        ("ttft", "p50", None),
        ("ttft", "p95", True),
        ("tpot", "p50", None),
        ("tpot", "mean", True),
        ("throughput", "mean", None),
    ]
