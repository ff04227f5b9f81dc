"""Acceptance rates from files of log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers import speculate
from inference_econ.engine import Speculation
from inference_econ.errors import InputError
from inference_econ.formulas.speculation import acceptance_from_log_probabilities, acceptance_probability
from tests import asking

Write = Callable[[str], str]


def test_without_positions_all_are_alike(write: Write) -> None:
    found = speculate.measured_acceptance(
        Path(write("target_logprob, draft_logprob\n-1.0, -0.5\n-0.2,-0.2\n-inf,-1\n")), None
    )
    assert found == pytest.approx((math.exp(-0.5) + 1.0 + 0.0) / 3)


def test_a_sample_recovers_the_acceptance_of_two_models() -> None:
    """Within 3.3 standard errors, which a correct estimate misses once in a thousand."""
    random = np.random.default_rng(5)
    target, draft = random.dirichlet(np.ones(50)), random.dirichlet(np.ones(50))
    drawn = random.choice(50, 20_000, p=draft)
    found = acceptance_from_log_probabilities(np.log(target[drawn]), np.log(draft[drawn]))
    assert abs(found.rate - float(acceptance_probability(target, draft))) < 3.3 * found.standard_error
    assert 0.001 < found.standard_error < 0.004
    assert found.tokens == 20_000


@pytest.mark.rows
def test_files_that_cannot_be_used(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        speculate.measured_acceptance(Path(write(text)), None)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(InputError, match=r"picture\.csv: is not a CSV file"):
        speculate.measured_acceptance(tmp_path / "picture.csv", None)


def test_experts_lie_on_the_ranks_with_which_the_instance_completes_most() -> None:
    asked = ("mixtral_8x22b", "h100_sxm", ie.Requests(1000, 200))
    ngrams = Speculation.of("ngram", 0.7)
    chosen = asking.speculate(*asked, ngrams, tp=8).plain
    for ep in (1, 8):
        other = asking.speculate(*asked, ngrams, tp=8, ep=ep).plain
        assert chosen.most_requests_per_second >= other.most_requests_per_second * (1 - 1e-9)
