"""Offers of providers on a day: a model by the token, its speed and price; also as observations of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import _yaml, csv_table, name_matching
from inference_econ.inputs._spec import Date, Spec
from inference_econ.inputs.scope import files_allowed, read_text

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]


class Offer(Spec):
    """One provider's offer of one model on one day."""

    provider: _Text
    """Provider."""
    model: str = ""
    """Name in the catalogue; empty for a model whose architecture nobody published."""
    model_as_written: _Text
    """Name in the source."""
    date: Date
    """Day on which it was seen, or published."""
    tokens_per_second: _Positive | None = None
    """Speed of one user, as measured from outside; None where nobody measured it [tokens/s]."""
    ttft_seconds: _Positive | None = None
    """Time to the first token, as measured from outside [s]."""
    hours: Literal["peak", "off-peak"] | None = None
    """When the price holds; absent where it always does."""
    dollars_per_million_input_tokens: _Positive
    """[USD per 1e6 tokens]"""
    dollars_per_million_cached_input_tokens: _Positive | None = None
    """Of input found in a prefix cache; absent where nothing is said of it [USD per 1e6 tokens]."""
    dollars_per_million_output_tokens: _Positive
    """[USD per 1e6 tokens]"""
    source: _Text
    """Key of a reference."""
    where: _Text
    """Where inside the reference."""


class _Offers(Spec):
    offers: Annotated[tuple[Offer, ...], Field(strict=False)]
    """In the order of the table."""


#: Columns whose cells are numbers; the others stay text whatever they look like.
_NUMBERS = tuple(name for name in Offer.model_fields if name.startswith(("dollars_", "tokens_", "ttft_")))


def read_offers(path: Path) -> tuple[Offer, ...]:
    """Read offers: CSV with a column for each field of :class:`Offer`; a blank cell says nothing.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        With every mistake, each with its line.
    """
    table = csv_table.document(path, "offers", lambda column, text: _yaml.scalar(text) if column in _NUMBERS else text)
    return _Offers.from_document(table).offers


def own_file() -> Path:
    """The file with the offers of whoever asks, which ``inference-econ list offers --refresh`` writes."""
    return Path.home() / ".config" / "inference_econ" / "offers.csv"


def known_offers() -> tuple[Offer, ...]:
    """Every offer of ``scenarios/measured/offers.csv``, in its order, then those of :func:`own_file`, if there is one.

    Raises
    ------
    SpecError
        If the own file has mistakes, each with its line.

    Examples
    --------
    >>> [offer.provider for offer in known_offers() if offer.date < "2025"]
    ['Fireworks', 'Fireworks']
    """
    file = own_file()
    return (*_shipped(), *(read_offers(file) if files_allowed() and file.is_file() else ()))


def latest(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Of each provider, model and hours the offers of the last day; the cheapest output first."""
    days: dict[tuple[str, str, str | None], Offer] = {}
    for offer in offers:
        key = (offer.provider.lower(), offer.model_as_written, offer.hours)
        if key not in days or days[key].date <= offer.date:
            days[key] = offer
    return tuple(sorted(days.values(), key=lambda offer: offer.dollars_per_million_output_tokens))


@cache
def _shipped() -> tuple[Offer, ...]:
    from inference_econ.inputs import catalog

    return read_offers(catalog.measured_files()["offers"])


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
            if not isinstance(cost, dict) or not cost.get("input") or not cost.get("output"):
                continue
            offer: dict[str, object] = {
                "provider": str(provider),
                "model_as_written": str(model),
                "dollars_per_million_input_tokens": cost["input"],
                "dollars_per_million_output_tokens": cost["output"],
            }
            if cost.get("cache_read"):
                offer["dollars_per_million_cached_input_tokens"] = cost["cache_read"]
            yield f"{provider}/{model}", offer


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
        entry: dict[str, object] = {}
        for name, cell in zip(header, (str(cell or "").strip() for cell in cells.values()), strict=False):
            if cell:
                entry[_COLUMNS[name]] = cell
            if cell and _COLUMNS[name] in _NUMBERS:
                with suppress(ValueError):
                    entry[_COLUMNS[name]] = float(cell)
        yield f"line {reader.line_num}", entry


def _model(written: str) -> str:
    """The catalogue's name of a model, with or without who made it; empty where there is none."""
    for text in dict.fromkeys((written, written.rpartition("/")[2])):
        try:
            meaning = name_matching.meant("models", text)
        except UnknownNameError:
            continue
        if meaning is not None:
            return meaning.name
    return ""


def csv_of(offers: tuple[Offer, ...]) -> str:
    """Offers as :func:`inference_econ.inputs.offers.read_offers` reads them."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(Offer.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None else value for name, value in offer.model_dump().items()} for offer in offers
    )
    return text.getvalue()
