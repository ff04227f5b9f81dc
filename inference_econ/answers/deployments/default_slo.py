"""Default TPOT SLO of a model: the median speed of its API offers, or 20 tokens/s."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.slo import Targets
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import USUAL_TOKENS_PER_SECOND, ModelSpec, Offer, catalog, known_offers
from inference_econ.inputs.workload.percentiles import MEAN

Answer = TypeVar("Answer")
#: Number of offers needed for a reference speed [1]. Fewer offers may all come from one provider with special
#: accelerators.
_ENOUGH = 3
#: Largest cost of tokens at the median speed, as a multiple of the cheapest tokens at any speed [1]. The value is an
#: assumption. If the cost is higher, the speed needs almost idle servers, because providers with faster accelerators
#: determine the median.
_DEAREST = 10.0


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

    def slower(self) -> UsualSpeed:
        """Next default if no deployment reaches this speed: 20 tokens/s, or no speed."""
        least = USUAL_TOKENS_PER_SECOND
        speed = f"{self.tokens_per_second:.3g}{f', the {self.source}' if self.offered else ''}"
        return UsualSpeed(
            least if self.tokens_per_second > least else 0.0, f"nothing here reaches {speed}", offered=False
        )


def with_default_slo(
    candidates: Sequence[Candidate], targets: Targets | None, answer: Callable[[Targets], Answer]
) -> tuple[Answer, Targets, UsualSpeed | None]:
    """Compute a result within the SLOs of a query, or within the default TPOT SLO if the query sets no SLO.

    The SLO is 20 tokens/s if no deployment reaches the median speed of API offers, or if tokens at this speed cost more
    than ten times the cheapest tokens. If no deployment reaches 20 tokens/s either, no SLO is set.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidate deployments of one model.
    targets : Targets or None
        SLOs. None and ``Targets(is_default=True)`` mean the default SLO.
    answer : callable
        Function that computes the result within given SLOs. It raises
        :class:`~inference_econ.errors.NothingFitsError` if no deployment meets the SLOs.

    Returns
    -------
    tuple
        Result, its SLOs, and speed of the default SLO (None if the query sets the SLOs).
    """
    asked = Targets(is_default=True) if targets is None else targets
    if asked.given or not asked.is_default:
        return answer(asked), asked, None
    usual, least = usual_speed(candidates[0].setup.model), USUAL_TOKENS_PER_SECOND
    if usual.tokens_per_second > least and (ratio := _cost_ratio(candidates, usual.targets(asked))) > _DEAREST:
        dear = f"{usual.tokens_per_second:.3g}, the {usual.source}, costs over {_DEAREST:g}x as much here"
        usual = usual.slower() if np.isinf(ratio) else UsualSpeed(least, dear, offered=False)
    while usual.tokens_per_second:
        promised = usual.targets(asked)
        try:
            return answer(promised), promised, usual
        except NothingFitsError:
            usual = usual.slower()
    promised = usual.targets(asked)
    return answer(promised), promised, usual


def _cost_ratio(candidates: Sequence[Candidate], targets: Targets) -> float:
    """Cost of the cheapest tokens within the SLOs, divided by the cost without SLOs [1]; infinite if none meet them.

    Disaggregated deployments are considered only if no aggregated deployment is cheap enough, because their evaluation
    takes longer.
    """
    ratio = np.inf
    for several in ([candidate for candidate in candidates if candidate.pools is None], candidates):
        if several and ratio > _DEAREST:
            ratio = _least_dollars(several, targets) / _least_dollars(several, Targets())
    return ratio


def _least_dollars(candidates: Iterable[Candidate], targets: Targets) -> float:
    """Cost of the cheapest tokens within the SLOs, at mean latencies; infinite if no deployment meets the SLOs."""
    costs = (candidate.kept_dollars(targets) for candidate in candidates)
    return min(float(np.min(dollars, initial=np.inf, where=np.isfinite(dollars))) for dollars in costs)


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
