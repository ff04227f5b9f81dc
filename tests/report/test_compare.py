"""Costs at speeds that series are compared at, with where measured ones probably lie."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.report.compare import comparison_record


def test_a_cost_at_a_speed_has_the_ends_of_its_point() -> None:
    """Points of a frontier are of several engines, whose errors differ; beyond the fastest there is no cost."""
    result = ie.compare("llama_3_8b", "h100_sxm", isl=1000, osl=200, max_instance_gpus=2, speculate=False)
    front = result.curves[0].frontier
    assert isinstance(front, ServiceFrontier)
    speeds = [float(front.tokens_per_second[index]) for index in (0, len(front) // 2, len(front) - 1)]
    record = comparison_record(result, [*speeds, 1e6])
    (*costs, none) = record["series"][0]["costs"]  # type: ignore[index]
    for speed, cost in zip(speeds, costs, strict=True):
        index = int(np.argmin(np.abs(front.tokens_per_second - speed)))
        low, high = front.ends_at(index)["dollars_per_million_output_tokens"]
        assert cost["dollars"] == pytest.approx(front.dollars[index])
        assert (cost["dollars_low"], cost["dollars_high"]) == pytest.approx(
            (low * cost["dollars"], high * cost["dollars"])
        )
    assert [none[name] for name in ("dollars", "dollars_low", "dollars_high")] == [None, None, None]
