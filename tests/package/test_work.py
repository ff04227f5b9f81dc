"""Work estimates before a run: rejected work, accepted work, and the option that allows it."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ import _work
from inference_econ.answers.load import sweep
from inference_econ.extras.papers import sampling_rule
from inference_econ.serving import services as rooms
from tests import asking, offered

ROUNDS = np.full(100, 0.01)


def test_ten_minutes_are_what_is_done_unasked() -> None:
    _work.check("40 layouts", seconds=599.0, smaller="max_accelerators")
    with pytest.raises(
        ie.TooMuchError, match=r"^50 layouts take about 10 minutes; reduce max_accelerators, or allow it: "
    ):
        _work.check("50 layouts", seconds=601.0, smaller="max_accelerators")


@pytest.mark.parametrize(("seconds", "said"), [(2e3, "33 minutes"), (9e3, "2 hours"), (1e7, "116 days")])
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    with pytest.raises(ie.InputError, match=f"take about {said};"):
        _work.check("this", seconds=seconds, smaller="it")


def test_what_a_block_allows_ends_with_it() -> None:
    with ie.allow(seconds=5000):
        _work.check("this", seconds=4000.0, smaller="it")
        with ie.allow():
            _work.check("this", seconds=1e9, smaller="it")
        with pytest.raises(ie.TooMuchError):
            _work.check("this", seconds=6000.0, smaller="it")
    with pytest.raises(ie.TooMuchError):
        _work.check("this", seconds=4000.0, smaller="it")
    with pytest.raises(ie.InputError, match="seconds: a positive time can be allowed, got 0"), ie.allow(0):
        pass


def test_who_waits_is_told_of_more_than_a_minute_and_may_stop_it() -> None:
    said: list[str] = []
    with _work.waited_for(said.append) as waiting:
        _work.check("9 layouts", seconds=59.0, smaller="it")
        _work.check("50 layouts", seconds=200.0, smaller="it")
        with pytest.raises(KeyboardInterrupt):
            _work.stop("")  # the folder is still empty
        _work.stop("3 of 50 layouts")
    assert (said, waiting.stopped) == (["50 layouts take about 3 minutes"], "3 of 50 layouts")
    with pytest.raises(KeyboardInterrupt):
        _work.stop("3 of 50 layouts")  # a program that calls wants its interrupt


def test_nothing_allows_more_memory_than_a_process_may_have() -> None:
    with (
        ie.allow(),
        pytest.raises(ie.TooMuchError, match=r"take about 2 GB of memory, and 1 GB is the most; reduce it$"),
    ):
        _work.check("this", seconds=0.0, size=2e9, smaller="it")


def test_python_is_told_which_parameter_makes_it_smaller() -> None:
    layouts = offered.offer_of()
    with (
        ie.allow(1e-3),
        pytest.raises(ie.TooMuchError, match=r"layouts with 72 batches each .* reduce max_accelerators"),
    ):
        asking.offer("llama_3_8b", "h100_sxm", layouts.requests, max_accelerators=4)
    with ie.allow(60), pytest.raises(ie.TooMuchError, match=r"10,000 loads of up to .* reduce requests_per_second"):
        sweep(layouts.service(0), [1.0] * 10_000)
    with (
        ie.allow(60),
        pytest.raises(ie.TooMuchError, match=r"500 loads of .* simulated requests each .* reduce requests_per_second"),
    ):
        sweep(layouts.service(0), [1.0] * 500, simulate=True)
    with ie.allow(60), pytest.raises(ie.TooMuchError, match=r"100,000,000 rounds over 100 tokens .* reduce rounds"):
        sampling_rule.check(ROUNDS, ROUNDS, 4, rounds=100_000_000)


def test_states_are_the_same_however_many_are_calculated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = asking.offer("mixtral_8x7b", "h100_sxm", offered.offer_of().requests, max_accelerators=8)
    assert len(layouts) > 3
    monkeypatch.setattr(rooms, "_TOGETHER", 3)
    again = asking.offer("mixtral_8x7b", "h100_sxm", layouts.requests, max_accelerators=8)
    for name in ("ttft_seconds", "tpot_seconds", "requests_per_second", "concurrency"):
        np.testing.assert_allclose(getattr(again.states, name), getattr(layouts.states, name), rtol=1e-12)
    np.testing.assert_allclose(again.states.prefill.seconds, layouts.states.prefill.seconds, rtol=1e-12)
    last = len(layouts) - 1
    assert again.service(last).prefill_seconds == pytest.approx(layouts.service(last).prefill_seconds, rel=1e-12)
    assert again.service(last).step_seconds(2.0) == pytest.approx(layouts.service(last).step_seconds(2.0), rel=1e-12)
