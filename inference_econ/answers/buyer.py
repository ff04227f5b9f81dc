"""The speed that who buys tokens is used to, for which they are priced where nothing is promised."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from inference_econ.answers.promises import Targets
from inference_econ.inputs import USUAL_TOKENS_PER_SECOND, ModelSpec, Offer, catalog, known_offers
from inference_econ.inputs.percentiles import MEAN

#: Offers that have a usual speed between them: fewer may all be of one provider with chips of its own [1].
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """What one user of a model usually gets.

    Attributes
    ----------
    tokens_per_second : float
        Output tokens of one user [tokens/s].
    source : str
        Whose speed that is, with its date and reference, in words.
    """

    tokens_per_second: float
    source: str

    @property
    def text(self) -> str:
        """The speed and whose it is, in words."""
        return f"{self.tokens_per_second:.3g} tokens/s per user ({self.source})"

    @property
    def why(self) -> str:
        """That it stands in for a promise, and what to do for another or none, in words."""
        return (
            f"No promise was given, so that of {self.text} was taken; promise another (--tpot), or none (--any-speed; "
            "in Python targets=Targets())"
        )

    @property
    def targets(self) -> Targets:
        """The same as a promise: that time per output token, on average."""
        return Targets(tpot_seconds=1.0 / self.tokens_per_second, tpot_percentile=MEAN)


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
    '41.4 tokens/s per user (median of 44 offers of 2025-06-27, openrouter2025)'
    >>> usual_speed(catalog.model("gpt_oss_20b")).text
    '20 tokens/s per user (no three offers of it are recorded)'
    """
    offered = [offer for offer in known_offers() if offer.tokens_per_second is not None]
    own = {name for name in {offer.model for offer in offered if offer.model} if catalog.is_one_of(model, _files(name))}
    days: dict[tuple[str, str], list[Offer]] = {}
    for offer in offered:
        if offer.model in own:
            days.setdefault((offer.date, offer.source), []).append(offer)
    usual = [day for day, offers in days.items() if len(offers) >= _ENOUGH]
    if not usual:
        return UsualSpeed(USUAL_TOKENS_PER_SECOND, "no three offers of it are recorded")
    date, source = max(usual)
    speeds = [offer.tokens_per_second or 0.0 for offer in days[date, source]]
    return UsualSpeed(statistics.median(speeds), f"median of {len(speeds)} offers of {date}, {source}")


def _files(name: str) -> tuple[str, ...]:
    """A model of the catalogue, and the files of its checkpoints in other formats."""
    return (name, *catalog.measured_names().checkpoints.get(name, {}).values())
