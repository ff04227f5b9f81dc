"""Cost of each kind of token (input, cached input and output) in a workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments import deployment
from inference_econ.answers.deployments.default_slo import UsualSpeed, offers_of, with_default_slo
from inference_econ.answers.deployments.recommend import as_candidates, natural_rate, recommend
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import FILLED, Targets, chances_record, promised_rates
from inference_econ.engine import bounds
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.inputs import ModelSpec, Offer, offers
from inference_econ.records.plain import attributes
from inference_econ.serving import Loaded, Service, Services, arrivals_of, loaded, simulate_where_needed


def offer_by(model: ModelSpec, text: str) -> Offer:
    """Look up the latest recorded API offer of a model from one provider.

    Parameters
    ----------
    model : ModelSpec
        Model for which API offers are looked up.
    text : str
        Provider, such as ``deepinfra``. If the provider has several offers, add the model: ``zai/glm-4.6``. If prices
        vary by hour, add the period: ``deepseek:peak``.

    Raises
    ------
    InputError
        If no recorded offer matches, or several offers match.
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
    spelled = (
        f"{offer.provider}/{offer.model_as_written}{f':{offer.hours}' if offer.hours else ''}" for offer in matching
    )
    names = spelled if matching else sorted({offer.provider.lower() for offer in recorded})
    listed, what = ", ".join(names) or "none", "several offers" if matching else "no offer"
    raise InputError(
        f"{text!r} names {what} of {model.name}; recorded: {listed}; 'inference-econ list offers' has the rest"
    )


def prices_of(offer: Offer) -> dict[str, float]:
    """Prices of an API offer by kind of token [USD per 1e6 tokens].

    If no price for cached input is listed, cached input costs the same as other input.
    """
    plain, cached = offer.dollars_per_million_input_tokens, offer.dollars_per_million_cached_input_tokens
    output = offer.dollars_per_million_output_tokens
    return {"input": plain, "cached_input": plain if cached is None else cached, "output": output}


#: Kinds of tokens with separate prices.
KINDS = money.Bill._fields
#: Seconds per hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Sheet(deployment.Deployment, Shown):
    """Deployment under a load, with its cost and its costs per million tokens by kind of token."""

    page = "report.questions.price:PricePage"

    tokens_per_hour: Mapping[str, float] = field(kw_only=True)
    """Number of tokens of completed requests per hour, by kind (:data:`KINDS`) [1/h]."""
    average: Mapping[str, float] = field(kw_only=True)
    """Average cost by kind of token [USD per 1e6 tokens].

    The products of these costs and ``tokens_per_hour`` add up to the cost of the deployment.
    """
    marginal: Mapping[str, float] = field(kw_only=True)
    """Marginal cost by kind of token, if all instances are full [USD per 1e6 tokens]."""
    targets: Targets = field(default_factory=Targets)
    """SLOs."""
    usual: UsualSpeed | None = None
    """Speed that the default TPOT SLO requires; None if the query sets the SLOs."""
    pick: deployment.SelectionRule | None = None
    """Rule that selected the deployment; None if the deployment was given."""
    api: Mapping[str, float] | None = None
    """API price by kind of token that the costs are compared with [USD per 1e6 tokens]; None without a comparison."""
    offer: Offer | None = None
    """Recorded offer with the API price; None if the user gave the price."""
    input_price: float | None = None
    """Price of all input tokens [USD per 1e6 tokens]; it determines the break-even price of output tokens."""

    __repr__ = Shown.__repr__

    @property
    def dollars_per_million_tokens(self) -> float:
        """Cost divided by the number of tokens of all kinds [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, sum(self.tokens_per_hour.values())))

    @property
    def output_tokens_per_second(self) -> float:
        """Output rate of all instances [tokens/s]."""
        return self.tokens_per_hour["output"] / _HOUR

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """Cost divided by output tokens [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, self.tokens_per_hour["output"]))

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Mean output speed of one user after the first token [tokens/s]; None for outputs of one token."""
        tpot = self.load.tpot_seconds["mean"]
        return 1.0 / tpot if tpot > 0.0 else None

    def revenue_per_hour(self, prices: Mapping[str, float]) -> float:
        """Revenue at the given prices by kind of token, which are in USD per 1e6 tokens [USD/h]."""
        return sum(self.tokens_per_hour[kind] * prices.get(kind, 0.0) / 1e6 for kind in KINDS)

    @property
    def break_even_output_price(self) -> float | None:
        """Output token price at which the revenue equals the cost, for the given ``input_price`` [USD per 1e6 tokens].

        The price is None if ``input_price`` is None.
        """
        if self.input_price is None:
            return None
        revenue = self.revenue_per_hour({"input": self.input_price, "cached_input": self.input_price})
        return (self.dollars_per_hour - revenue) / self.tokens_per_hour["output"] * 1e6

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        promised = {"targets": self.targets.record(), **chances_record(self.chances(self.targets))}
        asked = {} if self.input_price is None else attributes(self, "input_price break_even_output_price")
        return {**price_record(self, self.api), **promised, **deployment.pick_record(self.pick), **asked}

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per kind of token, with its tokens per hour and costs."""
        full = _when_full(self)
        return [
            {
                "tokens": kind,
                "tokens_per_hour": self.tokens_per_hour[kind],
                "dollars_per_million_tokens": self.average[kind],
                **{name: None if costs is None else costs[kind] for name, costs in full.items()},
                "dollars_per_hour": self.average[kind] * self.tokens_per_hour[kind] / 1e6,
            }
            for kind in KINDS
        ]


