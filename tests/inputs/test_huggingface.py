"""Published config.json files: exact counts, formats, and one clear error for unsupported content."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import ModelSpec, spec_text
from inference_econ.inputs.huggingface import FAMILIES, import_config

FOLDER = Path(__file__).parents[1] / "fixtures" / "hf_configs"
with (FOLDER / "published.csv").open(encoding="utf-8", newline="") as _stream:
    PUBLISHED = list(csv.DictReader(_stream))
SIBLINGS: dict[str, dict[str, Any]] = json.loads((FOLDER / "siblings.json").read_text(encoding="utf-8"))
CONFIGS = sorted(path for path in FOLDER.glob("*_config.json") if not path.name.endswith("hf_quant_config.json"))


def config(name: str, change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a published configuration or a sibling, with changes; a dot separates nested keys."""
    text = (FOLDER / f"{name}_config.json").read_text(encoding="utf-8") if name not in SIBLINGS else ""
    data: dict[str, Any] = json.loads(text) if text else dict(SIBLINGS[name]["config"])
    for key, value in (change or {}).items():
        outer, point, inner = key.partition(".")
        data[outer] = {**data[outer], inner: value} if point else value
    return data


def write(folder: Path, data: object, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., ModelSpec]:
    """Return a function that imports a configuration by its name, with optional changes."""

    def read(name: str, **change: Any) -> ModelSpec:
        as_published = not change and name not in SIBLINGS
        return import_config(FOLDER / f"{name}_config.json" if as_published else write(tmp_path, config(name, change)))

    return read


Imported = Callable[..., ModelSpec]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["config_file"].removesuffix("_config.json"))
def test_published_counts(row: dict[str, str]) -> None:
    """Totals equal those of the published classes; caches and active parameters are calculated by hand.

    All are exact.
    """
    model = import_config(FOLDER / row["config_file"])
    assert model.total_parameters == int(row["hf_meta_total"])
    assert round(model.active_parameters / 1e9, 3) == float(row["computed_active_B"])
    without = model.active_parameters_without_input_embedding
    assert round(without / 1e9, 3) == float(row["active_excl_in_embed_B"])
    assert model.layers == int(row["layers"])
    assert model.mtp_layers == int(row["mtp"])
    assert model.kv_elements_per_token == int(row["kv_grow_elems_per_tok"])
    assert model.index_elements_per_token == int(row["idx_elems_per_tok"])
    assert model.window_elements_per_token == int(row["window_elems"])
    assert model.state_elements_per_sequence == int(row["state_elems_per_seq"])
    assert sum(model.parameter_parts().values()) == model.total_parameters


@pytest.mark.parametrize("name", SIBLINGS)
def test_sibling_counts(name: str, imported: Imported) -> None:
    """Other sizes, and rules that no published size reaches, against the published classes. All are exact."""
    assert imported(name).total_parameters == SIBLINGS[name]["total_parameters"]


def test_every_family_is_tried() -> None:
    every = [config(name) for name in (*(path.name.removesuffix("_config.json") for path in CONFIGS), *SIBLINGS)]
    kinds = {data.get("text_config", data)["model_type"] for data in every}
    # Copies of DeepSeek-V4 under another name, with keys of that one (see the keys of later releases).
    assert set(FAMILIES) == kinds | {"deepseek_ref"}


def test_mimo_v2_states_its_heads_and_stores_its_experts_narrower(imported: Imported) -> None:
    """Elements by hand: (192 + 128) x 8 heads in 10 layers and in 60 with sliding windows.

    Published are 42 billion active parameters.
    """
    model = imported("mimo-v2.6-pro")
    assert (model.kv_elements_per_token, model.window_elements_per_token) == (320 * 8 * 10, 320 * 8 * 60)
    assert model.active_parameters == pytest.approx(42e9, rel=0.01)
    assert (model.weights, model.expert_weights, model.attention_output_weights) == ("fp8_block", "mxfp4", "bf16")
    plain = imported("mimo-v2.6-pro", add_swa_attention_sink_bias=False)
    assert model.total_parameters - plain.total_parameters == 60 * 128
    towers = {"vision_config": {"depth": 28}, "audio_config": {}, "num_nextn_predict_layers": 3}
    seeing = imported("mimo-v2.6-pro", **towers)
    assert (seeing.total_parameters, seeing.mtp_layers) == (model.total_parameters, 3)


