"""Acceptance rates of draft tokens: shipped values, look-up, and required content of a file."""

from __future__ import annotations

import itertools
import re
import statistics
from pathlib import Path

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import ProposerName, _yaml, catalog
from inference_econ.inputs.models.acceptance import SpeculationFacts
from tests.reading import present, tables

FILE: str = tables(Path(__file__))["FILE"]


def _facts(old: str = "", new: str = "", added: str = "") -> SpeculationFacts:
    assert old in FILE
    return SpeculationFacts.from_document(_yaml.parse(FILE.replace(old, new, 1) + added, "mine.yaml"))


def test_every_shipped_fact_names_models_and_chips_that_exist() -> None:
    facts = catalog.speculation_facts()
    assert {name for entry in facts.exposed for name in entry.hardware} <= set(catalog.names("hardware"))
    named = [entry.models for entry in facts.acceptance] + [entry.models for entry in facts.usual]
    assert {model for models in named for model in models} <= set(catalog.names("models"))


def test_more_proposals_give_about_as_many_tokens_or_more() -> None:
    for entry in catalog.speculation_facts().acceptance:
        tokens = [entry.tokens[length] for length in sorted(entry.tokens)]
        # With 80 prompts each, lengths that add nothing are within 6% of each other.
        assert all(more > 0.94 * fewer for fewer, more in itertools.pairwise(tokens)), entry.checkpoint


def test_acceptance_on_random_tokens_of_one_and_two_proposals_follows_from_that_of_three() -> None:
    facts = catalog.speculation_facts()
    text, random = (present(facts.lengths("deepseek_v3", "MTP", prompts)) for prompts in ("text", "random"))
    share = (2.50 - 1.0) / (text.tokens[3] - 1.0)
    for length in (1, 2, 3):
        assert random.tokens[length] == pytest.approx(1.0 + share * (text.tokens[length] - 1.0), abs=0.005)


def test_the_other_kind_of_prompts_stands_in() -> None:
    facts = _facts()
    for prompts in ("text", "random"):
        found = present(facts.lengths("deepseek_v3", "MTP", prompts))
        assert found.tokens == {1: 1.9, 3: 2.8}
    assert facts.lengths("deepseek_v3", "EAGLE3", "text") is None
    assert facts.lengths("glm_5", "MTP", "text") is None


@pytest.mark.rows
def test_mistakes_in_the_file_are_told(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _facts(old, new)


def _gains(method: str, checkpoints: list[str], drafts: int) -> float:
    """Return the accepted tokens that a draft length adds to a round: the mean of published values by name prefix."""
    entries = [
        entry.tokens[drafts] - 1.0
        for entry in catalog.speculation_facts().acceptance
        # For prompts of random tokens, only the value for three draft tokens is published, not derived.
        if entry.method == method and entry.checkpoint.startswith(tuple(checkpoints)) and drafts in entry.tokens
        if entry.prompts == "text" or drafts == 3
    ]
    return statistics.fmean(entries)


def _usual_gains(proposer: ProposerName, model: str) -> list[float]:
    rates = catalog.usual_acceptance(proposer, catalog.model(model)).acceptance
    return [float(expected_tokens_by_position(rates[:drafts])) - 1.0 for drafts in range(1, len(rates) + 1)]


@pytest.mark.rows
def test_what_is_usual_is_the_mean_of_what_is_published(
    proposer: ProposerName, model: str, method: str, groups: list[list[str]]
) -> None:
    for drafts, gain in enumerate(_usual_gains(proposer, model), start=1):
        published = [_gains(method, checkpoints, drafts) for checkpoints in groups]
        assert gain == pytest.approx(statistics.fmean(published), abs=0.025), drafts


def test_deepseek_s_rounds_give_what_lmsys_measured() -> None:
    """LMSYS, 17 July 2025: 2.18 tokens per round with 2 draft tokens, 2.44 with 3 (windows of 3 and 4 tokens)."""
    gains = _usual_gains("mtp", "deepseek_v3")
    assert [1.0 + gain for gain in gains[1:3]] == pytest.approx([2.18, 2.44], rel=0.15)
    assert gains[0] == pytest.approx(0.875, abs=0.03), "DeepSeek-V3, section 5.4.3: 85 to 90 %"


def test_draft_models_and_n_grams_are_as_measured() -> None:
    draft = catalog.usual_acceptance("draft", None)
    assert set(draft.acceptance) == {round(statistics.fmean((0.71, 0.71, 0.75, 0.74)), 2)}
    # 5,376 tokens in 993 rounds with a draft and 821 without.
    assert _usual_gains("ngram", "llama_3_8b")[-1] == pytest.approx(5376 / (993 + 821) - 1.0, abs=0.02)


def test_acceptance_falls_with_the_position_but_where_texts_repeat() -> None:
    for entry in catalog.speculation_facts().usual:
        if entry.proposer != "ngram":
            assert all(later <= earlier + 0.015 for earlier, later in itertools.pairwise(entry.acceptance))


USUAL: str = tables(Path(__file__))["USUAL"]


@pytest.mark.rows
def test_usual_acceptance_that_cannot_be_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        _facts(added=USUAL.replace(old, new))


def test_a_usual_acceptance_is_given_once() -> None:
    entry = USUAL.partition("\n")[2]
    with pytest.raises(SpecError, match="the usual acceptance of mtp for deepseek_v3 is given twice"):
        _facts(added=USUAL + entry)


def test_what_nobody_published_is_said() -> None:
    facts = _facts(added=USUAL)
    assert facts.usually("mtp", lambda names: "deepseek_v3" in names).longest == 2
    with pytest.raises(InputError, match="nothing is published of how often mtp is accepted; give --acceptance"):
        facts.usually("mtp", lambda names: "glm_4_5" in names)