def sheet(
    service: Service,
    requests_per_second: float,
    *,
    replicas: int = 1,
    arrival_scv: float = 1.0,
    load: Loaded | None = None,
) -> Sheet:
    """Compute the cost of each kind of token on aggregated instances.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Request rate of all instances [1/s].
    replicas : int
        Number of instances [1].
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    load : Loaded, optional
        Load of one instance; by default, the analytical model predicts it.

    Returns
    -------
    Sheet
        Costs by kind of token. The average costs add up exactly to the cost of the deployment.

    Notes
    -----
    The cost is divided in proportion to the instance time that each kind of token uses at this load. New input tokens
    pay for the time of a prefill without a cached prefix. Cached tokens pay for the time by which a cached prefix
    lengthens this prefill. Output tokens pay for the remaining time. Idle time is divided in proportion to the busy
    time of each kind of token.
    """
    if load is None:
        arrivals = arrivals_of(service.requests, arrival_scv).among(replicas)
        load = loaded(service, requests_per_second / replicas, arrivals=arrivals)
    requests, setup = service.requests, service.setup
    bill = float(setup.dollars_per_hour(replicas, service.accelerators))
    second = float(setup.dollars_per_hour_in_bulk(service.accelerators)) / _HOUR
    sizes = dict(zip(KINDS, (requests.new_tokens, requests.cached, requests.osl.mean), strict=True))
    hourly = load.completed_per_second * replicas * _HOUR
    tokens = {kind: hourly * count for kind, count in sizes.items()}
    shares = money.allocate(bill, *busy_seconds(service, load.in_flight))
    full = [second * seconds for seconds in busy_seconds(service, service.slots)]
    average, marginal = _unit_costs(shares, tokens.values()), _unit_costs(full, sizes.values())
    return Sheet(service, replicas, load, bill, tokens_per_hour=tokens, average=average, marginal=marginal)