def test_step_has_a_gate_for_each_head_and_more_heads_where_layers_slide(imported: Imported) -> None:
    """Sums over the shapes of its class (q, k, v, o, g; norms of 128): the published 198 billion are 196 and a vision
    tower.
    """
    model = imported("step-3.7-flash")
    full, slides = (4096 * (2 * heads * 128 + 2 * 8 * 128 + heads) + 2 * 128 for heads in (64, 96))
    shared = 3 * 4096 * 1280
    rest = 3 * 3 * 4096 * 11_264 + 42 * (289 * shared + 288 * 4096) + 45 * 2 * 4096 + (2 * 128_896 + 1) * 4096
    assert model.total_parameters == 12 * full + 33 * slides + rest
    copy = imported("step-3.7-flash-copy")
    assert copy.blocks == model.blocks
    assert "num_sliding_attention_heads 96" in copy.left_out


def test_indexer_of_minimax_m3_has_a_head_for_each_kv_head(imported: Imported) -> None:
    """Sums over the shapes of its class; the vendor states 428 billion with vision tower and draft layers."""
    model = imported("minimax-m3")
    full = 6144 * (2 * 64 * 128 + 2 * 4 * 128) + 2 * 128
    indexer = 6144 * (4 + 1) * 128 + 2 * 128
    experts = 129 * 3 * 6144 * 3072 + 128 * 6144
    rest = 3 * 3 * 6144 * 12_288 + 60 * 2 * 6144 + (2 * 200_064 + 1) * 6144
    assert model.total_parameters == 60 * full + 57 * (indexer + experts) + rest
    assert [getattr(block.attention, "index_top_k", None) for block in model.blocks] == [None, 2048]


@pytest.mark.parametrize("name", ["kimi-k3", "kimi-linear-48b"])
def test_delta_attention_of_kimi(name: str, imported: Imported) -> None:
    """Sums over the shapes of their classes; published are 2.8 trillion and 48 billion (49.1 are stored)."""
    third = name == "kimi-k3"
    model = imported(name)
    hidden, heads, delta, latent = (7168, 96, 69, 24) if third else (2304, 32, 20, 7)
    width = heads * 128
    gate = hidden * width if third else 128 * (hidden + width)
    # Queries, keys, values and output; decays through the width of a head, with biases; a gate and a decay per head.
    kda = 4 * hidden * width + gate + 128 * (hidden + width) + width + (hidden + 1) * heads + 128 + 4 * 3 * width
    queries = hidden * 1536 + 1536 + 1536 * heads * 192 if third else hidden * heads * 192
    mla = queries + hidden * 576 + 512 + 512 * heads * 256 + (2 if third else 1) * width * hidden
    experts = (
        896 * 3 * 3584 * 3072 + 2 * hidden * 3584 + 3584 + 3 * hidden * 6144 + 896 * hidden
        if third
        else 257 * 3 * hidden * 1024 + 256 * hidden
    )
    first = 3 * hidden * (33_792 if third else 9216)
    layers = delta + latent
    vectors = 2 * layers + 1 + 2 * third * (2 * layers + 1)  # norms; residuals have a norm and scores each
    total = delta * kda + latent * mla + first + (layers - 1) * experts + (vectors + 2 * 163_840) * hidden
    assert model.total_parameters == total


def test_searched_architecture(imported: Imported) -> None:
    """Llama-3.3-Nemotron-Super-49B has no published class; its weights hold 49,867,145,216 parameters."""
    model = imported("nvidia--Llama-3_3-Nemotron-Super-49B-v1")
    assert model.total_parameters == 49_867_145_216
    assert model.layers == 80
    assert any(block.attention.kind == "none" for block in model.blocks)


def test_mimo_counts_as_qwen2(imported: Imported) -> None:
    model = imported("XiaomiMiMo--MiMo-7B-Base")
    layer = 4096 * (4096 + 2 * 1024) + 4096 + 2 * 1024 + 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096
    assert model.total_parameters == 36 * layer + 2 * model.vocab_size * 4096 + 4096
    assert model.mtp_layers == 1


@pytest.mark.rows
def test_sibling_caches(name: str, elements: list[int], imported: Imported) -> None:
    model = imported(name)
    grow = [f"{part}_elements_per_token" for part in ("kv", "window", "index")]
    assert [getattr(model, count) for count in (*grow, "state_elements_per_sequence")] == elements


@pytest.mark.rows
def test_small_parts(name: str, change: dict[str, Any], difference: int, tmp_path: Path) -> None:
    data = config(name, change)
    if data["model_type"] == "llama":
        for key in ("max_window_layers", "sliding_window", "use_sliding_window"):
            data.pop(key, None)
    before, after = import_config(FOLDER / f"{name}_config.json"), import_config(write(tmp_path, data))
    assert after.total_parameters - before.total_parameters == difference


def test_deepseek_v32_is_v3_and_an_indexer(imported: Imported) -> None:
    """As a negative control, a count as V3 would miss 851,524,864 parameters."""
    new, old = (imported(f"deepseek-ai--DeepSeek-{version}") for version in ("V3.2", "V3"))
    assert new.total_parameters - old.total_parameters == 851_524_864


