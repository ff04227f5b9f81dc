"""Costs at speeds that series are compared at, with where measured ones probably lie."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier


def test_a_cost_at_a_speed_has_the_ends_of_a_frontier_that_errors_move() -> None:
    """Both speed and cost are off, by the errors of whose point it is; beyond the fastest there is no cost or end."""
    result = ie.compare("llama_3_8b", "h100_sxm", isl=1000, osl=200, max_instance_gpus=2, speculate=False)
    front = result.curves[0].frontier
    assert isinstance(front, ServiceFrontier)
    speeds = [float(front.tokens_per_second[index]) for index in (0, len(front) // 2, len(front) - 1)]
    record = result.record([*speeds, 1e6])
    (*costs, none) = record["series"][0]["costs"]
    for speed, cost in zip(speeds, costs, strict=True):
        index = int(np.argmin(np.abs(front.tokens_per_second - speed)))
        assert cost["dollars"] == pytest.approx(front.dollars[index])
        ends = front.ends_at(index)
        slow, fast = (float(end) for end in ends["tokens_per_second_per_user"] if end is not None)
        cheap, dear = (float(end) for end in ends["dollars_per_million_output_tokens"] if end is not None)
        good, bad = (front.at_speed(speed / factor) for factor in (fast, slow))
        assert good is not None
        assert cost["dollars_low"] == pytest.approx(cheap * good.dollars)
        assert cost["dollars_high"] == (None if bad is None else pytest.approx(dear * bad.dollars))
    assert [cost["dollars_high"] is None for cost in costs] == [False, False, True]
    assert [none[name] for name in ("dollars", "dollars_low", "dollars_high")] == [None, None, None]
