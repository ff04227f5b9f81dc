"""Monthly cost of API tokens, rented and owned machines over the request rate, and break-even points."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from inference_econ._answer import Shown
from inference_econ.answers.deployments.default_slo import UsualSpeed, with_default_slo
from inference_econ.answers.deployments.deployment import Deployment, under_load
from inference_econ.answers.deployments.recommend import as_candidates
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.price import prices_of
from inference_econ.answers.slo import Likely, Targets, chance_below, of_throughput
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock, Way, best_of_chips, lots
from inference_econ.inputs import Offer, Requests
from inference_econ.serving import Service, Services

#: Maximum age of an offer compared with the newest one.
_FRESH = timedelta(days=184)
#: Hours per month, a twelfth of a year [h].
MONTH_HOURS = 730.0
#: Pricing models for a month; spot machines cannot be planned for a month.
MONTHLY: tuple[Way, ...] = ("on_demand", "reserved", "owned")


@dataclass(frozen=True, slots=True)
class Crossover:
    """Break-even of a fleet with an API offer.

    Attributes
    ----------
    lot : CapacityBlock
        Rental unit of the fleet.
    offer : str
        Name of the offer.
    dollars_per_request : float
        Price of a request under the offer [USD].
    fleet : Deployment or None
        Cheapest fleet on the chip for a given request rate.
    """

    lot: CapacityBlock
    offer: str
    dollars_per_request: float
    fleet: Deployment | None = None

    @property
    def dollars_per_request_when_full(self) -> float:
        """Cost per request at SLO capacity, of rental units or of the whole disaggregated deployment [USD]."""
        lot = self.lot
        return lot.rented(lot.parts) * lot.price.dollars / 3600.0 / (lot.parts * lot.requests_per_second)

    @property
    def first(self) -> float | None:
        """Lowest request rate at which the fleet costs no more than the offer [1/s]; None if no rate is high enough."""
        lot = self.lot
        sizes = [(lot.rented(count), count * lot.requests_per_second) for count in range(1, lot.parts + 1)]
        if self.fleet is not None:
            sizes.append((self.fleet.rented, self.fleet.replicas * self.fleet.load.requests_per_second))
        at_cost = ((self._even(chips), most) for chips, most in sizes)
        return min((rate for rate, most in at_cost if rate <= most), default=None)

    def _even(self, chips: int) -> float:
        """Request rate at which the rent of a number of chips equals the cost of the offer [1/s]."""
        return chips * self.lot.price.dollars / 3600.0 / self.dollars_per_request

    @property
    def always(self) -> float | None:
        """Request rate above which the fleet is always cheaper than the offer [1/s]; None without such a rate.

        When n rental units are full, the next unit starts empty. The fleet is then still cheaper than the offer if (n +
        1) s <= n. Here, s is the cost per request of a full unit divided by the price of the offer. With fewer units,
        each new unit makes the fleet more expensive than the offer until the unit is sufficiently loaded.
        """
        share = self.dollars_per_request_when_full / self.dollars_per_request
        if self.first is None or share >= 1.0:
            return None
        return max(math.ceil(share / (1.0 - share) - 1e-9) * self._even(self.lot.accelerators), self.first)

    @property
    def probability(self) -> float | None:
        """Probability that a full fleet is cheaper than the offer, given prediction errors [1]; None if unknown."""
        (instances,) = under_load([(self.lot.service, self.lot.load)])
        offer = Likely(self.dollars_per_request, self.dollars_per_request, self.dollars_per_request, instances)
        return chance_below(of_throughput(self.dollars_per_request_when_full, instances), offer)


@dataclass(frozen=True, slots=True, repr=False)
class Purchase(Shown):
    """Comparison of API offers and fleets that serve a model for a month.

    Attributes
    ----------
    lots : tuple of CapacityBlock
        Rental units of fleets.
    offers : mapping of str to float
        Price per request of API offers, ascending [USD].
    crossovers : tuple of Crossover
        Break-even of each rental unit with the cheapest and the median offer.
    requests : Requests
        Request lengths of the workload.
    targets : Targets
        SLOs of the fleets.
    usual : UsualSpeed or None
        Speed that the default TPOT SLO requires; None if the query sets the SLOs.
    left_out : tuple of str
        Chips that cannot meet the SLOs, with reasons.
    request_rate : float or None
        Request rate for which monthly costs are reported [1/s].
    fleets : mapping of str to Deployment
        Cheapest fleet for ``request_rate``, by chip.
    """

    page = "extras.fleets.buy_page:BuyPage"

    lots: tuple[CapacityBlock, ...]
    offers: Mapping[str, float]
    crossovers: tuple[Crossover, ...]
    requests: Requests
    targets: Targets
    usual: UsualSpeed | None
    left_out: tuple[str, ...] = ()
    request_rate: float | None = None
    fleets: Mapping[str, Deployment] = field(default_factory=dict)

    def fleet_dollars_per_month(self, lot: CapacityBlock, requests_per_second: float) -> float:
        """Monthly cost of the rental units needed for a rate within the SLOs [USD/month]."""
        chips, _ = lot.fleet(requests_per_second)
        return chips * lot.price.dollars * MONTH_HOURS

    def bill(self, lot: CapacityBlock) -> float:
        """Monthly cost of the fleet for ``request_rate``, in the pricing model of a rental unit [USD/month]."""
        return self.fleets[lot.chip].rented * lot.price.dollars * MONTH_HOURS

    def offer_dollars_per_month(self, offer: str, requests_per_second: float) -> float:
        """Monthly cost of an offer at a rate [USD/month]."""
        return 3600.0 * MONTH_HOURS * requests_per_second * self.offers[offer]

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all chips."""
        return [service.setup for service in self.services]

    @property
    def services(self) -> list[Service]:
        """One instance per chip."""
        return list({lot.chip: lot.service for lot in self.lots}.values())

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {
            "targets": self.targets.record(),
            "offers": [
                {"offer": name, "dollars_per_request": dollars, **self._in_tokens(dollars)}
                for name, dollars in self.offers.items()
            ],
            "rental_units": [lot.record(self.targets) for lot in self.lots],
            "crossovers": self.records(),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """One record per break-even of a fleet with an offer."""
        return [
            {
                "hardware": crossover.lot.chip,
                "paid": crossover.lot.way,
                "accelerators": crossover.lot.accelerators,
                "dollars_per_month": crossover.lot.dollars_per_hour * MONTH_HOURS,
                "dollars_per_million_when_full": self._in_tokens(crossover.dollars_per_request_when_full)[
                    "dollars_per_million_tokens"
                ],
                "offer": crossover.offer,
                **self._in_tokens(crossover.dollars_per_request),
                "cheaper_from": crossover.first,
                "always_cheaper_from": crossover.always,
                "probability": crossover.probability,
                **({} if self.request_rate is None else {"rate_bill": self._rate_bill(crossover, self.request_rate)}),
            }
            for crossover in self.crossovers
        ]

    def _rate_bill(self, crossover: Crossover, rate: float) -> dict[str, Any]:
        """Monthly cost of the fleet and of the offer at a request rate."""
        return {
            "request_rate": rate,
            "accelerators": self.fleets[crossover.lot.chip].rented,
            "dollars_per_month": self.bill(crossover.lot),
            "offer_dollars_per_month": self.offer_dollars_per_month(crossover.offer, rate),
        }

    def _in_tokens(self, dollars_per_request: float) -> dict[str, float]:
        """Price of a request divided by its input and output tokens."""
        tokens = self.requests.isl.mean + self.requests.osl.mean
        return {"dollars_per_million_tokens": 1e6 * dollars_per_request / tokens}


def buy(
    offers: Sequence[Candidate | Services],
    api: Mapping[str, Mapping[str, float]],
    targets: Targets | None = None,
    *,
    ways: Collection[Way] = MONTHLY,
    arrival_scv: float = 1.0,
    request_rate: float | None = None,
) -> Purchase:
    """Compare API offers with rented and owned fleets, per month.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidates on one or several GPUs: see :func:`inference_econ.answers.deployments.serving_options.market`.
    api : mapping
        Token prices of each provider, by name of the provider and kind of token [USD per 1e6 tokens]
        (:func:`inference_econ.answers.price.prices_of`).
    targets : Targets, optional
        SLOs of fleets; by default, the default TPOT SLO of the model
        (:func:`.default_slo.usual_speed`). ``Targets()`` sets no SLO.
    ways : collection of {'on_demand', 'reserved', 'owned', 'spot'}
        Pricing models, for all hours of the month.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    request_rate : float, optional
        Request rate for which monthly costs are reported, in addition to break-even points [1/s].

    Returns
    -------
    Purchase
        Break-even of each chip's fleet with the cheapest and the median offer. Fleets are those of ``recommend`` at a
        high rate. Monthly costs are for ``request_rate``.

    Raises
    ------
    InputError
        If ``api`` has no offer, or an offer is free.
    NothingFitsError
        If no deployment meets the SLOs.
    """
    candidates = as_candidates(offers)
    requests = candidates[0].requests
    ranked = dollars_per_request(api, requests)
    left_out: list[str] = []

    def promised_lots(promised: Targets) -> tuple[CapacityBlock, ...]:
        left_out.clear()
        best = best_of_chips(candidates, None, promised, arrival_scv=arrival_scv, note=left_out.append)
        return lots(best, promised, arrival_scv=arrival_scv, ways=ways, note=left_out.append)

    offered, targets, usual = with_default_slo(candidates, targets, promised_lots)
    fleets: dict[str, Deployment] = {}
    if request_rate is not None:
        chips = {lot.chip for lot in offered}
        served = [candidate for candidate in candidates if candidate.setup.hardware.name in chips]
        fleets = best_of_chips(served, request_rate, targets, arrival_scv=arrival_scv)
    return Purchase(
        offered,
        ranked,
        crossovers(offered, ranked, fleets),
        requests,
        targets,
        usual,
        tuple(left_out),
        request_rate,
        fleets,
    )


def dollars_per_request(api: Mapping[str, Mapping[str, float]], requests: Requests) -> dict[str, float]:
    """Price of a mean request by offer, ascending [USD].

    Cached tokens without a known price are charged as other input tokens.

    Raises
    ------
    InputError
        If ``api`` has no offer, or an offer is free.
    """
    if not api:
        raise InputError(
            "no offer is recorded of the model; give --api-prices input=0.6,output=0.6, or take a snapshot: "
            "inference-econ list offers --refresh FILE",
            option="api_prices",
        )
    counts = {"input": requests.new_tokens, "cached_input": requests.cached, "output": requests.osl.mean}
    dollars = {
        name: sum(counts[kind] * charged.get(kind, charged.get("input", 0.0)) / 1e6 for kind in counts)
        for name, charged in api.items()
    }
    ranked = dict(sorted(dollars.items(), key=lambda entry: entry[1]))
    free = next((name for name, price in ranked.items() if price <= 0.0), None)
    if free is not None:
        raise InputError(f"{free} charges nothing: nothing is cheaper at any traffic", option="api_prices")
    return ranked


def crossovers(
    offered: Sequence[CapacityBlock], ranked: Mapping[str, float], fleets: Mapping[str, Deployment]
) -> tuple[Crossover, ...]:
    """Break-even of each rental unit and each chip's fleet with the cheapest and the median offer."""
    names = list(ranked)
    compared = dict.fromkeys((names[0], names[(len(names) - 1) // 2]))
    return tuple(Crossover(lot, name, ranked[name], fleets.get(lot.chip)) for name in compared for lot in offered)


def charged(offers: Sequence[Offer]) -> dict[str, dict[str, float]]:
    """Prices of each provider by kind of token: the cheapest offer of the last recorded day.

    Off-peak prices are ignored. Providers without an offer in the half year before the newest offer are also ignored.
    """
    days: dict[str, str] = {}
    for offer in offers:
        days[offer.provider] = max(offer.date, days.get(offer.provider, ""))
    newest = max(days.values(), default="")
    prices: dict[str, dict[str, float]] = {}
    for offer in sorted(offers, key=lambda offer: offer.dollars_per_million_output_tokens):
        fresh = date.fromisoformat(newest) - date.fromisoformat(offer.date) <= _FRESH
        if offer.date == days[offer.provider] and fresh and offer.hours != "off-peak":
            prices.setdefault(f"{offer.provider}, {offer.date}", prices_of(offer))
    return prices
