"""Steps that pictures are made of."""

from __future__ import annotations

import pytest

import inference_econ as ie
from tests import asking

STEPS = {
    "dense": lambda: asking.explain("llama_3_70b", "h100_sxm", tp=4, batch=64, weights="fp8"),
    "experts": lambda: asking.explain("deepseek_v3", "h200_sxm", tp=8, batch=64),
    "prefill": lambda: asking.explain("llama_3_70b", "h100_sxm", tp=4, weights="fp8", prompt=4000),
}


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> ie.Explanation:
    return STEPS[request.param]()
