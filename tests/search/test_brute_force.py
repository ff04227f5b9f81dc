"""Searches against brute force: with and without bounds, on large grids, and by a second program."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import naive
from benchmarks import run as benchmark
from inference_econ.engine import (
    ContinuousLayouts,
    InstanceGrid,
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
from inference_econ.formulas import pareto
from inference_econ.inputs import catalog
from inference_econ.inputs.presets.assumptions import GROUPS, field_names
from inference_econ.search import Frontier, _search, compute
from inference_econ.search import _search as _bounds
from inference_econ.search._search import Search
from inference_econ.search.fastest import fastest, token_seconds
from inference_econ.serving import slots_of
from tests import asking
from tests.planned import setup_of

# Frontiers against two brute-force searches: the engine without bounds, and the naive one of the benchmarks.

Array = npt.NDArray[np.float64]

PRICE = 2.1
#: Equal sums in another order.
TOLERANCE = 1e-9
MODELS = ["paper/llama_3_70b", "paper/mixtral_8x22b", "paper/deepseek_v3"]  # dense, experts, experts with MLA


@cache
def _question(model: str, *, whole: bool, context: float = 0.0, weights: str = "int8") -> Setup:
    return asking.setup(model, "paper/h100", context, assumptions="deployable" if whole else "paper", weights=weights)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), model=st.sampled_from(MODELS), whole=st.booleans(), pipeline=st.booleans())
def test_the_frontier_is_what_trying_everything_leaves(
    data: st.DataObject, model: str, whole: bool, pipeline: bool
) -> None:
    layouts: Layouts = WholeLayouts(pipeline) if whole else ContinuousLayouts(pipeline)
    sizes: list[float]
    batches: list[float]
    if whole:
        sizes = data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 24.0, 32.0]), unique=True))
        batches = data.draw(st.lists(st.integers(2, 4096).map(float), max_size=25, unique=True))
    else:
        sizes = data.draw(st.lists(st.floats(0.5, 300.0), max_size=25, unique=True))
        batches = data.draw(st.lists(st.floats(1.5, 3e5), max_size=25, unique=True))
    context = data.draw(st.sampled_from([0.0, 1500.0]))
    setup = _question(model, whole=whole, context=context)
    # Sixteen chips can run any of the models.
    grid = InstanceGrid(np.array(sorted([*sizes, 16.0])), np.array([1.0, *sorted(batches)]), layouts)
    speculation = None
    if data.draw(st.booleans()):
        helper = catalog.model("paper/llama_3_8b")
        speculation = Speculation.of(
            "draft", data.draw(st.floats(0.3, 1.0)), data.draw(st.integers(1, 6)), model=helper
        )
    demand = data.draw(st.sampled_from([None, 3000.0]))

    size, batch = grid.pairs()
    seconds = token_seconds(setup, size, batch, layouts, speculation=speculation).seconds
    allowed = np.isfinite(seconds)
    if demand is not None:
        allowed &= batch / seconds <= demand
    size, batch = (np.broadcast_to(axis, seconds.shape)[allowed] for axis in (size, batch))
    seconds = seconds[allowed]
    dollars = size * seconds / batch * PRICE / 3600 * 1e6
    best = pareto.undominated(seconds, dollars)[::-1]

    front = compute(replace(setup, price=PRICE), grid, speculation=speculation, max_tokens_per_second=demand)
    # Costs that are equal except for rounding may retain either of two points, so the test compares curves and not
    # plans.
    assert front.seconds[-1] == pytest.approx(seconds.min(), rel=1e-12)
    assert front.dollars[0] == pytest.approx(dollars.min(), rel=1e-12)
    for one_seconds, one_dollars in zip(seconds[best], dollars[best], strict=True):
        hair = 1.0 + 1e-12
        assert (front.dollars[front.seconds <= one_seconds * hair] <= one_dollars * hair).any()
    # No plan of the grid is both faster and cheaper than a point of the frontier.
    for one_seconds, one_dollars in zip(front.seconds, front.dollars, strict=True):
        assert not ((seconds < one_seconds * (1 - 1e-12)) & (dollars < one_dollars * (1 - 1e-12))).any()
    assert (np.diff(front.seconds) < 0).all()
    assert (np.diff(front.dollars) > 0).all()
    assert front.dollars == pytest.approx(front.accelerators * front.seconds / front.batch * PRICE / 3600 * 1e6)
    if demand is not None:
        assert (front.batch * front.tokens_per_second <= demand * (1 + 1e-12)).all()


def _random_instances(seed: int, count: int = 400) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return 2.0 ** random.uniform(-1, 12, count), 2.0 ** random.uniform(0, 16, count)


@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize(("model", "context"), [(model, context) for model in MODELS for context in (0.0, 20000.0)])
def test_steps_equal_a_second_program(model: str, context: float, tokens: int, pipeline: bool) -> None:
    sizes, batches = _random_instances(seed=len(model) + tokens)
    setup = _question(model, whole=False, context=context)
    llm, chip = benchmark.naive_model(setup), benchmark.naive_chip(setup)
    theirs = naive.step_seconds(llm, chip, sizes, batches, context, tokens, pipeline=pipeline)
    ours = asking.best_step_seconds(
        model, "paper/h100", sizes, batches, context=context, new_tokens=tokens, weights="int8", pipeline=pipeline
    )
    assert (np.ma.getmaskarray(ours) == np.isinf(theirs)).all()
    possible = np.isfinite(theirs)
    assert possible.any()
    assert not possible.all()
    np.testing.assert_allclose(ours.data[possible], theirs[possible], rtol=TOLERANCE)


@pytest.mark.parametrize("model", MODELS)
def test_speculation_equals_a_second_program(model: str) -> None:
    sizes, batches = _random_instances(seed=7, count=200)
    setup, helper = _question(model, whole=False), _question("paper/llama_3_8b", whole=False, weights="bf16")
    llm, chip = benchmark.naive_model(setup), benchmark.naive_chip(setup)
    draft: dict[str, Any] = {"draft": benchmark.naive_model(helper), "draft_chip": benchmark.naive_chip(helper)}
    theirs = naive.token_seconds(llm, chip, sizes, batches, 0.0, pipeline=True, acceptance=0.7, longest=4, **draft)
    speculation = Speculation.of("draft", 0.7, 4, model=helper.model)
    found = token_seconds(setup, sizes, batches, ContinuousLayouts(pipeline=True), speculation=speculation)
    np.testing.assert_allclose(found.seconds, theirs, rtol=TOLERANCE)
    # Both outcomes are among them: speculation helps some instances and not others.
    assert set(np.unique(found.drafted[np.isfinite(theirs)])) > {0}


@pytest.mark.parametrize("case", benchmark.CASES, ids=lambda case: case.name)
def test_the_benchmark_compares_equal_frontiers(case: benchmark.Case) -> None:
    grid = benchmark.grid_of(case, 30)
    speeds, dollars = benchmark.naive_frontier(case, grid)
    assert speeds.size > 5
    assert benchmark.difference(benchmark.our_frontier(case, grid), speeds, dollars) <= TOLERANCE


def test_the_second_program_knows_the_models_by_their_published_size() -> None:
    for name in MODELS:
        setup = _question(name, whole=False)
        assert benchmark.naive_model(setup).parameters == pytest.approx(catalog.model(name).total_parameters, rel=1e-9)


# A search with valid bounds finds the same frontier as brute force.

#: Dense, experts, experts with latent attention; shared experts and another number of heads.
BOUNDED = ("paper/llama_3_70b", "paper/mixtral_8x22b", "deepseek_v2", "gpt_oss_20b")
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
    annotation = get_type_hints(GROUPS[group])[field]
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
def _bounded(model: str, changes: tuple[str, ...], context: float = 2000.0) -> Setup:
    # Few depths, for speed.
    return setup_of(model, "h100_sxm", context, "layout.pipeline_steps=2", *changes, preset="paper", weights="fp8")


def _frontier(setup: Setup, layouts: Layouts, speculation: Speculation | None) -> Frontier:
    sizes, batches = np.array([4.0, 8.0, 30.0, 200.0]), np.array([1.0, 6.0, 50.0, 600.0, 3000.0])
    return compute(replace(setup, price=2.0), InstanceGrid(sizes, batches, layouts), speculation=speculation)


def _check_bounds(setup: Setup, layouts: Layouts, speculation: Speculation | None = None) -> None:
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
        _check_bounds(_bounded(model, (change,)), ContinuousLayouts(pipeline=True))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(BOUNDED),
    changes=st.lists(st.sampled_from(CHANGES), max_size=8, unique_by=lambda change: change.partition("=")[0]),
    layouts=st.sampled_from([ContinuousLayouts(True), ContinuousLayouts(False), WholeLayouts(True)]),
    speculation=st.sampled_from(SPECULATIONS),
    context=st.sampled_from([0.0, 30_000.0]),
)
def test_bounds_hold_under_values_of_several_fields(
    model: str, changes: list[str], layouts: Layouts, speculation: Speculation | None, context: float
) -> None:
    _check_bounds(_bounded(model, tuple(changes), context), layouts, speculation)


def test_bounds_hold_for_the_published_study_and_not_for_servers() -> None:
    holding = {name for name in catalog.names("assumptions") if _bounds.hold(catalog.assumptions(name))}
    assert holding == {"paper", "paper_may22", "paper_text"}


@pytest.mark.rows
def test_each_condition_is_one(change: str) -> None:
    assert not _bounds.hold(catalog.assumptions("paper", changes=[change]))


# The search by bounds against brute force on a grid that is large enough for its table.

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12


LAYOUTS = (ContinuousLayouts(False), ContinuousLayouts(True), WholeLayouts(False), WholeLayouts(True))
#: Requirements of bounds: attention of a stage in one group, and collectives with known times.
_TOGETHER = (
    "layout.attention_groups=idle", "layout.kv_placement=spread",
    "experts.all_to_all_traffic=as_all_reduce", "experts.replicated_tokens=exchanged",
    "experts.redundant=null", "network.link_domains=whole", "network.two_batch_overlap=never",
)  # fmt: skip


def _setting(model: str, chip: str, context: float, preset: str, changes: tuple[str, ...] = ()) -> Setup:
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
    setup = _setting(model, chip, context, preset, changes)
    smallest = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
    sizes = np.geomspace(min(smallest, 1.0), 4096.0 * max(smallest, 1.0), 45)
    _check(setup, sizes, np.geomspace(1.0, 2.0**18, 50), ContinuousLayouts(pipeline=True), new_tokens, tabled=True)


def test_a_large_grid_of_whole_layouts() -> None:
    # Groups with separate caches have no tabulated bound.
    setup = _setting("llama_3_8b", "h100_sxm", 1000.0, "deployable", _TOGETHER)
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
    setup = _setting(model, chip, context, preset)
    _check(setup, np.array(sizes), np.array(batches), layouts, new_tokens, tabled=False)


def test_the_chosen_plan_takes_the_time_that_was_found() -> None:
    setup = _setting("paper/deepseek_v3", "paper/h100", 0.0, "paper")
    sizes, batches = (axis.ravel() for axis in np.meshgrid([16.0, 40.0, 300.0], [1.0, 100.0, 5000.0]))
    for layouts in (ContinuousLayouts(pipeline=True), WholeLayouts(pipeline=True)):
        found = fastest(setup, sizes, batches, layouts)
        assert np.isfinite(found.seconds).any()
        for index, (cut, seconds) in enumerate(zip(found.cut, found.seconds, strict=True)):
            if np.isfinite(seconds):
                plan = found.plans.row(index)
                assert step_seconds(setup, plan)[cut][0] == pytest.approx(seconds, rel=ROUNDING)


def test_less_memory_for_the_model_where_some_is_taken() -> None:
    setup = _setting("paper/llama_3_70b", "paper/h100", 0.0, "paper")
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
    setup = _setting("deepseek_v3", "h200_sxm", 2250.0, preset, (placement, "capacity.draft=true"))
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
    setup = _setting("deepseek_v3", "h200_sxm", 1000.0, preset, (placement,))
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
