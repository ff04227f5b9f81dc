"""Offers of providers beside the frontiers that they are held against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference_econ.errors import InputError
from inference_econ.formulas import pareto
from inference_econ.inputs import Offer, OfferedPoints, Source, known_offers
from inference_econ.records.sources import UsedSource


@dataclass(frozen=True, slots=True)
class BesideSeries:
    """An offer of a provider, and the series of a figure that it is held against."""

    series: str
    """Label of the series."""
    tokens_per_second: float
    """Speed of one user, as measured from outside [tokens/s]."""
    offer: Offer
    """Offer of the provider."""

    @property
    def source(self) -> UsedSource:
        """Where the offer stands."""
        offer = self.offer
        source = Source(ref=offer.source, where=offer.where, kind="measured")
        return UsedSource(f"offer: {offer.provider}, {offer.date}", offer.model_as_written, source)


def beside(points: Iterable[OfferedPoints], labels: Sequence[str]) -> tuple[BesideSeries, ...]:
    """The offers that a figure draws beside the series that it has.

    Parameters
    ----------
    points : iterable of OfferedPoints
        What the figure wants drawn.
    labels : sequence of str
        Series that there are; offers of others are left out.

    Returns
    -------
    tuple of BesideSeries
        Of each model and day those with a measured speed that no other beats in speed and price, fastest first.

    Raises
    ------
    InputError
        If there is no such offer, or nobody of a name that is left out.
    """
    return tuple(
        BesideSeries(label, speed, offer)
        for wanted in points
        for label in wanted.series
        if label in labels
        for speed, offer in _best(wanted)
    )


def _best(wanted: OfferedPoints) -> list[tuple[float, Offer]]:
    """The offers of a model on a day that no other of them beats, with their speeds."""
    that_day = [
        offer
        for offer in known_offers()
        if (offer.model_as_written, offer.date) == (wanted.model_as_written, wanted.date)
    ]
    odd = next((name for name in wanted.without if name not in {offer.provider for offer in that_day}), None)
    if odd is not None:
        providers = ", ".join(dict.fromkeys(offer.provider for offer in that_day)) or "nobody"
        raise InputError(f"offers without {odd!r}: {providers} offered {wanted.model_as_written!r} on {wanted.date}")
    fast = [
        (offer.tokens_per_second, offer)
        for offer in that_day
        if offer.tokens_per_second is not None and offer.provider not in wanted.without
    ]
    if not fast:
        raise InputError(
            f"no offer of {wanted.model_as_written!r} on {wanted.date} with a measured speed is known; "
            "scenarios/measured/offers.csv lists all"
        )
    prices = [offer.dollars_per_million_output_tokens for _, offer in fast]
    return [fast[index] for index in pareto.undominated([1 / speed for speed, _ in fast], prices)]
