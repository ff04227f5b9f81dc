"""``report``: one file with commands and results, and rejected inputs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from inference_econ.records.plain import json_text
from inference_econ.requests import COMMANDS
from inference_econ.requests.words import command_of
from tests.commands import Command
from tests.documents import Document, read
from tests.reading import tables

#: Bytes of a report at most.
LARGEST = 1_500_000
FRONTIER = "frontier llama_3_8b h100_sxm --tp 1"
POOLS = "recommend llama_3_8b h100_sxm --max-instance-gpus 1 --request-rate 5 --ttft 500 --disaggregated --any-group"
#: A small call of every command with a result.
QUESTIONS: dict[str, str] = tables(Path(__file__))["QUESTIONS"]


def test_every_command_that_is_reported_is_asked() -> None:
    reported = {row.name for row in COMMANDS.values() if "reported" in row.doors}
    lines = [shlex.split(line) for line in QUESTIONS.values() if not line.startswith("paper/")]
    assert reported == {command_of(words, pytest.fail)[0].name for words in lines}


@pytest.fixture
def written(command: Command, tmp_path: Path) -> Callable[..., Document]:
    """Write a report and read it."""

    def write(*asked: object) -> Document:
        path = tmp_path / "report.html"
        outcome = command("report", *asked, "-o", path)
        assert (outcome.code, outcome.out) == (0, ""), outcome
        assert f"wrote {path}" in outcome.err
        return read(path)

    return write


@pytest.mark.long
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_every_question_is_one_small_file_that_loads_nothing(question: str, written: Callable[..., Document]) -> None:
    document = written(question)
    assert len(document.text.encode()) < LARGEST
    assert document.loaded() == []
    assert "default-src 'none'" in str(document.all("meta", **{"http-equiv": "Content-Security-Policy"}))
    (title,), (answer,) = document.texts("h1"), document.texts("p", class_="answer")
    assert title == document.texts("title")[0]
    assert len(answer) > 20
    assert document.all("table")
    assert "nan" not in answer.lower()


def test_the_script_is_that_of_launch(written: Callable[..., Document], command: Command) -> None:
    for question in (QUESTIONS["recommend"], POOLS, QUESTIONS["disaggregated"]):
        assert command(*question.split(), "-o", "answer.json").code == 0
        record = json.loads(Path("answer.json").read_text(encoding="utf-8"))
        engine = record["choices"][0]["layout"]["engine"]
        launched = command("launch", "answer.json", "--to", engine).out
        (script,) = (text for _, text in written(question).all("pre") if text.startswith("#!/bin/sh"))
        apart = [[line for line in text.splitlines() if "# selected:" not in line] for text in (script, launched)]
        assert apart[0] == apart[1]


@pytest.mark.parametrize(
    "question", [POOLS, POOLS.replace("--request-rate 5", "--gpus 8"), POOLS.replace("recommend", "price")]
)
def test_the_answer_names_all_gpus_of_prefill_and_decode(
    question: str, written: Callable[..., Document], command: Command
) -> None:
    record = json.loads(command(*question.split(), "--json").out)
    fleet = record.get("choices", [record])[0]
    (answer,) = written(question).texts("p", class_="answer")
    instances = f"{fleet['prefill_instances']}P{fleet['decode_instances']}D"
    assert f"{instances} on {fleet['accelerators']} x NVIDIA H100" in answer


def test_the_engine_that_was_asked_for_starts_it(written: Callable[..., Document]) -> None:
    assert "sglang.launch_server" in written(f"{FRONTIER} --engine sglang").text
    assert "trtllm-serve" in written(f"{FRONTIER} --engine trtllm", "--to", "trtllm").text
    other = written(f"{FRONTIER} --engine vllm", "--to", "trtllm").text
    assert "No command line: --to trtllm: the deployment is predicted for vllm" in other


def test_a_scenario_shows_its_figure(written: Callable[..., Document]) -> None:
    ((figure, _),) = written("paper/figure_6").all("img")
    assert str(figure["src"]).startswith("data:image/svg+xml;base64,")
    assert len(written("examples/opening_question").charts()) == 1


def test_several_questions_are_in_one_file(written: Callable[..., Document]) -> None:
    document = written(FRONTIER, "examples/opening_question", "inference-econ gpu-cost h100_sxm")
    assert len(document.texts("h1")) == 3
    assert len(set(document.texts("h1"))) == 3
    identifiers = [has["id"] for _, has, _ in document.elements if "id" in has]
    assert len(identifiers) == len(set(identifiers))


ANSWERS = [
    (*QUESTIONS["recommend"].split(), "--tpot", "0.03 s", "--confidence", "80"),
    (*QUESTIONS["load"].split(), "--no-pipeline"),
    (*QUESTIONS["compare"].split(), "--price", "h100_sxm=2", "--price", "h200_sxm=3.5"),
    (*QUESTIONS["price"].split(), "--set", "hardware.hbm_bytes_per_second=6.7 TB/s", "--price", "2.5"),
    (*QUESTIONS["frontier --decode-only"].split(), "--kv", "fp8"),
    ("run", "examples/opening_question"),
    tuple(QUESTIONS["gpu-cost"].split()),
    tuple(QUESTIONS["explain"].split()),
]


@pytest.mark.long
@pytest.mark.parametrize("question", ANSWERS, ids=lambda question: question[0])
def test_saved_answers_run_again(question: tuple[str, ...], written: Callable[..., Document], command: Command) -> None:
    assert command(*question, "-o", "answer.json").code == 0
    document = written("answer.json")
    assert document.texts("p", class_="remark") == [
        "The question of answer.json was asked again, and the answer is that of the file."
    ]


def test_saved_answers_that_differ_today(written: Callable[..., Document], command: Command, tmp_path: Path) -> None:
    assert command(*FRONTIER.split(), "-o", "answer.json").code == 0
    path = tmp_path / "answer.json"
    record = json.loads(path.read_text())
    record["points"][0]["ttft_seconds"] *= 1.01
    path.write_text(json_text(record))
    (remark,) = written("answer.json").texts("p", class_="remark")
    assert "another one than the file's" in remark


def _changed(path: Path, **changes: object) -> None:
    record = json.loads(path.read_text())
    record["asked"] |= changes
    path.write_text(json.dumps(record))


@pytest.mark.rows
def test_files_that_are_no_answers_of_this_release(
    changes: dict[str, object], said: str, refused: Command, command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "answer.json"
    assert command(*FRONTIER.split(), "-o", path).code == 0
    _changed(path, **changes)
    assert said in refused("report", path, "-o", "report.html").err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.rows
def test_files_that_are_something_else(text: str, said: str, refused: Command, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text)
    assert said in refused("report", path, "-o", "report.html").err


def test_what_fits_nowhere_is_said_and_nothing_is_written(refused: Command, tmp_path: Path) -> None:
    refused("report", FRONTIER, "frontier deepseek_v3 h100_sxm --tp 1", "-o", "report.html", code=1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_asked_is_never_a_shell_s(refused: Command, tmp_path: Path) -> None:
    refused("report", "frontier llama_3_8b h100_sxm; touch owned", "-o", "report.html")
    refused("report", "frontier $(touch owned) h100_sxm", "-o", "report.html")
    assert list(tmp_path.iterdir()) == []


def test_texts_of_users_stay_texts(written: Callable[..., Document]) -> None:
    label = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    series = f'compare --series "{label}: model=llama_3_8b, hardware=h100_sxm, tp=1"'
    document = written(series)
    assert document.all("img") == []
    assert "<script>alert" not in document.text
    assert any(label in text for _, text in document.all("td"))
