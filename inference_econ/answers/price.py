"""Cost of each kind of token at a traffic."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.margin import Margin
from inference_econ.answers.deployments.recommend import as_candidates, natural_rate, recommend
from inference_econ.answers.deployments.service_record import SelectionRule, bounded_load, pick_record, service_record
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import FILLED, Targets, chances_record, promised_rates
from inference_econ.engine import Setup, bounds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs import USUAL_TOKENS_PER_SECOND, ModelSpec, Offer, catalog, known_offers, offers
from inference_econ.inputs.workload.percentiles import MEAN
from inference_econ.serving import Loaded, Service, Services, arrivals_of, loaded, simulate_where_needed

Priced = TypeVar("Priced")
#: What to do where nothing is fast enough and nobody said how fast it must be.
_ADVICE = "No speed was promised; promise one (--tpot), or none (--any-speed; in Python targets=Targets())"
#: Offers that have a usual speed between them: fewer may all be of one provider with chips of its own [1].
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """Reference speed of a model: the median of API offers, or a default."""

    tokens_per_second: float
    """Output tokens of one user [tokens/s]."""
    source: str
    """Source of the speed with its date and reference, or the reason for the default."""
    offered: bool
    """True for the median of recorded offers, otherwise
    :data:`inference_econ.inputs.defaults.USUAL_TOKENS_PER_SECOND`."""

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
    >>> usual_speed(catalog.model("deepseek_v3")).source
    'median of 44 offers of 2025-06-27, openrouter2025'
    >>> usual_speed(catalog.model("gpt_oss_20b"))
    UsualSpeed(tokens_per_second=20.0, source='no three offers of it are recorded', offered=False)
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
    raise InputError(
        f"{text!r} names {what} of {model.name}; recorded: {listed}; 'inference-econ list offers' has the rest"
    )


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


#: Kinds of tokens, each with a price of its own.
KINDS = money.Bill._fields
#: Seconds of an hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Sheet(Deployment, Shown):
    """The bill of a deployment, and what a million tokens of each kind cost."""

    page = "report.questions.price:PricePage"

    tokens_per_hour: Mapping[str, float] = field(kw_only=True)
    """Tokens by kind (:data:`KINDS`) [1/h]; what a saturated service completes."""
    average: Mapping[str, float] = field(kw_only=True)
    """Cost by kind; with ``tokens_per_hour`` it adds up to the bill [USD per 1e6 tokens]."""
    marginal: Mapping[str, float] = field(kw_only=True)
    """Cost by kind on full instances, where further tokens need further instances [USD per 1e6 tokens]."""
    targets: Targets = field(default_factory=Targets)
    """SLOs."""
    usual: UsualSpeed | None = None
    """Reference speed that is assumed without an SLO."""
    pick: SelectionRule | None = None
    """Rule that chose the deployment; None if it was given."""
    api: Mapping[str, float] | None = None
    """Price of an API by kind of token, if that is compared [USD per 1e6 tokens]."""
    offer: Offer | None = None
    """Recorded offer of that API; None if the price was typed."""
    input_price: float | None = None
    """Price of input tokens, cached ones too, from which that of output tokens follows [USD per 1e6 tokens]."""

    __repr__ = Shown.__repr__

    @property
    def dollars_per_million_tokens(self) -> float:
        """The bill over all tokens, whatever their kind [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, sum(self.tokens_per_hour.values())))

    @property
    def output_tokens_per_second(self) -> float:
        """Completed by all instances [tokens/s]."""
        return self.tokens_per_hour["output"] / _HOUR

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """The whole bill over output tokens [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, self.tokens_per_hour["output"]))

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Output tokens of one user on average, after the first [tokens/s]; None of answers of one token."""
        tpot = self.load.tpot_seconds["mean"]
        return 1.0 / tpot if tpot > 0.0 else None

    def revenue_per_hour(self, prices: Mapping[str, float]) -> float:
        """Revenue of the traffic at some prices by kind [USD/h]; prices are in USD per 1e6 tokens."""
        return sum(self.tokens_per_hour[kind] * prices.get(kind, 0.0) / 1e6 for kind in KINDS)

    @property
    def break_even_output_price(self) -> float | None:
        """Price of output tokens that covers the bill with ``input_price`` [USD per 1e6 tokens]; None without that."""
        if self.input_price is None:
            return None
        revenue = self.revenue_per_hour({"input": self.input_price, "cached_input": self.input_price})
        return (self.dollars_per_hour - revenue) / self.tokens_per_hour["output"] * 1e6

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the fleet."""
        return [self.service.setup]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        promised = {"targets": self.targets.record(), **chances_record(self.chances(self.targets))}
        covered = {"input_price": self.input_price, "break_even_output_price": self.break_even_output_price}
        asked = {} if self.input_price is None else covered
        return {**price_record(self, self.api), **promised, **pick_record(self.pick), **asked}

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per kind of token; what the traffic costs is the bill, and as certain."""
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
    """Price the tokens of a traffic on some instances.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Of the whole traffic [1/s].
    replicas : int
        Instances [1].
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    load : Loaded, optional
        Of one instance, if it is known; by closed forms otherwise.

    Returns
    -------
    Sheet
        Averages add up to the bill exactly.

    Notes
    -----
    Allocation by the time of the instance that each kind takes, per request with its fellows at this load: new input
    tokens the prefill as if nothing were cached before them; cached ones what their presence adds to it; output
    tokens the rest of the time that the request takes up. Idle time is borne in the same proportion.
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
    """Price the tokens of a traffic on two pools.

    Parameters
    ----------
    fleet : PooledFleet
        Both pools under their load.
    found_tokens : float, optional
        Of the mean prompt in the cache, if it is known; otherwise those of the requests [tokens].

    Returns
    -------
    Sheet
        Averages add up to the bill exactly.

    Notes
    -----
    Output tokens pay for the time that decode instances are busy, input tokens for that of prefill instances: cached
    ones what their presence adds to a prompt. Idle time is borne in the same proportion, so that a few output tokens do
    not pay for a decode instance that waits.
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
    # With as many requests as one of the pools completes at most.
    full = [share * min(fleet.load.utilization, 1.0) / hourly for share in shares]
    average, marginal = _unit_costs(shares, tokens.values()), _unit_costs(full, sizes)
    return Sheet.of_pools(fleet, tokens_per_hour=tokens, average=average, marginal=marginal)


