"""Commands about deployments, frontiers, and single instances."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import inference_econ as ie
from inference_econ import answers, inputs, search
from inference_econ._named import named
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, MEAN_CONTEXT, catalog
from inference_econ.records.plain import finite_or_none
from inference_econ.requests import Request, prices, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.report.page import Page
    from inference_econ.search import Metric


def recommend(request: Request, most: int) -> Shown:
    """Find the cheapest deployments that meet latency SLOs at a request rate.

    Use --on to compare several GPU types. If no deployment meets the SLOs, the command reports the best reachable
    latencies. Without an SLO, the mean TPOT must reach the median speed of recorded API offers of the model, or else 20
    tokens/s. --any-speed removes this SLO.

    Aggregated and disaggregated deployments compete. With --decode-on, the decode pool of a disaggregated deployment
    runs on another GPU type.

    With --gpus, --budget or --power-budget, the command finds the largest load that these GPUs, this hourly cost or
    this facility power can serve within the SLOs. If --traffic has sessions, the load is a number of agents.
    """
    workload.check_sizes(request)
    means = workload.means(request)
    chips = tuple(dict.fromkeys((*request.chips, *filter(None, [request.decode_on]))))
    rates = prices.prices_of_chips(request.price, chips)
    request = replace(request, price=rates if request.budget is not None else prices.with_unpriced(rates, chips))
    requests, targets, scv = workload.requests(request), workload.default_targets(request), request.arrival_scv
    if means is not None:
        if request.plot is not None:
            raise InputError(
                "--plot draws deployments at a request rate; what --gpus, --budget or --power-budget carries has none",
                option="gpus",
            )
        stray = ("burst", "headroom", "spare", "think_time", "most_utilization")
        refuse(
            request.named(stray),
            "{} applies only to deployments for a given load; leave out --gpus, --budget or --power-budget",
        )
        return answers.recommend.most_traffic(
            subject.candidates_on_chips(request, requests), means, targets, arrival_scv=scv, most=most
        )
    users, rate = workload.users(request), workload.request_rate(request, requests)
    options: dict[str, Any] = {
        "arrival_scv": scv,
        "most": most,
        "margin": workload.margin(request),
        "progress": request.progress,
    }

    def answer(chosen: Request) -> ie.Recommendation:
        offers = subject.candidates_on_chips(chosen, requests)
        if users is not None:
            return answers.recommend.recommend_for_users(offers, users, targets, **options)
        return answers.recommend.recommend(offers, rate, targets, **options)

    deployments, started = answer(request), subject.among_startable(request, answer)
    return replace(deployments, startable=started[0] if started else None)


Numbers = tuple[float, ...] | None


def load(request: Request, rates: Numbers, replicas: int | None, simulate: bool | None) -> Shown:
    """Show latency, utilization, goodput and cost of one fleet at several loads.

    If you give no engine or layout, the command selects the layout with the most completed requests per dollar. With
    --ttft, --tpot or --e2e, the column 'SLO met %' is the share of requests that meet all SLOs. MODEL and HARDWARE are
    names or paths of YAML files.
    """
    request = prices.optional(request)
    requests = workload.requests(request)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    offers = subject.candidates(replace(request, aggregated=True), requests)
    targets, scv = workload.targets(request), request.arrival_scv
    settings: dict[str, Any] = {
        "replicas": replicas, "gpus": request.gpus, "arrival_scv": scv, "simulate": simulate,
    }  # fmt: skip
    return answers.load.load(offers, rates, targets=targets, progress=request.progress, **settings)


#: Options that apply to a request rate, but not to a concurrency.
_OF_RATES = ("ttft", "tpot", "e2e", "confidence", "arrival_scv", "percentile")


def estimate(request: Request, concurrency: tuple[int, ...] | None, replicas: int | None) -> Shown:
    """Estimate latency, speed, cost and energy of one deployment at a load.

    The load is a number of concurrent requests or a request rate. Without a layout (--tp, ...), the command selects the
    aggregated layout with the fewest GPUs for this load. MODEL and HARDWARE are names or paths of YAML files.
    """
    request = prices.optional(request)
    requests = workload.requests(request)
    candidates = subject.candidates(replace(request, aggregated=True), requests)
    if request.request_rate is None:
        refuse(filter(request.is_given, _OF_RATES), "{} goes with --request-rate")
        return answers.load.estimate(candidates, concurrency or (), replicas=replicas or 1)
    if concurrency is not None:
        raise InputError("give either --concurrency or --request-rate, not both", option="concurrency")
    targets, scv = workload.targets(request), request.arrival_scv
    return answers.load.estimate_rate(
        candidates, request.request_rate, targets, arrival_scv=scv, replicas=replicas, progress=request.progress
    )


def price(request: Request, api_prices: str | None, replicas: int | None, input_price: float | None) -> Shown:
    """Compute the cost of input, cached input and output tokens at a load.

    The command selects the cheapest deployment that meets the SLOs, and the cost includes idle time. Without an SLO,
    the deployment must reach the median speed of recorded API offers of the model. If no deployment reaches the median
    speed, or no offer has a speed, 20 tokens/s per user are required. MODEL and HARDWARE are names or paths of YAML
    files.
    """
    requests, targets = workload.requests(request), workload.default_targets(request)
    layouts, rate = subject.candidates(request, requests), workload.request_rate(request, requests)
    # Reject invalid prices before the calculation.
    api, offer = (None, None) if api_prices is None else prices.offered(layouts[0].setup.model, api_prices)
    used = request.most_utilization
    sheet = answers.price.price(
        layouts,
        rate,
        targets=targets,
        progress=request.progress,
        replicas=replicas,
        arrival_scv=request.arrival_scv,
        utilization=None if used is None else used / 100.0,
    )
    return replace(sheet, api=api, offer=offer, input_price=input_price)


def fits(request: Request, concurrency: int) -> ie.Fits:
    """Check whether a model fits on a GPU, and how many GPUs it needs.

    The table lists instance sizes with their concurrent requests and longest request. By default, an instance runs on
    one machine; --instance-gpus, --max-instance-gpus and degrees set other sizes. If no instance fits on one machine,
    the command reports how many GPUs are needed. The exit code is 0 if the model fits, else 1. MODEL and HARDWARE are
    names or paths of YAML files.
    """
    space = subject.space(request)
    return answers.fits.fits(subject.setup(request), workload.requests(request), space, concurrency=concurrency)


def explain(
    request: Request, operators: bool | None, memory: bool | None, prefill: float | None, to: float | None
) -> Page:
    """Break one decode or prefill step down into time, bottlenecks and memory.

    With --over, the command shows the arithmetic intensity of each operator, and the batch size, context or prompt
    length from which an operator is compute-bound.

    A decode step uses the mean context of --isl and --osl, or --context. A prefill step (--prefill) starts from an
    empty cache unless --context is given. MODEL and HARDWARE are names or paths of YAML files.
    """
    from inference_econ import report

    refuse(["to"] if to is not None else [], "{} goes with --over")
    if request.contexts is None:
        context, spread = workload.step_contexts(request, prefill)
    else:
        stray = [*(["prefill"] if prefill is not None else []), *request.named(("context", "isl", "osl", "batch"))]
        refuse(stray, "--contexts says the context of every sequence that decodes; leave {} out", "contexts")
        context, spread = 0.0, 0.0
    explanation = subject.fewest(
        request,
        lambda pinned: answers.explain.explain(
            subject.setup(request),
            subject.pins(pinned),
            context=context,
            prompt=prefill,
            cut=request.cut,
            shared_prefix=request.shared_prefix or 0.0,
            spread=spread,
            contexts=request.contexts or (),
        ),
    )
    return report.explain.ExplanationPage(explanation, operators, memory)


def intensity(request: Request, over: answers.explain.Axis, to: float | None, prefill: float | None) -> ie.Intensity:
    """Show the arithmetic intensity of each operator, and the value from which the operator is compute-bound."""
    of_steps = ("operators", "memory", "roofline", "contexts", "no_kv_cache", "shared_prefix")
    refuse(filter(request.is_given, of_steps), "{} is of one step; leave it out with --over")
    if over == "context":
        varied = request.named(("context", "isl", "osl"))
        refuse(varied, "{} says what --over context varies; leave one of them out")
        context, spread = None, 0.0
    else:
        context, spread = workload.step_contexts(request, 1.0 if over == "prompt" else prefill)
    setup = subject.setup(request)
    return subject.fewest(
        request,
        lambda pinned: answers.explain.intensity(
            setup,
            subject.pins(pinned),
            context=context,
            spread=spread,
            over=over,
            most=to,
            prompt=prefill,
            cut=request.cut,
        ),
    )


def speculate(request: Request) -> Shown:
    """Compare TPOT and cost of one deployment with and without speculation.

    The table lists numbers of concurrent requests, and the command reports where speculation stops paying off. By
    default, each batch uses its best draft length, so the speedup is an upper bound for engines. With --draft-length,
    every speculation round has the same length. The speedup may be below 1, because a draft model also prefills each
    prompt. MODEL and HARDWARE are names or paths of YAML files.
    """
    speculation = subject.speculation(request)
    if speculation is None:
        raise InputError("give a speculation method: --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = subject.setup(request), workload.requests(request)
    return subject.fewest(
        request, lambda pinned: answers.speculate.speculate(setup, requests, speculation, subject.pins(pinned))
    )


#: Default share of a prompt that is cached [1].
_HIT_RATE = 0.75


def cache(
    request: Request,
    isl: float | None,
    osl: float,
    hit_rate: float | None,
    turns: float | None,
    user_tokens: float,
    system_tokens: float,
    think_time: float,
    lifetime: float,
    replicas: int | None,
    routing: answers.prefix_cache.Routing | None,
) -> answers.prefix_cache.Offloading:
    """Compare recomputing a cached prefix with loading it from a cache tier.

    Tiers are HBM, host memory and SSD. The table has time and cost, and the prefix length from which loading is faster.
    With --turns, the table adds the hit rate of a conversation in each tier, on one instance or behind a router
    (--replicas, --routing). With --traffic, hit rates come from simulated sessions. MODEL and HARDWARE are names or
    paths of YAML files.
    """
    places = [catalog.tier(name) for name in request.tiers or catalog.part_names("tiers")]
    routes = [name for name, value in (("replicas", replicas), ("routing", routing)) if value is not None]
    if request.traffic is not None:
        raise InputError(
            f"{request.traffic} has no sessions of agents; name coding_agent, chat, rag or batch, or a "
            "file with sessions"
        )
    conversation = None
    if turns is None:
        refuse(routes, "{} says where turns of conversations go; give --turns as well")
    else:
        if isl is not None or hit_rate is not None:
            raise InputError("give either --turns, or --isl and --hit-rate, not both", option="turns")
        if routing is not None and (replicas or 1) < 2:
            raise InputError(
                "--routing says which of several instances a turn goes to; give --replicas of 2 or more",
                option="routing",
            )
        conversation = ie.Conversation(turns, user_tokens, osl, think_time, lifetime, system_tokens)
        conversation = replace(conversation, replicas=replicas or 1, routing=routing or "prefix_aware")
    length, share = DEFAULT_ISL if isl is None else isl, _HIT_RATE if hit_rate is None else hit_rate
    tokens, prefix = answers.prefix_cache.prompt(length, share, conversation=conversation)
    requests = workload.requests(request, isl=tokens, osl=osl)
    layouts = subject.fewest(request, lambda pinned: subject.offer(pinned, requests))
    rate = request.request_rate
    return answers.prefix_cache.offload(
        layouts, places, prefix_tokens=prefix, conversation=conversation, requests_per_second=rate
    )


Front = TypeVar("Front", "ie.Frontier", "ie.ServiceFrontier")


def frontier(request: Request) -> Page:
    """Show the Pareto frontier of cost per token against speed per user.

    MODEL and HARDWARE are names (see 'inference-econ list models' and 'inference-econ list gpus') or paths to YAML
    files. To compare models, GPUs or values of an option, give several of them; 'compare --help' lists more options for
    comparisons.

    If you give one of --tp, --pp and --dp, the other two default to 1; a value of 'any' searches over the degree.
    Degrees that you give may be outside the search grid. Each point of the frontier is a layout under continuous
    batching, and its cost includes prefill. The latencies exclude queueing, which 'load' includes. With --decode-only,
    each point is a single decode step.
    """
    from inference_econ import report

    if workload.decode_steps(request):
        return _decode_steps(request)
    reused: dict[str, Any] = {"cached": request.cached or 0, "shared_prefix": request.shared_prefix or 0}
    requests = workload.requests(request, **workload.context_or_lengths(request), **reused)
    if request.decode_on is not None:
        request = replace(request, price=prices.prices_of_chips(request.price, (request.hardware, request.decode_on)))
    hardware = request.hardware if request.decode_on else None
    promises = workload.targets(replace(request, percentile="mean"))

    def answer(chosen: Request) -> ie.ServiceFrontier:
        candidates = subject.candidates(chosen, requests, hardware, ttft_seconds=promises.ttft_seconds)
        return answers.serving_frontier.service_frontier(candidates, promises)

    return report.frontier.FrontierPage(_beside_startable(request, answer), request.y)


def _decode_steps(request: Request) -> Page:
    """Frontier of decode steps."""
    from inference_econ import report

    def answer(chosen: Request) -> ie.Frontier:
        demand = {"max_tokens_per_second": chosen.max_tokens_per_second}
        traffic = ie.Traffic.build({**workload.context_or_lengths(chosen), **demand}, origin="command line")
        speculation, setup, space = subject.speculation(chosen), subject.setup(chosen), subject.space(chosen)
        return answers.layout_services.decode_frontier(
            setup, traffic, space, speculation=speculation, progress=request.progress
        )

    front = _beside_startable(request, answer)
    return report.frontier.FrontierPage(front, request.y)


def _beside_startable(request: Request, answer: Callable[[Request], Front]) -> Front:
    """Compute a frontier, with the cost that unsupported layouts save if layouts need no engine."""
    front = answer(request)
    return replace(front, saving=search.saved_by(front, subject.among_startable(request, answer)))


def compare(
    request: Request,
    hardware: tuple[str, ...],
    listed: tuple[str, ...],
    speeds: tuple[float, ...],
    costs: tuple[float, ...],
    y: Metric,
) -> Page:
    """Compare cost and speed of several models, GPUs, formats or presets.

    Every combination of repeated options is a row of the table and a curve of the chart. MODEL is a name (see
    'inference-econ list models') or a path. Columns are the cost at given speeds and the speed at given costs. The
    chart shows the metric --y against speed. Costs include prefill; with --decode-only, they are costs of decode steps
    alone.
    """
    from inference_econ import report, studies

    common, rates = subject.shared_settings(request), prices.of_compared(request.price, hardware)
    result = studies.compare.compare(price=rates, series=_series(listed), progress=request.progress, **common)
    page = report.compare.ComparisonPage(result, sorted(set(speeds)), sorted(set(costs)), y)
    if len(report.compare.undrawn(result, y)) == len(result.curves):
        result.curves[0].front.metric(y)  # rejects unknown metrics, with or without a picture
    return page


def scenario_text(request: Request, hardware: tuple[str, ...], listed: tuple[str, ...]) -> str:
    """Scenario file that is equivalent to the options of the command."""
    from inference_econ import studies

    common, rates = subject.shared_settings(request), prices.of_compared(request.price, hardware)
    models, _ = common.pop("models"), common.pop("hardware")
    return inputs.spec_text(studies.compare.asked_scenario(models, hardware, rates, _series(listed), common))


def _series(texts: tuple[str, ...]) -> dict[str, inputs.Settings]:
    """Parse ``LABEL: KEY=VALUE, KEY=VALUE`` texts; a comma inside brackets belongs to a value."""
    series: dict[str, inputs.Settings] = {}
    for text in texts:
        label, colon, rest = (part.strip() for part in text.partition(":"))
        if label in series:
            raise InputError(f"--series {text!r}: the label {label!r} is taken", option="series")
        pairs: dict[str, str] = {}
        for part in re.split(r",(?![^\[{]*[\]}])", rest):
            key, sign, value = (piece.strip() for piece in part.partition("="))
            if not (label and colon and key and sign and value) or key in pairs:
                raise InputError(
                    f"--series {text!r}: write 'LABEL: KEY=VALUE, KEY=VALUE', each key once", option="series"
                )
            pairs[key] = value
        with of_option("series"):
            series[label] = inputs.Settings.from_text(pairs, origin=f"--series {label!r}")
    return series


def sensitivity(
    request: Request,
    names: tuple[str, ...],
    speeds: tuple[float, ...],
    inputs: tuple[str, ...],
    span: tuple[float, float],
) -> Shown:
    """Show how cost and speed depend on each input, and where the layout changes.

    Values are elasticities at a speed: the change of cost or speed, in percent, for 1% more of an input. Inputs
    describe the GPU, network, host, price, requests and model.

    With --vary, inputs have distributions, and the result has cost intervals of each GPU, and the probability that one
    GPU is cheaper than another. An input is price, isl, acceptance, hardware.FIELD or similar. A distribution is
    INPUT=NAME(PARAMETER=VALUE, ...), where NAME is a distribution of scipy.stats. With 'relative' as a further
    parameter, values are factors on the current value. 'GPU: INPUT=...' applies to one GPU. 'profile' uses the
    prediction errors of each profile. STUDY is a YAML file of the kind 'uncertainty' (see 'list scenarios'). MODEL and
    HARDWARE are names or paths of YAML files.
    """
    from inference_econ import studies
    from inference_econ.inputs import Settings

    if len(names) > 2:
        raise InputError(
            "several GPUs need --vary: --vary profile (prediction errors), or for example --vary "
            "'price=uniform(loc=2, scale=2)', 'h100_sxm: price=lognorm(s=0.2, relative)'",
            option="vary",
        )
    refuse(filter(request.is_given, ("confidence", "samples", "seed")), "{} goes with --vary")
    model, chip = subject.meant(request, "model", names[0]), subject.meant(request, "hardware", names[1])
    request = replace(request, model=model, hardware=chip)
    shared = subject.shared_settings(request)
    price = prices.of_chip(prices.prices_of_chips(request.price, request.chips), chip)
    chosen = {**shared, "model": model, "hardware": chip, "price": price}
    chosen |= {"engine": subject.one_engine(request), "changes": subject.what_ifs(request)}
    given = {name: value for name, value in chosen.items() if value is not None}
    settings = Settings.build(given, origin="command line")
    return studies.what_if.what_if_of(settings, inputs, tuple(dict.fromkeys(speeds)), span, request.progress)


#: Share of cached tokens below which caching is ignored [1].
_LITTLE = 0.01


def assess(
    request: Request,
    measured: str | None,
    gpus: int,
    tokens_per_second: float | None,
    measured_ttft: float | None,
    utilization: float | None,
) -> ie.Assessment:
    """Compare a measured server with its prediction and better deployments.

    Give the measured speed, batch, MFU or throughput. The command prints a faster deployment at equal cost, a cheaper
    deployment at equal speed, and the part of a step that explains the difference. With --isl and --osl, the comparison
    includes prefill under continuous batching; otherwise only decode steps are compared. MODEL and HARDWARE are names
    or paths of YAML files.
    """
    seen = {
        "tokens_per_second": tokens_per_second,
        "utilization": utilization,
        "batch": request.batch,
        "throughput": request.throughput,
        "ttft_seconds": measured_ttft and measured_ttft / 1e3,
    }
    # A file alone describes a run that validate predicts, too.
    is_run = measured is not None and not any(
        value is not None for value in (*seen.values(), request.isl, request.osl, request.cached, request.context)
    )
    if measured is not None:
        run = named("extras.servers:read_run")(measured)
        # As in validate, medians are compared if the file has them.
        middle = "p50" if ("tpot", "p50") in run.latencies else "mean"
        tpot = run.latencies.get(("tpot", middle))
        if tpot is None:
            raise InputError(f"{measured}: it says nothing of the time per output token", option="measured")
        request = _with_lengths(request, run)
        if measured_ttft is None and request.isl is not None:
            seen["ttft_seconds"] = run.latencies.get(("ttft", middle))
        if all(seen[name] is None for name in ("utilization", "batch", "throughput")):
            full = run.in_flight if run.in_flight is not None else finite_or_none(run.throughput)
            seen["batch" if run.in_flight is not None else "throughput"] = full
        seen["tokens_per_second"] = 1.0 / tpot if tokens_per_second is None else tokens_per_second
    if seen["tokens_per_second"] is None and None in (seen["batch"], seen["throughput"]):
        raise InputError(
            "how fast is one user served? Give --tokens-per-second, --throughput and --batch, or --measured FILE",
            option="tokens_per_second",
        )
    request = prices.optional(request)
    traffic = _traffic(request)
    pins = subject.pins(replace(request, batch=None))
    observed = ie.Observation.of(gpus, **seen, instances=answers.assess.instance_count(gpus, pins))
    if is_run and pins.size is not None and isinstance(traffic, ie.Requests):
        observed = replace(observed, run=_predicted_run(request, measured, gpus))
    return answers.assess.assess(subject.setup(request), traffic, observed, pins, progress=request.progress)


def _predicted_run(request: Request, path: str | None, gpus: int) -> Any:
    """Prediction of ``validate`` for the run in a file; None for your own models and GPUs, and for what-ifs."""
    shipped = request.model in catalog.names("models") and request.hardware in catalog.names("hardware")
    engine = subject.engine(request)
    if not shipped or subject.what_ifs(request) or not isinstance(engine, str | None):
        return None
    known: dict[str, Any] = {name: getattr(request, name) for name in ("tp", "dp", "pp", "ep")}
    known |= {name: getattr(request, name) or "" for name in ("weights", "kv")}
    known["engine"] = (engine or "").replace("@", " ")
    server = ie.MeasuredServer(model=request.model, hardware=request.hardware, **known)
    return named("extras.servers:predicted_run")(path, server, gpus, request.assumptions)


def _with_lengths(request: Request, run: Any) -> Request:
    """Copy the request lengths and cached tokens of a measured run to the request, unless options set them."""
    if request.context is not None:
        return request
    share = run.cached_share if request.isl is None and not math.isnan(run.isl) else 0.0
    return replace(
        request,
        isl=finite_or_none(run.isl) if request.isl is None else request.isl,
        osl=finite_or_none(run.osl) if request.osl is None else request.osl,
        cached=float(round(share * run.isl)) if request.cached is None and share > _LITTLE else request.cached,
    )


def _traffic(request: Request) -> ie.Traffic | ie.Requests:
    """Requests that the measured server processed, or the context of its decode steps if no lengths are given.

    Raises
    ------
    InputError
        If request lengths and a context are given, or other options of requests are given without lengths.
    """
    named = request.named(("isl", "osl", "cached", "shared_prefix"))
    if not named:
        context = MEAN_CONTEXT if request.context is None else request.context
        return ie.Traffic.build({"context": context}, origin="command line")
    if request.context is not None:
        raise InputError("give either --context, or --isl and --osl, not both", option="context")
    if not {"isl", "osl"} & set(named):
        refuse(named, "{} applies to services; give --isl and --osl too")
    lengths = {name: getattr(request, name) for name in named}
    return workload.requests(request, **{"isl": DEFAULT_ISL, "osl": DEFAULT_OSL, **lengths})
