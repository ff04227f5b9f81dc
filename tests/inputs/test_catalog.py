"""Names, paths and what-ifs in the only module that locates files."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.errors import InputError, UnknownNameError
from inference_econ.inputs import GroupedQueryAttention, Mesh, Source, catalog, value_of
from inference_econ.inputs._spec import Spec
from inference_econ.inputs.models import sizes as model_keys
from inference_econ.inputs.presets.assumptions import field_names
from tests import asking
from tests.reading import reader

KINDS: tuple[catalog.Kind, ...] = ("hardware", "models", "assumptions", "scenarios", "engines")
Write = Callable[[str], str]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_paths_below_a_folder_without_suffix(kind: catalog.Kind) -> None:
    names = catalog.names(kind)
    assert names == tuple(sorted(set(names), key=lambda name: (name.count("/"), name)))
    for name in names:
        assert catalog.locate(kind, name) == catalog.folder(kind) / f"{name}.yaml"
        assert name == name.lower()


def test_a_name_may_be_long() -> None:
    with pytest.raises(UnknownNameError, match="unknown hardware 'xxx"):
        catalog.locate("hardware", "x" * 5000)


@pytest.mark.rows
def test_unknown_names_get_the_nearest(kind: catalog.Kind, name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        catalog.locate(kind, name)


@pytest.mark.parametrize("name", ["missing.yaml", "/no/such/folder/chip.yml", "x" * 5000 + ".yaml"])
def test_a_missing_path_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(InputError, match=f"{re.escape(name)}: no such file"):
        catalog.hardware(name)


def test_a_file_needs_no_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = catalog.locate("hardware", "paper/h100").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "no_suffix").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "mine.yaml"), "mine.yaml", "./mine.yaml", "no_suffix"):
        assert catalog.hardware(name) == catalog.hardware("paper/h100")


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    text = catalog.locate("hardware", "paper/h100").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    for size in ("8e10", "9e10"):
        path.write_text(text.replace("hbm_bytes: 8e10", f"hbm_bytes: {size}"), encoding="utf-8")
        assert catalog.hardware(str(path)).hbm_bytes == float(size)


def test_nobody_changes_a_shipped_specification_for_others() -> None:
    # Other tests share entries; a fresh context has copies, as Python has them outside of tests.
    chip = Context().run(catalog.hardware, "h100_sxm")
    chip.dense_flops_per_second["bf16"] = 1.0
    assert catalog.hardware("h100_sxm").dense_flops_per_second["bf16"] == 989.4e12


# What-ifs, --set on the command line.


def _at(spec: Spec, path: str) -> object:
    """Return a value of a specification by its dotted name."""
    value: Any = spec.model_dump()
    for key in path.split("."):
        value = value[int(key) if isinstance(value, (list, tuple)) else key]
    return value


@pytest.mark.rows
def test_changes_set_values(kind: str, name: str, changes: list[str], values: dict[str, object]) -> None:
    read = reader(kind)
    shipped, changed = read(name), read(name, changes=changes)
    for path, value in values.items():
        assert _at(changed, path) == (value if isinstance(value, str) else pytest.approx(value, rel=1e-15))
    assert read(name) == shipped != changed


def test_changes_name_their_source() -> None:
    source = catalog.hardware("h100_sxm", changes=["hbm_bytes_per_second=6.7 TB/s"]).sources["hbm_bytes_per_second"]
    assert source == Source(ref="user", where="--set hardware.hbm_bytes_per_second=6.7 TB/s", kind="what_if")


@pytest.mark.rows
def test_wrong_changes(change: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        catalog.hardware("paper/h100", changes=[change])


# Assumptions: parents of each, and collectives by name.


def test_a_preset_changes_only_what_it_writes() -> None:
    paper, earlier = catalog.assumptions("paper"), catalog.assumptions("paper_may22")
    changed = {field for field in field_names() if value_of(paper, field) != value_of(earlier, field)}
    assert paper.per_family == earlier.per_family
    # The list in the study's history, May 2025.
    assert changed == {
        "chip.activation_traffic",
        "layout.attention_scale_down_steps",
        "layout.pipeline_deepest",
        "experts.all_to_all_copies",
        "attention.kv_reads",
        "capacity.kv",
    }


def test_a_users_preset_extends_a_shipped_one(write: Write) -> None:
    mine = catalog.assumptions(write("extends: paper\nname: mine\nchip: {math_efficiency: 0.5}\n"))
    assert (mine.name, mine.chip.math_efficiency) == ("mine", 0.5)
    assert mine.chip.hbm_efficiency == catalog.assumptions("paper").chip.hbm_efficiency
    assert mine.per_family == catalog.assumptions("paper").per_family


@pytest.mark.rows
def test_loops_of_extends(tmp_path: Path, mine: str, message: str) -> None:
    paths = {"mine": str(tmp_path / "mine.yaml"), "other": str(tmp_path / "other.yaml")}
    for name, base in (("mine", mine), ("other", "{mine}")):
        Path(paths[name]).write_text(f"extends: {base.format(**paths)}\n", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message.format(**paths))):
        catalog.assumptions(paths["mine"])


def test_extended_files_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "y").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, base in (("chip", "h100_sxm"), ("mine", "chip.yaml"), ("again", "../y/mine.yaml"), ("lost", "none.yaml")):
        Path("y", f"{name}.yaml").write_text(f"name: {name}\nextends: {base}\n", encoding="utf-8")
    found = catalog.hardware("y/again.yaml")
    assert (found.name, found.extends) == ("again", str(Path("y/mine.yaml")))
    assert found.hbm_bytes == catalog.hardware("h100_sxm").hbm_bytes
    with pytest.raises(InputError, match=re.escape("y/lost.yaml:2: y/none.yaml: no such file")):
        catalog.hardware("y/lost.yaml")
    Path("y/mine.yaml").write_text("name: mine\nextends: ../y/again.yaml\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot be extended: y/again.yaml -> y/mine.yaml"):
        catalog.hardware("y/again.yaml")


def test_extending_an_unknown_preset(write: Write) -> None:
    with pytest.raises(UnknownNameError, match=r"mine.yaml:1: unknown assumptions 'papr'; did you mean paper"):
        catalog.assumptions(write("extends: papr\n"))


# Chips and models that extend others.


def test_a_chip_of_three_lines(write: Write) -> None:
    path = write("name: Faster\nextends: h100_sxm\nhbm_bytes_per_second: 4.8 TB/s\n")
    chip, base = catalog.hardware(path), catalog.hardware("h100_sxm")
    assert (chip.name, chip.extends, chip.hbm_bytes_per_second) == ("Faster", "h100_sxm", 4.8e12)
    assert (chip.hbm_bytes, chip.prices, chip.family) == (base.hbm_bytes, base.prices, base.family)
    assert chip.sources["hbm_bytes_per_second"] == Source(ref="user", where=f"{path}:3", kind="what_if")
    assert chip.sources["hbm_bytes"] == base.sources["hbm_bytes"]


def test_a_source_of_a_variant_counts(write: Write) -> None:
    source = "{ref: user, where: our plan, kind: assumed}"
    text = "name: Faster\nextends: h100_sxm\ndense_flops_per_second: {fp32: 80 TFLOP/s}\nwatts: 800 W\nsources:\n"
    path = write(f"{text}  watts: {source}\n")
    chip, base = catalog.hardware(path), catalog.hardware("h100_sxm")
    assert chip.sources["watts"].where == "our plan"
    # One peak changes: the others retain the source that covered all of them.
    assert chip.sources["dense_flops_per_second.fp32"].kind == "what_if"
    assert chip.sources["dense_flops_per_second.bf16"] == base.sources["dense_flops_per_second"]


def test_a_model_of_three_lines(write: Write, tmp_path: Path) -> None:
    path = write("name: Shallow\nextends: deepseek_v3\nlayers: 30\n")
    model, base = catalog.model(path), catalog.model("deepseek_v3")
    assert [block.layers for block in model.blocks] == [1, 29]
    assert (model.name, model.huggingface_id, model.description) == ("Shallow", None, "")
    assert model.architecture == base.architecture
    assert model.sources["blocks.1.layers"] == Source(ref="user", where=f"{path}:3", kind="what_if")
    (tmp_path / "next.yaml").write_text(f"name: Shallower\nextends: {path}\nexperts: 128\n", encoding="utf-8")
    assert catalog.model(str(tmp_path / "next.yaml")).layers == 30


@pytest.mark.rows
def test_variants_that_cannot_be(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        catalog.hardware(write(text.replace("PATH", write(text))))


@pytest.mark.rows
def test_short_keys_change_all_layers(change: str, values: dict[str, float | None]) -> None:
    model = catalog.model("llama_3_70b", changes=[change])
    assert {key: model_keys.model_value(model, key) for key in values} == values
    assert {source.where for source in model.sources.values() if source.kind == "what_if"} == {f"--set model.{change}"}


def test_latent_attention_in_the_proportions_of_deepseek() -> None:
    (block,) = catalog.model("mistral_large_2", changes=["attention=latent", "query_heads=128"]).blocks
    theirs = catalog.model("deepseek_v3").blocks[0].attention
    assert block.attention == theirs
    back = catalog.model("deepseek_v3", changes=["attention=grouped_query"]).blocks[0].attention
    assert isinstance(back, GroupedQueryAttention)
    assert (back.query_heads, back.kv_heads, back.head_dim) == (128, 8, 128)


def test_windows_stay_when_attention_is_replaced() -> None:
    kinds = [block.attention.kind for block in catalog.model("gemma_2_9b", changes=["attention=latent"]).blocks]
    assert kinds == ["grouped_query", "latent"]


@pytest.mark.rows
def test_short_keys_that_cannot_be(name: str, change: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        catalog.model(name, changes=[change])


@pytest.mark.parametrize("blocks", ["3", "[]", "[{layers: 3}]", "[{layers: a, attention: {}, feed_forward: {}}]"])
def test_short_keys_of_a_model_without_sensible_blocks(write: Write, blocks: str) -> None:
    with pytest.raises(InputError, match=r"mine.yaml:4: "):
        catalog.model(write(f"name: A\nextends: llama_3_8b\nblocks: {blocks}\nlayers: 4\n"))


def test_a_variant_of_a_model_and_a_checkpoint_by_its_id_have_none_of_its_checkpoints(write: Write) -> None:
    assert catalog.model("llama_3_8b").checkpoint("eagle") == "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    own = write("name: A\nextends: llama_3_8b\nlayers: 4\ncheckpoints: {fp8: me/mine}\n")
    assert catalog.model(own).checkpoints == {"fp8": "me/mine"}
    variant = write("name: A\nextends: llama_3_8b\nlayers: 4\n")
    for model in map(catalog.model, (variant, "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4")):
        assert not model.checkpoints
        assert not [key for key in model.sources if key.startswith("checkpoints")]


@pytest.mark.parametrize("name", ["nccl_9", "x" * 400])
def test_unknown_collectives(write: Write, name: str) -> None:
    known = r"known: .*free, mesh, nccl_2_19, nccl_2_19_ll, nccl_2_19_no_base, nccl_2_19_no_latency, nccl_2_23"
    with pytest.raises(InputError, match=rf": unknown collectives '{name}'; {known}"):
        catalog.assumptions("paper", changes=[f"network.collectives={name}"])
    with pytest.raises(InputError, match=rf"mine\.yaml:3: unknown collectives '{name}'; {known}"):
        catalog.assumptions(write(f"extends: paper\nper_family:\n  tpu: {{network: {{collectives: {name}}}}}\n"))


def test_assumptions_for_a_family_of_chips() -> None:
    paper = catalog.assumptions("paper")
    h100, a100, tpu = (catalog.hardware(name) for name in ("h100_sxm", "a100_sxm_80", "tpu_v4"))
    assert paper.for_chip(h100) is paper
    assert paper.chip.math_efficiency == 0.7
    assert paper.for_chip(a100).chip.math_efficiency == 0.8
    assert paper.for_chip(a100).chip.hbm_efficiency == paper.chip.hbm_efficiency
    assert isinstance(paper.for_chip(tpu).network.collectives, Mesh)
    slower = catalog.assumptions("paper", changes=["per_family.tpu.network.collectives.hop=3 us"]).for_chip(tpu)
    assert _at(slower, "network.collectives.hop") == pytest.approx(3e-6, rel=1e-15)
    # A family without a common name has the profile of its generation, unless a preset names it.
    assert paper.for_chip(a100.replace(family="mine")) == paper.for_chip(a100)
    mine = catalog.assumptions("paper", changes=["per_family.mine.chip.math_efficiency=0.9"])
    assert mine.for_chip(a100.replace(family="mine")).chip.math_efficiency == 0.9


def test_paths_may_be_paths_of_the_standard_library() -> None:
    chip = catalog.folder("hardware") / "h100_sxm.yaml"
    assert catalog.hardware(chip) == catalog.hardware("h100_sxm")
    model = catalog.folder("models") / "llama_3_8b.yaml"
    preset = catalog.folder("assumptions") / "ideal.yaml"
    explained = asking.explain(model, chip, tp=1, assumptions=preset)
    assert explained.seconds == asking.explain("llama_3_8b", "h100_sxm", tp=1, assumptions="ideal").seconds
    table = catalog.folder("scenarios") / "paper" / "table_1.yaml"
    assert ie.run(table).scenario == catalog.scenario("paper/table_1")


@pytest.mark.parametrize("wrong", [5, None, ["h100_sxm"]])
def test_what_is_no_name_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="hardware: a name, a path or a HardwareSpec is needed, got "):
        catalog.hardware(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="model: a name, a path or a ModelSpec is needed, got "):
        asking.explain(wrong, "h100_sxm", tp=1)


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_titles_are_the_names_that_whole_files_have(kind: catalog.Kind) -> None:
    for name in catalog.names(kind):
        assert catalog.title(kind, name) == reader(kind)(name).name
