"""Every mistake in a file gives its file and line, the value, and the accepted values."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import SpecError
from inference_econ.inputs import Assumptions, HardwareSpec, Length, ModelSpec, Source, Traffic, catalog
from inference_econ.inputs.presets.assumptions import field_names
from tests.reading import tables

HARDWARE: str = tables(Path(__file__))["HARDWARE"]

MODEL: str = tables(Path(__file__))["MODEL"]


def _edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _mistakes(read: Callable[[str], object], path: Path, text: str) -> list[str]:
    """Return the messages about a file, without its folder."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as found:
        read(str(path))
    return [mistake.removeprefix(f"{path.parent}/") for mistake in found.value.mistakes]


def test_the_files_without_mistakes_are_read(chip: HardwareSpec, model: ModelSpec) -> None:
    assert chip.name.startswith("Test")
    assert model.name.startswith("Test")


@pytest.mark.rows
def test_mistakes_in_a_hardware_file(tmp_path: Path, old: str, new: str, expected: str) -> None:
    mistakes = _mistakes(catalog.hardware, tmp_path / "chip.yaml", _edited(HARDWARE, old, new))
    assert any(expected in mistake for mistake in mistakes), mistakes


@pytest.mark.parametrize("one_way", ["900 GB/s", "225 GB/s"])
def test_a_link_in_both_directions_must_be_twice_the_one_way(tmp_path: Path, one_way: str) -> None:
    text = _edited(HARDWARE, "one_way: 450 GB/s", f"one_way: {one_way}\nlink_bytes_per_second_both_ways: 900 GB/s")
    text += "  link_bytes_per_second_both_ways: {ref: nobody, where: nowhere, kind: assumed}\n"
    got = f"{float(one_way.split()[0]) * 1e9:g}"
    expected = f"must be half of link_bytes_per_second_both_ways (9e+11 B/s), got {got}"
    assert expected in _mistakes(catalog.hardware, tmp_path / "chip.yaml", text)[0]


def test_a_link_in_both_directions_alone_does_not_do(tmp_path: Path) -> None:
    text = HARDWARE.replace("link_bytes_per_second_one_way", "link_bytes_per_second_both_ways")
    mistakes = _mistakes(catalog.hardware, tmp_path / "chip.yaml", text)
    assert "link_bytes_per_second_one_way must be half of link_bytes_per_second_both_ways" in mistakes[0]
    assert "got None" in mistakes[0]


def test_a_domain_of_several_chips_needs_a_link(tmp_path: Path) -> None:
    text = "".join(line for line in HARDWARE.splitlines(keepends=True) if "link_bytes_per_second_one_way" not in line)
    mistakes = _mistakes(catalog.hardware, tmp_path / "chip.yaml", text)
    assert "link_domain is 8, so link_bytes_per_second_one_way is needed" in mistakes[0]


def test_sparse_peaks_are_accepted_where_the_vendor_does_not_quote_them(write: Callable[[str], str]) -> None:
    path = write(_edited(HARDWARE, "fp8: 2 PFLOP/s", "fp8: 1 PFLOP/s"))
    assert catalog.hardware(path).dense_flops_per_second["fp8"] == 1e15


def test_no_sources_at_all(tmp_path: Path) -> None:
    text = HARDWARE[: HARDWARE.index("sources:")]
    assert _mistakes(catalog.hardware, tmp_path / "chip.yaml", text) == [
        "chip.yaml:1: sources is missing; write 'sources: {FIELD: {ref: mine, where: where from, kind: assumed}}' for "
        "all numbers below FIELD"
    ]


def test_several_mistakes_of_one_file_are_listed_together_by_line(tmp_path: Path) -> None:
    text, several = HARDWARE, tables(Path(__file__))["SEVERAL"]
    for old, new in several["edits"]:
        text = _edited(text, old, new)
    path = tmp_path / "chip.yaml"
    assert _mistakes(catalog.hardware, path, text) == several["mistakes"]
    with pytest.raises(SpecError, match=r"^8 mistakes:\n  - .*chip\.yaml:1: hbm_bytes is missing\n  - "):
        catalog.hardware(str(path))


def test_a_file_of_another_kind_is_one_mistake(tmp_path: Path) -> None:
    (mistake,) = _mistakes(catalog.hardware, tmp_path / "chip.yaml", MODEL)
    assert mistake.startswith("chip.yaml:1: another kind of file is needed here: 4 of its 6 keys are unknown (")
    assert ", ...); allowed: dense_flops_per_second, description, " in mistake


