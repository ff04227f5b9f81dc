"""Default assumptions by GPU generation, and files of corrections."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.engine import Instances, Setup
from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import Settings, catalog, constants_of
from inference_econ.inputs.engine import launch_options as serving_engines
from inference_econ.inputs.engine import profiles
from inference_econ.inputs.engine.recipes import practices
from inference_econ.inputs.presets import generations
from inference_econ.report.notes import generation_remarks, warnings
from inference_econ.studies.settings import frontier_of
from tests.reading import tables

# Default assumptions by GPU generation.

MODEL = "llama_3_8b"


@pytest.mark.parametrize("chip", ["h200_sxm", "b300", "mi325x", "a100_sxm_80", "gaudi3"])
def test_it_is_the_profile_of_the_generation(chip: str) -> None:
    spec = catalog.hardware(chip)
    for named in (chip, spec):
        assert Setup.of(MODEL, named).assumptions == profiles.for_hardware(chip).for_chip(spec)


def test_others_can_be_named_or_given() -> None:
    ideal = catalog.assumptions("ideal")
    for given in ("ideal", ideal):
        assert Setup.of(MODEL, "h100_sxm", assumptions=given).assumptions == ideal
    with pytest.raises(UnknownNameError, match="unknown assumptions 'no_such'"):
        Setup.of(MODEL, "h100_sxm", assumptions="no_such")
    with pytest.raises(InputError, match="assumptions: a name, a path or a Assumptions is needed, got 3"):
        Setup.of(MODEL, "h100_sxm", assumptions=3)  # type: ignore[arg-type]


def test_what_was_measured_has_three_parts(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A profile whose subjects have other parts is rejected; it once gave a traceback on use."""
    text = catalog.locate("assumptions", "profiles/hopper").read_text(encoding="utf-8")
    engine, chip, _ = catalog.assumptions("profiles/hopper").calibration.subjects[0].split(" / ")  # type: ignore[union-attr]
    (tmp_path / "mine.yaml").write_text(text.replace(f"{engine} / {chip} / ", f"{engine} / "), encoding="utf-8")
    with pytest.raises(SpecError, match=rf"subjects\.0: write 'engine / chip / model', got '{engine} / "):
        catalog.assumptions(tmp_path / "mine.yaml")


def test_what_ifs_and_grids() -> None:
    changed = profiles.assumed(None, "h100_sxm", changes=["host.step_overhead=7 ms"])
    assert changed.host.step_overhead == pytest.approx(7e-3)
    assert changed.name == catalog.assumptions("profiles/hopper").name
    assert profiles.for_grid(None, "paper") == "paper"
    assert profiles.for_grid("ideal", "paper") == "ideal"
    assert profiles.for_grid(None, "whole") is None
    with pytest.raises(SpecError, match="step_overhed"):
        profiles.assumed(None, "h100_sxm", changes=["step_overhed=7 ms"])


def test_settings_that_name_their_assumptions_keep_them() -> None:
    common = {"model": MODEL, "hardware": "h100_sxm", "max_instance_gpus": 8, "context": 500, "decode_only": True}
    named, unnamed, study_grid = (
        frontier_of(Settings.build({**common, **own}, origin="test")).setup.assumptions
        for own in ({"assumptions": "deployable"}, {}, {"grid": "paper"})
    )
    chip = catalog.hardware("h100_sxm")
    assert named == catalog.assumptions("deployable").for_chip(chip)
    assert unnamed == catalog.assumptions("profiles/hopper").for_chip(chip)
    assert study_grid == catalog.assumptions("paper").for_chip(chip)


@pytest.mark.parametrize("name", ["paper", "profiles/hopper"])
def test_assumptions_travel_between_processes(name: str) -> None:
    assumptions = catalog.assumptions(name)
    assert pickle.loads(pickle.dumps(assumptions)) == assumptions


# Chip generations determine the default profile, and a user's chip has the profile of its generation.


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
    table = generations.usual()
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
    assert generation_remarks(setups) == []


def test_a_generation_that_nobody_measured_is_said_to_lack_profile_and_engines(tmp_path: Path) -> None:
    setup = ie.Setup.of("llama_3_8b", renamed(tmp_path, "h200_sxm", generation="feynman"))
    assert (setup.assumptions.name, setup.engines) == (catalog.assumptions("deployable").name, ())
    line = (
        "My chip is uncalibrated, because no feynman server was measured. Results are lower bounds on cost and latency "
        "under deployable."
    )
    engines = (
        "Engines that support feynman: none. If the GPU is similar to a measured generation, name that generation in "
        "its file: ada, ampere, ampere_workstation, blackwell, blackwell_geforce, cdna3, cdna4, cdna5, hopper, rubin, "
        "turing, volta."
    )
    assert {line, engines} <= {*warnings([Instances(setup)])}
    tpu = ie.Setup.of("llama_3_8b", "tpu_v6e")
    assert len(generation_remarks([setup, tpu, tpu])) == 4
    # A query with a preset needs no profile.
    assert generation_remarks([ie.Setup.of("llama_3_8b", "tpu_v6e", assumptions="ideal")]) == []


def test_an_engine_of_which_no_server_was_measured_is_said_to_have_no_profile() -> None:
    setup = ie.Setup.of("llama_3_8b", "rtx_3090", engine="llama_cpp", weights="q4_k_m")
    line = "llama_cpp is uncalibrated, because no server with it was measured. Results use profiles/servers."
    assert generation_remarks([setup]) == [line]
    named = ie.Setup.of("llama_3_8b", "rtx_3090", engine="llama_cpp", weights="q4_k_m", assumptions="ideal")
    assert generation_remarks([named]) == []


def test_engines_run_on_generations() -> None:
    assert [engine.name for engine in serving_engines.run_on("hopper")] == ["llama_cpp", "sglang", "trtllm", "vllm"]
    assert [engine.name for engine in serving_engines.run_on("apple")] == ["llama_cpp", "mlx"]
    assert serving_engines.run_on("feynman") == ()


# Files of corrections: rejected content, with its place.

PROFILE = "profiles/vllm_hopper"
TEXT: str = tables(Path(__file__))["TEXT"]


def corrected(*changes: tuple[str, str]) -> str:
    """Return a file with some texts replaced."""
    text = TEXT.format(profile=PROFILE, constants=constants_of(PROFILE))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_levels_leave_a_profile_as_it_was_fitted(write: Callable[[str], str]) -> None:
    """A file that only adds corrections preserves the errors of the fit; a what-if removes both."""
    mine = catalog.assumptions(write(corrected()))
    assert mine.levels is not None
    assert mine.calibration == catalog.assumptions(PROFILE).calibration
    changed = catalog.assumptions(write(corrected()), changes=["host.launch=10 us"])
    assert changed.levels is None
    assert changed.calibration is None


@pytest.mark.rows
def test_mistakes_are_refused_with_their_line(write: Callable[[str], str], old: str, new: str, message: str) -> None:
    """Try another format, negative counts, unknown names, and corrections that cannot have been measured."""
    with pytest.raises(SpecError, match=message):
        catalog.assumptions(write(corrected((old, new))))


def test_levels_over_another_fit_are_refused(write: Callable[[str], str]) -> None:
    """A profile that was fitted again since has other residuals."""
    path = write(corrected((constants_of(PROFILE), "0123456789ab")))
    with pytest.raises(InputError, match=r"mine.yaml:6: levels over another version of profiles/vllm_hopper"):
        catalog.assumptions(path)
