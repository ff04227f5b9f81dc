"""The table of providers' offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Offer, catalog, known_offers, offers

LINE = {
    "provider": "Somebody",
    "model": "llama_3_70b",
    "model_as_written": "Llama 3 70B",
    "date": "2024-08-01",
    "tokens_per_second": "158",
    "ttft_seconds": "",
    "dollars_per_million_input_tokens": "0.9",
    "dollars_per_million_output_tokens": "0.9",
    "source": "erdil2025code",
    "where": "somewhere",
}


def _file(tmp_path: Path, **changes: str) -> Path:
    path, line = tmp_path / "offers.csv", LINE | changes
    path.write_text(f"{','.join(line)}\n{','.join(line.values())}\n", encoding="utf-8")
    return path


def test_an_offer_without_speed_or_model(tmp_path: Path) -> None:
    (offer,) = offers.read(_file(tmp_path, tokens_per_second="", model=""))
    assert (offer.tokens_per_second, offer.ttft_seconds, offer.model) == (None, None, "")
    (offer,) = offers.read(_file(tmp_path, provider="42"))
    assert (offer.provider, offer.tokens_per_second, offer.dollars_per_million_output_tokens) == ("42", 158, 0.9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens_per_second": "fast"}, r"offers\.csv:2: offers\.0\.tokens_per_second: .*got 'fast'"),
        ({"tokens_per_second": "-1"}, r"offers\.csv:2: offers\.0\.tokens_per_second must be > 0, got -1"),
        ({"dollars_per_million_output_tokens": "0"}, r"offers\.csv:2: .*_output_tokens must be > 0, got 0"),
        ({"dollars_per_million_input_tokens": ""}, r"offers\.csv:2: offers\.0\.dollars_.* is missing"),
        ({"date": "August"}, r"offers\.csv:2: offers\.0\.date: .*got 'August'"),
        ({"source": ""}, r"offers\.csv:2: offers\.0\.source is missing"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        offers.read(_file(tmp_path, **changes))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        offers.read(tmp_path / "none.csv")


def test_every_shipped_offer_names_a_model_and_a_reference() -> None:
    listed = known_offers()
    assert len(listed) == 242
    assert {offer.model for offer in listed} - {""} <= set(catalog.names("models"))
    assert {offer.source for offer in listed} <= set(catalog.references())


def test_what_the_study_drew() -> None:
    """Section 2.2.2 names Fireworks at 20 and 90 cents; the speeds stand in its code of August 2024."""
    drawn = [offer for offer in known_offers() if offer.source == "erdil2025code"]
    assert [_point(offer) for offer in drawn] == [("llama_3_70b", 158, 0.9), ("llama_3_8b", 374, 0.2)]
    assert {offer.provider for offer in drawn} == {"Fireworks"}


def _point(offer: Offer) -> tuple[str, float | None, float]:
    return offer.model, offer.tokens_per_second, offer.dollars_per_million_output_tokens