def fleet_sheet(fleet: PooledFleet, found_tokens: float | None = None) -> Sheet:
    """Compute the cost of each kind of token on prefill and decode instances.

    Parameters
    ----------
    fleet : PooledFleet
        Prefill and decode instances under their load.
    found_tokens : float, optional
        Number of cached tokens in the mean prompt [tokens]; by default from the requests.

    Returns
    -------
    Sheet
        Costs by kind of token. The average costs add up exactly to the cost of the deployment.

    Notes
    -----
    Output tokens pay for the busy time of decode instances, and input tokens for the busy time of prefill instances.
    Cached tokens pay for the part of the prefill time that their prefix adds. Idle time is divided in proportion to the
    busy time of each kind of token. If there are few output tokens, input tokens therefore pay for most of the idle
    time of decode instances.
    """
    pools, requests = fleet.pools, fleet.pools.requests
    reader = pools.prefill.services.service(fleet.prefill)
    if found_tokens is not None:
        requests = requests.replace(cached=found_tokens)
        reader = replace(reader, requests=reader.requests.replace(cached=found_tokens))
    sides = zip((pools.prefill, pools.decode), fleet.accelerators, strict=True)
    reading, decoding = (side.setup.dollars_per_accelerator_hour * chips for side, chips in sides)
    reading, decoding = reading * fleet.prefill_utilization, decoding * fleet.decode_utilization
    prompts = fleet.dollars_per_hour * reading / (reading + decoding)
    fresh = reader.uncached_share
    shares = (prompts * fresh, prompts * (1.0 - fresh), fleet.dollars_per_hour - prompts)
    sizes = (requests.new_tokens, requests.cached, requests.osl.mean)
    hourly = fleet.load.completed_per_second * _HOUR
    tokens = dict(zip(KINDS, (hourly * count for count in sizes), strict=True))
    # The pool with less capacity limits the request rate.
    full = [share * min(fleet.load.utilization, 1.0) / hourly for share in shares]
    average, marginal = _unit_costs(shares, tokens.values()), _unit_costs(full, sizes)
    return Sheet.of_pools(fleet, tokens_per_hour=tokens, average=average, marginal=marginal)


def _unit_costs(dollars: Iterable[Array | float], tokens: Iterable[float]) -> dict[str, float]:
    """Divide the cost of each kind of token by its number of tokens [USD per 1e6 tokens]."""
    pairs = zip(KINDS, dollars, tokens, strict=True)
    return {kind: float(money.dollars_per_million(share, count)) for kind, share, count in pairs}


def busy_seconds(service: Service, concurrency: float) -> tuple[float, float, float]:
    """Busy time of an instance per request at a concurrency, for each kind of token in :data:`KINDS` [s]."""
    state = service.at(concurrency)
    seconds = float(1.0 / state.requests_per_second)
    # A prefill takes less instance time than its duration, because it shares steps with other prompts and with
    # decoding.
    reading = min(float(state.prefill_share) * seconds, seconds)
    fresh = reading * service.uncached_share
    return fresh, reading - fresh, seconds - reading


def price(
    offers: Services | Sequence[Candidate | Services],
    requests_per_second: float | None = None,
    *,
    targets: Targets | None = None,
    replicas: int | None = None,
    arrival_scv: float = 1.0,
    utilization: float | None = None,
    progress: Progress | None = None,
) -> Sheet:
    """Compute the cost of each kind of token on the cheapest candidate deployment.

    Parameters
    ----------
    offers : Services, or sequence of Candidate or Services
        Candidate deployments on one kind of GPU (:func:`inference_econ.answers.deployments.serving_options.market`,
        :func:`inference_econ.answers.layout_services.offer`).
    requests_per_second : float, optional
        Request rate [1/s]. By default, the instance or prefill/decode group with the cheapest tokens determines the
        rate: ``utilization`` (80%) of its largest rate within the SLOs. All candidates are compared at this rate.
    targets : Targets, optional
        SLOs; by default, the default TPOT SLO of the model (:func:`.default_slo.usual_speed`).
        ``Targets()`` sets no SLO.
    replicas : int, optional
        Number of instances [1]; by default the smallest that meets the SLOs. If the given number is too small for the
        load, the result reports the overload.
    arrival_scv : float
        Squared coefficient of variation of the interarrival times [1].
    utilization : float
        Share of a replica's capacity, above 0 and at most 1 [1]. If a request rate is given, this share is the maximum
        load. Otherwise, it is the load.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    Sheet
        Number of tokens by kind, their costs, and the load. The load is simulated outside the validated range of the
        analytical model (:func:`inference_econ.serving.analytical_validity.simulate_where_needed`).

    Raises
    ------
    InputError
        If a rate, number or SLO is out of range, or if all candidates are disaggregated and ``replicas`` is given.
    NothingFitsError
        If no layout meets the SLOs.
    """
    if replicas is not None and not (replicas >= 1 and float(replicas).is_integer()):
        raise InputError(f"replicas must be an integer >= 1, got {replicas:g}")
    margin = deployment.Margin(utilization=1.0 if utilization is None else utilization)
    filled = FILLED if utilization is None else utilization
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv

    both = [candidate for candidate in candidates if candidate.pools is None]

    def priced(promised: Targets) -> Sheet:
        """Token costs of the cheapest deployment that meets some SLOs."""
        rate = requests_per_second
        if rate is None:
            alike = (both if replicas else candidates) or candidates
            rate = (replicas or 1) * natural_rate(alike, promised, filled)
        if replicas is not None:
            return replace(_of_replicas(both, rate, promised, int(replicas), arrival_scv), targets=promised)
        found = recommend(candidates, rate, promised, arrival_scv=arrival_scv, most=1, margin=margin, progress=progress)
        first = found[0]
        bill = (
            sheet(first.service, rate, replicas=first.replicas, load=first.load)
            if first.fleet is None
            else fleet_sheet(first.fleet)
        )
        return replace(bill, targets=promised)

    cheapest, promised, usual = with_default_slo(candidates, targets, priced)
    kept = "" if not promised.given else " at this speed" if usual else " within the SLOs"
    some = "" if replicas is None else f" of {replicas:g} instances"
    rule = (
        f"the lowest cost per token{kept}, at a load of at most {100 * filled:g}% of capacity"
        if requests_per_second is None
        else f"the cheapest fleet{some} that serves this rate{kept}"
    )
    return replace(cheapest, usual=usual, pick=deployment.SelectionRule(rule, sum(map(len, candidates))))


