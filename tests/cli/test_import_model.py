"""``inference-econ import-model``: the summary, the YAML file, and what a refusal looks like."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import inference_econ as ie

FOLDER = Path(__file__).parents[1] / "fixtures" / "hf_configs"
GPT_OSS = str(FOLDER / "openai--gpt-oss-20b_config.json")


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    start = "from inference_econ_cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", start, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "118"},
    )


def test_summary_shows_the_parts_of_the_count() -> None:
    result = call("import-model", GPT_OSS)
    assert (result.returncode, result.stderr) == (0, "")
    for text in ("openai/gpt-oss-20b", "20,914,757,184", "4,187,440,704", "12,288", "mxfp4", "window 128"):
        assert text in result.stdout
    assert "4 of 32 experts of 2,880" in result.stdout


def test_json_has_the_names_of_the_fields() -> None:
    record = json.loads(call("import-model", GPT_OSS, "--format", "json").stdout)
    model = ie.model(GPT_OSS)
    assert record["total_parameters"] == model.total_parameters == 20_914_757_184
    assert sum(record["parameter_parts"].values()) == model.total_parameters
    assert record["blocks"][0] == {"layers": 12, "attention": "grouped_query", "feed_forward": "experts"}
    assert (record["weights"], record["expert_weights"]) == ("bf16", "mxfp4")


def test_groups_of_experts_are_shown_where_there_are_any() -> None:
    deepseek = str(FOLDER / "deepseek-ai--DeepSeek-V3_config.json")
    summary = call("import-model", deepseek, "--format", "markdown").stdout
    assert "8 of 256 experts of 2,048 in 4 of 8 groups, shared 2,048" in summary
    record = json.loads(call("import-model", deepseek, "--format", "json").stdout)
    assert record["blocks"][1]["routing_groups"] == 8
    assert record["blocks"][1]["active_groups"] == 4
    assert "groups" not in call("import-model", GPT_OSS).stdout


def test_csv_and_markdown() -> None:
    rows = list(csv.reader(io.StringIO(call("import-model", GPT_OSS, "--format", "csv").stdout)))
    assert ["KV elements per token", "12,288"] in rows
    assert "| parameters, total | 20,914,757,184 |" in call("import-model", GPT_OSS, "--format", "markdown").stdout


def test_written_file_is_a_model_of_the_catalogue(tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    result = call("import-model", GPT_OSS, "-o", str(target), "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    assert ie.model(str(target)) == ie.model(GPT_OSS)
    assert call("import-model", GPT_OSS, "-o", str(target)).stderr == f"wrote {target}\n"


def test_refusal_is_one_message_and_leaves_no_file(tmp_path: Path) -> None:
    config = {**json.loads(Path(GPT_OSS).read_text(encoding="utf-8")), "model_type": "mystery"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    target = tmp_path / "out.yaml"
    result = call("import-model", str(tmp_path), "-o", str(target))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {tmp_path / 'config.json'}: model_type 'mystery' is not understood")
    assert not target.exists()


def test_bad_targets(tmp_path: Path) -> None:
    result = call("import-model", GPT_OSS, "-o", str(tmp_path / "x.json"))
    assert (result.returncode, "end the name in .yaml" in result.stderr) == (2, True)
    result = call("import-model", GPT_OSS, "-o", str(tmp_path / "nowhere" / "x.yaml"))
    assert (result.returncode, "cannot be written" in result.stderr) == (2, True)


def test_every_model_argument_takes_a_configuration() -> None:
    result = call("models", GPT_OSS, "--format", "json")
    assert json.loads(result.stdout)["total_parameters"] == 20_914_757_184
    assert call("models", str(FOLDER)).returncode == 2
