"""calibrate: a profile from measurements, its own report, and clear messages about unusable input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference_econ.inputs import catalog
from tests.commands import Command, record
from tests.reading import tables

TABLES: dict[str, str] = tables(Path(__file__))
#: Llama 3.1 70B on eight and four H100s, in the columns of InferenceMAX, and one run of vLLM's load generator.
DATA, RUN = TABLES["DATA"], TABLES["RUN"]
TWO = ("--fit", "chip.hbm_efficiency,host.graph_launch")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(DATA, encoding="utf-8")
    return path


def test_a_profile_is_written_and_used(command: Command, data: Path, tmp_path: Path) -> None:
    outcome = command("calibrate", data, *TWO, "--target", "tpot,ttft", "--name", "My servers", "-o", "mine.yaml")
    assert outcome.code == 0, outcome
    said = ("Fitted to 8 rows", "all, by the base", *TWO[1].split(","), "standard error", "vllm / NVIDIA H100")
    assert [words for words in said if words not in outcome.out] == []
    assert "left out: 1 row: speculative decoding" in outcome.err
    assert "wrote mine.yaml" in outcome.err
    mine = catalog.assumptions(str(tmp_path / "mine.yaml"))
    assert mine.name == "My servers"
    assert mine.extends == "profiles/vllm_hopper"
    assert mine.calibration is not None
    assert mine.calibration.rows == 8
    assert mine.calibration.hardware == ("h100_sxm",)
    assert command("show", "assumptions", "mine.yaml").code == 0
    explained = command("explain", "llama_3_70b", "h100_sxm", "--tp", 8, "--batch", 8, "--assumptions", "mine.yaml")
    assert explained.code == 0, explained
    # A base in another folder is relative to the new file.
    (tmp_path / "y").mkdir()
    again = command("calibrate", data, "--fit", "chip.hbm_efficiency", "--base", "mine.yaml", "-o", "y/again.yaml")
    assert again.code == 0, again
    assert command("show", "assumptions", "y/again.yaml").code == 0


@pytest.mark.long
def test_a_fit_as_data(command: Command, data: Path) -> None:
    told = json.loads(command("calibrate", data, *TWO, "--format", "json", "--quiet").out)
    assert (told["rows"], told["left_out"]) == (8, {"speculative decoding": 1})
    assert set(told["constants"]) == {"chip.hbm_efficiency", "host.graph_launch"}
    assert told["constants"]["host.graph_launch"]["unit"] == "s"
    assert told["base"] == "profiles/vllm_hopper"
    assert 0.0 < told["base_median_errors"]["tpot"] < 0.5


def test_rows_can_be_chosen_and_thinned(command: Command, data: Path) -> None:
    chosen = command("calibrate", data, "--fit", "chip.hbm_efficiency", "--where", "tp=8", "--format", "json")
    assert json.loads(chosen.out)["rows"] == 4
    assert "left out: 4 rows: not asked for" in chosen.err
    without = command(
        "calibrate", data, "--fit", "chip.hbm_efficiency", "--without", "tp=8,concurrency=1", "--format", "json"
    )
    assert json.loads(without.out)["rows"] == 7


@pytest.mark.long
@pytest.mark.rows
def test_a_fit_begins_with_the_profile_of_its_rows(command: Command, data: Path, old: str, new: str, base: str) -> None:
    data.write_text(data.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    outcome = command("calibrate", data, "--fit", "chip.hbm_efficiency", "--format", "json")
    assert json.loads(outcome.out)["base"] == catalog.assumptions(base).name
    told = command("calibrate", data, "--fit", "chip.hbm_efficiency", "--base", "ideal", "--format", "json")
    assert json.loads(told.out)["base"] == "ideal"


@pytest.mark.long
def test_rows_that_are_not_reproduced_are_told(command: Command, data: Path) -> None:
    said = "tpot: the fit does not reproduce the rows (median error "
    assert said not in command("calibrate", data, *TWO).err
    header, *lines = data.read_text(encoding="utf-8").splitlines()
    cells = [line.rpartition(",") for line in lines]
    wrong = [f"{start},{float(seconds) / 1000}" for start, _, seconds in cells]
    data.write_text("\n".join([header, *wrong]) + "\n", encoding="utf-8")
    outcome = command("calibrate", data, *TWO, "-o", "mine.yaml")
    assert f"{said}> 1000 %). Check units (seconds, milliseconds), formats" in outcome.err
    assert "wrote mine.yaml" in outcome.err


def test_constants_that_nothing_determines_have_no_long_error(command: Command, data: Path, tmp_path: Path) -> None:
    # No dense model has experts, so only trust in the base constrains them.
    fitted = ("--fit", "chip.hbm_efficiency,experts.hbm_efficiency", "--prior", "inf", "-o", "mine.yaml")
    outcome = command("calibrate", data, *fitted)
    assert outcome.code == 0, outcome
    assert "> 1000 %" in outcome.out
    mine = catalog.assumptions(str(tmp_path / "mine.yaml"))
    assert "standard error > 1000 %; " in mine.sources["experts.hbm_efficiency"].where


@pytest.mark.long
def test_larger_data_are_thinned(command: Command) -> None:
    outcome = command("calibrate", "decode_points", "--fit", "host.graph_launch", "--most", 10, "--format", "json")
    assert "rows are fitted, those of 10 deployments (see --most)" in outcome.err
    assert json.loads(outcome.out)["rows"] < 80


@pytest.mark.long
def test_what_is_set_before_the_fit_stands_in_the_profile(command: Command, data: Path, tmp_path: Path) -> None:
    settings = ("--set", "assumptions.experts.spread=random", "--set", "assumptions.chip.hbm_efficiency=0.8")
    outcome = command("calibrate", data, *TWO, *settings, "-o", "mine.yaml")
    assert outcome.code == 0, outcome
    assert "0.8 " in outcome.out
    mine = catalog.assumptions(str(tmp_path / "mine.yaml"))
    assert mine.experts.spread == "random"
    assert mine.sources["chip.hbm_efficiency"].kind == "derived"


def test_a_result_of_a_load_generator(command: Command, tmp_path: Path) -> None:
    runs = [
        {"median_tpot_ms": tpot, "median_ttft_ms": 60.0, "completed": 100, "total_input_tokens": 100000,
         "total_output_tokens": 20000, "max_concurrency": count, "request_rate": "inf", "model_id": "Llama-3.1-8B"}
        for count, tpot in ((1, 6.0), (8, 6.8), (32, 8.5))
    ]  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(runs), encoding="utf-8")
    outcome = command(
        "calibrate", "result.json", "--hardware", "h100", "--fit", "host.step_overhead", "--format", "json"
    )
    assert json.loads(outcome.out)["rows"] == 3


@pytest.mark.rows
def test_bad_input(refused: Command, data: Path, arguments: list[str], said: str) -> None:
    assert said in refused("calibrate", data, *arguments).err


def test_rows_that_cannot_be_understood_are_told(refused: Command, data: Path, tmp_path: Path) -> None:
    header, *lines = data.read_text(encoding="utf-8").splitlines()
    unknown = [line.replace("Llama-3.1-8B", "Mystery-9B").replace("Llama-3.1-70B", "Mystery-9B") for line in lines]
    (tmp_path / "other.csv").write_text("\n".join([header, *unknown, *lines[:1]]), encoding="utf-8")
    said = refused("calibrate", "other.csv", "-o", "mine.yaml", "--quiet").err
    assert said.startswith("Error: 6 constants need at least 6 rows with tpot that can be predicted")
    assert f"left out: {len(unknown)} not understood (the first, " in said
    assert "of other, line 2: unknown model 'meta-llama/Mystery-9B'" in said
    assert "'inference-econ import'" in said
    cut = [line.rpartition(",")[0] for line in (header, *lines)]
    (tmp_path / "short.csv").write_text("\n".join(cut), encoding="utf-8")
    said = refused("calibrate", "short.csv", "-o", "mine.yaml").err
    assert "short.csv:1: its columns are those of no known kind" in said
    assert not (tmp_path / "mine.yaml").exists()


def test_files_that_are_none(refused: Command, data: Path, tmp_path: Path) -> None:
    assert "missing.csv: cannot be read" in refused("calibrate", "missing.csv").err
    (tmp_path / "result.json").write_text(RUN, encoding="utf-8")
    assert "give --hardware, --tp and so on" in refused("calibrate", "result.json").err
    (tmp_path / "kept.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / "kept.yaml").chmod(0o444)
    assert (
        "kept.yaml: cannot be written: the file is read-only" in refused("calibrate", data, *TWO, "-o", "kept.yaml").err
    )
    assert (tmp_path / "kept.yaml").read_text(encoding="utf-8") == "mine"


SERVER = ("--model", "llama_3_70b", "--hardware", "h100_sxm", "--tp", "8", "--weights", "fp8")


def test_one_point_of_a_load_test_is_enough(command: Command, refused: Command, tmp_path: Path) -> None:
    """A single row fits its correction, and predictions under the written file include it."""
    (tmp_path / "result.json").write_text(RUN, encoding="utf-8")
    text = command("calibrate", "result.json", *SERVER, "--engine", "vllm", "-o", "mine.yaml").out
    assert "llama_3_70b on h100_sxm, tp8" in text
    answer = record(command, "calibrate", "result.json", *SERVER, "--engine", "vllm")
    (line,) = answer["deployments"]
    assert line["decode"] > 1.2
    assert abs(line["tpot_after"]) < 0.25 * abs(line["tpot_before"])
    step = ("explain", "llama_3_70b", "h100_sxm", "--engine", "vllm", "--weights", "fp8", "--tp", "8", "--batch", "16")
    assert f"{line['decode']:.3g}x" in command(*step, "--assumptions", "mine.yaml", "--why").out
    assert "These factors come from 45 runs" in command(*step, "--why").said
    said = refused("calibrate", "result.json", *SERVER).err
    assert "levels are of one engine on one generation of chips" in said
    said = refused("calibrate", "result.json", *SERVER, "--engine", "vllm", "--base", "deployable").err
    assert "leave --base and --set out" in said


@pytest.mark.rows
def test_a_fit_does_not_increase_the_error_of_tpot(
    command: Command, tmp_path: Path, concurrency: int, ttft: float, tpot: float, fitted_ttft: bool
) -> None:
    """A TTFT of a closed loop that steps do not explain is left out, with a note."""
    run = json.loads(RUN) | {"max_concurrency": concurrency, "request_rate": "inf", "completed": 10 * concurrency}
    tokens = {"total_input_tokens": 10_000 * concurrency, "total_output_tokens": 10_000 * concurrency}
    (tmp_path / "result.json").write_text(json.dumps(run | tokens | {"median_ttft_ms": ttft, "median_tpot_ms": tpot}))
    server = ("--model", "llama_3_70b", "--hardware", "b200", "--engine", "vllm")
    (line,) = record(command, "calibrate", "result.json", *server)["deployments"]
    assert abs(line["tpot_after"]) <= max(abs(line["tpot_before"]), 0.01) + 0.01
    assert (abs(line["ttft_after"]) < abs(line["ttft_before"]) - 0.05) == fitted_ttft
    said = "not fitted to TTFT, because the fit would increase the error of TPOT"
    assert (said not in command("calibrate", "result.json", *server).said) == fitted_ttft


def test_factors_of_runs_without_a_version_apply_to_these_runs(command: Command, tmp_path: Path) -> None:
    head = "hf_model,hardware,framework,precision,spec_decoding,isl,osl,tp,concurrency,median_ttft_s,median_tpot_s\n"
    line = "Qwen/Qwen3-32B,h100,vllm,fp8,none,1024,1024,2,{},0.2,{}\n"
    (tmp_path / "runs.csv").write_text(head + line.format(8, 0.024) + line.format(16, 0.026))
    assert command("calibrate", "runs.csv", "-o", "mine.yaml", "--levels").code == 0
    before, after = (
        json.loads(command("validate", "runs.csv", *options, "--format", "json").out)[0]["rows"][0]["predicted_tpot_s"]
        for options in ((), ("--assumptions", "mine.yaml"))
    )
    assert before < 0.9 * after < 0.024
