"""Offers of providers on a day: a model by the token, its speed and price; also as observations of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs import _yaml, csv_table
from inference_econ.inputs._base import Date, Spec
from inference_econ.inputs.infer_asks import ObservedOffer
from inference_econ.inputs.scope import files_allowed

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
_NUMBERS = (
    "tokens_per_second",
    "ttft_seconds",
    "dollars_per_million_input_tokens",
    "dollars_per_million_cached_input_tokens",
    "dollars_per_million_output_tokens",
)


def read(path: Path) -> tuple[Offer, ...]:
    """Read offers: CSV with a column for each field of :class:`Offer`; a blank cell says nothing.

    Raises
    ------
    InputError
        If the file cannot be read.
    SpecError
        With every mistake, each with its line.
    """
    return _Offers.from_document(csv_table.document(path, "offers", _value)).offers


def _value(column: str, text: str) -> object:
    return _yaml.scalar(text) if column in _NUMBERS else text


def own_file() -> Path:
    """The file with the offers of whoever asks, which ``inference-econ offers --refresh`` writes."""
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
    return (*_shipped(), *(read(file) if files_allowed() and file.is_file() else ()))


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

    return read(catalog.measured_files()["offers"])


def recorded_offers(listing: str, date: str | None = None, leave_out: Iterable[str] = ()) -> tuple[ObservedOffer, ...]:
    """The offers of a model in ``scenarios/measured/offers.csv`` that have a speed.

    Parameters
    ----------
    listing : str
        Its name there, ``meta-llama/llama-3.3-70b-instruct``, or in the catalogue.
    date : str, optional
        The day.
    leave_out : iterable of str
        Providers that do not count.

    Raises
    ------
    InputError
        If there are none.
    """
    without = set(leave_out)
    rows = [
        row
        for row in known_offers()
        if listing in (row.model_as_written, row.model)
        and date in (None, row.date)
        and row.provider not in without
        and row.tokens_per_second is not None
    ]
    if not rows:
        listed = sorted({row.model_as_written for row in known_offers() if row.tokens_per_second is not None})
        day = "" if date is None else f" of {date}"
        raise InputError(f"no offer of {listing!r}{day} with a speed is recorded; recorded: {', '.join(listed)}")
    observed = [name for name in ObservedOffer.model_fields if name in Offer.model_fields]
    return tuple(ObservedOffer(**{name: getattr(row, name) for name in observed}) for row in rows)
