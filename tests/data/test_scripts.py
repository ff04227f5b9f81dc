"""The table of engine settings in scripts of measured runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.measurements import scripts
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import catalog
from tests.reading import tables

COLUMNS = (
    "model,engine,chip,precision,versions,since,until,lengths,concurrency,checkpoint,attention_groups,expert_ranks,"
    "kv,memory,source"
)
LINE: dict[str, str] = tables(Path(__file__))["LINE"]


def _file(tmp_path: Path, **changes: str) -> Path:
    path, line = tmp_path / "runs.csv", LINE | changes
    path.write_text(f"{COLUMNS}\n{','.join(line[name] for name in COLUMNS.split(','))}\n", encoding="utf-8")
    return path


def test_a_line(tmp_path: Path) -> None:
    (run,) = scripts.read(_file(tmp_path, concurrency=""))
    assert run.versions == ("0.11.2", "0.13.0")
    assert run.lengths == ("1024/1024", "8192/1024")
    assert (run.concurrency, run.memory, run.kv, run.step_tokens) == (None, 0.9, "fp8", None)
    (run,) = scripts.read(_file(tmp_path))
    assert run.concurrency == (4, 64)


@pytest.mark.rows
def test_mistakes_name_their_line(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        scripts.read(_file(tmp_path, **changes))


def test_files_that_are_no_such_table(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.write_text(path.read_text().replace("memory", "memories"))
    with pytest.raises(SpecError, match=r"runs\.csv:2: unknown key 'runs\.0\.memories'; did you mean 'memory'"):
        scripts.read(path)
    path.write_text(f"{COLUMNS}\ngpt_oss_120b,vllm\n")
    with pytest.raises(SpecError, match=r"runs\.csv:2: 15 cells are needed"):
        scripts.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not a CSV file in UTF-8"):
        scripts.read(path)
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        scripts.read(tmp_path / "none.csv")


def test_every_shipped_line_names_what_the_catalogue_has() -> None:
    runs = scripts.measured_runs()
    assert len(runs) > 400
    assert {run.model for run in runs} <= set(catalog.names("models"))
    assert {run.chip for run in runs} <= set(catalog.names("hardware"))
    assert {run.engine for run in runs} == {"vllm", "sglang", "trtllm", "atom"}
    # One machine each.
    assert all(run.attention_groups <= 8 and run.expert_ranks <= 8 for run in runs)
    assert {length for run in runs for length in run.lengths} <= {"1024/1024", "1024/8192", "8192/1024"}


def test_a_few_lines_as_the_scripts_have_them() -> None:
    """Compare with values read by hand in the scripts of the named commits."""
    lines = {
        (run.model, run.engine, run.chip, run.precision, version, run.concurrency, run.speculation): run
        for run in scripts.measured_runs()
        for version in run.versions
    }
    busy = lines["deepseek_v3", "sglang", "b200", "fp4", "0.5.6", (16, 128), "none"]
    assert (busy.kv, busy.step_tokens, busy.sequences, busy.memory) == ("fp8", 16384, 256, 0.85)
    assert (busy.look_steps, busy.stream_steps, busy.prefix_cache) == (30, 10, False)
    quiet = lines["deepseek_v3", "sglang", "b200", "fp4", "0.5.6", (4, 8), "none"]
    assert quiet.look_steps == 10
