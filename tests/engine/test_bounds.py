"""Where measured values probably lie around predictions."""

from __future__ import annotations

import pytest

from inference_econ.engine import Instances, Setup, bounds


@pytest.mark.parametrize(("model", "chip"), [("deepseek_v3", "h200_sxm"), ("llama_3_70b", "a100_sxm_80")])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_request_is_no_surer_than_its_tokens(model: str, chip: str, engine: str) -> None:
    """The few requests that were measured of SGLang on Hopper were all shorter than predicted."""
    instances = Instances(Setup.of(model, chip, engine=engine), [8.0], [64.0], 2000.0, 500.0)
    request, tpot = (bounds.around(instances, quantity) for quantity in ("request", "tpot"))
    assert tpot is not None
    if request is not None:
        assert request.low <= tpot.low < 1.0 < tpot.high <= request.high


def test_a_rate_that_was_measured_nowhere_is_off_as_the_time_per_token_is() -> None:
    """No rows of SGLang on Blackwell have a rate; of vLLM on Hopper some do, and speak for themselves."""
    blackwell = Instances(Setup.of("deepseek_v3", "b200", engine="sglang"), [8.0], [64.0], 2000.0, 500.0)
    rate, tpot = (bounds.around(blackwell, quantity) for quantity in ("throughput", "tpot"))
    assert rate is not None and tpot is not None
    assert (rate.low, rate.high) == pytest.approx((1.0 / tpot.high, 1.0 / tpot.low))
    assert bounds.ends(blackwell, bounds.FULL)["dollars_per_million_output_tokens"] == pytest.approx(tuple(tpot))
    hopper = Instances(Setup.of("llama_3_70b", "h200_sxm", engine="vllm"), [8.0], [64.0], 2000.0, 500.0)
    rate, tpot = (bounds.around(hopper, quantity) for quantity in ("throughput", "tpot"))
    assert rate is not None and tpot is not None and rate.low != pytest.approx(1.0 / tpot.high)
