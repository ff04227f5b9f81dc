"""Commands about frontiers: frontier, compare and sensitivity."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import inference_econ as ie
from inference_econ import answers, inputs, report, search, studies
from inference_econ.errors import InputError, of_option
from inference_econ.requests import Request, prices, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.report.page import Page
    from inference_econ.search import Metric

Front = TypeVar("Front", "ie.Frontier", "ie.ServiceFrontier")


def frontier(request: Request, every_plan: bool) -> Page:
    """Show the Pareto frontier of cost per token against speed per user.

    MODEL and HARDWARE are names (see 'inference-econ list models' and 'inference-econ list gpus') or paths to YAML
    files. To compare models, GPUs or values of an option, give several of them; 'compare --help' lists more options for
    comparisons.

    If you give one of --tp, --pp and --dp, the other two default to 1; a value of 'any' searches over the degree.
    Degrees that you give may be outside the search grid. Each point of the frontier is a layout under continuous
    batching, and its cost includes prefill. The latencies exclude queueing, which 'load' includes. With --decode-only,
    each point is a single decode step.
    """
    if workload.decode_steps(request, every_plan=every_plan):
        return _decode_steps(request, every_plan=every_plan)
    return _services(request)


def _decode_steps(request: Request, *, every_plan: bool) -> Page:
    """Compute the frontier of decode steps; if requested, also list every deployment of the search grid."""

    def answer(chosen: Request) -> ie.Frontier:
        demand = {"max_tokens_per_second": chosen.max_tokens_per_second}
        traffic = ie.Traffic.build({**workload.context_or_lengths(chosen), **demand}, origin="command line")
        speculation, setup, space = subject.speculation(chosen), subject.setup(chosen), subject.space(chosen)
        return answers.frontier.decode_frontier(
            setup, traffic, space, speculation=speculation, progress=request.progress
        )

    front = _beside_startable(request, answer)
    return report.frontier.FrontierPage(front, request.y, front.plans() if every_plan else None)


def _services(request: Request) -> Page:
    """Frontier of services: cost against speed (1 / TPOT) under continuous batching."""
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
    common, rates = subject.shared_settings(request), prices.of_compared(request.price, hardware)
    result = studies.compare.compare(price=rates, series=_series(listed), progress=request.progress, **common)
    page = report.compare.ComparisonPage(result, sorted(set(speeds)), sorted(set(costs)), y)
    if len(page.undrawn()) == len(result.curves):
        result.curves[0].front.metric(y)  # rejects unknown metrics, with or without a picture
    return page


def scenario_text(request: Request, hardware: tuple[str, ...], listed: tuple[str, ...]) -> str:
    """Scenario file that is equivalent to the options of the command."""
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
