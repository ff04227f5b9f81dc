from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.extras.sweeps.combinations import Combinations, answered, answers
from inference_econ.extras.sweeps.scenario_kinds import Cheapest, SweepAsk
from inference_econ.extras.sweeps.stored import Sweep
from inference_econ.inputs import Settings
from inference_econ.studies.settings import frontier_of
from tests.extras.sweeps.studies import COMMON, study
from tests.reading import present


def _swept(axes: dict[str, Any] | None = None, /, **further: Any) -> ie.Sweep:
    spec = study(axes, **further)
    assert isinstance(spec.ask, SweepAsk)
    combinations = Combinations(spec.ask)
    return Sweep(spec, [part.content for _, part in answers(combinations, range(combinations.parts))])


@pytest.fixture(scope="module")
def swept() -> ie.Sweep:
    return _swept()


def test_rows_are_the_points_of_each_frontier(swept: ie.Sweep) -> None:
    frame = swept.to_frame()
    chosen = frame[(frame.model == "llama_3_8b") & (frame.hardware == "h100_sxm") & (frame.traffic == "documents")]
    front = frontier_of(Settings(model="llama_3_8b", hardware="h100_sxm", isl=4000, osl=200, price=3.99, **COMMON))
    expected = front.to_frame()
    for name in ("tokens_per_second_per_user", "dollars_per_million_output_tokens_high", "ttft_seconds", "tp", "batch"):
        np.testing.assert_array_equal(chosen[name], expected[name])
    assert list(chosen.point) == list(range(len(front)))
    assert set(chosen.engines) == set(expected.engine)
    price, formats = set(chosen.dollars_per_accelerator_hour), set(chosen.kv)
    assert (price, formats, set(chosen.isl), set(chosen.osl)) == ({3.99}, set(expected.kv), {4000.0}, {200.0})


def test_failures_have_their_reason_and_nothing_is_lost(swept: ie.Sweep) -> None:
    failures = swept.failures()
    assert len(failures) == 6
    reasons = dict(zip(zip(failures.model, failures.hardware, strict=True), failures.reason, strict=True))
    assert reasons["llama_3_70b", "l4"].startswith("nothing fits: the weights of Llama 3.1 70B (fp8) alone need")
    assert "Gaudi 3 (HL-325L) lists no price" in reasons["llama_3_8b", "gaudi3"]
    assert list(swept.every_row().combination.unique()) == list(range(12))


def test_failures_that_are_not_listed_leave_no_row() -> None:
    left = _swept({"model": ["llama_3_70b"], "hardware": ["l4", "gaudi3"]}, unlisted=["nothing_fits"])
    assert list(left.failures().hardware) == ["gaudi3"]


def test_decode_steps_alone_are_rows_too() -> None:
    common = {"max_instance_gpus": 1, "decode_only": True, "context": 1000}
    frame = _swept({"model": ["llama_3_8b"], "hardware": ["l4"]}, common=common).to_frame()
    assert frame.ttft_seconds.isna().all() and frame.mfu.notna().all()
    assert set(frame.context) == {1000.0}


def test_numbers_are_numbers_and_axes_keep_their_names() -> None:
    axes = {"hardware.hbm_bytes_per_second": [3.35e12, 6.7e12], "tp": [1], "price": ["on_demand"]}
    frame = _swept(axes, common={"model": "llama_3_8b", "hardware": "h100_sxm"}).to_frame()
    assert set(frame["hardware.hbm_bytes_per_second"]) == {3.35e12, 6.7e12}
    assert (set(frame.asked_tp), set(frame.tp), set(frame.price)) == ({1.0}, {1.0}, {"on_demand"})


def test_the_cheapest_is_that_of_all_rows(swept: ie.Sweep) -> None:
    shown = swept.summary()
    assert (shown.rows, shown.among, shown.where) == ("model", "hardware", {"traffic": "chat"})
    assert (shown.combinations, shown.frontiers, shown.failures, shown.missing) == (12, 6, 6, 0)
    assert shown.points == len(swept.to_frame())
    frame = swept.to_frame().query("traffic == 'chat'")
    for best in shown.best:
        fast = frame[(frame.model == best.row) & (frame.tokens_per_second_per_user >= best.speed)]
        cheapest = fast.sort_values("dollars_per_million_output_tokens").iloc[0]
        assert best.among == cheapest["hardware"] and best.dollars <= cheapest["dollars_per_million_output_tokens"]
    reached = frame.groupby("model").tokens_per_second_per_user.max()
    assert len(shown.best) == sum(speed <= fastest for fastest in reached for speed in shown.speeds)


def test_costs_at_speeds_between_batches_are_those_of_the_frontier(swept: ie.Sweep) -> None:
    speeds = (20.0, 30.0, 40.0, 50.0, 70.0, 100.0, 130.0, 150.0)
    points = swept.to_frame().query("traffic == 'chat' and model == 'llama_3_8b' and hardware == 'h100_sxm'")
    best = [each for each in swept.summary(Cheapest(speeds=speeds)).best if each.row == "llama_3_8b"]
    assert [each.among for each in best] == ["h100_sxm"] * len(speeds)
    front = frontier_of(Settings(model="llama_3_8b", hardware="h100_sxm", isl=500, osl=200, price=3.99, **COMMON))
    assert isinstance(front, ie.ServiceFrontier)
    nearer = 0
    for each in best:
        exact = present(front.at_speed(each.speed)).dollars
        faster = points[points.tokens_per_second_per_user >= each.speed].dollars_per_million_output_tokens.min()
        # No cheaper than the interpolated curve, and no more expensive than the next stored batch.
        assert exact * (1.0 - 1e-9) <= each.dollars <= faster
        if each.dollars < faster:
            nearer += 1
            assert each.dollars == pytest.approx(exact)
            assert each.point["tokens_per_second_per_user"] == pytest.approx(each.speed)
    assert nearer >= 5


def test_other_rows_and_other_choices_can_be_shown(swept: ie.Sweep) -> None:
    shown = swept.summary(Cheapest(rows="hardware", among="weights", speeds=(5,), where={"traffic": "documents"}))
    assert shown.names == ("l4", "h100_sxm", "gaudi3")
    assert {best.row for best in shown.best} == {"l4", "h100_sxm"}
    with pytest.raises(
        InputError, match="cheapest: 'chip' is not a column of the sweep; columns: combination, traffic"
    ):
        swept.summary(Cheapest(rows="chip"))


def test_other_facts_of_a_worker_are_refused() -> None:
    ask = study().ask
    with pytest.raises(InputError, match="a worker has other facts than this process"):
        answered(pickle.dumps(ask), 0, "others")


def test_an_axis_may_have_any_name() -> None:
    odd = 'traffic"; --'
    axes = {odd: {"chat": {"isl": 500, "osl": 200}}, "model": ["llama_3_8b"], "hardware": ["l4"]}
    shown = _swept(axes).summary()
    assert shown.where == {odd: "chat"} and shown.frontiers == 1