def _unit_costs(dollars: Iterable[Array | float], tokens: Iterable[float]) -> dict[str, float]:
    """Dollars per million tokens of each kind."""
    pairs = zip(KINDS, dollars, tokens, strict=True)
    return {kind: float(money.dollars_per_million(share, count)) for kind, share, count in pairs}


def busy_seconds(service: Service, concurrency: float) -> tuple[float, float, float]:
    """Time of an instance that one request takes up among so many in flight, for each of :data:`KINDS` [s]."""
    state = service.at(concurrency)
    seconds = float(1.0 / state.requests_per_second)
    # Prompts that share steps with each other and with decoding.
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
    """Cost of each kind of token at a traffic, on the cheapest deployment of an offer.

    Parameters
    ----------
    offers : Services, or sequence of Candidate or Services
        What competes, on one kind of chip (:func:`inference_econ.answers.deployments.serving_options.market`,
        :func:`inference_econ.answers.layout_services.offer`).
    requests_per_second : float, optional
        The whole traffic [1/s]. By default it is the share ``utilization`` (80 %) of what the instance or group with
        the cheapest tokens carries within the SLOs. All others are compared at that rate.
    targets : Targets, optional
        Promises that the deployment must keep; by default the speed that buyers of the model usually get, or 20
        tokens/s where that is not known or not reached (:mod:`inference_econ.answers.price`). ``Targets()`` promises
        nothing.
    replicas : int, optional
        Instances [1]; the fewest that keep the promises if not given. Given ones may be saturated: the sheet says so.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].
    utilization : float
        Largest load of a replica over what it completes, above 0 and at most 1; without a rate, this load [1].
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Sheet
        Tokens by kind, their costs, and the load, which is played where closed forms are not proven
        (:func:`inference_econ.serving.analytical_validity.simulate_where_needed`).

    Raises
    ------
    InputError
        If a rate, number or promise is impossible, or a number of instances is given where only pools compete.
    NothingFitsError
        If no layout keeps the promises.
    """
    if replicas is not None and not (replicas >= 1 and float(replicas).is_integer()):
        raise InputError(f"replicas must be a whole number from 1 on, got {replicas:g}")
    margin = Margin(utilization=1.0 if utilization is None else utilization)
    filled = FILLED if utilization is None else utilization
    candidates = as_candidates(offers)
    arrival_scv = arrivals_of(candidates[0].services.requests, arrival_scv).scv

    def priced(promised: Targets) -> Sheet:
        bill = _priced(candidates, requests_per_second, promised, replicas, arrival_scv, filled, margin, progress)
        return replace(bill, targets=promised)

    if targets is not None:
        cheapest, usual = priced(targets), None
    else:
        cheapest, usual = priced_as_usual(candidates[0].setup.model, priced)
    kept = " at this speed" if usual else " within the SLOs" if cheapest.targets.given else ""
    some = "" if replicas is None else f" of {replicas:g} instances"
    rule = (
        f"the cheapest at {100 * filled:g} % of what the instance or group with the cheapest tokens has{kept}"
        if requests_per_second is None
        else f"the cheapest fleet{some} that serves this rate{kept}"
    )
    return replace(cheapest, usual=usual, pick=SelectionRule(rule, sum(map(len, candidates))))


