"""``claims``: claims of publications compared with our numbers."""

from __future__ import annotations

from pathlib import Path

from tests.commands import Command, record


def test_those_that_do_not_hold(command: Command, refused: Command) -> None:
    claims = record(command, "paper", "claims", "seeds/claims_note")["claims"]
    unmet = record(command, "paper", "claims", "seeds/claims_note", "--unmet")["claims"]
    assert unmet == [claim for claim in claims if claim["verdict"] != "holds"]
    assert len(unmet) == 3
    holding = next(claim["id"] for claim in claims if claim["verdict"] == "holds")
    said = refused("paper", "claims", holding, "--unmet").warned
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
    assert "cache  131.1 kB   131.1 kB  131.1 kB  holds" in command("paper", "claims", "mine.yaml").out
