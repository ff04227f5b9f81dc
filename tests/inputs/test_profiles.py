"""The assumptions that Python functions answer under where none are given."""

from __future__ import annotations

import pickle

import pytest

from inference_econ.engine import Setup
from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import Settings, catalog, profiles
from inference_econ.studies.settings import frontier_of

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
    with pytest.raises(InputError, match="hardware: a name, a path or a HardwareSpec is needed, got None"):
        Setup.of(MODEL, None)  # type: ignore[arg-type]


def test_what_was_measured_has_three_parts(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A profile whose subjects have others was a traceback once it was asked about."""
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
