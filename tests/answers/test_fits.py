"""Fit of a model on a chip: the capacity check agrees with trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

import inference_econ as ie
from inference_econ.answers.fits import fits
from inference_econ.errors import NothingFitsError
from inference_econ.report.questions.fits import FitsPage

REQUESTS = ie.Requests(isl=2000, osl=500)


def _setup(model: str = "llama_3_70b", chip: str = "h100_sxm") -> ie.Setup:
    return ie.Setup.of(model, chip)


def test_slots_are_those_of_a_service() -> None:
    setup = ie.Setup.of("llama_3_70b", "h100_sxm", engine="vllm")
    found = fits(setup, REQUESTS)
    assert [fit.service.accelerators for fit in found.instances] == [2, 4, 8]
    offered = ie.layouts(setup, REQUESTS, ie.Space(max_accelerators=8))
    for fit in found.instances:
        assert fit.service.slots == max(
            offered.service(index).slots
            for index in range(len(offered))
            if offered.service(index).accelerators == fit.service.accelerators
        )


def test_the_longest_request_fits_and_a_longer_one_does_not() -> None:
    (pair, *_) = fits(_setup(), REQUESTS).instances
    longest = pair.largest_context
    pinned = ie.Space(ie.Pins(tp=2))
    assert 30_000 < longest < 40_000
    # A single request of that length has one output token and no spread.
    at = fits(_setup(), ie.Requests(isl=longest - 1, osl=1), pinned)
    assert at.instances[0].service.slots == 1
    with pytest.raises(NothingFitsError):
        fits(_setup(), ie.Requests(isl=longest + 200, osl=1), pinned)


def test_cached_tokens_are_slots_times_their_length() -> None:
    for fit in fits(_setup("llama_3_8b"), REQUESTS).instances:
        assert fit.cached_tokens / REQUESTS.mean_context == pytest.approx(fit.service.slots, rel=0.03)


@pytest.mark.rows
def test_full_blocks_of_the_cache_hold_the_longest_request(
    model: str, chip: str, gpus: int, engine: str, slot_tokens: float
) -> None:
    """The capacity counts full blocks, and slots have the output that the engine reserves."""
    found = fits(ie.Setup.of(model, chip, engine=engine), REQUESTS, ie.Space(max_accelerators=gpus))
    fit = next(fit for fit in found.instances if fit.service.accelerators == gpus)
    assert fit.cached_tokens >= fit.largest_context
    assert fit.slot_tokens == slot_tokens
    assert fit.cached_tokens / slot_tokens == pytest.approx(fit.service.slots, rel=0.03)
    (table,) = FitsPage(found).tables()
    assert f"A request takes {slot_tokens:,.0f} ({engine}) tokens" in table.why[0]


def test_a_chip_without_a_price_is_asked_all_the_same() -> None:
    setup = replace(_setup("llama_3_8b"), price=None)
    assert fits(setup, REQUESTS).instances[0].service.accelerators == 1


@pytest.mark.rows
def test_what_does_not_fit_is_said(isl: int, concurrency: int, message: str) -> None:
    with pytest.raises(NothingFitsError, match=message):
        fits(_setup(), ie.Requests(isl=isl, osl=500), concurrency=concurrency)


def test_each_engine_is_asked_where_none_is_named() -> None:
    found = fits(_setup(), REQUESTS)
    for record, fit in zip(found.records(), found.instances, strict=True):
        engine = record["layout"]["engine"]
        named = fits(ie.Setup.of("llama_3_70b", "h100_sxm", engine=engine), REQUESTS)
        assert fit.service.slots in [other.service.slots for other in named.instances]
    assert {record["layout"]["engine"] for record in found.records()} == {"trtllm", "vllm"}
