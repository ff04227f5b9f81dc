"""Frontiers against two brute-force searches: the engine without bounds, and the naive one of the benchmarks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import naive
from benchmarks import run as benchmark
from inference_econ.engine import ContinuousLayouts, InstanceGrid, Layouts, Setup, Speculation, WholeLayouts
from inference_econ.formulas import pareto
from inference_econ.inputs import catalog
from inference_econ.search import compute
from inference_econ.search.fastest import token_seconds
from tests import asking

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
    theirs = naive.token_seconds(
        benchmark.naive_model(setup),
        benchmark.naive_chip(setup),
        sizes,
        batches,
        0.0,
        pipeline=True,
        draft=benchmark.naive_model(helper),
        draft_chip=benchmark.naive_chip(helper),
        acceptance=0.7,
        longest=4,
    )
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
