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
from inference_econ.formulas.speculation import acceptance_probability, best_draft_length
from tests import asking

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(text: str) -> Path:
        path = tmp_path / "log.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return writing


def test_rates_by_position(write: Write) -> None:
    ln = math.log
    found = speculate.read_acceptance(
        write(
            "position,draft_logprob,target_logprob,token\n"
            f"1,{ln(0.5)},{ln(0.25)},a\n1,{ln(0.5)},{ln(0.5)},b\n2,{ln(0.8)},{ln(0.2)},c\n"
        )
    )
    assert found.overall.rate == pytest.approx((0.5 + 1.0 + 0.25) / 3)
    assert [one.rate for one in found.by_position] == pytest.approx([0.75, 0.25])
    assert [one.tokens for one in found.by_position] == [2, 1]
    assert found.by_position[0].standard_error == pytest.approx(0.25)
    assert math.isnan(found.by_position[1].standard_error)
    assert found.expected_tokens(2).tolist() == pytest.approx([1.0, 1.75, 1.75 + 0.75 * 0.25])
    with pytest.raises(InputError, match="acceptance of positions 1 to 2 is known, a draft of 3 needs more"):
        found.expected_tokens(3)


def test_without_positions_all_are_alike(write: Write) -> None:
    found = speculate.read_acceptance(write("target_logprob, draft_logprob\n-1.0, -0.5\n-0.2,-0.2\n-inf,-1\n"))
    rate = (math.exp(-0.5) + 1.0 + 0.0) / 3
    assert found.overall.rate == pytest.approx(rate)
    assert found.by_position == ()
    assert found.expected_tokens(3).tolist() == pytest.approx(
        [1.0, 1 + rate, 1 + rate + rate**2, sum(rate**n for n in range(4))]
    )
    assert best_draft_length([1.0] * 4, 0.01, found.expected_tokens(3)).length == 3


def test_a_sample_recovers_the_acceptance_of_two_models(write: Write) -> None:
    """Within 3.3 standard errors, which a right estimate misses once in a thousand."""
    random = np.random.default_rng(5)
    target, draft = random.dirichlet(np.ones(50)), random.dirichlet(np.ones(50))
    drawn = random.choice(50, 20_000, p=draft)
    lines = "".join(f"{math.log(target[one])},{math.log(draft[one])}\n" for one in drawn)
    found = speculate.read_acceptance(write(f"target_logprob,draft_logprob\n{lines}")).overall
    truth = float(acceptance_probability(target, draft))
    assert abs(found.rate - truth) < 3.3 * found.standard_error
    assert 0.001 < found.standard_error < 0.004
    assert found.tokens == 20_000


@pytest.mark.rows
def test_files_that_cannot_be_used(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        speculate.read_acceptance(write(text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv: cannot be read: No such file or directory"):
        speculate.read_acceptance(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        speculate.read_acceptance(tmp_path)
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(InputError, match=r"picture\.csv: is no CSV file"):
        speculate.read_acceptance(tmp_path / "picture.csv")


def test_experts_lie_on_the_ranks_with_which_the_instance_completes_most() -> None:
    asked = ("mixtral_8x22b", "h100_sxm", ie.Requests.build({"isl": 1000, "osl": 200}, origin="here"))
    ngrams = Speculation.of("ngram", 0.7)
    chosen = asking.speculate(*asked, ngrams, tp=8).plain
    for ep in (1, 8):
        other = asking.speculate(*asked, ngrams, tp=8, ep=ep).plain
        assert chosen.most_requests_per_second >= other.most_requests_per_second * (1 - 1e-9)
