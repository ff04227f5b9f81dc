"""Frontiers and step times of the fastest layout in the Python API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers import layout_services
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog
from inference_econ.search import Sampling
from tests import asking

TRAFFIC = ie.Traffic(isl=2000, osl=500)


def _small(**changes: Any) -> ie.Frontier:
    settings: dict[str, Any] = {"model": "llama_3_8b", "hardware": "h100_sxm", "traffic": TRAFFIC}
    return asking.frontier(**{**settings, "max_accelerators": 8, **changes})


# best_step_seconds


def test_best_step_seconds_broadcasts_and_masks_what_does_not_fit() -> None:
    found = asking.best_step_seconds("paper/llama_3_70b", "paper/h100", [[1], [4], [8]], [1, 16], context=0)
    assert isinstance(found, np.ma.MaskedArray)
    assert found.shape == (3, 2)
    # 141 GB of weights against 80 GB.
    assert np.ma.getmaskarray(found).tolist() == [[True, True], [False, False], [False, False]]
    assert (found[1] > found[2]).all()
    assert (found[:, 0] < found[:, 1]).compressed().all()


def test_best_step_seconds_takes_scalars_fractions_and_nothing() -> None:
    def one(size: object, batch: object) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
        return asking.best_step_seconds("paper/llama_3_70b", "paper/h100", size, batch, context=0)

    assert one(8, 16).shape == ()
    assert one([], []).shape == (0,)
    assert one(np.empty((0, 3)), 1).shape == (0, 3)
    assert one([2.5], 3.5).shape == (1,)
    assert float(one(7.75, 16)) > float(one(8, 16))
    assert one(np.array([8], dtype=np.int8), np.array([16], dtype=np.uint16))[0] == float(one(8, 16))


@settings(max_examples=20, deadline=None)
@given(size=st.floats(2.5, 200.0), batch=st.floats(1.0, 1e4), tokens=st.integers(1, 6))
def test_a_batch_of_pairs_equals_its_pairs_one_by_one(size: float, batch: float, tokens: int) -> None:
    def best(sizes: object, batches: object, new_tokens: int, *, pipeline: bool = False) -> list[float | None]:
        found = asking.best_step_seconds(
            "paper/llama_3_70b", "paper/h100", sizes, batches, context=5, new_tokens=new_tokens, pipeline=pipeline
        )
        seconds = found.tolist()
        return seconds if isinstance(seconds, list) else [seconds]

    (alone,) = best(size, batch, tokens)
    first, second, third = best([size, 64.0, 1.0], [batch, 32.0, 1.0], tokens)
    assert first == alone is not None
    assert second is not None
    assert third is None
    # A pipeline is one more choice, and more tokens are more work.
    (with_pipeline,), (one_token,) = best(size, batch, tokens, pipeline=True), best(size, batch, 1)
    assert with_pipeline is not None
    assert with_pipeline <= alone
    assert one_token is not None
    assert one_token <= alone


@pytest.mark.rows
def test_best_step_seconds_refuses(changes: dict[str, object], message: str) -> None:
    given = {"model": "paper/llama_3_70b", "hardware": "paper/h100", "accelerators": 8, "batch": 16, "context": 0}
    with pytest.raises(InputError, match=message):
        asking.best_step_seconds(**{**given, **changes})


# frontier


def test_a_buyer_who_cares_more_takes_a_faster_one() -> None:
    front = _small()
    # A buyer without a preference for speed selects the cheapest; a stronger preference selects a faster one.
    assert front.preferred(exponent=0.0) == front.cheapest()
    speeds = [front.preferred(exponent).tokens_per_second_per_user for exponent in (0.5, 1, 2, 3, 5, 9)]
    assert speeds == sorted(speeds)
    best = front.preferred()
    worth = front.tokens_per_second**3 / front.dollars
    assert best.tokens_per_second_per_user == front.tokens_per_second[worth.argmax()]


def test_demand_caps_what_an_instance_sells() -> None:
    front = _small(traffic=ie.Traffic(isl=2000, osl=500, max_tokens_per_second=1000))
    assert (front.batch * front.tokens_per_second <= 1000 * (1 + 1e-12)).all()
    assert front.dollars[0] > _small().dollars[0]


def test_the_presets_follow_the_grid() -> None:
    assert _small().setup.assumptions == ie.assumptions("profiles/hopper").for_chip(ie.hardware("h100_sxm"))
    assert _small(hardware="tpu_v6e").setup.assumptions == ie.assumptions("deployable").for_chip(ie.hardware("tpu_v6e"))
    assert _small(grid="paper").setup.assumptions.name == "paper"
    assert _small(grid="paper", assumptions="ideal").setup.assumptions.name == "ideal"


def test_whole_instances_may_be_capped_between_two_whole_numbers() -> None:
    front = _small(model="llama_3_70b", max_accelerators=3.9)
    assert set(front.accelerators) <= {2.0, 3.0}
    assert len(_small(max_accelerators=float("inf"))) >= len(_small())


def test_a_draft_model_helps_or_is_left_out() -> None:
    speculation = ie.Speculation.of("draft", 0.8, 4, model=ie.model("llama_3_8b"))
    target = {"model": "llama_3_70b", "weights": "fp8"}
    without, with_draft = _small(**target), _small(**target, speculation=speculation)
    assert with_draft.tokens_per_second[-1] > 1.2 * without.tokens_per_second[-1]
    fastest = with_draft.fastest()
    assert 1 <= float(fastest.layout["draft_tokens"]) <= 4
    assert fastest.parts["draft"] > 0
    hopeless = _small(**target, speculation=replace(speculation, acceptance=(0.0,)))
    # The draft's weights need memory in any case.
    assert hopeless.tokens_per_second[-1] == pytest.approx(without.tokens_per_second[-1], rel=1e-12)


@pytest.mark.rows
def test_frontier_refuses(changes: dict[str, Any], message: str) -> None:
    if "sampling" in changes:
        changes = {"sampling": Sampling(*changes["sampling"])}
    with pytest.raises((InputError, NothingFitsError), match=message):
        _small(**changes)


def test_a_model_that_no_grid_holds() -> None:
    small = ie.hardware("h100_sxm").replace(hbm_bytes=1e6)
    message = r"at least \d{6} accelerators of 0\.0009 usable GB .* at most 262144 are allow"
    with pytest.raises(NothingFitsError, match=message):
        _small(model="llama_3_405b", hardware=small, max_accelerators=None)


@pytest.mark.rows
def test_the_studys_grid_ends_at_2_to_the_18_chips_and_as_many_sequences_per_expert(
    model: str, preset: str, sparsity: int
) -> None:
    grid = layout_services.make_grid(
        asking.setup(model, "h200_sxm", assumptions=preset), ie.Space(grid="paper", pipeline=False)
    )
    assert grid.accelerators.size == grid.batch.size == 400
    assert grid.accelerators[-1] == 2.0**18
    assert grid.batch[[0, -1]] == pytest.approx([1.0, 2.0**18 * sparsity], rel=1e-12)


@pytest.mark.parametrize("share", [0.4, 0.75, 0.95])
def test_bandwidth_utilisation_counts_bytes_whatever_share_of_the_bandwidth_each_kind_gets(share: float) -> None:
    opinions = catalog.assumptions("deployable", changes=(f"attention.kv_hbm_efficiency={share}",))
    front = asking.frontier(
        "llama_3_8b", "h100_sxm", ie.Traffic(context=2000), assumptions=opinions, tp=1, dp=1, pp=1, batch=64
    )
    (point,) = front.points()
    model, chip = ie.model("llama_3_8b"), ie.hardware("h100_sxm")
    # All weights but the input embedding and the norms, and 64 caches.
    matrices = model.total_parameters - model.parameter_parts()["norms"] - model.vocab_size * model.hidden_size
    read = 2.0 * (matrices + 64 * 2000 * model.kv_elements_per_token)
    seconds = 1.0 / point.tokens_per_second_per_user
    assert point.bandwidth_utilization == pytest.approx(read / seconds / chip.hbm_bytes_per_second, rel=1e-9)


@pytest.mark.parametrize(("chip", "most"), [("h200_sxm", 64), ("gb200_nvl72", 72)])
def test_deepseek_v3_is_preferred_as_its_operators_lay_it_out(chip: str, most: int) -> None:
    front = asking.frontier("deepseek_v3", chip, ie.Traffic(isl=2000, osl=500), max_accelerators=most)
    layout = front.preferred(exponent=3).layout
    tp, dp, pp, ep, stage = (float(layout[name]) for name in ("tp", "dp", "pp", "ep", "stage"))
    assert ep == tp * dp == stage >= 32
    assert pp == 1
    # Experts are spread over all chips of a stage, or over none if the stage is small.
    spread = [point.layout["ep"] in (1, point.layout["stage"]) for point in front.points()]
    assert sum(spread) > 0.9 * len(spread)
