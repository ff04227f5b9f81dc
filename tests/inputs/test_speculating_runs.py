"""Facts of servers that speculate: what is shipped, what is looked up, and what a file must say."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from inference_econ.errors import SpecError
from inference_econ.inputs import _yaml, catalog
from inference_econ.inputs.speculating_runs import SpeculationFacts

FILE = """\
acceptance:
  - models: [deepseek_v3]
    checkpoint: DeepSeek-R1
    method: MTP
    prompts: text
    text: MT-Bench
    tokens: {1: 1.9, 3: 2.8}
    source: {ref: nobody, where: nowhere, kind: measured}
runs:
  - model: deepseek_v3
    hardware: b200
    engine: trtllm
    versions: [1.2.0]
    method: MTP
    speculating:
      - {isl: 1024, osl: 1024, tp: 8, concurrency: [4, 64], drafts: 3}
    plain:
      - {isl: 1024, osl: 1024, tp: 8, ep: 8, concurrency: [4, 64]}
    source: {ref: nobody, where: nowhere, kind: published}
"""


def _facts(tmp_path: Path, old: str = "", new: str = "") -> SpeculationFacts:
    assert old in FILE
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    return SpeculationFacts.from_document(_yaml.read(path))


def test_every_shipped_fact_names_models_chips_and_references_that_exist() -> None:
    facts, references = catalog.speculation_facts(), catalog.references()
    models, chips = catalog.names("models"), catalog.names("hardware")
    cited = {entry.source.ref for entry in facts.acceptance} | {entry.source.ref for entry in facts.drafts}
    cited |= {runs.source.ref for runs in facts.runs}
    assert cited <= set(references)
    assert {model for entry in facts.drafts for model in entry.models} <= set(models)
    assert {chip for entry in facts.drafts for chip in entry.hardware} <= set(chips)
    assert {model for entry in facts.acceptance for model in entry.models} <= set(models)
    assert {runs.model for runs in facts.runs} <= set(models)
    assert {runs.hardware for runs in facts.runs} <= set(chips)


def test_more_proposals_give_about_as_many_tokens_or_more() -> None:
    for entry in catalog.speculation_facts().acceptance:
        tokens = [entry.tokens[length] for length in sorted(entry.tokens)]
        assert all(more > fewer - 0.05 for fewer, more in itertools.pairwise(tokens)), entry.checkpoint


def test_acceptance_on_random_tokens_of_one_and_two_proposals_follows_from_that_of_three() -> None:
    facts = catalog.speculation_facts()
    text, random = (facts.lengths("deepseek_v3", "MTP", prompts) for prompts in ("text", "random"))
    assert text is not None
    assert random is not None
    share = (2.50 - 1.0) / (text.tokens[3] - 1.0)
    for length in (1, 2, 3):
        assert random.tokens[length] == pytest.approx(1.0 + share * (text.tokens[length] - 1.0), abs=0.005)


def test_draft_lengths_follow_the_engine_the_chip_and_the_attention() -> None:
    facts = catalog.speculation_facts()
    asked = [("trtllm", "b200", False), ("trtllm", "b200", True), ("sglang", "b200", True), ("sglang", "mi355x", False)]
    lengths = [
        facts.draft_length("deepseek_v3", engine, chip, "MTP", attention_dp=apart) for engine, chip, apart in asked
    ]
    assert lengths == [3, 1, 2, 3]
    assert facts.draft_length("deepseek_v3", "vllm", "b200", "MTP", attention_dp=False) is None
    assert facts.draft_length("deepseek_v3", "trtllm", "b200", "EAGLE3", attention_dp=False) is None


def test_the_other_kind_of_prompts_stands_in(tmp_path: Path) -> None:
    facts = _facts(tmp_path)
    for prompts in ("text", "random"):
        found = facts.lengths("deepseek_v3", "MTP", prompts)
        assert found is not None
        assert found.tokens == {1: 1.9, 3: 2.8}
    assert facts.lengths("deepseek_v3", "EAGLE3", "text") is None
    assert facts.lengths("glm_5", "MTP", "text") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3: 2.8", "3: 4.2", r"mine\.yaml:2: .*a round with 3 proposals gives from 1 to 4 tokens, got 4\.2"),
        ("1: 1.9", "1: 0.9", "a round with 1 proposals gives from 1 to 2 tokens, got 0.9"),
        ("1: 1.9", "0: 1.0", r"mine\.yaml:7: acceptance\.0\.tokens\.0"),
        (
            "method: MTP",
            "method: Medusa",
            r"mine\.yaml:4: acceptance\.0\.method: got 'Medusa'; allowed: 'MTP', 'EAGLE3' or 'DSpark'",
        ),
        (
            "drafts: 3",
            "draft: 3",
            r"mine\.yaml:16: unknown key 'runs\.0\.speculating\.0\.draft'; did you mean 'drafts'",
        ),
        (", drafts: 3", "", "drafts are given for every point under speculating, and for none under plain"),
        ("ep: 8", "ep: 8, drafts: 1", "drafts are given for every point under speculating, and for none under pl"),
        ("[4, 64], drafts", "[64, 4], drafts", r"concurrency goes from the fewest to the most .*, got \[64, 4\]"),
        (
            "[deepseek_v3]",
            "[deepseek_v3, deepseek_v3]",
            "acceptance of deepseek_v3 with MTP on text prompts is given tw",
        ),
        ("    source: {ref: nobody, where: nowhere, kind: measured}\n", "", "acceptance.0.source"),
    ],
)
def test_mistakes_in_the_file_are_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _facts(tmp_path, old, new)
