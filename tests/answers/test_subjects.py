"""Which instances answers show, to be held against those that were measured."""

from __future__ import annotations

import pytest

import inference_econ as ie
from inference_econ.answers.subjects import under_load
from inference_econ.serving.load import loaded
from tests import asking

REQUESTS = ie.Requests.build({"isl": 1000, "osl": 200}, origin="test")


def test_services_under_load_are_told_apart_by_chip() -> None:
    (first, other) = (asking.offer("llama_3_8b", chip, REQUESTS).service(0) for chip in ("h100_sxm", "h200_sxm"))
    load, others = loaded(first, 2.0), loaded(other, 2.0)
    same = under_load([(first, load), (first, load)])
    assert len(same) == 1
    assert same[0].label == ""
    assert (same[0].accelerators, same[0].concurrency) == ([1.0, 1.0], [load.in_flight] * 2)
    assert (same[0].isl, same[0].osl, same[0].speculates) == (1000, 200, False)
    kinds = under_load([(first, load), (other, others)])
    assert [instances.label for instances in kinds] == ["NVIDIA H100 SXM5 80GB", "NVIDIA H200 SXM5 141GB"]


def test_a_frontier_shows_all_of_its_points_or_some() -> None:
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=1000, osl=200), max_accelerators=2)
    (instances,) = front.subjects()
    assert instances.accelerators == front.accelerators.tolist()
    assert instances.concurrency == front.batch.tolist()
    (preferred,) = front.subjects([front.preferred()])
    assert (len(preferred.accelerators), preferred.isl, preferred.osl) == (1, 1000, 200)


def test_a_prefill_step_is_about_all_tokens_that_it_leaves_in_the_cache() -> None:
    (read,) = asking.explain("llama_3_8b", "h100_sxm", tp=1, batch=2, context=100, prompt=900).subjects()
    assert (read.isl, read.accelerators, read.concurrency) == (1000, [1.0], [2.0])
    (step,) = asking.explain("llama_3_8b", "h100_sxm", tp=1, context=100).subjects()
    assert step.isl is None
    assert step.subject.context == pytest.approx(100)
