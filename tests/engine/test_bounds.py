"""Intervals of measured values around predictions."""

from __future__ import annotations

import pytest

from inference_econ.engine import Instances, Setup, bounds


@pytest.mark.parametrize(("model", "chip"), [("deepseek_v3", "h200_sxm"), ("llama_3_70b", "a100_sxm_80")])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_request_is_no_surer_than_its_tokens(model: str, chip: str, engine: str) -> None:
    """All measured requests of SGLang on Hopper were shorter than predicted, and there are few of them."""
    instances = Instances(Setup.of(model, chip, engine=engine), [8.0], [64.0], 2000.0, 500.0)
    request, tpot = (bounds.around(instances, quantity) for quantity in ("request", "tpot"))
    assert tpot is not None
    if request is not None:
        assert request.low <= tpot.low < 1.0 < tpot.high <= request.high


def test_measured_rates_have_errors_of_their_own() -> None:
    """Some measurements of vLLM on Hopper have a rate, so its error differs from that of the time per token."""
    hopper = Instances(Setup.of("llama_3_70b", "h200_sxm", engine="vllm"), [8.0], [64.0], 2000.0, 500.0)
    rate, tpot = (bounds.around(hopper, quantity) for quantity in ("throughput", "tpot"))
    assert rate is not None and tpot is not None and rate.low != pytest.approx(1.0 / tpot.high)
