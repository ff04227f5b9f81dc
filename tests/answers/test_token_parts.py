"""What the time per output token of points on a frontier goes to."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.token_parts import PROMPTS, token_parts

SPACE = ie.Space(max_accelerators=8)


@pytest.mark.parametrize("assumptions", [None, "paper"])
def test_parts_add_up_to_the_time_per_token(assumptions: str | None) -> None:
    setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8", assumptions=assumptions)
    front = ie.frontier(setup, ie.Traffic(isl=1000, osl=200), SPACE, speculation=None)
    parts = token_parts(front)
    np.testing.assert_allclose(np.sum(list(parts.values()), axis=0), front.tpot_seconds, rtol=1e-9)
    assert all((part >= 0.0).all() for part in parts.values())


def test_with_one_request_in_flight_there_are_no_prompts_of_others() -> None:
    setup = ie.Setup.of("llama_3_8b", "h100_sxm")
    front = ie.frontier(setup, ie.Traffic(isl=1000, osl=200), SPACE, speculation=None, arrangement="together")
    alone = front.batch <= 1.0
    assert alone.any()
    assert not alone.all()
    prompts = token_parts(front)[PROMPTS]
    assert prompts[alone] == pytest.approx(0.0, abs=1e-12)
    assert (prompts[~alone] > 0.0).all()


def test_rounds_of_proposals_have_no_parts() -> None:
    setup, lengths = ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Traffic(isl=1000, osl=200)
    assert token_parts(ie.frontier(setup, lengths, SPACE, speculation=ie.Speculation.of("ngram", 0.5))) == {}