@pytest.mark.rows
def test_mistakes_in_a_model_file(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    mistakes = _mistakes(catalog.model, tmp_path / "model.yaml", _edited(MODEL, old, new))
    for text in expected:
        assert any(text in mistake for mistake in mistakes), mistakes


@pytest.mark.rows
def test_blocks_are_a_list_of_mappings(tmp_path: Path, blocks: str, expected: str) -> None:
    text = MODEL[: MODEL.index("blocks:")] + blocks + "\n" + MODEL[MODEL.index("sources:") :]
    mistakes = _mistakes(catalog.model, tmp_path / "model.yaml", text)
    assert any(mistake.startswith(f"model.yaml:5: {expected}") for mistake in mistakes), mistakes


@pytest.mark.rows
def test_mistakes_in_a_file_of_assumptions(tmp_path: Path, lines: str, expected: str) -> None:
    mistakes = _mistakes(catalog.assumptions, tmp_path / "mine.yaml", f"extends: paper\n{lines}\n")
    assert any(expected in mistake for mistake in mistakes), mistakes


def test_assumptions_from_nothing_must_be_complete(tmp_path: Path) -> None:
    mistakes = _mistakes(catalog.assumptions, tmp_path / "mine.yaml", "name: Mine\n")
    assert "mine.yaml:1: chip is missing" in mistakes
    assert any(mistake.startswith("mine.yaml:1: sources is missing") for mistake in mistakes)
    assert len(mistakes) == 10
    mistakes = _mistakes(catalog.assumptions, tmp_path / "mine.yaml", "name: Mine\nchip: {hbm_efficiency: 0.5}\n")
    assert "mine.yaml:2: chip.overlap is missing" in mistakes


@pytest.mark.parametrize(
    ("line", "place"), [("launch: 3 us", "host.launch"), ("expert_imbalance: 2", "experts.imbalance")]
)
def test_fields_of_flat_assumptions_are_refused_with_their_place(tmp_path: Path, line: str, place: str) -> None:
    name = line.partition(":")[0]
    mistakes = _mistakes(catalog.assumptions, tmp_path / "mine.yaml", f"extends: paper\n{line}\n")
    assert mistakes[0].startswith(f"mine.yaml:2: unknown key {name!r}; it is now {place!r}")


def test_every_name_of_flat_assumptions_is_known() -> None:
    places = {place for moved in Assumptions.moved.values() for place in moved.split(" or ")}
    assert places == set(field_names())


@pytest.mark.rows
def test_mistakes_in_traffic(asked: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        Traffic.build(asked, origin="traffic")


@pytest.fixture
def chip(write: Callable[[str], str]) -> HardwareSpec:
    return catalog.hardware(write(HARDWARE))


@pytest.fixture
def model(write: Callable[[str], str]) -> ModelSpec:
    return catalog.model(write(MODEL))


def test_specs_are_frozen(chip: HardwareSpec, model: ModelSpec) -> None:
    for spec, field in ((chip, "hbm_bytes"), (chip.prices[0], "kind"), (model, "blocks"), (model.blocks[0], "layers")):
        with pytest.raises(ValueError, match="Instance is frozen"):
            setattr(spec, field, 1)


def test_replace_changes_one_field_and_reads_units(chip: HardwareSpec) -> None:
    faster = chip.replace(hbm_bytes_per_second="6.7 TB/s")
    assert faster.hbm_bytes_per_second == 6.7e12
    assert faster.replace(hbm_bytes_per_second=3.35e12) == chip
    assert chip.replace() == chip


@pytest.mark.rows
def test_replace_validates(chip: HardwareSpec, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        chip.replace(**changes)


def test_replace_validates_parts_of_a_model(model: ModelSpec) -> None:
    with pytest.raises(SpecError, match="Block: layers must be > 0, got 0"):
        model.blocks[0].replace(layers=0)
    with pytest.raises(SpecError, match="kv_heads must be at most query_heads"):
        model.blocks[0].attention.replace(kv_heads=64)
    deeper = model.replace(blocks=(model.blocks[0].replace(layers=20),))
    assert deeper.layers == 20


@pytest.mark.rows
def test_mistakes_in_python_are_one_clear_message(kind: str, given: dict[str, Any], mistakes: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        getattr(inputs, kind)(**given)
    assert sorted(caught.value.mistakes) == mistakes
    assert caught.value.__suppress_context__  # no second message above ours


def test_parts_that_are_built_already_are_looked_into_for_sources(model: ModelSpec) -> None:
    source = Source(ref="nobody", where="nowhere", kind="assumed")
    given: dict[str, Any] = {"name": "x", "hidden_size": 8, "vocab_size": 8, "weights": "fp7"}
    given |= {"blocks": model.blocks, "sources": {"vocab_size": source, "blocks.0.layers": source}}
    with pytest.raises(SpecError) as caught:
        ModelSpec(**given)
    text = str(caught.value)
    assert "ModelSpec: weights: got 'fp7'" in text
    assert "ModelSpec: hidden_size has no source" in text
    assert "blocks.0.attention.query_heads has no source" in text
    assert "names no field" not in text


def test_specs_survive_copies_and_pickling(chip: HardwareSpec, model: ModelSpec) -> None:
    for spec in (chip, model, Traffic(isl=2000, osl=500)):
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert copy.deepcopy(spec) == spec.model_copy() == spec.replace() == spec
        assert type(spec).model_validate(spec.model_dump(exclude_unset=True)) == spec


def test_signatures_say_fields_with_plain_types() -> None:
    number = "int | float | None = None"
    mix = "tuple[tuple[int | float, int | float], ...] | None = None"
    wanted = f"(*, isl: {number}, osl: {number}, context: {number}, contexts: {mix}, max_tokens_per_second: {number})"
    assert str(inspect.signature(ie.Traffic)) == wanted
    ie.Traffic(isl=1, osl=2)  # which makes pydantic build the class
    assert str(inspect.signature(ie.Traffic)) == wanted
    parameter = inspect.signature(ie.Requests).parameters["isl"]
    assert (parameter.default, parameter.annotation) == (inspect.Parameter.empty, Length)
