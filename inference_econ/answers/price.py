"""What each kind of token costs at a traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inference_econ.answers.recommend import Targets, natural_rate, promised_rates, recommend
from inference_econ.answers.subjects import under_load
from inference_econ.engine.uncertainty import Instances
from inference_econ.errors import InputError
from inference_econ.serving.load import Loaded, loaded
from inference_econ.serving.services import Service, Services

#: Kinds of tokens, each with a price of its own.
KINDS = ("input", "cached_input", "output")
_HOUR, _MILLION = 3600.0, 1e6


@dataclass(frozen=True, slots=True)
class Sheet:
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
    """

    service: Service
    replicas: int
    load: Loaded
    dollars_per_hour: float
    tokens_per_hour: Mapping[str, float]
    average: Mapping[str, float]
    marginal: Mapping[str, float]

    @property
    def accelerators(self) -> int:
        """Chips of all instances [1]."""
        return self.replicas * self.service.accelerators

    @property
    def dollars_per_million_tokens(self) -> float:
        """The bill over all tokens, whatever their kind [USD per 1e6 tokens]."""
        return self.dollars_per_hour * _MILLION / sum(self.tokens_per_hour.values())

    def subjects(self) -> tuple[Instances, ...]:
        """An instance under its load."""
        return under_load([(self.service, self.load)])

    def revenue_per_hour(self, prices: Mapping[str, float]) -> float:
        """What the traffic brings in at some prices by kind [USD/h]; prices are in USD per 1e6 tokens."""
        return sum(self.tokens_per_hour[kind] * prices.get(kind, 0.0) / _MILLION for kind in KINDS)


def sheet(
    service: Service,
    requests_per_second: float,
    *,
    replicas: int = 1,
    arrival_scv: float = 1.0,
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
    load = loaded(service, requests_per_second / replicas, arrival_scv=arrival_scv)
    requests, seconds = service.requests, busy_seconds(service, load.in_flight)
    full = busy_seconds(service, service.slots)
    counts = {"input": requests.new_tokens, "cached_input": requests.cached, "output": requests.osl.mean}
    price = service.setup.dollars_per_accelerator_hour
    bill = replicas * service.accelerators * price
    hourly = load.completed_per_second * replicas * _HOUR
    whole = sum(seconds.values())
    tokens = {kind: hourly * counts[kind] for kind in KINDS}
    dollars = {kind: bill * seconds[kind] / whole for kind in KINDS}
    per_second = service.accelerators * price / _HOUR
    return Sheet(
        service,
        replicas,
        load,
        bill,
        tokens,
        {kind: _per_million(dollars[kind], tokens[kind]) for kind in KINDS},
        {kind: _per_million(full[kind] * per_second, counts[kind]) for kind in KINDS},
    )


def busy_seconds(service: Service, concurrency: float) -> dict[str, float]:
    """Time of an instance that one request takes up among so many in flight, by kind of token [s]."""
    requests, state = service.requests, service.at(concurrency)
    alone = float(service.reading(requests.new_tokens).busy_seconds[0])
    whole = float(1.0 / state.requests_per_second)
    reading = min(service.prefill_busy_seconds, whole)
    fresh = min(alone, reading)
    return {"input": fresh, "cached_input": reading - fresh, "output": whole - reading}


def _per_million(dollars: float, tokens: float) -> float:
    return dollars * _MILLION / tokens if tokens else 0.0


def price(
    layouts: Services,
    requests_per_second: float | None = None,
    *,
    targets: Targets | None = None,
    replicas: int | None = None,
    arrival_scv: float = 1.0,
) -> Sheet:
    """What each kind of token costs at a traffic, on the cheapest deployment of an offer.

    Parameters
    ----------
    layouts : Services
        To choose from (:func:`inference_econ.answers.offer.offer`).
    requests_per_second : float, optional
        The whole traffic [1/s]; by default :func:`inference_econ.answers.recommend.natural_rate`.
    targets : Targets, optional
        Promises that the deployment must keep.
    replicas : int, optional
        Instances [1]; the fewest that keep the promises if not given. Given ones may be saturated: the sheet says so.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].

    Returns
    -------
    Sheet
        Tokens by kind, their costs, and the load.

    Raises
    ------
    InputError
        If a rate, number or promise is impossible.
    NothingFitsError
        If no layout keeps the promises.
    """
    promised = Targets() if targets is None else targets
    if replicas is None:
        rate = natural_rate([layouts], promised) if requests_per_second is None else requests_per_second
        best = recommend([layouts], rate, promised, arrival_scv=arrival_scv, most=1)[0]
        return sheet(best.service, rate, replicas=best.replicas, arrival_scv=arrival_scv)
    if not (replicas >= 1 and float(replicas).is_integer()):
        raise InputError(f"replicas must be a whole number from 1 on, got {replicas:g}")
    rates = promised_rates(layouts, promised)
    rate = requests_per_second or replicas * natural_rate([layouts], promised)
    # Of the cheapest fleets of so many instances that complete the traffic, the one that completes most; the one of all
    # if none does.
    enough = replicas * rates > rate
    sizes = layouts.plans.accelerators
    smallest = enough & (sizes == sizes[enough].min()) if enough.any() else sizes > 0
    index = int(np.argmax(np.where(smallest, rates, -1.0)))
    return sheet(layouts.service(index), rate, replicas=int(replicas), arrival_scv=arrival_scv)
