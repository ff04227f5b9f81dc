"""Frontiers against every pair of their grid, one by one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from inference_econ.engine import InstanceGrid, Setup, memory, paper_grid, whole_grid
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Precision, catalog
from inference_econ.search import Sampling, compute

Array = npt.NDArray[np.float64]

PRICE = 2.1


def _question(
    model: str, weights: str | None = None, context: float = 0.0, preset: str = "paper", chip: str = "paper/h100"
) -> Setup:
    spec, assumed = catalog.model(model), catalog.assumptions(preset)
    return Setup(
        spec,
        catalog.hardware(chip),
        Precision.of(spec, weights, embeddings=assumed.capacity.embedding_format),
        context,
        assumed,
    )


def _grid(setup: Setup, *, whole: bool, pipeline: bool) -> InstanceGrid:
    smallest = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
    if whole:
        return whole_grid(smallest, pipeline=pipeline, largest=32, largest_batch=512)
    return paper_grid(smallest, 4.0, pipeline=pipeline, points=41)


@pytest.mark.parametrize("factor", [0.5, 10.0])
def test_dollars_are_linear_in_the_price_and_nothing_else_changes(factor: float) -> None:
    setup = _question("paper/llama_3_70b", "int8")
    grid = _grid(setup, whole=False, pipeline=False)
    one, other = compute(replace(setup, price=PRICE), grid), compute(replace(setup, price=factor * PRICE), grid)
    assert other.dollars == pytest.approx(factor * one.dollars, rel=1e-12)
    assert other.seconds.tolist() == one.seconds.tolist()


def test_sampling_keeps_a_part_of_the_exact_frontier() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    grid = _grid(setup, whole=False, pipeline=False)
    exact = compute(replace(setup, price=PRICE), grid)
    few = compute(replace(setup, price=PRICE), grid, sampling=Sampling(points=20, decades=1.0))
    assert 1 < len(few) <= 20 < len(exact)
    assert set(few.seconds) <= set(exact.seconds)
    assert few.seconds[-1] == exact.seconds[-1]
    assert (few.seconds <= 10 * few.seconds[-1]).all()


def test_points_describe_their_plan() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=False, pipeline=True))
    points = front.points()
    assert len(points) == len(front)
    for index, point in enumerate(points):
        assert point.tokens_per_second_per_user == pytest.approx(1 / front.seconds[index], rel=1e-12)
        assert sum(point.parts.values()) == pytest.approx(front.seconds[index], rel=1e-9)
        assert point.limited_by == max(point.parts, key=point.parts.__getitem__)
        # Never above the assumed shares of the peaks.
        assert 0 < point.mfu <= 0.7
        assert 0 < point.bandwidth_utilization <= 0.75 * (1 + 1e-12)
        stage, pp, tp = (float(point.layout[name]) for name in ("stage", "pp", "tp"))
        assert stage * pp == pytest.approx(point.accelerators, rel=1e-12)
        assert tp <= stage * (1 + 1e-12)
    assert front.fastest() == points[-1]
    assert front.cheapest() == points[0]
    rates = front.tokens_per_second**3 / front.dollars
    assert front.preferred() == points[int(np.argmax(rates))]
    assert front.preferred(exponent=0.0) == points[0]


def test_cheapest_at_a_speed() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=True, pipeline=False))
    speed = float(np.median(front.tokens_per_second))
    point = front.cheapest(tokens_per_second=speed)
    assert point.tokens_per_second_per_user >= speed
    assert point.dollars_per_million_output_tokens == front.dollars[front.tokens_per_second >= speed].min()
    message = f"no deployment reaches 1e\\+06 tokens/s per user; the fastest has {front.tokens_per_second[-1]:.1f}"
    with pytest.raises(InputError, match=message):
        front.cheapest(tokens_per_second=1e6)


def test_the_frame_has_a_row_per_point() -> None:
    setup = _question("paper/llama_3_70b", "int8")
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=True, pipeline=False))
    frame = front.to_frame()
    assert len(frame) == len(front)
    assert frame["tokens_per_second_per_user"].to_numpy() == pytest.approx(front.tokens_per_second, rel=1e-12)
    assert {"accelerators", "batch", "tp", "pp", "mfu", "limited_by", "weights_seconds"} <= set(frame.columns)


def test_utilisation_is_useful_arithmetic_over_the_theoretical_peak() -> None:
    # As in the study: [2 P_act + k_att l] b / (N C latency), at the rate of the weights.
    setup = _question("paper/llama_3_70b", "int8", context=1000.0)
    front = compute(replace(setup, price=PRICE), _grid(setup, whole=False, pipeline=False))
    flop = 2 * setup.model.active_parameters + 4 * 128 * 64 * 80 * 1000
    expected = flop * front.batch / (front.accelerators * 2e15 * front.seconds)
    assert front.mfu == pytest.approx(expected, rel=1e-12)


def test_nothing_fits_says_why_and_how_many_would_do() -> None:
    setup = _question("paper/llama_3_405b", context=1000.0)
    grid = whole_grid(1.0, pipeline=False, largest=4, largest_batch=8)
    with pytest.raises(NothingFitsError) as found:
        compute(replace(setup, price=PRICE), grid)
    message = str(found.value)
    assert message.startswith("nothing fits: ")
    for text in (
        r"on H100 \(constants of the study\), \d+ plans considered",
        r"weights exceed the memory: \d+",
        r"Weights need 820\.2 GB, a sequence of 1000 tokens 1\.03 GB, an accelerator has 80\.0 GB for them: "
        r"at least 11 accelerators are needed",
    ):
        assert re.search(text, message), message
    assert "inf" not in message


def test_an_impossible_demand_is_a_reason_of_its_own() -> None:
    setup = _question("paper/llama_3_8b")
    grid = whole_grid(1.0, pipeline=False, largest=2, largest_batch=8)
    with pytest.raises(NothingFitsError, match=r"more than 0\.01 tokens/s are produced: \d+"):
        compute(replace(setup, price=PRICE), grid, max_tokens_per_second=0.01)


def test_a_cap_on_the_instance_holds_even_if_nothing_fits_below_it() -> None:
    grid = whole_grid(100.0, pipeline=False, largest=8, largest_batch=8)
    assert (grid.accelerators <= 8).all()
    with pytest.raises(NothingFitsError, match="nothing fits"):
        compute(replace(_question("paper/gpt_4"), price=PRICE), grid)


@pytest.mark.parametrize("pipeline", [False, True])
def test_an_empty_grid_is_said_to_be_empty(pipeline: bool) -> None:
    setup = _question("paper/llama_3_70b")
    for whole in (False, True):
        grid = replace(_grid(setup, whole=whole, pipeline=pipeline), accelerators=np.empty(0))
        with pytest.raises(NothingFitsError, match="0 plans considered; the grid is empty"):
            compute(replace(setup, price=PRICE), grid)


def test_progress_reaches_the_end() -> None:
    setup = _question("paper/llama_3_8b")
    told: list[float] = []
    grid = _grid(setup, whole=True, pipeline=False)
    compute(replace(setup, price=PRICE), grid, progress=lambda share, _: told.append(share))
    assert told == sorted(told)
    assert told
    assert told[-1] == 1.0


def test_grids() -> None:
    grid = paper_grid(0.88, 28.0, pipeline=True)
    assert (grid.accelerators.size, grid.batch.size) == (400, 400)
    assert grid.accelerators[[0, -1]] == pytest.approx([0.88, 2**18], rel=1e-12)
    assert grid.batch[[0, -1]] == pytest.approx([1.0, 28 * 2**18], rel=1e-12)
    assert np.diff(np.log(grid.batch)) == pytest.approx(np.log(grid.batch[-1]) / 399, rel=1e-9)
    capped = paper_grid(0.88, 1.0, pipeline=True, largest=100.0)
    assert capped.accelerators.max() <= 100 < capped.accelerators.max() * 2**0.1
    whole = whole_grid(2.3, pipeline=False, largest=16)
    assert whole.accelerators.tolist() == [*range(3, 17)]
    assert (whole.batch % 1 == 0).all()
    assert whole.batch[[0, -1]].tolist() == [1, 65536]
    assert replace(whole, batch=whole.batch[:3]).pairs()[1].shape == (1, 3)
