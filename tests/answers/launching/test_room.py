"""Memory as engines compute it at startup, compared with two published failures of servers."""

from __future__ import annotations

import math
import re

import pytest

from inference_econ.answers.launching import plan
from inference_econ.answers.launching.instance import InstanceLimits, captured, room
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space
from inference_econ.errors import InputError
from inference_econ.inputs import Requests
from inference_econ.serving import Service

VLLM = plan.engine("vllm")


def _service(model: str, ranks: int, isl: int, osl: int, weights: str, kv: str | None = None) -> Service:
    setup = Setup.of(model, "h100_sxm", weights=weights, kv=kv)
    requests = Requests(isl, osl)
    return offer(setup, requests, Space(Pins(tp=ranks, dp=1, pp=1), ranks)).service(0)


@pytest.fixture(scope="module")
def worker() -> Service:
    """Return a worker as in the published failure: Llama 3.1 70B in FP8 on one accelerator of 80 GB."""
    return _service("llama_3_70b", 1, 3000, 150, "fp8", "bf16")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [(131072, r"a request of 131072 tokens needs 42\.9 GB of cache on each NVIDIA H100"),
     (131073, r"Llama 3\.1 70B is made for at most 131072 tokens, got 131073")],
)  # fmt: skip
def test_requests_that_a_worker_cannot_hold_are_refused(worker: Service, tokens: int, message: str) -> None:
    # Four prefill workers with decode workers on eight GPUs, max_model_len 131072 (ai-dynamo/dynamo issue 10104): all
    # ran out of memory for the cache at start. 80 layers x 8 heads x 128 x 2 x 2 B x 131072 tokens are 42.9 GB.
    with pytest.raises(InputError, match=message):
        InstanceLimits.of(worker, VLLM, "both", tokens)


def test_the_refusal_names_the_longest_request_that_starts(worker: Service) -> None:
    with pytest.raises(InputError, match=r"--max-model-len \d+") as error:
        InstanceLimits.of(worker, VLLM, "both", 131072)
    (most,) = re.findall(r"at most (\d+) tokens fit", str(error.value))
    assert InstanceLimits.of(worker, VLLM, "both", int(most)).tokens == int(most)
    with pytest.raises(InputError):
        InstanceLimits.of(worker, VLLM, "both", int(most) + 16)


def test_by_default_the_limit_is_what_the_requests_need(worker: Service) -> None:
    limits = InstanceLimits.of(worker, VLLM, "both")
    assert limits.tokens == math.ceil(1.05 * 3150)
    assert limits.room.request < limits.room.cache


def test_the_cache_of_the_longest_request_is_that_of_a_published_failure() -> None:
    # SemiAnalysisAI/InferenceX issue 1587: Kimi K2.5 in INT4 on eight H100, 262,144 tokens. The 8.58 GiB of cache per
    # GPU exceed the free memory; each of the eight stores the full latent in eight bits.
    service = _service("kimi_k2_thinking", 8, 8000, 1000, "int4_g32", "fp8")
    needed = room(service, 262144, VLLM.launch.graph_bytes)
    assert needed.request / 2**30 == pytest.approx(8.58, abs=0.01)


def test_parts_add_up_to_what_may_be_filled(worker: Service) -> None:
    needed = room(worker, 3150, VLLM.launch.graph_bytes)
    assert needed.weights + needed.workspace + needed.cache == pytest.approx(needed.usable)
    assert needed.usable + needed.graphs <= needed.total
    assert needed.cache >= worker.slots * room(worker, 3000, VLLM.launch.graph_bytes).request


def test_graphs_that_need_more_than_the_head_room_take_it_from_the_cache(worker: Service) -> None:
    roomy, crowded = (room(worker, 3150, graph) for graph in (VLLM.launch.graph_bytes, 10e9))
    assert crowded.graphs == captured(worker.slots) * 10e9
    assert crowded.usable == pytest.approx(crowded.total - crowded.graphs)
    assert crowded.cache < roomy.cache
