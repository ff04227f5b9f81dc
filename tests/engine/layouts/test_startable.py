"""Layouts that engines can start, compared with their documents and sources."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Plans, Setup, Space, check_startable, memory
from inference_econ.engine.layouts import grids as instances
from inference_econ.engine.layouts import startable
from inference_econ.engine.layouts.grids import whole_grid
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, ServingEngine, catalog
from tests.asking import pinned
from tests.planned import plan_of
from tests.reading import present

ENGINES = {name: ServingEngine(name, catalog.engine(name).at()) for name in ("sglang", "trtllm", "vllm")}
powers = st.sampled_from([1, 2, 4, 8, 16])


def plan(tp: int = 1, dp: int = 1, pp: int = 1, ep: int = 1, dcp: int = 1) -> Plans:
    return plan_of(tp, dp, pp, ep, dp * pp, dcp=float(dcp))


def broken(engine: str, model: str, plans: Plans, generation: str = "hopper", cut: str = "1d") -> list[str]:
    rules = startable.rules_of(ENGINES[engine], catalog.model(model), generation, plans, cut)  # type: ignore[arg-type]
    return [rule.code for rule in rules if np.any(rule.where)]


@pytest.mark.rows
def test_rules_of_engines(
    engine: str, model: str, degrees: dict[str, int], rules: list[str], asked: dict[str, str]
) -> None:
    assert broken(engine, model, plan(**degrees), **asked) == rules


def test_ranks_share_a_cache_since_a_version() -> None:
    before = ServingEngine("vllm", catalog.engine("vllm").at("0.10.0"))
    rules = startable.rules_of(before, catalog.model("llama_3_70b"), "hopper", plan(tp=16, dcp=2))
    assert [rule.code for rule in rules if np.any(rule.where)] == ["context_ranks"]


@settings(deadline=None)
@given(powers, powers, st.sampled_from([1, 2, 4]), powers)
def test_a_layout_can_be_started_where_no_rule_is_broken(tp: int, dp: int, pp: int, ep: int) -> None:
    plans = plan(tp, dp, pp, ep)
    for name, engine in ENGINES.items():
        able = bool(startable.can_start(engine, catalog.model("deepseek_v3"), "hopper", plans))
        assert able == (broken(name, "deepseek_v3", plans) == [])
    setup = Setup.of("deepseek_v3", "h200_sxm")
    code = int(np.ravel(setup.reasons(plans, "1d"))[0])
    divides = tp * dp % ep == 0
    assert (code == memory.ENGINE) == (divides and setup.engines_of(plans) == [()])


def test_any_layout_is_the_bound() -> None:
    setup = Setup.of("llama_3_70b", "h100_sxm", engine="any")
    assert setup.engines == ()
    assert int(np.ravel(setup.reasons(plan(tp=4, dp=2), "1d"))[0]) == memory.FITS
    assert Setup.of("llama_3_70b", "h100_sxm", assumptions="paper").engines == ()


# Pins that no engine can start.


@pytest.mark.rows
def test_pins_that_nobody_can_start_get_the_nearest(
    model: str, engine: str | None, pins: dict[str, Any], message: str
) -> None:
    setup = Setup.of(model, "h200_sxm", engine=engine)
    with pytest.raises(InputError, match=re.escape(message)):
        check_startable(setup, Pins(**pins))


@settings(deadline=None)
@given(powers, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2]))
def test_the_nearest_can_be_started(tp: int, dp: int, pp: int) -> None:
    setup = Setup.of("mixtral_8x22b", "h100_sxm", engine="trtllm")
    try:
        check_startable(setup, Pins(tp=tp, dp=dp, pp=pp))
    except InputError as error:
        found = present(re.search(r"Nearest that can be: tp=(\d+), dp=(\d+), pp=(\d+), ep=(\d+)", str(error)))
        assert setup.engines_of(plan(*map(int, found.groups()))) == [("trtllm",)]
    else:
        assert dp == 1


# Instances.


def test_instances_are_parts_of_machines_or_whole_ones() -> None:
    assert instances.instance_sizes(catalog.hardware("h100_sxm"), 40).tolist() == [1, 2, 4, 8, 16, 32]
    assert instances.instance_sizes(catalog.hardware("l40s"), 8).tolist() == [1, 2, 4, 8]
    assert instances.instance_sizes(catalog.hardware("h100_nvl"), 8).tolist() == [1, 2, 4, 8]
    rack = instances.instance_sizes(catalog.hardware("gb200_nvl72"), 300).tolist()
    assert rack == [1, 2, 4, 8, 16, 32, 64, 72, 128, 144, 256, 288]
    # A larger link domain keeps the sizes of smaller ones.
    wider = catalog.hardware("h100_sxm", changes=["link_domain=9"])
    assert instances.instance_sizes(wider, 20).tolist() == [1, 2, 4, 8, 9, 16, 18]


@pytest.mark.parametrize("largest", [3.0, 7.0, 32.0, 32_776.0, 1e9])
def test_every_doubling_of_machines_is_a_size(largest: float) -> None:
    sizes = instances.instance_sizes(catalog.hardware("h100_sxm"), largest)
    assert sizes[0] == 1.0
    np.testing.assert_array_equal(sizes[1:] / sizes[:-1], 2.0)
    assert largest / 2.0 < sizes[-1] <= largest


def test_stages_are_nodes_of_instances_that_are_larger_than_a_machine() -> None:
    chip, sizes = catalog.hardware("h100_sxm"), np.array([8.0, 16.0, 32.0, 32.0])
    stages = np.array([2.0, 8.0, 16.0, 4.0])
    assert instances.sensible_stages(sizes, stages, chip).tolist() == [False, True, True, False]
    # Inside of a node only where chips have no fast link.
    slow = catalog.hardware("l40s")
    assert instances.sensible_stages(sizes, stages, slow).tolist() == [True, True, True, False]


def test_pinned_degrees_are_free_of_what_documents_recommend() -> None:
    chip = catalog.hardware("h100_sxm")
    assert whole_grid(2.0, pipeline=True, hardware=chip, pins=pinned(tp=3)).accelerators[:3].tolist() == [3.0, 6.0, 9.0]
    assert whole_grid(2.0, pipeline=True, hardware=chip, pins=pinned(tp=16)).accelerators[:2].tolist() == [16.0, 32.0]
    assert whole_grid(2.0, pipeline=True, hardware=chip, pins=Pins(tp=5, pp=7)).accelerators[0] == 35.0
    grid = whole_grid(2.0, pipeline=True, hardware=chip, pins=Pins(tp=4, dp=1, pp=16))
    assert grid.accelerators.tolist() == [64.0]
    (depth,) = grid.layouts.depths(catalog.model("llama_3_8b"), Setup.of("llama_3_8b", chip).assumptions, *grid.pairs())
    assert np.all(depth == 16.0)


def test_a_pinned_size_is_used_whole() -> None:
    found = offer(Setup.of("llama_3_70b", "h100_sxm"), Requests.model_validate({"isl": 1000, "osl": 200}),
                  Space(pinned(tp=8, accelerators=32)))  # fmt: skip
    assert found.plans.pp.tolist() == [4.0]
