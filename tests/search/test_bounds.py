"""A search with valid bounds finds the same frontier as brute force."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference_econ.engine import ContinuousLayouts, InstanceGrid, Layouts, Setup, Speculation, WholeLayouts
from inference_econ.inputs import catalog
from inference_econ.inputs.presets.assumptions import GROUPS, field_names
from inference_econ.search import Frontier, _search, compute
from inference_econ.search import _search as _bounds
from tests.planned import setup_of

#: Dense, experts, experts with latent attention; shared experts and another number of heads.
MODELS = ("paper/llama_3_70b", "paper/mixtral_8x22b", "deepseek_v2", "gpt_oss_20b")
#: Values of fields that are numbers, lists or files.
OTHER_VALUES = {
    "layout.tensor_layouts": ("[1d]", "[2d]", "[1d, 2d]"),
    "network.collectives": catalog.part_names("collectives"),
    "network.collective_overhead": ("3 us",),
    "experts.imbalance": ("1.5",),
    "experts.tile": ("64",),
    "experts.kernels": catalog.part_names("kernels"),
    "experts.kernel_efficiency": ("0.5",),
    "experts.popularity_scv": ("2",),
    "experts.overlap": ("0.5",),
    "experts.parallel_min_requests_per_sparsity": ("0", "8"),
    "host.step_overhead": ("5 ms",),
    "host.sequence_overhead": ("1 ms",),
    "host.launches_per_layer": ("0",),
    "layout.attention_scale_down_steps": ("0", "2"),
    "capacity.workspace_tokens": ("8192",),
    "capacity.kv_block": ("64",),
}


def _values(name: str) -> tuple[str, ...]:
    """Return the values of a field: all of them if there is a finite number."""
    group, _, field = name.partition(".")
    annotation = GROUPS[group].model_fields[field].annotation
    if get_origin(annotation) is Literal:
        return tuple(get_args(annotation))
    return ("true", "false") if annotation is bool else OTHER_VALUES.get(name, ())


CHANGES = [f"{name}={value}" for name in field_names() for value in _values(name)]
SPECULATIONS = (
    None,
    Speculation.of("draft", 0.8, 3, model=catalog.model("qwen3_0_6b")),
    Speculation.of("eagle", 0.7, 2),
    Speculation.of("ngram", 0.5, 2),
)


@cache
def _setup(model: str, changes: tuple[str, ...], context: float = 2000.0) -> Setup:
    # Few depths, for speed.
    return setup_of(model, "h100_sxm", context, "layout.pipeline_steps=2", *changes, preset="paper", weights="fp8")


def _frontier(setup: Setup, layouts: Layouts, speculation: Speculation | None) -> Frontier:
    sizes, batches = np.array([4.0, 8.0, 30.0, 200.0]), np.array([1.0, 6.0, 50.0, 600.0, 3000.0])
    return compute(replace(setup, price=2.0), InstanceGrid(sizes, batches, layouts), speculation=speculation)


def _check(setup: Setup, layouts: Layouts, speculation: Speculation | None = None) -> None:
    """Compare searches with a table of bounds, with memory limits only, and without bounds."""
    if not _bounds.hold(setup.assumptions):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_search, "_TABLE_FROM", 0)
        tabled = _frontier(setup, layouts, speculation)
        patch.setattr(_search, "_TABLE_FROM", np.inf)
        roomy = _frontier(setup, layouts, speculation)
        patch.setattr(_bounds, "hold", lambda _: False)
        everything = _frontier(setup, layouts, speculation)
    for front in (tabled, roomy):
        assert front.seconds == pytest.approx(everything.seconds, rel=1e-12)
        assert front.dollars == pytest.approx(everything.dollars, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_bounds_hold_under_every_value_of_every_field(change: str) -> None:
    for model in ("deepseek_v2", "gpt_oss_20b"):
        _check(_setup(model, (change,)), ContinuousLayouts(pipeline=True))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(MODELS),
    changes=st.lists(st.sampled_from(CHANGES), max_size=8, unique_by=lambda change: change.partition("=")[0]),
    layouts=st.sampled_from([ContinuousLayouts(True), ContinuousLayouts(False), WholeLayouts(True)]),
    speculation=st.sampled_from(SPECULATIONS),
    context=st.sampled_from([0.0, 30_000.0]),
)
def test_bounds_hold_under_values_of_several_fields(
    model: str, changes: list[str], layouts: Layouts, speculation: Speculation | None, context: float
) -> None:
    _check(_setup(model, tuple(changes), context), layouts, speculation)


def test_bounds_hold_for_the_published_study_and_not_for_servers() -> None:
    holding = {name for name in catalog.names("assumptions") if _bounds.hold(catalog.assumptions(name))}
    assert holding == {"paper", "paper_may22", "paper_text"}


@pytest.mark.rows
def test_each_condition_is_one(change: str) -> None:
    assert not _bounds.hold(catalog.assumptions("paper", changes=[change]))
