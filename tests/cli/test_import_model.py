"""``inference-econ import-model``: the summary, the YAML file, and what a refusal looks like."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import inference_econ as ie
from tests.cli.conftest import Command

FOLDER = Path(__file__).parents[1] / "fixtures" / "hf_configs"
GPT_OSS = str(FOLDER / "openai--gpt-oss-20b_config.json")


def test_summary_shows_the_parts_of_the_count(command: Command) -> None:
    result = command("import-model", GPT_OSS)
    assert (result.code, result.err) == (0, "")
    for text in ("openai/gpt-oss-20b", "20,914,757,184", "4,187,440,704", "12,288", "mxfp4", "window 128"):
        assert text in result.out
    assert "4 of 32 experts of 2,880" in result.out


def test_json_has_the_names_of_the_fields(command: Command) -> None:
    record = json.loads(command("import-model", GPT_OSS, "--format", "json").out)
    model = ie.model(GPT_OSS)
    assert record["total_parameters"] == model.total_parameters == 20_914_757_184
    assert sum(record["parameter_parts"].values()) == model.total_parameters
    assert record["blocks"][0] == {"layers": 12, "attention": "grouped_query", "feed_forward": "experts"}
    assert (record["weights"], record["expert_weights"]) == ("bf16", "mxfp4")


def test_groups_of_experts_are_shown_where_there_are_any(command: Command) -> None:
    deepseek = str(FOLDER / "deepseek-ai--DeepSeek-V3_config.json")
    summary = command("import-model", deepseek, "--format", "markdown").out
    assert "8 of 256 experts of 2,048 in 4 of 8 groups, shared 2,048" in summary
    record = json.loads(command("import-model", deepseek, "--format", "json").out)
    assert record["blocks"][1]["routing_groups"] == 8
    assert record["blocks"][1]["active_groups"] == 4
    assert "groups" not in command("import-model", GPT_OSS).out


def test_csv_and_markdown(command: Command) -> None:
    rows = list(csv.reader(io.StringIO(command("import-model", GPT_OSS, "--format", "csv").out)))
    assert ["KV elements per token", "12,288"] in rows
    assert "| parameters, total | 20,914,757,184 |" in command("import-model", GPT_OSS, "--format", "markdown").out


def test_written_file_is_a_model_of_the_catalogue(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    result = command("import-model", GPT_OSS, "-o", str(target), "--quiet")
    assert (result.code, result.err) == (0, "")
    assert ie.model(str(target)) == ie.model(GPT_OSS)
    assert command("import-model", GPT_OSS, "-o", str(target)).err == f"wrote {target}\n"


def test_refusal_is_one_message_and_leaves_no_file(command: Command, tmp_path: Path) -> None:
    config = {**json.loads(Path(GPT_OSS).read_text(encoding="utf-8")), "model_type": "mystery"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    target = tmp_path / "out.yaml"
    result = command("import-model", str(tmp_path), "-o", str(target))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {tmp_path / 'config.json'}: model_type 'mystery' is not understood")
    assert not target.exists()


def test_bad_targets(command: Command, tmp_path: Path) -> None:
    result = command("import-model", GPT_OSS, "-o", str(tmp_path / "x.json"))
    assert (result.code, "end the name in .yaml" in result.err) == (2, True)
    result = command("import-model", GPT_OSS, "-o", str(tmp_path / "nowhere" / "x.yaml"))
    assert (result.code, "cannot be written" in result.err) == (2, True)


def test_every_model_argument_takes_a_configuration(command: Command) -> None:
    result = command("models", GPT_OSS, "--format", "json")
    assert json.loads(result.out)["total_parameters"] == 20_914_757_184
    assert command("models", str(FOLDER)).code == 2
