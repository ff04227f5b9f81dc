"""``inference-econ import``: the summary, the YAML file, and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import inference_econ as ie
from tests.checkpoints import folder, tensors
from tests.commands import Command, record

FOLDER = Path(__file__).parents[1] / "fixtures" / "hf_configs"
#: Keys that older configurations of the class do not have.
LEFT_OUT = ("num_key_value_heads", "attention_bias")
GPT_OSS = str(FOLDER / "openai--gpt-oss-20b_config.json")


def test_written_file_is_a_model_of_the_catalogue(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    result = command("import", GPT_OSS, "-o", str(target), "--quiet")
    assert (result.code, result.err) == (0, "")
    assert ie.model(str(target)) == ie.model(GPT_OSS)
    assert command("import", GPT_OSS, "-o", str(target)).err == f"wrote {target}\n"


def test_defaults_of_the_class_are_named_wherever_they_are_counted(command: Command, tmp_path: Path) -> None:
    published = json.loads((FOLDER / "meta-llama--Meta-Llama-3-8B_config.json").read_text())
    config, kept = tmp_path / "config.json", tmp_path / "mine.yaml"
    config.write_text(json.dumps({key: published[key] for key in published if key not in LEFT_OUT}))
    summary = command("import", str(config), "-o", str(kept), "--format", "json", "--quiet")
    said = ["num_key_value_heads 32", "attention_bias false"]
    assert summary.code == 0
    assert list(ie.model(str(kept)).left_out) == said
    for source in (config, kept):  # stored in a file, it is the same model
        text = command("explain", str(source), "h100_sxm", "--tp", "1", "--why").said
        assert "lacks these keys, so published defaults of its architecture apply: num_key_value_heads 32." in text
    text = command("import", str(config)).said
    assert "apply: num_key_value_heads 32, attention_bias false." in text


def test_refusal_is_one_message_and_leaves_no_file(command: Command, tmp_path: Path) -> None:
    config = {**json.loads(Path(GPT_OSS).read_text(encoding="utf-8")), "model_type": "mystery"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    target = tmp_path / "out.yaml"
    result = command("import", str(tmp_path), "-o", str(target))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {tmp_path / 'config.json'}: model_type 'mystery' is not understood")
    assert not target.exists()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty Hugging Face cache and set its environment variables."""
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def _download(cache: Path, commit: str, text: str) -> Path:
    config = cache / "models--openai--gpt-oss-20b" / "snapshots" / commit / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(text, encoding="utf-8")
    return config


def test_an_id_is_read_from_the_cache_at_its_main_revision(command: Command, cache: Path) -> None:
    config = _download(cache, "abc123", Path(GPT_OSS).read_text(encoding="utf-8"))
    _download(cache, "def456", "{}")
    main = config.parents[2] / "refs" / "main"
    main.parent.mkdir()
    main.write_text("abc123", encoding="utf-8")
    result = command("import", "OpenAI/gpt-oss-20b")
    assert (result.code, result.err) == (0, f"reading {config}\n")
    assert "openai/gpt-oss-20b" in result.out
    assert "20,914,757,184" in result.out
    assert command("import", "openai/gpt-oss-20b", "--quiet").err == ""


@pytest.mark.parametrize("revision", [b"\xff", bytes(2_000)])
def test_a_damaged_revision_in_the_cache_is_rejected(refused: Command, cache: Path, revision: bytes) -> None:
    main = _download(cache, "abc123", Path(GPT_OSS).read_text(encoding="utf-8")).parents[2] / "refs" / "main"
    main.parent.mkdir()
    main.write_bytes(revision)
    assert "has no config.json of a model with that id" in refused("import", "openai/gpt-oss-20b").err


def test_the_cache_can_be_named(command: Command, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _download(tmp_path / "elsewhere", "abc123", Path(GPT_OSS).read_text(encoding="utf-8"))
    assert command("import", "openai/gpt-oss-20b").code == 2
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert command("import", "openai/gpt-oss-20b").err == f"reading {config}\n"
    assert not cache.exists()


def test_an_id_that_was_not_downloaded_says_which_file_to_give(refused: Command, cache: Path) -> None:
    message = refused("import", "example/nothing").err
    assert f"example/nothing: no such file, and {cache} has no config.json of a model with that id; give the" in message
    assert "hf download example/nothing config.json" in message
    assert "(the catalogue has qwen3_32b, which needs no import)" in refused("import", "Qwen/Qwen3-32B").err


def test_a_path_wins_over_the_cache(command: Command, cache: Path, tmp_path: Path) -> None:
    _download(cache, "abc123", "{}")
    own = tmp_path / "openai" / "gpt-oss-20b"
    own.mkdir(parents=True)
    (own / "config.json").write_text(Path(GPT_OSS).read_text(encoding="utf-8"), encoding="utf-8")
    result = command("import", "openai/gpt-oss-20b")
    assert (result.code, result.err) == (0, "")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the configuration of a model with an unknown type and an unknown block."""
    tables = {f"model.layers.{n}.engram.table": [200, 64] for n in range(3)}
    return str(folder(tmp_path_factory.mktemp("unknown"), tensors() | tables))


def test_an_unknown_block_is_listed_with_its_parameters(command: Command, unknown: str) -> None:
    shown = command("import", unknown)
    assert shown.code == 0
    assert "What is unknown" in shown.out and "layers.N.engram.table" in shown.out and "38,400" in shown.out
    answer = record(command, "import", unknown)
    assert answer["unknown"] == {"model_type new_moe": 0, "layers.N.engram.table": 38_400}
    assert answer["parameter_parts"]["unknown"] == 38_400


def test_a_written_file_keeps_what_is_unknown(command: Command, unknown: str, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    assert command("import", unknown, "-o", str(target), "--quiet").code == 0
    assert ie.model(str(target)) == ie.model(unknown)
