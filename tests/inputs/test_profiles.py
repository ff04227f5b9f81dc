"""The assumptions that Python functions answer under where none are given."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

import inference_econ as ie
from inference_econ.engine import Speculation
from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import Requests, Settings, catalog, profiles
from inference_econ.studies.settings import frontier_of
from tests import asking

MODEL = "llama_3_8b"
REQUESTS = Requests.build({"isl": 500, "osl": 100}, origin="test")
TRAFFIC = ie.Traffic(context=500)

ASKED: dict[str, Callable[..., ie.Assumptions]] = {
    "frontier": lambda chip, **how: (
        asking.frontier(MODEL, chip, TRAFFIC, max_accelerators=1, price=1, **how).setup.assumptions
    ),
    "explain": lambda chip, **how: asking.explain(MODEL, chip, tp=1, **how).setup.assumptions,
    "offer": lambda chip, **how: (
        asking.offer(MODEL, chip, REQUESTS, max_accelerators=1, price=1, **how).setup.assumptions
    ),
    "assess": lambda chip, **how: (
        asking.assess(
            MODEL, chip, TRAFFIC, tokens_per_second=9, batch=9, accelerators=1, price=1, **how
        ).setup.assumptions
    ),
    "speculate": lambda chip, **how: (
        asking.speculate(MODEL, chip, REQUESTS, Speculation.of("ngram", 0.5, 3), price=1, **how).plain.setup.assumptions
    ),
    "pools": lambda chip, **how: (
        asking.pools(MODEL, chip, REQUESTS, max_accelerators=1, price=1, **how).decode.setup.assumptions
    ),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("chip", ["h200_sxm", "b300", "mi325x", "a100_sxm_80", "gaudi3"])
def test_it_is_the_profile_of_the_generation(name: str, chip: str) -> None:
    assert ASKED[name](chip) == profiles.for_hardware(chip).for_chip(catalog.hardware(chip))
    assert ASKED[name](catalog.hardware(chip)) == ASKED[name](chip)


@pytest.mark.parametrize("name", ASKED)
def test_others_can_be_named_or_given(name: str) -> None:
    ideal = catalog.assumptions("ideal")
    assert ASKED[name]("h100_sxm", assumptions="ideal") == ASKED[name]("h100_sxm", assumptions=ideal) == ideal
    with pytest.raises(UnknownNameError, match="unknown assumptions 'no_such'"):
        ASKED[name]("h100_sxm", assumptions="no_such")
    with pytest.raises(InputError, match="assumptions: a name, a path or a Assumptions is needed, got 3"):
        ASKED[name]("h100_sxm", assumptions=3)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_no_chip_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="hardware: a name, a path or a HardwareSpec is needed, got None"):
        ASKED[name](None)


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


def test_each_kind_of_pool_has_its_own() -> None:
    def found(**how: object) -> list[ie.Assumptions]:
        both = asking.pools(
            MODEL, "h100_sxm", REQUESTS, decode_on="b200", max_accelerators=1, **how
        )  # fmt: skip
        return [pool.setup.assumptions for pool in (both.prefill, both.decode)]

    own = [profiles.for_hardware(chip).for_chip(catalog.hardware(chip)) for chip in ("h100_sxm", "b200")]
    ideal = catalog.assumptions("ideal")
    assert found() == own
    assert found(assumptions="ideal") == [ideal, ideal]
    assert found(decode_assumptions="ideal") == [own[0], ideal]


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
