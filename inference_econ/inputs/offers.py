"""Published API offers of providers: speed and token prices of a model on a date."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs import _yaml, name_matching
from inference_econ.inputs._spec import Date, Field, Spec
from inference_econ.inputs.kept import kept
from inference_econ.inputs.places import files_allowed, read_text, user_folder

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]


class Offer(Spec):
    """Published API offer: token prices, and measured speed if known, of one provider for one model on one day."""

    provider: _Text
    """Name of the API provider."""
    model: str = ""
    """Catalog name of the model; empty for models with an unpublished architecture."""
    model_as_written: _Text
    """Model name in the source."""
    date: Date
    """Date of observation or publication."""
    tokens_per_second: _Positive | None = None
    """Speed per user, as measured by a client; None if not measured [tokens/s]."""
    ttft_seconds: _Positive | None = None
    """Time to first token, as measured by a client; None if not measured [s]."""
    hours: Literal["peak", "off-peak"] | None = None
    """Hours in which the price applies; absent if the price always applies."""
    dollars_per_million_input_tokens: _Positive
    """Price of uncached input tokens [USD per 1e6 tokens]."""
    dollars_per_million_cached_input_tokens: _Positive | None = None
    """Price of cached input tokens; absent if unknown [USD per 1e6 tokens]."""
    dollars_per_million_output_tokens: _Positive
    """Price of output tokens [USD per 1e6 tokens]."""
    source: _Text
    """Key of the reference in ``references.bib``; ``user`` for the user's own API offers."""
    where: _Text
    """Location inside the reference."""


class _Offers(Spec):
    offers: Annotated[tuple[Offer, ...], Field(strict=False)]
    """API offers, in the order of the table."""


#: Columns that contain numbers; all other columns are text.
_NUMBERS = tuple(name for name in Offer.fields if name.startswith(("dollars_", "tokens_", "ttft_")))


def read_offers(path: Path) -> tuple[Offer, ...]:
    """Read API offers from a CSV file with one column per field of :class:`Offer`; blank cells are omitted.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        The message lists every mistake with its line.
    """

    def value(column: str, text: str) -> _yaml.Value:
        return _yaml.scalar(text) if column in _NUMBERS else text

    return kept(_Offers, path, lambda: _Offers.from_document(_yaml.csv_document(path, "offers", value))).offers


def own_file() -> Path:
    """File with the user's own API offers, which ``inference-econ list offers --refresh`` writes."""
    return user_folder("XDG_CONFIG_HOME", ".config") / "inference_econ" / "offers.csv"


def known_offers() -> tuple[Offer, ...]:
    """API offers in ``scenarios/measured/offers.csv``, followed by the API offers in the user's file.

    Raises
    ------
    SpecError
        The message lists every mistake in the user's file with its line.

    Examples
    --------
    >>> [offer.provider for offer in known_offers() if offer.date < "2025"]
    ['Fireworks', 'Fireworks']
    """
    file = own_file()
    return (*_shipped(), *(read_offers(file) if files_allowed() and file.is_file() else ()))


def latest(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Newest API offer for each provider, model and hours of the day, sorted by output price."""
    days: dict[tuple[str, str, str | None], Offer] = {}
    for offer in offers:
        key = (offer.provider.lower(), offer.model_as_written, offer.hours)
        if key not in days or days[key].date <= offer.date:
            days[key] = offer
    # An older price for all hours is dropped if the provider has newer prices for peak and off-peak hours.
    by_hour = {key[:2]: offer.date for key, offer in days.items() if offer.hours is not None}
    days = {key: it for key, it in days.items() if it.hours is not None or by_hour.get(key[:2], "") <= it.date}
    return tuple(sorted(days.values(), key=lambda offer: offer.dollars_per_million_output_tokens))


@cache
def _shipped() -> tuple[Offer, ...]:
    from inference_econ.inputs import catalog

    return read_offers(catalog.measured_files()["offers"])


#: Fields of :class:`Offer` by the columns of a user's table.
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
    """Read API offers from a snapshot of a price list.

    Parameters
    ----------
    path : path or str
        JSON from models.dev, or CSV with one line per price.
    date : str, optional
        Date of the snapshot, ``2026-11-20``; required if the lines contain no date.

    Returns
    -------
    tuple of Offer
        API offers in the order of the file, with catalog names of known models.

    Raises
    ------
    InputError
        If the file cannot be read, has another format, or has no prices or no date.
    SpecError
        The message lists invalid prices and dates with their entries.
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
        raise SpecError(*mistakes)
    if not offers:
        raise InputError(f"{file}: no price in it; {_FORMS}")
    return tuple(offers)


def _models_dev(file: Path, text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Fields of each API offer in JSON from models.dev, with the place of the offer.

    Models without a price above 0 are omitted, because they are free or billed monthly.
    """
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
    """Fields of each row of a CSV table, without blank cells, and the line of the row."""
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
    """Catalog name of a model, given its name with or without organization; empty if unknown."""
    for text in dict.fromkeys((written, written.rpartition("/")[2])):
        try:
            meaning = name_matching.meant("models", text)
        except UnknownNameError:
            continue
        if meaning is not None:
            return meaning.name if "/" in meaning.name else meaning.base or meaning.name
    return ""


def csv_of(offers: tuple[Offer, ...]) -> str:
    """CSV text of offers in the format of :func:`inference_econ.inputs.offers.read_offers`."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(Offer.fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None else value for name, value in offer.model_dump().items()} for offer in offers
    )
    return text.getvalue()
