"""What each kind of token costs at a traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from inference_econ._shown import Shown
from inference_econ._types import Array, Progress
from inference_econ.answers.buyer import UsualSpeed, priced_as_usual
from inference_econ.answers.promises import Targets, promised_rates
from inference_econ.answers.recommend import FILLED, naturally_filled, recommend
from inference_econ.answers.subjects import under_load
from inference_econ.engine import Instances
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.serving import Loaded, Service, Services, loaded, served

#: Kinds of tokens, each with a price of its own.
KINDS = money.Bill._fields
#: Seconds of an hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Sheet(Shown):
    """The bill of a service, and what a million tokens of each kind cost.

    Attributes
    ----------
    service : Service
        One instance.
    replicas : int
        Instances that share the traffic evenly [1].
    load : Loaded
        Of one instance.
    dollars_per_hour : float
        The whole bill [USD/h].
    tokens_per_hour : dict of str to float
        By kind (:data:`KINDS`) [1/h]; of a saturated service what it completes.
    average : dict of str to float
        Dollars per million tokens by kind; with ``tokens_per_hour`` they add up to the bill [USD per 1e6 tokens].
    marginal : dict of str to float
        The same on instances whose slots are all taken: what further tokens cost once they need further instances
        [USD per 1e6 tokens].
    targets : Targets
        What is promised.
    usual : UsualSpeed or None
        Whose speed that is where nobody promised one.
    """

    service: Service
    replicas: int
    load: Loaded
    dollars_per_hour: float
    tokens_per_hour: Mapping[str, float]
    average: Mapping[str, float]
    marginal: Mapping[str, float]
    targets: Targets = field(default_factory=Targets)
    usual: UsualSpeed | None = None

    @property
    def accelerators(self) -> int:
        """Chips of all instances [1]."""
        return self.replicas * self.service.accelerators

    @property
    def rented(self) -> int:
        """Chips of the machines that hold them [1]."""
        return int(self.service.setup.rented(self.replicas, self.service.accelerators))

    @property
    def dollars_per_million_tokens(self) -> float:
        """The bill over all tokens, whatever their kind [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, sum(self.tokens_per_hour.values())))

    @property
    def dollars_per_million_output_tokens(self) -> float:
        """The whole bill over output tokens [USD per 1e6 tokens]."""
        return float(money.dollars_per_million(self.dollars_per_hour, self.tokens_per_hour["output"]))

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Output tokens of one user on average, after the first [tokens/s]; None of answers of one token."""
        tpot = self.load.tpot_seconds["mean"]
        return 1.0 / tpot if tpot > 0.0 else None

    def subjects(self) -> tuple[Instances, ...]:
        """An instance under its load."""
        return under_load([(self.service, self.load)])

    def revenue_per_hour(self, prices: Mapping[str, float]) -> float:
        """What the traffic brings in at some prices by kind [USD/h]; prices are in USD per 1e6 tokens."""
        return sum(self.tokens_per_hour[kind] * prices.get(kind, 0.0) / 1e6 for kind in KINDS)


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
        load = loaded(service, requests_per_second / replicas, arrival_scv=arrival_scv)
    requests, setup = service.requests, service.setup
    bill = float(setup.dollars_per_hour(replicas, service.accelerators))
    second = float(setup.dollars_per_hour_in_bulk(service.accelerators)) / _HOUR
    each = dict(zip(KINDS, (requests.new_tokens, requests.cached, requests.osl.mean), strict=True))
    hourly = load.completed_per_second * replicas * _HOUR
    tokens = {kind: hourly * count for kind, count in each.items()}
    shares = money.allocate(bill, *busy_seconds(service, load.in_flight))
    full = [second * seconds for seconds in busy_seconds(service, service.slots)]
    return Sheet(
        service, replicas, load, bill, tokens, _unit_costs(shares, tokens.values()), _unit_costs(full, each.values())
    )


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
    layouts: Services,
    requests_per_second: float | None = None,
    *,
    targets: Targets | None = None,
    replicas: int | None = None,
    arrival_scv: float = 1.0,
    progress: Progress | None = None,
) -> Sheet:
    """What each kind of token costs at a traffic, on the cheapest deployment of an offer.

    Parameters
    ----------
    layouts : Services
        To choose from (:func:`inference_econ.answers.offer.offer`).
    requests_per_second : float, optional
        The whole traffic [1/s]; by default 80 % of what each instance carries within the promises, of the layout
        whose tokens are the cheapest so.
    targets : Targets, optional
        Promises that the deployment must keep; by default the speed that buyers of the model usually get, or 20
        tokens/s where that is not known or not reached (:mod:`inference_econ.answers.buyer`). ``Targets()`` promises
        nothing.
    replicas : int, optional
        Instances [1]; the fewest that keep the promises if not given. Given ones may be saturated: the sheet says so.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Sheet
        Tokens by kind, their costs, and the load, which is played where closed forms are not proven
        (:func:`inference_econ.serving.proven.served`).

    Raises
    ------
    InputError
        If a rate, number or promise is impossible.
    NothingFitsError
        If no layout keeps the promises.
    """
    if replicas is not None and not (replicas >= 1 and float(replicas).is_integer()):
        raise InputError(f"replicas must be a whole number from 1 on, got {replicas:g}")

    def priced(promised: Targets) -> Sheet:
        found = _priced(layouts, requests_per_second, promised, replicas, arrival_scv, progress)
        return replace(found, targets=promised)

    if targets is not None:
        return priced(targets)
    cheapest, usual = priced_as_usual(layouts.setup.model, priced)
    return replace(cheapest, usual=usual)


def _priced(
    layouts: Services,
    rate: float | None,
    targets: Targets,
    replicas: int | None,
    arrival_scv: float,
    progress: Progress | None,
) -> Sheet:
    """The bill of the cheapest deployment; see :func:`price`."""
    if rate is None:
        filled = naturally_filled(layouts, targets)
        # Where nothing keeps the promises, it is said of any rate.
        rate = (replicas or 1) * (filled.requests_per_second or FILLED)
        layouts = layouts.take(np.array([filled.layout])) if filled.requests_per_second else layouts
    if replicas is None:
        best = recommend([layouts], rate, targets, arrival_scv=arrival_scv, most=1, progress=progress)[0]
        return sheet(best.service, rate, replicas=best.replicas, load=best.load)
    rates = promised_rates(layouts, targets)
    # Of the cheapest fleets of so many instances that complete the traffic, the one that completes most; the one of all
    # if none does.
    enough = replicas * rates > rate
    bills = layouts.setup.dollars_per_hour(replicas, layouts.plans.accelerators)
    smallest = enough & (bills == bills[enough].min()) if enough.any() else bills > 0
    index = int(np.argmax(np.where(smallest, rates, -1.0)))
    service = layouts.service(index)
    return sheet(service, rate, replicas=int(replicas), load=served(service, arrival_scv)(rate / replicas))
