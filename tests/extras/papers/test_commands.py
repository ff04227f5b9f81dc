"""``claims``: claims of publications compared with our numbers."""

from __future__ import annotations

from tests.commands import Command, record


def test_those_that_do_not_hold(command: Command, refused: Command) -> None:
    claims = record(command, "paper", "claims", "seeds/claims_note")["claims"]
    unmet = record(command, "paper", "claims", "seeds/claims_note", "--unmet")["claims"]
    assert unmet == [claim for claim in claims if claim["verdict"] != "holds"]
    assert len(unmet) == 3
    holding = next(claim["id"] for claim in claims if claim["verdict"] == "holds")
    said = refused("paper", "claims", holding, "--unmet").warned
    assert "--unmet: every claim holds (1 of them); ask without it" in said
