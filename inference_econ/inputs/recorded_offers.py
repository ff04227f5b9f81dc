"""Recorded offers of a model as observations of a closed one."""

from __future__ import annotations

from collections.abc import Iterable

from inference_econ.errors import InputError
from inference_econ.inputs.infer_asks import ObservedOffer
from inference_econ.inputs.offers import known_offers


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
    return tuple(
        ObservedOffer(
            provider=row.provider,
            dollars_per_million_input_tokens=row.dollars_per_million_input_tokens,
            dollars_per_million_output_tokens=row.dollars_per_million_output_tokens,
            tokens_per_second=row.tokens_per_second,
            ttft_seconds=row.ttft_seconds,
        )
        for row in rows
    )