def test_equal_layers_become_one_block(imported: Imported) -> None:
    model = imported("openai--gpt-oss-20b")
    assert [(block.layers, block.attention.kind) for block in model.blocks] == [(12, "grouped_query")] * 2
    assert [getattr(block.attention, "window", None) for block in model.blocks] == [128, None]


@pytest.mark.rows
def test_number_formats(name: str, expected: dict[str, str], imported: Imported) -> None:
    assert formats(imported(name)) == expected


def formats(model: ModelSpec) -> dict[str, str]:
    weights = ("weights", "expert_weights", "shared_expert_weights", "attention_weights", "attention_output_weights")
    groups = (*weights, "embedding_weights", "kv")
    return {group: value for group in groups if (value := getattr(model, group)) is not None}


@pytest.mark.rows
def test_quantisers(scheme: dict[str, Any], expected: dict[str, str], imported: Imported) -> None:
    for key in ("quantization_config", "compression_config"):
        assert formats(imported("Qwen--Qwen3-8B", **{key: scheme})) == expected


@pytest.mark.rows
def test_groups_of_experts(name: str, change: dict[str, Any], groups: list[int | None], imported: Imported) -> None:
    mixtures = imported(name, **change).mixtures
    assert {(spec.routing_groups, spec.active_groups) for spec in mixtures} == {tuple(groups)}


def test_missing_dtype_is_assumed(imported: Imported) -> None:
    model = imported("Qwen--Qwen3-8B", torch_dtype=None)
    assert (model.weights, model.sources["weights"].kind) == ("bf16", "assumed")
    assert "no torch_dtype" in model.sources["weights"].where


def test_quantisation_files_that_disagree(tmp_path: Path) -> None:
    scheme = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    write(tmp_path, {"quantization": {"quant_algo": "NVFP4"}}, "hf_quant_config.json")
    path = write(tmp_path, config("Qwen--Qwen3-8B", {"quantization_config": scheme}))
    with pytest.raises(SpecError, match=r"quantization_config says fp8_block but .*hf_quant_config.json says nvfp4"):
        import_config(path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name.removesuffix("_config.json"))
def test_yaml_reads_back_to_the_same_model(path: Path, tmp_path: Path) -> None:
    model = ie.model(str(path))
    target = tmp_path / "model.yaml"
    target.write_text(spec_text(model), encoding="utf-8")
    assert ie.model(str(target)) == model
    assert max(map(len, target.read_text(encoding="utf-8").splitlines())) <= 120


def test_catalogue_takes_a_file_or_a_folder(tmp_path: Path) -> None:
    path = FOLDER / "Qwen--Qwen3-8B_config.json"
    model = ie.model(str(path))
    assert (model.name, model.huggingface_id) == ("Qwen3-8B", "Qwen/Qwen3-8B")
    folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    shutil.copy(path, folder / "config.json")
    again = ie.model(str(folder))
    assert again.total_parameters == model.total_parameters
    assert again.huggingface_id == "Qwen/Qwen3-8B"
    shutil.copy(path, tmp_path / "config.json")
    assert ie.model(str(tmp_path)).huggingface_id is None


def test_what_if_on_an_imported_model() -> None:
    model = ie.model(str(FOLDER / "Qwen--Qwen3-8B_config.json"), changes=["blocks.0.layers=18"])
    assert model.layers == 18
    assert model.sources["blocks.0.layers"].ref == "user"


def test_every_number_names_its_key(imported: Imported) -> None:
    sources = imported("meta-llama--Llama-4-Scout-17B-16E-Instruct").sources
    assert sources["hidden_size"].where.endswith("_config.json text_config.hidden_size")
    assert "interleave_moe_layer_step" in sources["blocks"].where
    assert {source.kind for source in sources.values()} == {"published"}
    # A default that a file leaves out.
    where = imported("gemma-3-4b").sources["vocab_size"].where
    assert where.endswith("vocab_size left out: default of the published class")


@pytest.mark.rows
def test_refusals(name: str, change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, config(name, change))
    with pytest.raises(SpecError) as caught:
        import_config(path)
    assert problem in str(caught.value)
    # Formats of modules depend on the name of the file, or of their key.
    places = (str(path), "config.json ", "quantization_config: ")
    assert str(caught.value).startswith(places) or len(caught.value.mistakes) > 1


@pytest.mark.parametrize(
    "kind", ["jamba", "bloom", "longcat_flash", "falcon_h1", "gemma3n", "apertus", "minimax_m1", "lfm2"]
)
def test_families_that_cannot_be_described_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"model_type '{kind}' is not understood"):
        import_config(write(tmp_path, {"model_type": kind, "hidden_size": 4096, "num_hidden_layers": 32}))


def test_context_that_was_made_for_is_told_from_that_of_training(imported: Imported) -> None:
    model = imported("command-r")
    assert model.max_context == 131_072
    assert model.sources["max_context"].where == "config.json model_max_length"


