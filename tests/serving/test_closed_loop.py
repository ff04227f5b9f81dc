"""The analytical closed loop compared with the same loop simulated step by step, over part of the benchmark's grid."""

from __future__ import annotations

import math
from functools import cache

import pytest

from benchmarks.closed_loop import SERVERS, Case, compared, service_of
from inference_econ.serving import Service

MODELS = {server[0]: server for server in SERVERS}


@cache
def _service(model: str, isl: int, osl: int) -> Service:
    return service_of(*MODELS[model], isl, osl)


def _case(model: str, isl: int, osl: int, clients: int, spread: float, *, prefill_first: bool = False) -> Case:
    return compared(_service(model, isl, osl), model, clients, spread, prefill_first=prefill_first)


@pytest.mark.parametrize("clients", [1, 8, 64])
@pytest.mark.parametrize(("isl", "osl"), [(1000, 1000), (8000, 1000)])
@pytest.mark.parametrize("model", MODELS)
def test_mixed_steps_of_unequal_requests_are_the_steady_state(model: str, isl: int, osl: int, clients: int) -> None:
    """Lengths like InferenceX's; up to 60% of the time, steps contain prompts."""
    case = _case(model, isl, osl, clients, 0.22)
    if case.prefill_share > 0.6:
        pytest.skip("prompts take most of the time: such loops are played")
    assert abs(math.log(case.tpot)) < 0.05
    # The analytical model waits for half a running step; a request that follows at the end of a step does not.
    assert abs(math.log(case.ttft)) < 0.4


def test_equal_requests_are_not() -> None:
    """Equal requests stay synchronous.

    The analytical model would give each of them single prompts, so it is not used for them.
    """
    case = _case("llama_3_8b", 8000, 1000, 64, 0.0, prefill_first=True)
    assert case.tpot > 1.1
    assert case.ttft < 0.5