def _of_replicas(
    candidates: Sequence[Candidate], rate: float, targets: Targets, replicas: int, arrival_scv: float
) -> Sheet:
    """Compute the token costs of the cheapest fleet with a given number of aggregated instances."""
    if not candidates:
        raise InputError(
            f"replicas: {replicas:g} replicas can be set for aggregated instances only, but only disaggregated pools "
            "are candidates; remove replicas"
        )
    # Select the fleet with the highest throughput among the cheapest fleets that sustain the load. If no fleet sustains
    # the load, select among all fleets.
    both = [candidate.services for candidate in candidates]
    rates = np.concatenate([promised_rates(layouts, targets) for layouts in both])
    bills = np.concatenate([layouts.setup.dollars_per_hour(replicas, layouts.plans.accelerators) for layouts in both])
    enough = replicas * rates > rate
    smallest = enough & (bills == bills[enough].min()) if enough.any() else bills > 0
    index = int(np.argmax(np.where(smallest, rates, -1.0)))
    layouts, row = [(layouts, row) for layouts in both for row in range(len(layouts))][index]
    service = layouts.service(row)
    play = simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))
    return sheet(service, rate, replicas=replicas, load=play(rate / replicas, replicas))


def price_record(sheet: Sheet, api: Mapping[str, float] | None = None) -> dict[str, object]:
    """Return token costs as plain data; infinite latencies are None."""
    if sheet.fleet is None:
        served: dict[str, object] = {
            "serving": "aggregated",
            **deployment.service_record(sheet.service, sheet.replicas, sheet.load),
            **deployment.bounded_load(sheet.service, sheet.load, sheet.replicas, sheet.targets),
        }
    else:
        served = sheet.served_record(sheet.targets)
    record: dict[str, object] = {
        **served,
        "dollars_per_accelerator_hour": sheet.service.setup.dollars_per_accelerator_hour,
        **attributes(sheet, "dollars_per_hour tokens_per_second_per_user"),
        "usual_speed": None if sheet.usual is None else asdict(sheet.usual),
        "tokens_per_hour": dict(sheet.tokens_per_hour),
        **{f"dollars_per_million_{kind}_tokens": sheet.average[kind] for kind in KINDS},
        "dollars_per_million_tokens": sheet.dollars_per_million_tokens,
        **_when_full(sheet),
        **sheet.power(),
    }
    if api is not None:
        revenue = sheet.revenue_per_hour(api)
        record["revenue_dollars_per_hour"] = revenue
        record["margin_dollars_per_hour"] = revenue - sheet.dollars_per_hour
    return record


def _when_full(sheet: Sheet) -> dict[str, Any]:
    """Marginal cost by kind of token at maximum concurrency, with the ends of its interval [USD per 1e6 tokens]."""
    (instances,) = sheet.subjects()
    costs = {"marginal_dollars_per_million": dict(sheet.marginal)}
    return bounds.bounded(costs, bounds.ends(instances, {"marginal_dollars_per_million": ("throughput", -1)}))
