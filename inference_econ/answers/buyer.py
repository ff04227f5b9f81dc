"""The speed that who buys tokens is used to, for which they are priced where nothing is promised."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from inference_econ.answers.promises import Targets
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import USUAL_TOKENS_PER_SECOND, ModelSpec, Offer, catalog, known_offers, offers
from inference_econ.inputs.percentiles import MEAN

Priced = TypeVar("Priced")
#: What to do where nothing is fast enough and nobody said how fast it must be.
_ADVICE = "No speed was promised; promise one (--tpot), or none (--any-speed; in Python targets=Targets())"
#: Offers that have a usual speed between them: fewer may all be of one provider with chips of its own [1].
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """Speed that one user of a model usually gets.

    Attributes
    ----------
    tokens_per_second : float
        Output tokens of one user [tokens/s].
    source : str
        Whose speed that is, with its date and reference; or why ours was taken, in words.
    offered : bool
        Whether recorded offers say so; otherwise it is
        :data:`inference_econ.inputs.defaults.USUAL_TOKENS_PER_SECOND`.
    """

    tokens_per_second: float
    source: str
    offered: bool

    @property
    def text(self) -> str:
        """The speed and whose it is, in words."""
        return f"{self.tokens_per_second:.3g} is {'usual' if self.offered else 'taken'} ({self.source})"

    @property
    def targets(self) -> Targets:
        """Promise of that speed: its time per output token, on average."""
        return Targets(tpot_seconds=1.0 / self.tokens_per_second, tpot_percentile=MEAN)


def priced_as_usual(model: ModelSpec, priced: Callable[[Targets], Priced]) -> tuple[Priced, UsualSpeed]:
    """Priced answer at the usual speed of a model, or at ours where nothing is as fast; and that speed.

    Parameters
    ----------
    model : ModelSpec
        What is bought by the token.
    priced : callable
        What it costs to keep some promises; :class:`~inference_econ.errors.NothingFitsError` if nothing does.

    Raises
    ------
    NothingFitsError
        If nothing is as fast as ours either, with what to do.
    """
    usual = usual_speed(model)
    try:
        return priced(usual.targets), usual
    except NothingFitsError as error:
        if usual.tokens_per_second <= USUAL_TOKENS_PER_SECOND:
            raise NothingFitsError(f"{error}. {_ADVICE}") from error
    slower = _ours(f"nothing here reaches {usual.tokens_per_second:.3g}, the {usual.source}")
    try:
        return priced(slower.targets), slower
    except NothingFitsError as error:
        raise NothingFitsError(f"{error}. {_ADVICE}") from error


def usual_speed(model: ModelSpec) -> UsualSpeed:
    """The median speed of the offers of a model on the last day of which enough are recorded.

    Without three such offers it is :data:`inference_econ.inputs.defaults.USUAL_TOKENS_PER_SECOND`. Checkpoints of a
    model in another format are offered under its name.

    Parameters
    ----------
    model : ModelSpec
        What is bought by the token.

    Examples
    --------
    >>> usual_speed(catalog.model("deepseek_v3")).text
    '41.4 is usual (median of 44 offers of 2025-06-27, openrouter2025)'
    >>> usual_speed(catalog.model("gpt_oss_20b")).text
    '20 is taken (no three offers of it are recorded)'
    """
    days: dict[tuple[str, str], list[Offer]] = {}
    for offer in offers_of(model):
        if offer.tokens_per_second is not None:
            days.setdefault((offer.date, offer.source), []).append(offer)
    usual = [day for day, offers in days.items() if len(offers) >= _ENOUGH]
    if not usual:
        return _ours("no three offers of it are recorded")
    date, source = max(usual)
    speeds = [offer.tokens_per_second or 0.0 for offer in days[date, source]]
    return UsualSpeed(statistics.median(speeds), f"median of {len(speeds)} offers of {date}, {source}", offered=True)


def offers_of(model: ModelSpec) -> list[Offer]:
    """The offers of a model, of its checkpoints in other formats too, in the order of their files."""
    listed = known_offers()
    named = {
        name for name in {offer.model for offer in listed if offer.model} if catalog.is_one_of(model, _files(name))
    }
    return [offer for offer in listed if offer.model in named]


def offer_by(model: ModelSpec, text: str) -> Offer:
    """The offer of a model by a provider on the last day on which it is recorded.

    Parameters
    ----------
    model : ModelSpec
        What is bought by the token.
    text : str
        ``deepinfra``; where a provider has several, ``zai/glm-4.6``, and ``deepseek:peak`` where hours differ.

    Raises
    ------
    InputError
        If no such offer is recorded, or several are.
    """
    recorded, hours = offers.latest(offers_of(model)), ""
    name = text.strip().lower()
    provider, _, written = name.partition("/")
    if provider.rpartition(":")[2] in ("peak", "off-peak"):
        provider, _, hours = provider.rpartition(":")
    elif name.rpartition(":")[2] in ("peak", "off-peak"):
        written, _, hours = written.rpartition(":")
    matching = [
        offer
        for offer in recorded
        if offer.provider.lower() == provider
        and (not written or written in offer.model_as_written.lower())
        and (not hours or offer.hours == hours)
    ]
    matching = [offer for offer in matching if offer.date == max(offer.date for offer in matching)]
    exact = [offer for offer in matching if written and offer.model_as_written.lower() == written]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    names = map(_written, matching) if matching else sorted({offer.provider.lower() for offer in recorded})
    listed, what = ", ".join(names) or "none", "several offers" if matching else "no offer"
    raise InputError(f"{text!r} names {what} of {model.name}; recorded: {listed}; 'inference-econ offers' has the rest")


def prices_of(offer: Offer) -> dict[str, float]:
    """Prices of an offer by kind of token; cached input as other input where nothing is said of it [USD per 1e6]."""
    plain, cached = offer.dollars_per_million_input_tokens, offer.dollars_per_million_cached_input_tokens
    output = offer.dollars_per_million_output_tokens
    return {"input": plain, "cached_input": plain if cached is None else cached, "output": output}


def _written(offer: Offer) -> str:
    return f"{offer.provider}/{offer.model_as_written}{f':{offer.hours}' if offer.hours else ''}"


def _ours(reason: str) -> UsualSpeed:
    return UsualSpeed(USUAL_TOKENS_PER_SECOND, reason, offered=False)


def _files(name: str) -> tuple[str, ...]:
    """A model of the catalogue, and the files of its checkpoints in other formats."""
    return (name, *catalog.measured_names().checkpoints.get(name, {}).values())
