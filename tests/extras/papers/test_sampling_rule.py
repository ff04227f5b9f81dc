"""The check of the accept/reject rule: its statistics against scipy, a wrong rule, and the scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from inference_econ.errors import InputError
from inference_econ.extras.papers import sampling_rule
from inference_econ.extras.papers.study_kinds import SamplingRuleAsk
from inference_econ.formulas import speculation as formulas
from inference_econ.formulas.speculation import Rounds
from inference_econ.inputs import Scenario
from inference_econ.report.questions.scenario import cell_table
from inference_econ.studies.scenario import run


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 49, 500])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0, 1.4, 5.0])
def test_the_tail_is_that_of_chi_square(degrees: int, share: float) -> None:
    expected = stats.chi2.sf(share * degrees, degrees)
    assert sampling_rule.ChiSquareFit(100, share * degrees, degrees).p_value == pytest.approx(
        expected, rel=1e-9, abs=1e-250
    )


def test_ends_of_the_tail() -> None:
    assert sampling_rule.ChiSquareFit(10, 0.0, 0).p_value == 1.0
    assert sampling_rule.ChiSquareFit(10, float("inf"), 3).p_value == 0.0


@pytest.mark.parametrize(("vocabulary", "length", "seed"), [(2, 1, 0), (20, 4, 1), (300, 8, 2)])
def test_tokens_have_the_targets_distribution_and_the_formulas_number(vocabulary: int, length: int, seed: int) -> None:
    target, draft = sampling_rule.random_distributions(vocabulary, length, seed)
    found = sampling_rule.check(target, draft, length, rounds=60_000, seed=seed)
    assert found.fit.p_value > 0.01
    assert found.tokens.agrees(found.expected_tokens)
    assert len(found.fits) == length + 1
    assert found.fits[0].tokens == 60_000
    assert sum(one.tokens for one in found.fits) == pytest.approx(60_000 * found.tokens.value)
    for formula, drawn in zip(found.acceptance, found.accepted, strict=True):
        assert abs(drawn.value - formula) < 2 * drawn.half_width
    np.testing.assert_allclose(found.acceptance, formulas.acceptance_probability(target[:-1], draft))


def test_equal_seeds_give_equal_numbers_however_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    one, two = (sampling_rule.check(target, draft, 3, rounds=5000, seed=7) for _ in range(2))
    assert one.fit.statistic == two.fit.statistic
    assert one.tokens == two.tokens
    monkeypatch.setattr(sampling_rule, "_AT_ONCE", 3000)
    parts = sampling_rule.check(target, draft, 3, rounds=5000, seed=7)
    assert parts.fits[0].tokens == 5000
    assert parts.tokens.agrees(parts.expected_tokens, slack=0.01)


def test_a_wrong_rule_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that redraws from the target, and not from its remainder after the draft, favors tokens likely in both."""
    right = formulas.speculative_sample

    def wrong(target: Any, draft: Any, length: int, random: np.random.Generator, rounds: int = 1) -> Rounds:
        drawn = right(target, draft, length, random, rounds)
        rejected = drawn.produced <= length
        again = random.choice(3, size=rounds, p=target)
        tokens = drawn.tokens.copy()
        tokens[rejected, drawn.produced[rejected] - 1] = again[rejected]
        return Rounds(tokens, drawn.produced)

    monkeypatch.setattr(formulas, "speculative_sample", wrong)
    assert sampling_rule.check([0.6, 0.3, 0.1], [0.2, 0.3, 0.5], 3, rounds=20_000).fit.p_value < 1e-9


def test_a_token_of_no_probability_refutes_at_once() -> None:
    fit = sampling_rule._fit(np.array([10, 5, 1]), np.array([0.7, 0.3, 0.0]))
    assert fit.p_value == 0.0


def test_rare_tokens_share_a_cell() -> None:
    chances = np.array([0.9, 0.098, 0.001, 0.001])
    fit = sampling_rule._fit(np.array([900, 98, 2, 0]), chances)
    assert fit.degrees == 2
    assert fit.statistic == pytest.approx(0.0)


def test_certain_and_impossible_proposals() -> None:
    same = sampling_rule.check([0.5, 0.5], [0.5, 0.5], 4, rounds=1000)
    assert same.tokens.value == same.expected_tokens == 5.0
    never = sampling_rule.check([1.0, 0.0], [0.0, 1.0], 2, rounds=1000)
    assert never.tokens.value == never.expected_tokens == 1.0
    assert never.fits[1].tokens == 0
    assert never.fit.p_value == 1.0
    assert np.isnan(never.accepted[1].value)
    single = sampling_rule.check([0.5, 0.5], [0.5, 0.5], 1, rounds=1)
    assert np.isnan(single.tokens.half_width)


def test_a_scenario_draws_the_distributions_that_it_has() -> None:
    ask = SamplingRuleAsk(kind="sampling_rule", target=(0.6, 0.4), draft=(0.3, 0.7), draft_length=2)
    (table,) = sampling_rule.compare_sampling_rule(ask).tables
    assert table.title == "Speculative sampling: vocabulary of 2, 2 draft tokens, 1,000,000 rounds"
    assert [row.names for row in table.rows] == [(1,), (2,), (3,), ("all",)]
    assert table.rows[0].values[4] == "0.7000"
    assert table.notes[0].startswith("EXACT: 2,190,000 sampled tokens follow the distribution of the target model")
    assert f"By the formula, a round gives {1 + 0.7 + 0.49:.5f} tokens" in table.notes[1]
    assert table.notes[1].endswith("is inside the interval of the simulation.")


def test_the_shipped_scenario_finds_the_rule_exact() -> None:
    (table,) = run("seeds/speculative_sampling").tables
    assert table.notes[0].startswith("EXACT")
    with pytest.raises(InputError, match="target and draft are given together"):
        Scenario.build({"name": "x", "ask": {"kind": "sampling_rule", "target": [0.5, 0.5]}}, origin="x")


def test_positions_that_no_round_reached_are_said_to_be_so() -> None:
    ask = SamplingRuleAsk(kind="sampling_rule", rounds=1000, draft_length=64, vocabulary=3, seed=8)
    lines = cell_table(sampling_rule.compare_sampling_rule(ask).tables[0]).rows
    assert "not reached" in lines[-3] and "nan" not in str(lines)


def test_another_distribution_is_not_exact() -> None:
    drawn = sampling_rule.check([0.5, 0.5], [0.5, 0.5], 1, rounds=1000)
    odd = replace(drawn, fits=(sampling_rule.ChiSquareFit(1000, 50.0, 1), *drawn.fits[1:]))
    assert drawn.exact and not odd.exact
    assert sampling_rule.table_of(odd).notes[0].startswith("NOT EXACT: ")


@pytest.mark.rows
def test_distributions_and_numbers_that_cannot_be(arguments: list[object], message: str) -> None:
    target, draft, length, *rest = arguments
    named = dict(zip(("rounds", "seed"), rest, strict=False))
    with pytest.raises(InputError, match=message):
        sampling_rule.check(target, draft, length, **named)  # type: ignore[arg-type]
