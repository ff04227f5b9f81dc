"""Default TPOT SLO of a model: the median speed of its API offers, or 20 tokens/s."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from inference_econ.answers.slo import Targets
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import USUAL_TOKENS_PER_SECOND, ModelSpec, Offer, catalog, known_offers
from inference_econ.inputs.workload.percentiles import MEAN

Answer = TypeVar("Answer")
#: Number of offers needed for a reference speed [1]. Fewer offers may all come from one provider with special
#: accelerators.
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """Speed that the default TPOT SLO of a model requires."""

    tokens_per_second: float
    """Output speed of one user [tokens/s]; 0 if no deployment meets a default SLO, so that no SLO is set."""
    source: str
    """Source of the speed with its date, or the reason for another speed."""
    offered: bool
    """True if the speed is the median of recorded offers."""

    def targets(self, asked: Targets) -> Targets:
        """SLO on the mean TPOT that requires this speed, with the percentile and the confidence of the query."""
        if not self.tokens_per_second:
            return Targets(percentile=asked.percentile)
        return Targets(
            tpot_seconds=1.0 / self.tokens_per_second,
            tpot_percentile=MEAN,
            percentile=asked.percentile,
            confidence=asked.confidence,
            is_default=True,
        )


def with_default_slo(
    model: ModelSpec, targets: Targets | None, answer: Callable[[Targets], Answer]
) -> tuple[Answer, Targets, UsualSpeed | None]:
    """Answer a query within its SLOs, or within the default TPOT SLO of the model if the query sets no SLO.

    If no deployment reaches the median speed of API offers, the SLO is 20 tokens/s. If no deployment reaches this speed
    either, no SLO is set.

    Parameters
    ----------
    model : ModelSpec
        Model for which API offers are on record.
    targets : Targets or None
        SLOs. None and ``Targets(is_default=True)`` mean the default SLO.
    answer : callable
        Function that answers the query within given SLOs. It raises :class:`~inference_econ.errors.NothingFitsError` if
        no deployment meets the SLOs.

    Returns
    -------
    tuple
        Answer, SLOs of this answer, and speed of the default SLO (None if the query sets the SLOs).
    """
    asked = Targets(is_default=True) if targets is None else targets
    if asked.given or not asked.is_default:
        return answer(asked), asked, None
    usual, least = usual_speed(model), USUAL_TOKENS_PER_SECOND
    while usual.tokens_per_second:
        promised = usual.targets(asked)
        try:
            return answer(promised), promised, usual
        except NothingFitsError:
            reason = f"nothing here reaches {usual.tokens_per_second:.3g}"
            slower = least if usual.tokens_per_second > least else 0.0
            usual = UsualSpeed(slower, f"{reason}, the {usual.source}" if usual.offered else reason, offered=False)
    promised = usual.targets(asked)
    return answer(promised), promised, usual


def usual_speed(model: ModelSpec) -> UsualSpeed:
    """Median speed of the API offers of a model, on the last day with at least three offers.

    Without such a day, the speed is :data:`inference_econ.inputs.options.USUAL_TOKENS_PER_SECOND`. Checkpoints of a
    model in other formats use the offers of the original model.

    Parameters
    ----------
    model : ModelSpec
        Model for which API offers are looked up.

    Examples
    --------
    >>> usual_speed(catalog.model("deepseek_v3")).source
    'median of 44 API offers of 2025-06-27, openrouter2025'
    >>> usual_speed(catalog.model("gpt_oss_20b"))
    UsualSpeed(tokens_per_second=20.0, source='fewer than three API offers are recorded', offered=False)
    """
    days: dict[tuple[str, str], list[Offer]] = {}
    for offer in offers_of(model):
        if offer.tokens_per_second is not None:
            days.setdefault((offer.date, offer.source), []).append(offer)
    usual = [day for day, offers in days.items() if len(offers) >= _ENOUGH]
    if not usual:
        return UsualSpeed(USUAL_TOKENS_PER_SECOND, "fewer than three API offers are recorded", offered=False)
    date, source = max(usual)
    speeds = [offer.tokens_per_second or 0.0 for offer in days[date, source]]
    return UsualSpeed(
        statistics.median(speeds), f"median of {len(speeds)} API offers of {date}, {source}", offered=True
    )


def offers_of(model: ModelSpec) -> list[Offer]:
    """Recorded API offers of a model and of its checkpoints in other formats, in file order."""
    listed, checkpoints = known_offers(), catalog.measured_names().checkpoints
    names = {offer.model for offer in listed if offer.model}
    named = {name for name in names if catalog.is_one_of(model, (name, *checkpoints.get(name, {}).values()))}
    return [offer for offer in listed if offer.model in named]