def test_what_deepseek_v4_1_keeps_of_a_token(imported: Imported) -> None:
    """Four layers store entries of 512 and index keys of 128, three of them for two tokens: 1,600 bytes in 8 bits.

    FastLLM's docs/deepseek_v41.md has 1,650 per token with a scale for each 32 of them.
    """
    model = imported("deepseek-v4.1-flash")
    assert (model.kv_elements_per_token, model.index_elements_per_token) == (3 * 256 + 512, 3 * 64 + 128)
    assert (1280 + 320) * (1 + 1 / 32) == 1650
    assert model.window_elements_per_token == 40 * 512
    assert formats(model) == {"weights": "mxfp8_32x32", "expert_weights": "mxfp4", "embedding_weights": "bf16"}
    tables, projections = model.unknown
    assert (tables.parameters, tables.looked_up, projections.looked_up) == (196_613_849_600, True, False)
    picking = [block.attention for block in model.blocks if block.attention.kind == "compressed"]
    assert [spec.index_candidates for spec in picking if spec.index_heads] == [None, None, 16_384]


def test_missing_rank_is_not_taken_for_uncompressed_queries(tmp_path: Path) -> None:
    data = config("deepseek-ai--DeepSeek-V3")
    del data["q_lora_rank"]
    with pytest.raises(SpecError, match="q_lora_rank is missing; null means that queries are not compressed"):
        import_config(write(tmp_path, data))


def test_key_inside_a_searched_layer(tmp_path: Path) -> None:
    data = config("nvidia--Llama-3_3-Nemotron-Super-49B-v1")
    data["block_configs"][3]["attention"]["replace_with_linear"] = True
    with pytest.raises(SpecError, match=r"replace_with_linear is true; only false .* block_configs\[3\].attention"):
        import_config(write(tmp_path, data))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "config.json:1: not valid JSON: Expecting value"),
        ('{\n"hidden_size": 3,,\n}', "config.json:2: not valid JSON: "),
        ("[1, 2]", "config.json:1: a JSON object is needed, found list"),
        ('{"vocab_size": 1, "vocab_size": 2}', "config.json: 'vocab_size' is given twice; keep one"),
        ("[" * 100_000, "config.json:1: nested too deep for a configuration"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "config.json:1: not valid JSON: Exceeds the limit"),
        ("{}", "config.json: model_type is missing"),
    ],
)
def test_no_configuration(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        import_config(write(tmp_path, text))
    assert problem in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        ie.model(str(tmp_path / "nowhere.json"))
    with pytest.raises(InputError, match=r"a folder without a config.json"):
        ie.model(str(tmp_path))
    with pytest.raises(InputError, match=r"4.1 MB is too large; at most 4 MB is read"):
        import_config(write(tmp_path, " " * 4_100_000))
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not a text file in UTF-8"):
        import_config(tmp_path)


@settings(deadline=None)
@given(st.sampled_from(CONFIGS), st.data())
def test_no_value_breaks_the_reader(path: Path, data: st.DataObject) -> None:
    """For any value under a key, the result is a model or one message with the file's name."""
    import tempfile

    changed = json.loads(path.read_text(encoding="utf-8"))
    key = data.draw(st.sampled_from(sorted(changed)))
    simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    changed[key] = data.draw(simple | st.lists(simple, max_size=3) | st.dictionaries(st.text(max_size=3), simple))
    with tempfile.TemporaryDirectory() as folder:
        target = write(Path(folder), changed)
        try:
            model: ModelSpec | None = import_config(target)
            message = ""
        except InputError as error:
            model, message = None, str(error)
    assert model.total_parameters > 0 if model is not None else message.startswith(str(target))


@pytest.mark.rows
def test_keys_of_later_releases_that_change_no_count(name: str, keys: dict[str, Any], imported: Imported) -> None:
    """GLM-5.2, Qwen3-Coder, Qwen3.6 and engines' copies of DeepSeek-V4 have these keys."""
    first, second = imported(name), imported(name, **keys)
    assert second.total_parameters == first.total_parameters
    assert second.blocks == first.blocks


def test_routed_experts_may_have_another_format_than_a_file_says_of_the_rest(tmp_path: Path) -> None:
    """In the NVFP4 checkpoints of DeepSeek-V4, the separate file names the experts alone."""
    data = config("deepseek-ai--DeepSeek-V4-Flash", {"quantization_config.quant_algo": "MIXED_PRECISION"})
    modules = {f"layers.{layer}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for layer in range(43)}
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": modules}}
    write(tmp_path, beside, "hf_quant_config.json")
    model = import_config(write(tmp_path, data))
    assert (model.weights, model.expert_weights) == ("fp8_block", "nvfp4")
