"""What providers offered on a day: a model by the token, how fast, and for how much."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from inference_econ.inputs import _yaml, csv_table
from inference_econ.inputs._base import Spec

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]


class Offer(Spec):
    """One provider's offer of one model on one day."""

    provider: _Text
    """Who serves it."""
    model: str = ""
    """Name in the catalogue; empty for a model whose architecture nobody published."""
    model_as_written: _Text
    """Name in the source."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    """Day on which it was seen, or published."""
    tokens_per_second: _Positive | None = None
    """Speed of one user, as measured from outside; None where nobody measured it [tokens/s]."""
    ttft_seconds: _Positive | None = None
    """Time to the first token, as measured from outside [s]."""
    dollars_per_million_input_tokens: _Positive
    """[USD per 1e6 tokens]"""
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


@cache
def known_offers() -> tuple[Offer, ...]:
    """Every offer of ``scenarios/measured/offers.csv``, in its order.

    Examples
    --------
    >>> [offer.provider for offer in known_offers() if offer.date < "2025"]
    ['Fireworks', 'Fireworks']
    """
    from inference_econ.inputs import catalog

    return read(catalog.measured_files()["offers"])
