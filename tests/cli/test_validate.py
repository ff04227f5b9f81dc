"""validate: errors, coverage and reasons in every format, own files, and clear words about unusable ones."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from inference_econ import catalog, validation
from tests.cli.conftest import Command
from tests.cli.test_startup import HEAVY, TELLING

SHIPPED = catalog.measured_files()["collectives"]


def _first_rows(path: Path, rows: int, dataset: str = "collectives") -> Path:
    lines = catalog.measured_files()[dataset].read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: rows + 1]), encoding="utf-8")
    return path


def test_the_table_of_collectives(command: Command) -> None:
    outcome = command("validate", "collectives")
    assert outcome.code == 0
    assert outcome.err == ""
    for words in (
        *("deployable", "nccl_2_23", "nccl_2_19", "fitted to", "median", "p90", "bias"),
        *("all-reduce, engine's kernel", "dispatch, low latency", "combine, normal, between domains"),
        *("C0361, C0362, C0363", "no size is recorded", "unknown hardware 'H100/H800'"),
        *("half of the 66 rows that it was fitted to are within", "constants say that they are NCCL's, and equal"),
    ):
        assert words in outcome.out, words
    quiet = command("validate", "collectives", "--quiet").out
    assert "median" in quiet
    assert "half of" not in quiet
    assert "communication.collective_seconds" not in quiet


def test_the_table_of_memory(command: Command) -> None:
    out = command("validate", "memory").out
    for words in ("603,860 tokens", "603,939 tokens", "35,136 B", "396.5 GB", "-46.03", "of 12 statements are met"):
        assert words in out, words


def test_all_sets_by_default(command: Command) -> None:
    records = json.loads(command("validate", "--format", "json").out)
    assert [record["dataset"] for record in records] == list(validation.DATASETS)
    collectives = records[0]
    assert collectives["errors"]["deployable"]["all rows"]["rows"] == 149
    assert collectives["errors"]["deployable"]["all rows"]["coverage"] == pytest.approx(144 / 149)
    assert collectives["errors"]["nccl_2_23"]["series"]["all-reduce, engine's kernel"]["median"] is None
    assert len(collectives["points"]) == 3 * 149


def test_csv_has_a_line_for_each_row_and_assumptions(command: Command) -> None:
    outcome = command("validate", "collectives", "--format", "csv", "-o", "all.csv")
    assert (outcome.out, outcome.err.strip()) == ("", "wrote all.csv")
    with Path("all.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3 * 149
    point = next(p for p in validation.validate("collectives").points if p.predicted is not None)
    assert float(rows[0]["predicted"]) == pytest.approx(point.predicted, rel=1e-9)
    assert float(rows[0]["log_error"]) == pytest.approx(point.log_error, rel=1e-8)
    assert rows[0]["fitted"] == "true"
    skipped = [row for row in rows if row["id"] == "C0361"]
    assert all((row["predicted"], row["log_error"]) == ("", "") and row["note"] for row in skipped)


def test_the_document(command: Command) -> None:
    outcome = command("validate", "collectives", "memory", "--format", "markdown", "-o", "a.md")
    assert outcome.code == 0
    text = Path("a.md").read_text(encoding="utf-8")
    assert "`inference-econ validate collectives memory --format markdown -o a.md`" in text
    assert text.startswith("# Predictions beside measurements\n")
    assert text.count("\n## ") == 2
    assert "| deployable | all rows | 149 | 144 | 97 |" in text
    assert "| M0009 | KV bytes per token (computed) | 35,141 B | 35,136 B | -0.01 |" in text
    kept = Path(__file__).parents[2] / "docs" / "collectives.md"
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [line for line in kept.read_text(encoding="utf-8").splitlines() if line.startswith("#")]


def test_own_rows_and_other_assumptions(command: Command, tmp_path: Path) -> None:
    mine, memory = _first_rows(tmp_path / "mine.csv", 3), _first_rows(tmp_path / "points.csv", 3, "memory_points")
    arguments = ["collectives", mine, "memory", memory, "--assumptions", "engines_hopper", "--assumptions", "paper"]
    records = json.loads(command("validate", *arguments, "--format", "json").out)
    assert [len(record["points"]) for record in records] == [6, 6]
    assert list(records[0]["errors"]) == ["engines_hopper", "paper"]
    document = command("validate", *arguments, "--format", "markdown").out
    assert f"validate collectives {mine} memory {memory} --assumptions engines_hopper --assumptions paper" in document
    table = command("validate", "memory", memory, "--assumptions", "paper", "--assumptions", "deployable").out
    assert "assumptions" in table


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_picture(command: Command, suffix: str) -> None:
    outcome = command("validate", "collectives", "memory", "--plot", f"a.{suffix}")
    assert outcome.err.strip() == f"wrote a.{suffix}"
    content = Path(f"a.{suffix}").read_bytes()
    assert content.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")
    if suffix == "svg":
        for words in ("collectives: nccl_2_19", "memory: deployable", "measured [s]", "combine, low latency", "hollow"):
            assert words in content.decode(), words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["colectives"], "unknown dataset 'colectives'; did you mean collectives? known: collectives, memory"),
        (["mine.csv"], "unknown dataset 'mine.csv'; known: "),
        (["collectives", "memory", "nothing"], "unknown dataset 'nothing'; known: "),
        (["collectives", "missing.csv"], "missing.csv: cannot be read: No such file"),
        (["collectives", "empty.csv"], "empty.csv: empty; a line of column names and a line for each measurement are"),
        (["collectives", "head.csv"], "head.csv: holds no measurements, only column names"),
        (["collectives", "other.csv"], "other.csv: lacks the columns op, backend, hardware, n_gpus, n_nodes"),
        (["memory", "other.csv"], "other.csv: lacks the columns model, hardware, n_gpus"),
        (["collectives", "bytes.csv"], "bytes.csv: not a CSV file in UTF-8"),
        (["collectives", "words.csv"], "words.csv:2: value is no number: 'quick'"),
        (["collectives", "--assumptions", "nccl_2_2"], "unknown assumptions 'nccl_2_2'; "),
        (["collectives", "--plot", "a.gif"], "a.gif: a picture's name must end in .svg, .png, .pdf"),
        (
            ["collectives", "--assumptions", "ideal", "--plot", "a.svg"],
            "nothing was predicted, so that there is nothing",
        ),
    ],
)
def test_bad_input_is_refused(refused: Command, tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    head = SHIPPED.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    (tmp_path / "head.csv").write_text(head, encoding="utf-8")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00op")
    words = _first_rows(tmp_path / "words.csv", 1)
    words.write_text(words.read_text(encoding="utf-8").replace(",6.97,", ",quick,"), encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    outcome = refused("validate", *arguments)
    assert message in outcome.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["colectives"], 2)])
def test_help_and_wrong_names_load_nothing_heavy(arguments: list[str], code: int, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", TELLING, "validate", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert process.returncode == code
    assert set(process.stderr.splitlines()[-1].split()[1:]) & HEAVY == set()