def _priced(
    candidates: Sequence[Candidate],
    rate: float | None,
    targets: Targets,
    replicas: int | None,
    arrival_scv: float,
    filled: float,
    margin: Margin,
    progress: Progress | None,
) -> Sheet:
    """The bill of the cheapest deployment; see :func:`price`."""
    both = [candidate.services for candidate in candidates if candidate.pools is None]
    if rate is None:
        alike = [candidate for candidate in candidates if candidate.pools is None] if replicas else candidates
        rate = (replicas or 1) * natural_rate(alike or candidates, targets, filled)
    if replicas is None:
        first = recommend(candidates, rate, targets, arrival_scv=arrival_scv, most=1, margin=margin, progress=progress)[
            0
        ]
        if first.fleet is not None:
            return fleet_sheet(first.fleet)
        return sheet(first.service, rate, replicas=first.replicas, load=first.load)
    if not both:
        raise InputError(
            f"replicas: got {replicas:g} instances that read prompts and decode, but only pools compete; "
            "leave the number out"
        )
    # Of the cheapest fleets of so many instances that complete the traffic, the one that completes most; the one of all
    # if none does.
    rates, bills = (
        np.concatenate(values)
        for values in (
            [promised_rates(layouts, targets) for layouts in both],
            [layouts.setup.dollars_per_hour(replicas, layouts.plans.accelerators) for layouts in both],
        )
    )
    enough = replicas * rates > rate
    smallest = enough & (bills == bills[enough].min()) if enough.any() else bills > 0
    index = int(np.argmax(np.where(smallest, rates, -1.0)))
    layouts, row = [(layouts, row) for layouts in both for row in range(len(layouts))][index]
    service = layouts.service(row)
    return sheet(
        service,
        rate,
        replicas=int(replicas),
        load=simulate_where_needed(service, arrivals_of(service.requests, arrival_scv))(rate / replicas, int(replicas)),
    )


def price_record(sheet: Sheet, api: Mapping[str, float] | None = None) -> dict[str, object]:
    """Prices as plain data; infinite latencies are null."""
    if sheet.fleet is None:
        served: dict[str, object] = {
            "serving": "aggregated",
            **service_record(sheet.service, sheet.replicas, sheet.load),
            **bounded_load(sheet.service, sheet.load, sheet.replicas, sheet.targets),
        }
    else:
        served = sheet.served_record(sheet.targets)
    record: dict[str, object] = {
        **served,
        "dollars_per_accelerator_hour": sheet.service.setup.dollars_per_accelerator_hour,
        "dollars_per_hour": sheet.dollars_per_hour,
        "tokens_per_second_per_user": sheet.tokens_per_second_per_user,
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
    """Cost of a million tokens of each kind on instances whose slots are all taken, and how far off it may be."""
    (instances,) = sheet.subjects()
    costs = {"marginal_dollars_per_million": dict(sheet.marginal)}
    return bounds.bounded(costs, bounds.ends(instances, {"marginal_dollars_per_million": ("throughput", -1)}))
