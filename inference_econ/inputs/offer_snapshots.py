"""Snapshots of API prices that people bring: the JSON of models.dev, or a table of their own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import names
from inference_econ.inputs.offers import Offer
from inference_econ.inputs.text_file import read_text

#: Columns of a table of one's own, and what they are called in offers.
_COLUMNS: Mapping[str, str] = {
    "provider": "provider",
    "model": "model_as_written",
    "hours": "hours",
    "input": "dollars_per_million_input_tokens",
    "cached_input": "dollars_per_million_cached_input_tokens",
    "output": "dollars_per_million_output_tokens",
    "tokens_per_second": "tokens_per_second",
    "date": "date",
}
_NEEDED = ("model", "input", "output")
_FORMS = (
    "a snapshot is the JSON of https://models.dev/api.json, or CSV with the columns model, input, output and, if "
    "wanted, provider, hours (peak or off-peak), cached_input, tokens_per_second, date (USD per million tokens)"
)


def read_snapshot(path: Path | str, date: str | None = None) -> tuple[Offer, ...]:
    """The offers of a snapshot.

    Parameters
    ----------
    path : path or str
        JSON as models.dev serves it, or CSV with a line for each price.
    date : str, optional
        Day on which it was taken, ``2026-11-20``, where no line says one.

    Returns
    -------
    tuple of Offer
        In the order of the file, without what costs nothing; models have the catalogue's names where it knows them.

    Raises
    ------
    InputError
        If it cannot be read, is neither, or nobody says of which day it is.
    SpecError
        If a price or a day is none, each with its entry.
    """
    file = Path(path)
    try:
        text = read_text(file, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a text file in UTF-8; {_FORMS}") from error
    entries = list(_models_dev(file, text) if file.suffix.lower() == ".json" else _table(file, text))
    if date is None and any("date" not in entry for _, entry in entries):
        raise InputError(f"{file}: of which day is it? Give --date, for example --date 2026-11-20", option="date")
    offers: list[Offer] = []
    mistakes: list[str] = []
    for place, entry in entries:
        where = f"{file.name}, {place}"
        written = entry.get("model_as_written") or ""
        filled = {"provider": "own", "date": date, "model": _model(str(written)), "source": "user", "where": where}
        try:
            offers.append(Offer.build({**filled, **entry}, origin=f"{file}: {place}"))
        except SpecError as error:
            mistakes += error.mistakes
    if mistakes:
        raise SpecError(mistakes)
    if not offers:
        raise InputError(f"{file}: no price in it; {_FORMS}")
    return tuple(offers)


def _models_dev(file: Path, text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Models with a price, by provider; what is free, or billed by the month, has a price of 0."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON ({str(error).partition(';')[0]}); {_FORMS}") from error
    providers = data.items() if isinstance(data, dict) else ()
    if not any(isinstance(entry, dict) and isinstance(entry.get("models"), dict) for _, entry in providers):
        raise InputError(f"{file}: no provider with models; {_FORMS}")
    for provider, listed in providers:
        models: Any = listed.get("models") if isinstance(listed, dict) else None
        for model, entry in (models or {}).items():
            cost = entry.get("cost") if isinstance(entry, dict) else None
            if isinstance(cost, dict) and cost.get("input") and cost.get("output"):
                yield (
                    f"{provider}/{model}",
                    {
                        "provider": str(provider),
                        "model_as_written": str(model),
                        "dollars_per_million_input_tokens": cost["input"],
                        "dollars_per_million_output_tokens": cost["output"],
                        **(
                            {"dollars_per_million_cached_input_tokens": cost["cache_read"]}
                            if cost.get("cache_read")
                            else {}
                        ),
                    },
                )


def _table(file: Path, text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Lines of a table, blank cells left out."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    header = [name.strip().lower() for name in reader.fieldnames or ()]
    missing = [name for name in _NEEDED if name not in header]
    odd = [name for name in header if name not in _COLUMNS]
    if missing or odd:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(odd)}"
        raise InputError(f"{file}:1: {what}; {_FORMS}")
    for cells in reader:
        values = dict(zip(header, (str(cell or "").strip() for cell in cells.values()), strict=False))
        yield f"line {reader.line_num}", {_COLUMNS[name]: _value(name, cell) for name, cell in values.items() if cell}


def _value(column: str, cell: str) -> object:
    try:
        return float(cell) if column in ("input", "cached_input", "output", "tokens_per_second") else cell
    except ValueError:
        return cell


def _model(written: str) -> str:
    """The catalogue's name of a model, with or without who made it; empty where there is none."""
    for text in dict.fromkeys((written, written.rpartition("/")[2])):
        try:
            meaning = names.meant("models", text)
        except UnknownNameError:
            continue
        if meaning is not None:
            return meaning.name
    return ""


def csv_of(offers: tuple[Offer, ...]) -> str:
    """Offers as :func:`inference_econ.inputs.offers.read` reads them."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(Offer.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None else value for name, value in offer.model_dump().items()} for offer in offers
    )
    return text.getvalue()
