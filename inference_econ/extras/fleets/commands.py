"""The ``buy``, ``fleet``, ``rollout`` and ``gpu-cost`` commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError, NothingFitsError, of_option
from inference_econ.inputs import catalog
from inference_econ.inputs.units import integer
from inference_econ.requests import Request, prices, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.answers.deployments.serving_options import Candidate
    from inference_econ.extras.fleets.capacity_blocks import Way
    from inference_econ.extras.fleets.day import Policy
    from inference_econ.inputs import Elasticity

#: Default chips.
_USUAL = ("h100_sxm", "h200_sxm", "b200", "mi300x")


def buy(request: Request, chips: tuple[str, ...], api_prices: str | None, pricing: tuple[Way, ...]) -> Shown:
    """Compare the monthly cost of API tokens, rented GPUs and owned GPUs.

    The chart and the table show cost against load, and where the options break even. API offers are from the last
    recorded day. A fleet consists of deployments that 'recommend' finds within the SLOs, on each given GPU or on common
    GPUs. Without an SLO, a fleet must reach the median speed of API offers of the model. For a workload with sessions
    (--traffic), the load is a number of agents (--agents).
    """
    from inference_econ.extras.fleets.buy import MONTHLY

    offers, api = market_of_chips(request, workload.requests(request), chips), offers_of(api_prices, request.model)
    targets, scv, rate = workload.default_targets(request), request.arrival_scv, request.request_rate
    return ie.buy(offers, api, targets, ways=pricing or MONTHLY, arrival_scv=scv, request_rate=rate)


def market_of_chips(request: Request, requests: ie.Requests, chips: Sequence[str]) -> list[Candidate]:
    """Candidates on the given chips, or on the default chips that can serve the model.

    Raises
    ------
    InputError, NothingFitsError
        If a given chip cannot serve the model, or no default chip can.
    """
    named = tuple(dict.fromkeys(chips)) or _USUAL
    request = replace(request, price=prices.prices_of_chips(request.price, named))
    offers: list[Candidate] = []
    failures: list[InputError | NothingFitsError] = []
    for chip in named:
        try:
            offers += subject.candidates(replace(request, hardware=chip), requests, chip)
        except (InputError, NothingFitsError) as error:
            if chips:
                raise
            failures.append(error)
    if not offers:
        raise failures[0]
    return offers


def offers_of(text: str | None, model: str) -> dict[str, Mapping[str, float]]:
    """Token prices of a given provider, or of all recorded providers, by kind of token."""
    from inference_econ.answers.deployments.default_slo import offers_of as recorded
    from inference_econ.extras.fleets.buy import charged

    spec = inputs.catalog.model(model)
    if text is None:
        return {**charged(recorded(spec))}
    kinds, offer = prices.offered(spec, text)
    return {"given" if offer is None else f"{text}, {offer.date}": kinds}


def fleet(
    request: Request,
    rates: tuple[float, ...] | None,
    stock: tuple[str, ...],
    pricing: tuple[Way, ...],
    policy: Policy,
    target: float | None,
    min_replicas: int,
    start_up: float | None,
    interruptions: float | None,
    spot_share: float | None,
) -> Shown:
    """Plan the cheapest fleet for a day of changing load.

    The plan combines GPU types and reserved, on-demand and spot machines for known hourly loads. A solver bounds the
    excess cost of the plan over the optimum. A simulation compares the plan with an autoscaler that does not know the
    load in advance. Without --target, the autoscaler uses the cheapest target at which 99% of requests meet the SLOs.
    Without an SLO, the fleet must reach the median speed of API offers of the model. Replicas are aggregated instances,
    as in 'recommend --aggregated'. If a disaggregated deployment would cost less, the command reports its cost.
    """
    from inference_econ.extras.fleets.capacity_blocks import WAYS

    requests, targets = workload.requests(request, fitted=True), workload.default_targets(request)
    day = _day(rates, requests)
    # The rates contain the hourly profile. Within an hour, arrivals have a constant rate.
    if requests.arrivals is not None:
        requests = requests.replace(arrivals=requests.arrivals.replace(rates=()))
    rules = elasticity(start_up, interruptions, spot_share)
    request = replace(request, price=prices.prices_of_chips(request.price, request.chips))
    return ie.fleet(
        subject.candidates_on_chips(request, requests),
        day,
        targets,
        arrival_scv=request.arrival_scv,
        stock=stock_of(stock),
        ways=pricing or WAYS,
        elasticity=rules,
        progress=request.progress,
        policy=policy,
        target=target,
        min_replicas=min_replicas,
    )


def elasticity(start_up: float | None, interruptions: float | None, spot_share: float | None) -> Elasticity:
    """Scaling behavior of fleets: defaults, except for the given values.

    Parameters
    ----------
    start_up : float or None
        Start-up time of a replica [s].
    interruptions : float or None
        Interruptions of a spot instance [1/h].
    spot_share : float or None
        Largest share of spot instances [1].
    """
    rules = {"startup_seconds": start_up, "interruptions_per_hour": interruptions, "spot_share": spot_share}
    return catalog.elasticity().replace(**{name: value for name, value in rules.items() if value is not None})


def _day(rates: Sequence[float] | None, requests: ie.Requests) -> Sequence[float]:
    """Requests per second of each hour.

    Raises
    ------
    InputError
        If neither the options nor the workload contain hourly request rates.
    """
    from inference_econ.extras.fleets.day import rates_by_hour

    if rates is not None:
        return tuple(rates)
    if requests.arrivals is None:
        raise InputError(
            "give the requests/s of each hour: --rates R,R,..., --traffic FILE or --trace FILE", option="rates"
        )
    return rates_by_hour(requests.arrivals)


def stock_of(texts: Sequence[str]) -> Mapping[str, int]:
    """Parse the number of available accelerators of each chip.

    Raises
    ------
    InputError
        If the syntax is wrong, or a chip is repeated.
    """
    stock: dict[str, int] = {}
    for text in texts:
        name, sign, count = (part.strip() for part in text.partition("="))
        if not sign or not count.isdecimal():
            raise InputError(f"--stock {text!r}: write HARDWARE=N, for example h100_sxm=64", option="stock")
        with of_option("stock"):
            chip = catalog.meaning("hardware", name).name
        if chip in stock:
            raise InputError(f"--stock {chip} is given twice; give it once", option="stock")
        stock[chip] = integer(count)
    return stock


def rollout(
    request: Request,
    prompts: int,
    samples: int,
    isl: str,
    osl: str,
    max_tokens: int | None,
    gpus: int,
    concurrency: int | None,
    finished: float,
    learner: bool,
    mfu: float | None,
) -> ie.Rollout:
    """Estimate cost and time of RL rollouts and offline batches.

    A batch of prompts x samples starts at once, and the command simulates every request. The result has dollars and
    hours per 1,000 trajectories, and the time in which only the longest trajectories run. With --learner, training
    shares all GPUs with generation or uses a part of the GPUs. MODEL and HARDWARE are names or paths of YAML files.
    """
    if mfu is not None and not learner:
        raise InputError("--mfu is that of a --learner; give both, or neither", option="mfu")
    learning = catalog.learning() if learner else None
    if learning is not None and mfu is not None:
        learning = learning.replace(mfu=mfu)
    requests = workload.requests(request, isl=isl, osl=osl)
    # Arrivals and caching of a workload do not apply to a batch.
    requests = type(requests)(requests.isl, requests.osl)
    offers = subject.candidates_on_chips(
        replace(request, price=prices.prices_of_chips(request.price, request.chips), aggregated=True), requests
    )
    return ie.rollout(
        offers,
        gpus,
        prompts=prompts,
        samples=samples,
        concurrency=concurrency,
        finished=finished,
        max_tokens=max_tokens,
        learner=learning,
        progress=request.progress,
    )


def hour_cost(
    request: Request,
    purchase: float | None,
    lifetime_years: float | None,
    utilisation: float | None,
    board_watts: float | None,
    host_watts: float | None,
    pue: float | None,
    dollars_per_kwh: float | None,
    yearly_operations: float | None,
    cost_of_capital: float | None,
) -> Shown:
    """Compute the hourly cost of an owned GPU from its purchase price.

    The parts are depreciation, capital, power, cooling (PUE) and operations. In other commands, --price owned uses this
    cost if the GPU's file lists a purchase price, and --price USD sets your own total.
    """
    given = {
        "lifetime_years": lifetime_years,
        "utilisation": utilisation,
        "host_watts": host_watts,
        "pue": pue,
        "dollars_per_kwh": dollars_per_kwh,
        "yearly_operations": yearly_operations,
        "cost_of_capital": cost_of_capital,
    }
    terms = catalog.ownership().replace(**{name: value for name, value in given.items() if value is not None})
    grid = None if request.carbon is None else ie.grid(request.carbon)
    return ie.hour_cost(request.hardware, purchase, board_watts=board_watts, terms=terms, grid=grid)
