"""The search by bounds against brute force on a grid that is large enough for its table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference_econ.engine import (
    ContinuousLayouts,
    Layouts,
    Pins,
    Plans,
    Setup,
    Speculation,
    WholeLayouts,
    memory,
    needed_memory,
    rounds,
    step_seconds,
    whole_grid,
)
from inference_econ.inputs import catalog
from inference_econ.search._search import Search
from inference_econ.search.fastest import fastest, token_seconds
from inference_econ.serving import slots_of
from tests.planned import setup_of

Array = npt.NDArray[np.float64]

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12


LAYOUTS = (ContinuousLayouts(False), ContinuousLayouts(True), WholeLayouts(False), WholeLayouts(True))
#: Requirements of bounds: attention of a stage in one group, and collectives with known times.
_TOGETHER = (
    "layout.attention_groups=idle", "layout.kv_placement=spread",
    "experts.all_to_all_traffic=as_all_reduce", "experts.replicated_tokens=exchanged",
    "experts.redundant=null", "network.link_domains=whole", "network.two_batch_overlap=never",
)  # fmt: skip


def _question(model: str, chip: str, context: float, preset: str, changes: tuple[str, ...] = ()) -> Setup:
    return setup_of(model, chip, context, *changes, preset=preset)


def _try_everything(setup: Setup, sizes: Array, batches: Array, layouts: Layouts, new_tokens: int) -> Array:
    """Try every depth, variant and cut of every pair (an open grid: sizes down, batches across)."""
    best = np.full((sizes.size, batches.size), np.inf)
    size, batch = np.broadcast_arrays(sizes, batches)
    for depth in layouts.depths(setup.model, setup.assumptions, sizes, batches):
        pp = np.broadcast_to(depth, best.shape)
        at = np.nonzero(pp > 0)
        if at[0].size == 0:
            continue
        instances = Plans.of(size[at], batch[at], pp[at], new_tokens)
        tried = layouts.variants(setup.model, setup.assumptions, instances)
        for cut, seconds in zip(setup.assumptions.layout.tensor_layouts, step_seconds(setup, tried), strict=True):
            feasible = np.where(setup.reasons(tried, cut) == memory.FITS, seconds, np.inf)
            best[at] = np.minimum(best[at], feasible.reshape(-1, *instances.shape).min(axis=0))
    return best


def _agree(found: Array, expected: Array, ceiling: Array) -> None:
    within = expected <= ceiling
    assert found[within] == pytest.approx(expected[within], rel=ROUNDING)
    # Above the ceiling anything slower will do.
    assert (found[~within] >= np.minimum(ceiling, expected)[~within] * (1 - ROUNDING)).all()


def _check(setup: Setup, sizes: Array, batches: Array, layouts: Layouts, new_tokens: int, *, tabled: bool) -> None:
    rows, columns = sizes[:, None], batches[None, :]
    assert Search(setup, rows, columns, layouts).tabled == tabled
    expected = _try_everything(setup, rows, columns, layouts, new_tokens)
    # Limits slightly above, at, and below the truth, and no limit.
    factors = np.resize([1 + 1e-9, 1.0, 0.9, 3.0, 10.0], expected.shape)
    fast = float(np.quantile(expected[np.isfinite(expected)], 0.2)) if np.isfinite(expected).any() else 1.0
    for ceiling in (
        np.where(np.isfinite(expected), factors * expected, 1.0),
        np.full(expected.shape, fast),
        np.full(expected.shape, np.inf),
    ):
        _agree(
            fastest(setup, rows, columns, layouts, new_tokens=new_tokens, ceiling=ceiling).seconds, expected, ceiling
        )


@pytest.mark.rows
def test_a_large_grid(
    model: str, chip: str, context: float, preset: str, changes: tuple[str, ...], new_tokens: int
) -> None:
    setup = _question(model, chip, context, preset, changes)
    smallest = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
    sizes = np.geomspace(min(smallest, 1.0), 4096.0 * max(smallest, 1.0), 45)
    _check(setup, sizes, np.geomspace(1.0, 2.0**18, 50), ContinuousLayouts(pipeline=True), new_tokens, tabled=True)


def test_a_large_grid_of_whole_layouts() -> None:
    # Groups with separate caches have no tabulated bound.
    setup = _question("llama_3_8b", "h100_sxm", 1000.0, "deployable", _TOGETHER)
    grid = whole_grid(1.0, pipeline=True, largest=300)
    batches = np.arange(1.0, 140.0)
    _check(setup, grid.accelerators, batches, WholeLayouts(pipeline=True), 1, tabled=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(["paper/llama_3_8b", "paper/mixtral_8x7b", "qwen3_30b_a3b", "deepseek_v2"]),
    chip=st.sampled_from(["paper/h100", "paper/groq_lpu", "h200_sxm", "gb300_nvl72", "mi300x"]),
    preset=st.sampled_from(catalog.names("assumptions")),
    context=st.sampled_from([0.0, 3000.0]),
    layouts=st.sampled_from(LAYOUTS),
    sizes=st.lists(st.floats(1.0, 200.0) | st.sampled_from([1.0, 3.0, 4.0, 8.0, 24.0, 64.0]), min_size=1, max_size=5),
    batches=st.lists(st.floats(1.0, 5000.0) | st.sampled_from([2.0, 24.0, 57.0, 1000.0]), min_size=1, max_size=5),
    new_tokens=st.integers(1, 3),
)
def test_a_small_grid(
    model: str,
    chip: str,
    preset: str,
    context: float,
    layouts: Layouts,
    sizes: list[float],
    batches: list[float],
    new_tokens: int,
) -> None:
    setup = _question(model, chip, context, preset)
    _check(setup, np.array(sizes), np.array(batches), layouts, new_tokens, tabled=False)


def test_the_chosen_plan_takes_the_time_that_was_found() -> None:
    setup = _question("paper/deepseek_v3", "paper/h100", 0.0, "paper")
    sizes, batches = (axis.ravel() for axis in np.meshgrid([16.0, 40.0, 300.0], [1.0, 100.0, 5000.0]))
    for layouts in (ContinuousLayouts(pipeline=True), WholeLayouts(pipeline=True)):
        found = fastest(setup, sizes, batches, layouts)
        assert np.isfinite(found.seconds).any()
        for index, (cut, seconds) in enumerate(zip(found.cut, found.seconds, strict=True)):
            if np.isfinite(seconds):
                plan = found.plans.row(index)
                assert step_seconds(setup, plan)[cut][0] == pytest.approx(seconds, rel=ROUNDING)


def test_less_memory_for_the_model_where_some_is_taken() -> None:
    setup = _question("paper/llama_3_70b", "paper/h100", 0.0, "paper")
    size, one = np.array([2.0]), np.ones(1)
    # 141 GB of 160.
    for taken, fits in ((18e9, True), (20e9, False)):

        def needed(plans: Plans, taken: float = taken) -> memory.Memory:
            own = setup.memory(plans)
            return replace(own, weight_bytes=np.asarray(own.weight_bytes + taken))

        found = Search(setup, size, one, ContinuousLayouts(False), needed).fastest(1, np.inf)
        assert bool(np.isfinite(found.seconds[0])) is fits


# Speculation rounds: those of services, for every search

PROPOSALS = {
    "draft": Speculation.of("draft", 0.7, 4, model=catalog.model("qwen3_0_6b")),
    "mtp": Speculation.of("mtp", (0.9, 0.7, 0.5)),
    "eagle": Speculation.of("eagle", 0.6, 3, weights="bf16"),
    "ngram": Speculation.of("ngram", (0.5, 0.2)),
}
PLACEMENTS = ("serving.draft_placement=own_layout", "serving.draft_placement=attention_ranks")


@pytest.mark.parametrize("proposer", sorted(PROPOSALS))
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("preset", ["profiles/hopper", "deployable", "paper"])
def test_a_frontier_has_the_rounds_and_the_memory_of_services(preset: str, placement: str, proposer: str) -> None:
    """For a fixed layout, the frontier's time per token and largest batch equal those of services."""
    speculation = PROPOSALS[proposer]
    setup = _question("deepseek_v3", "h200_sxm", 2250.0, preset, (placement, "capacity.draft=true"))
    pins = Pins(tp=4, dp=4, pp=1, ep=16) if setup.assumptions.layout.attention_groups != "idle" else Pins(tp=16, ep=16)
    size, layouts = np.array([16.0]), WholeLayouts(pipeline=False, pins=pins)
    plan = Plans(size, size, np.ones(1), np.array([float(pins.tp or 0)]), np.array([16.0]), whole=True)
    slots = float(slots_of(setup, plan, speculation)[0])
    assert 16 < slots < float(slots_of(setup, plan)[0]) or proposer == "ngram"
    batches = np.array([16.0, 64.0, 16.0 * (slots // 16.0)])
    for batch in batches:
        found = token_seconds(setup, size, np.array([batch]), layouts, speculation=speculation)
        best = rounds(setup, replace(plan, batch=np.array([batch])), speculation).best()
        assert found.seconds[0] == pytest.approx(best.seconds[0], rel=1e-12)
        assert found.drafted[0] == best.length[0]
    more = token_seconds(setup, size, batches[-1:] + 16.0, layouts, speculation=speculation)
    assert np.isinf(more.seconds[0])


@pytest.mark.parametrize("proposer", sorted(PROPOSALS))
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("preset", ["paper", "deployable"])
def test_rounds_are_searched_like_steps(preset: str, placement: str, proposer: str) -> None:
    """Try every layout of a grid, with valid bounds: no layout has a faster token."""
    speculation = PROPOSALS[proposer]
    setup = _question("deepseek_v3", "h200_sxm", 1000.0, preset, (placement,))
    layouts = WholeLayouts(pipeline=False)
    sizes, batches = np.array([8.0, 16.0, 32.0]), np.array([1.0, 32.0, 256.0])
    found = token_seconds(setup, sizes[:, None], batches[None, :], layouts, speculation=speculation)
    for row, size in enumerate(sizes):
        for column, batch in enumerate(batches):
            instance = Plans.of(np.array([size]), np.array([batch]), np.ones(1))
            plans = layouts.variants(setup.model, setup.assumptions, instance)
            needed = needed_memory(setup, plans, speculation)
            best = np.inf
            for cut in setup.assumptions.layout.tensor_layouts:
                seconds = rounds(setup, plans, speculation, cut=cut).best().seconds
                fits = np.broadcast_to(setup.reasons(plans, cut, needed) == memory.FITS, plans.shape)
                best = min(best, float(np.where(fits, seconds, np.inf).min()))
            assert found.seconds[row, column] == pytest.approx(best, rel=ROUNDING)
