"""The table of providers' offers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import Offer, catalog, known_offers, offers
from inference_econ.inputs import offers as offer_snapshots
from tests.reading import tables

LINE: dict[str, str] = tables(Path(__file__))["LINE"]


def _file(tmp_path: Path, **changes: str) -> Path:
    path, line = tmp_path / "offers.csv", LINE | changes
    path.write_text(f"{','.join(line)}\n{','.join(line.values())}\n", encoding="utf-8")
    return path


def test_an_offer_without_speed_or_model(tmp_path: Path) -> None:
    (offer,) = offers.read_offers(_file(tmp_path, tokens_per_second="", model=""))
    assert (offer.tokens_per_second, offer.ttft_seconds, offer.model) == (None, None, "")
    (offer,) = offers.read_offers(_file(tmp_path, provider="42"))
    assert (offer.provider, offer.tokens_per_second, offer.dollars_per_million_output_tokens) == ("42", 158, 0.9)


@pytest.mark.rows
def test_mistakes_name_their_line(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        offers.read_offers(_file(tmp_path, **changes))


def test_every_shipped_offer_names_a_model_and_a_reference() -> None:
    listed = known_offers()
    assert len(listed) == 490
    assert max(offer.date for offer in listed) == "2026-10-10"
    assert {offer.model for offer in listed} - {""} <= set(catalog.names("models"))
    assert {offer.source for offer in listed} <= set(catalog.references())


def test_what_the_study_drew() -> None:
    """Section 2.2.2 names Fireworks at 20 and 90 cents; the speeds are in its code of August 2024."""
    drawn = [offer for offer in known_offers() if offer.source == "erdil2025code"]
    assert [_point(offer) for offer in drawn] == [("llama_3_70b", 158, 0.9), ("llama_3_8b", 374, 0.2)]
    assert {offer.provider for offer in drawn} == {"Fireworks"}


def _point(offer: Offer) -> tuple[str, float | None, float]:
    return offer.model, offer.tokens_per_second, offer.dollars_per_million_output_tokens


#: The form of https://models.dev/api.json, as the README of anomalyco/models.dev describes it.
MODELS_DEV: dict[str, Any] = tables(Path(__file__))["MODELS_DEV"]
TABLE = """provider,model,hours,input,cached_input,output,date
own,deepseek-v3.2,off-peak,0.14,0.003,0.28,
own,deepseek-v3.2,peak,0.28,0.006,0.56,2026-11-21
"""


def _taken(tmp_path: Path, name: str, text: str) -> tuple[Offer, ...]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return offer_snapshots.read_snapshot(tmp_path / name, "2026-11-20")


def test_a_snapshot_of_models_dev(tmp_path: Path) -> None:
    first, second = _taken(tmp_path, "api.json", json.dumps(MODELS_DEV))
    assert (first.provider, first.model, first.date) == ("deepseek", "deepseek_v3_2", "2026-11-20")
    assert (first.dollars_per_million_cached_input_tokens, first.dollars_per_million_output_tokens) == (0.028, 0.42)
    assert (second.model, second.dollars_per_million_cached_input_tokens) == ("qwen3_32b", None)
    assert (second.source, second.where) == ("user", "api.json, groq/qwen/qwen3-32b")


def test_a_table_of_ones_own_with_hours(tmp_path: Path) -> None:
    off, peak = _taken(tmp_path, "mine.csv", TABLE)
    assert (off.hours, off.date, peak.hours, peak.date) == ("off-peak", "2026-11-20", "peak", "2026-11-21")
    assert (peak.dollars_per_million_input_tokens, peak.dollars_per_million_cached_input_tokens) == (0.28, 0.006)
    (tmp_path / "again.csv").write_text(offer_snapshots.csv_of((off, peak)), encoding="utf-8")
    assert offers.read_offers(tmp_path / "again.csv") == (off, peak)


@pytest.mark.rows
def test_files_that_are_no_snapshot(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _taken(tmp_path, name, text)


def test_of_each_offer_the_last_day_counts(tmp_path: Path) -> None:
    off, peak = _taken(tmp_path, "mine.csv", TABLE)
    older = off.replace(date="2025-01-01", dollars_per_million_output_tokens=9.0)
    assert offers.latest([off, peak, older]) == (off, peak)


def test_newer_prices_by_the_hour_replace_a_price_of_all_hours() -> None:
    flash = [it for it in offers.latest(known_offers()) if it.model_as_written == "deepseek-v4-flash"]
    assert {it.hours for it in flash} == {"off-peak", "peak"}
    old, new = (it.replace(date=date) for it, date in zip(flash, ("2026-01-01", "2026-02-01"), strict=True))
    assert offers.latest([new.replace(hours=None), old]) == (old, new.replace(hours=None))
