"""Generations of chips decide which profile is assumed, and a chip of one's own is served as its generation is."""

from __future__ import annotations

from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.engine import Instances
from inference_econ.inputs import catalog, profiles, serving_engines
from inference_econ.inputs.recipes import practices
from inference_econ.report import caveats

CHIPS = [catalog.hardware(name) for name in catalog.names("hardware")]


def renamed(folder: Path, chip: str, **fields: str) -> Path:
    """Write a copy of a chip's file with other words in some of its fields."""
    lines = catalog.locate("hardware", chip).read_text(encoding="utf-8").splitlines()
    copy = folder / "mine.yaml"
    words = {"name": "My chip", "family": "mine", **fields}
    changed = (
        next((f"{key}: {word}" for key, word in words.items() if line.startswith(f"{key}:")), line) for line in lines
    )
    copy.write_text("\n".join(changed), encoding="utf-8")
    return copy


def test_the_table_names_every_profile_and_the_families_of_every_chip() -> None:
    table = profiles.generations()
    assert {entry.profile for entry in table.profiles} == {
        name for name in catalog.names("assumptions") if name.startswith("profiles/")
    }
    assert table.otherwise in catalog.names("assumptions")
    assert {entry.engine for entry in table.profiles} - {None} <= set(catalog.names("engines")) | {"atom"}
    assert set(profiles.generations_fitted()) | set(table.families) <= {chip.generation for chip in CHIPS}
    for chip in CHIPS:
        assert table.family(chip) == chip.family, chip.name


@pytest.mark.parametrize(("chip", "model"), [("h200_sxm", "gpt_oss_20b"), ("a100_sxm_80", "llama_3_8b")])
def test_a_chip_under_another_name_and_family_is_served_as_its_generation_is(
    tmp_path: Path, chip: str, model: str
) -> None:
    copy = renamed(tmp_path, chip)
    setups = [ie.Setup.of(model, name) for name in (chip, copy)]
    known, mine = setups
    assert mine.assumptions == known.assumptions
    assert mine.engines == known.engines
    assert profiles.for_hardware(copy, "vllm") == profiles.for_hardware(chip, "vllm")
    assert practices("vllm", mine.model, mine.hardware) == practices("vllm", known.model, known.hardware)
    assert caveats.generation_remarks(setups) == []


def test_a_generation_that_nobody_measured_is_said_to_lack_profile_and_engines(tmp_path: Path) -> None:
    setup = ie.Setup.of("llama_3_8b", renamed(tmp_path, "h200_sxm", generation="feynman"))
    assert (setup.assumptions.name, setup.engines) == (catalog.assumptions("deployable").name, ())
    line = (
        "My chip: no profile is fitted to the generation feynman, so deployable stands in for one, and known to "
        "start on it: no engine. A chip like another generation can say so in its file: ada, ampere, "
        "ampere_workstation, blackwell, blackwell_geforce, cdna3, cdna4, cdna5, hopper, rubin, turing, volta."
    )
    assert line in caveats.warnings([Instances(setup)])
    tpu = ie.Setup.of("llama_3_8b", "tpu_v6e")
    assert len(caveats.generation_remarks([setup, tpu, tpu])) == 2
    # Whoever names a preset needs no profile.
    assert caveats.generation_remarks([ie.Setup.of("llama_3_8b", "tpu_v6e", assumptions="ideal")]) == []


def test_an_engine_of_which_no_server_was_measured_is_said_to_have_no_profile() -> None:
    setup = ie.Setup.of("llama_3_8b", "rtx_3090", engine="llama_cpp", weights="q4_k_m")
    line = "llama_cpp: no server of it was measured, so profiles/servers stands in for a profile of its own."
    assert caveats.generation_remarks([setup]) == [line]
    named = ie.Setup.of("llama_3_8b", "rtx_3090", engine="llama_cpp", weights="q4_k_m", assumptions="ideal")
    assert caveats.generation_remarks([named]) == []


def test_engines_run_on_generations() -> None:
    assert [engine.name for engine in serving_engines.run_on("hopper")] == ["llama_cpp", "sglang", "trtllm", "vllm"]
    assert [engine.name for engine in serving_engines.run_on("apple")] == ["llama_cpp", "mlx"]
    assert serving_engines.run_on("feynman") == ()
