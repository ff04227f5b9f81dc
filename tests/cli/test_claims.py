"""The command that holds claims of publications against our numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import Command, record


def test_one_claim_in_every_form(command: Command) -> None:
    (claim,) = record(command, "claims", "tokens_per_round")["claims"]
    assert claim["published"] == {"value": 4.0, "at_least": None, "at_most": None}
    assert (claim["paper"], claim["today"]) == (pytest.approx(3.3616), pytest.approx(3.68928))
    assert (claim["paper_holds"], claim["today_holds"], claim["verdict"]) == (False, False, "does not hold")
    (row,) = csv.DictReader(command("claims", "tokens_per_round", "--csv").out.splitlines())
    assert (row["id"], row["published_value"], row["published_at_least"]) == ("tokens_per_round", "4.0", "")
    text = command("claims", "tokens_per_round").out
    assert "tokens_per_round  4 tokens   3.362 tokens  3.689 tokens  does not hold" in text
    assert "(1 - 0.8^6)" not in text
    page = command("claims", "tokens_per_round", "--format", "markdown").out
    assert page.startswith("# Claims beside our numbers\n\nWritten by `inference-econ claims --format markdown")
    assert "- `tokens_per_round`: The chapter's own formula, (1 - 0.8^6) / 0.2, is 3.69" in page


def test_all_of_a_publication(command: Command) -> None:
    found = record(command, "claims", "seeds/claims_note")["claims"]
    assert {claim["seed"] for claim in found} == {"LLM inference optimizations (note)"}
    assert found[-1]["id"] == "precision_and_batch"
    text = command("claims", "seeds/claims_note").out
    assert "8 claims: 5 hold, 2 do not hold, 1 holds only under today." in text
    assert record(command, "run", "seeds/claims_note")["claims"] == found


def test_those_that_do_not_hold(command: Command, refused: Command) -> None:
    claims = record(command, "claims", "seeds/claims_note")["claims"]
    unmet = record(command, "claims", "seeds/claims_note", "--unmet")["claims"]
    assert unmet == [claim for claim in claims if claim["verdict"] != "holds"]
    assert len(unmet) == 3
    holding = next(claim["id"] for claim in claims if claim["verdict"] == "holds")
    said = refused("claims", holding, "--unmet").warned
    assert "--unmet: every claim holds (1 of them); ask without it" in said


def test_a_file_of_ones_own(command: Command) -> None:
    Path("mine.yaml").write_text(
        "name: Mine\n"
        "ask:\n"
        "  kind: claims\n"
        "  seed: A paper\n"
        "  paper: {settings: {assumptions: paper}}\n"
        "  today: {}\n"
        "  claims:\n"
        "    - {id: cache, claim: A token takes 128 kB., where: page 1, published: {value: '131072'}, unit: B,\n"
        "       tolerance: 0, measure: {kind: value, of: {kind: attention, read: token_cache_bytes,\n"
        "       settings: {model: llama_3_8b, hardware: h100_sxm}}}}\n"
        "sources: {ask: {ref: user, where: me, kind: assumed}}\n",
        encoding="utf-8",
    )
    assert "cache  131.1 kB   131.1 kB  131.1 kB  holds" in command("claims", "mine.yaml").out
