"""Prompts on one pool of instances and answers on another, beside instances that do both: the answer, and its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference_econ._shown import Shown
from inference_econ.answers.deployment import Deployment
from inference_econ.answers.disaggregated import budget, fleets
from inference_econ.answers.disaggregated.compare import Comparison, compare
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.answers.disaggregated_record import both_records, comparison_record
from inference_econ.answers.means import Means
from inference_econ.answers.together import aggregated
from inference_econ.engine import Setup
from inference_econ.errors import InputError


@dataclass(frozen=True, slots=True, repr=False)
class Disaggregation(Shown):
    """Pools beside aggregated serving.

    Attributes
    ----------
    comparison : Comparison
        Cost against speed of both.
    fleet : Fleet or None
        The best fleet of pools for a rate, for chips or for a budget; None if none of these is given.
    together : Deployment or None
        The cheapest aggregated fleet for the same rate; None without a rate, or if none keeps the promises.
    """

    page = "report.disaggregated:DisaggregatedPage"

    comparison: Comparison
    fleet: Fleet | None
    together: Deployment | None

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of both pools."""
        pools = self.comparison.pools
        return [pools.prefill.setup, pools.decode.setup]

    def record(self) -> dict[str, object]:
        """Return every point of both frontiers, and the fleets, as plain data."""
        return comparison_record(self.comparison, self.fleet, self.together)

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per point of both frontiers."""
        return both_records(self.comparison)


def disaggregate(
    pools: Pools, terms: Terms | None = None, *, requests_per_second: float | None = None, means: Means | None = None
) -> Disaggregation:
    """Prompts on one pool of instances and answers on another (``inference_econ.disaggregate``).

    Parameters
    ----------
    pools : Pools
        Layouts for prompts and for answers (:func:`inference_econ.pools`).
    terms : Terms, optional
        Promises, arrivals and ratios that both ways of serving have in common.
    requests_per_second : float, optional
        The whole traffic, for the cheapest fleet that keeps the promises [1/s].
    means : Means, optional
        Chips or a budget instead, for the fleet that carries most.

    Raises
    ------
    InputError
        If both a rate and means are given, or something cannot be used.
    NothingFitsError
        If no pair of layouts keeps the promises.
    """
    if requests_per_second is not None and means is not None:
        raise InputError("give a rate, for the cheapest fleet, or means, for the most traffic, not both")
    shared = Terms() if terms is None else terms
    comparison = compare(pools, shared)
    if means is not None:
        return Disaggregation(comparison, budget.largest(pools, means, shared), None)
    if requests_per_second is None:
        return Disaggregation(comparison, None, None)
    fleet = fleets.smallest(pools, requests_per_second, shared)
    return Disaggregation(comparison, fleet, aggregated(pools, requests_per_second, shared))
