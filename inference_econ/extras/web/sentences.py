"""Question and conclusion of each page in an HTML report, and how the report shows the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.records.texts import PART_NAMES, amount, chips_label, dollars, layout_label, per_hour
from inference_econ.report.headings import enumerated, targets_label
from inference_econ.report.page import Page, Pieces
from inference_econ.report.service import fleet_name, milliseconds

if TYPE_CHECKING:
    from inference_econ.answers.deployments.recommend import MostTraffic, Recommendation
    from inference_econ.answers.fits import Fits
    from inference_econ.answers.load import DeploymentEstimate
    from inference_econ.answers.prefix_cache import Offloading
    from inference_econ.answers.price import Sheet
    from inference_econ.answers.traffic import TraceProfile
    from inference_econ.engine import Setup
    from inference_econ.report.questions.assess import AssessmentPage
    from inference_econ.report.questions.compare import ComparisonPage
    from inference_econ.report.questions.explain import ExplanationPage, IntensityPage
    from inference_econ.report.questions.frontier import FrontierPage
    from inference_econ.report.questions.load import LoadPage
    from inference_econ.report.questions.scenario import ScenarioPage
    from inference_econ.studies.what_if import WhatIf

#: Exponent of the preferred points of a scenario [1].
_EXPONENT = 3.0


class Summary(NamedTuple):
    """Sentences of a page in an HTML report, and how the report shows the page."""

    question: str
    """Question that the page answers."""
    conclusion: Pieces
    """Parts of the sentence that states the result."""
    proportional: bool = True
    """True if all displayed amounts are proportional to the price of a GPU."""
    mix: Mapping[str, float] | None = None
    """Costs by kind of token [USD per 1e6 tokens], and request lengths; None without separate token costs."""
    drawn: Page | None = None
    """Page with the charts of the report; None for the page itself."""
    still: bool = False
    """True if the report shows a static picture instead of interactive charts."""


def summary(page: Page) -> Summary:
    """Return the sentences of a page. Pages of extras bring their own sentences."""
    if type(page).question is Page.question:
        for kind in type(page).__mro__:
            if kind.__name__ in _SUMMARIES:
                return _SUMMARIES[kind.__name__](page)
    return Summary(page.question(), page.conclusion(), page.proportional)


def _subject(setup: Setup) -> str:
    """Name of the model and the GPU."""
    return f"{setup.model.name} on {setup.hardware.name}"


def _assessment(page: AssessmentPage) -> Summary:
    from inference_econ.report.questions.assess import verdict

    measured, (predicted, others, _) = page.answer.measured, verdict(page.answer)
    question = (
        f"Is {measured.tokens_per_second_per_user:g} tokens/s per user of {_subject(page.answer.setup)} on "
        f"{chips_label(measured.accelerators)} good or bad, and what limits it?"
    )
    return Summary(question, (f"{predicted} {others}",))


def _comparison(page: ComparisonPage) -> Summary:
    """Cost of each compared frontier at a medium speed, cheapest first."""
    labels = [curve.label for curve in page.answer.curves]
    series = [curve for curve in page.answer.curves if curve.is_priced]
    speeds = page.speeds or page.answer.speeds
    speed = speeds[len(speeds) // 2]
    costs = {curve.label: cost for curve in series if (cost := curve.dollars_at(speed)) is not None}
    pieces = [f"At {speed:g} tokens/s per user "]
    for index, (label, cost) in enumerate(sorted(costs.items(), key=lambda item: item[1])):
        counted = " per million output tokens" * (not index)
        pieces += ["; " if index else "", f"{label} costs $", dollars(cost), counted]
    slow = [curve.label for curve in series if curve.label not in costs]
    pieces += [f"; {enumerated(slow)} cannot be as fast"] if slow else []
    return Summary(f"Which is cheapest at each speed: {enumerated(labels, 'or')}?", (*pieces, "."))


def _explanation(page: ExplanationPage) -> Summary:
    """Step time with its three largest parts, and its cost if the GPU has a price."""
    from inference_econ.report.questions.explain import named_parts

    step, parts = page.answer, named_parts(page.answer)
    phase = "decode" if step.prompt is None else "prefill"
    largest, total = sorted(parts.items(), key=lambda part: -part[1])[:3], sum(parts.values())
    shares = ", ".join(f"{100 * value / total:.0f} % {name}" for name, value in largest)
    time = f"It takes {milliseconds(step.seconds)} ms, limited by {PART_NAMES[step.limited_by]}: {shares}"
    cost = [] if step.dollars is None else ["; a million tokens cost $", dollars(step.dollars)]
    return Summary(f"Where does the time of a {phase} step of {_subject(step.setup)} go?", (time, *cost, "."))


def _intensity(page: IntensityPage) -> Summary:
    from inference_econ.report.questions.explain import step_sentence

    question = f"From which {page.answer.over} on is arithmetic the limit of {_subject(page.answer.setup)}?"
    return Summary(question, [step_sentence(page.answer)])


def _fits(page: Any) -> Summary:
    """Smallest instance in which the model fits."""
    answer: Fits = page.answer
    first = answer.instances[0]
    where = f"{chips_label(first.service.accelerators)} ({layout_label(answer.records()[0]['layout'])})"
    conclusion = (
        f"On {where}, {first.service.slots:,.0f} concurrent requests fit, or a single request of "
        f"{first.largest_context:,} tokens."
    )
    return Summary(f"Does {_subject(answer.setup)} fit?", (conclusion,))


def _frontier(page: FrontierPage) -> Summary:
    """Both ends of the frontier, and its preferred point."""
    front, subject = page.answer, _subject(page.answer.setup)
    question = f"What does decoding {subject} cost at each speed, without prefill?"
    if isinstance(front, ServiceFrontier):
        question = f"What does it cost to serve {subject} at each speed?"
    slowest, fastest, best = front.points()[0], front.fastest(), front.preferred()
    conclusion = (
        "From $", dollars(slowest.dollars_per_million_output_tokens), " per million output tokens at "
        f"{amount(slowest.tokens_per_second_per_user)} tokens/s per user to $",
        dollars(fastest.dollars_per_million_output_tokens), f" at {amount(fastest.tokens_per_second_per_user)}. "
        f"The point with the largest speed³ / cost has {amount(best.tokens_per_second_per_user)} tokens/s at $",
        dollars(best.dollars_per_million_output_tokens),
        f", on {chips_label(best.accelerators)} ({layout_label(best.layout)}).",
    )  # fmt: skip
    return Summary(question, conclusion)


def _load(page: LoadPage) -> Summary:
    """Capacity of the fleet, and latencies at a recommended load."""
    point = page.recommended()
    sheet, load, service = point.sheet, point.load, point.sheet.service
    cost: Pieces = ()
    if service.setup.is_priced:
        cost = ". A million output tokens cost $", dollars(sheet.dollars_per_million_output_tokens)
    conclusion = (
        f"The fleet completes at most {amount(sheet.replicas * service.most_requests_per_second)} requests/s. At "
        f"{point.requests_per_second:.4g} requests/s, p90 TTFT is {milliseconds(load.ttft_seconds['p90'])} ms, and p90 "
        f"TPOT is {milliseconds(load.tpot_seconds['p90'])} ms",
        *cost, ".",
    )  # fmt: skip
    question = (
        f"How do latency and token cost of {_subject(service.setup)} on {fleet_name(service, sheet.replicas)} "
        "change with the load?"
    )
    return Summary(question, conclusion)


def _estimate(page: Any) -> Summary:
    """Speed and throughput at the largest concurrency."""
    answer: DeploymentEstimate = page.answer
    last = answer.records()[-1]
    conclusion = (
        f"At {last['concurrency']:,.0f} concurrent requests each user gets "
        f"{last['tokens_per_second_per_user']:.3g} tokens/s, and each GPU generates "
        f"{last['tokens_per_second_per_accelerator']:,.0f} output tokens/s."
    )
    return Summary(f"How fast is {_subject(answer.states.setup)} at each concurrency?", (conclusion,))


def _prefix_cache(page: Any) -> Summary:
    """Time to recompute the prefix, and to read it from each tier."""
    answer: Offloading = page.answer
    subject = _subject(answer.service.setup)
    read = " and ".join(f"{milliseconds(reading.seconds)} ms from {reading.tier}" for reading in answer.readings[1:])
    conclusion = (
        f"Recomputing its {answer.prefix_tokens:,.0f} tokens takes {milliseconds(answer.computing_seconds)} ms of an "
        f"instance{f', and reading them takes {read}' if read else ''}."
    )
    question = f"Is it faster to read a repeated prefix of {subject} from a cache than to recompute it?"
    return Summary(question, (conclusion,))


def _price(page: Any) -> Summary:
    """Cost per million tokens by kind, the fleet, and the hourly cost of the fleet.

    With API prices, the page also has a profit, which is not proportional to the GPU price.
    """
    from inference_econ.report.questions.price import KIND_NAMES
    from inference_econ.report.questions.recommend import choice_name

    sheet: Sheet = page.answer
    rate, requests = sheet.requests_per_second, sheet.service.requests
    kinds = [kind for kind, hourly in sheet.tokens_per_hour.items() if hourly]
    costs = [piece for kind in kinds for piece in (", $", dollars(sheet.average[kind]), f" of {KIND_NAMES[kind]}")]
    fleet = f" on {choice_name(sheet)}, at $"
    conclusion = ("A million tokens cost $", *costs[1:], fleet, per_hour(sheet.dollars_per_hour), " per hour.")
    question = f"What does each kind of token cost on {_subject(sheet.service.setup)} at {rate:.4g} requests/s?"
    mix = None
    if sheet.tokens_per_hour["cached_input"]:
        share = requests.cached / requests.isl.mean
        mix = {**sheet.average, "share": share, "isl": requests.isl.mean, "osl": requests.osl.mean}
    return Summary(question, conclusion, sheet.api is None, mix)


def _recommendation(page: Any) -> Summary:
    """Cheapest deployment, its cost and its latencies."""
    from inference_econ.report.questions.recommend import choice_name

    answer: Recommendation = page.answer
    best, targets, promise = answer[0], answer.targets, targets_label(answer.targets)
    ttft, tpot = (
        f"{targets.percentile_of(name)} {name.upper()} {milliseconds(targets.statistic(name, best.load))} ms"
        for name in ("ttft", "tpot")
    )
    tried = f" of {answer.layouts} layouts" if answer.layouts else ""
    conclusion = (
        f"{choice_name(best)} is the cheapest{tried}: $", per_hour(best.dollars_per_hour),
        " per hour, $", dollars(best.dollars_per_million_output_tokens), f" per million output tokens, "
        f"at {100 * best.load.utilization:.0f} % of capacity, with {ttft} and {tpot}.",
    )  # fmt: skip
    question = (
        f"Which deployment serves {best.service.setup.model.name} at {best.requests_per_second:.4g} requests/s"
        f"{f' with {promise}' if promise else ''} for the least money?"
    )
    return Summary(question, conclusion)


def _most_traffic(page: Any) -> Summary:
    """Deployment with the largest rate. With a budget, another GPU price allows another fleet."""
    from inference_econ.report.questions.recommend import choice_name

    answer: MostTraffic = page.answer
    best, means, promise = answer[0], answer.means, targets_label(answer.targets)
    rate = best.requests_per_second
    conclusion = (f"{rate:.4g} requests/s on {choice_name(best)}, for $", per_hour(best.dollars_per_hour), " per hour.")
    model, within = best.service.setup.model.name, f" with {promise}" if promise else ""
    question = f"How many requests/s of {model} do {means.text} serve{within}?"
    return Summary(question, conclusion, means.dollars_per_hour is None)


def _scenario(page: ScenarioPage) -> Summary:
    """Description from the file, and verdict on the measured deployment of the scenario, if the scenario has one.

    Otherwise, the conclusion has the preferred points of all frontiers, or the note of a table.
    """
    result, assessed = page.answer, page.assessed
    if assessed is not None:
        return Summary(result.scenario.description, _assessment(assessed).conclusion, drawn=assessed)
    preferred = [
        f"{curve.label} has {amount(float(curve.tokens_per_second[at]))} tokens/s per user at "
        f"${dollars(float(curve.dollars[at]))} per million output tokens"
        for curve in result.curves
        for at in [curve.preferred_index(_EXPONENT)]
    ]
    points = (f"At the largest speed³ / cost, {'; '.join(preferred)}.",)
    conclusion = points if preferred else page.tables()[0].notes[-1:]
    return Summary(
        result.scenario.description, conclusion, proportional=False, still=result.scenario.figure is not None
    )


def _trace(page: Any) -> Summary:
    """Number of requests, their bursts and their prefix reuse."""
    profile: TraceProfile = page.answer
    rate = "" if profile.rate is None else f", {amount(profile.rate)} a second"
    bursts = [
        f" Their number per {size} s has {amount(value)}x the variance of Poisson arrivals."
        for size, value in list(profile.dispersion.items())[-1:]
    ]
    reused = "" if profile.reused is None else f" {100 * profile.reused:.1f} % of prompt tokens are repeated."
    conclusion = f"{profile.requests:,} requests{rate}.{''.join(bursts)}{reused}"
    return Summary(f"What requests does {profile.origin} have?", (conclusion,), proportional=False)


def _what_if(page: Any) -> Summary:
    """Effect of a 1% change of the input with the largest effect on cost."""
    answer: WhatIf = page.answer
    effect, speed = answer.by_size[0], amount(answer.speeds[0])
    cost = f"changes the cost of {speed} tokens/s per user by {effect.cost():+.2f} %."
    question = f"Which inputs change the cost of serving {_subject(answer.front.setup)} most?"
    return Summary(question, (f"1 % more of {effect.input.label} {cost}",), proportional=False)


#: Sentences by the class of the page.
_SUMMARIES: Mapping[str, Callable[[Any], Summary]] = {
    "AssessmentPage": _assessment,
    "ComparisonPage": _comparison,
    "EstimatePage": _estimate,
    "ExplanationPage": _explanation,
    "FitsPage": _fits,
    "FrontierPage": _frontier,
    "IntensityPage": _intensity,
    "LoadPage": _load,
    "MostTrafficPage": _most_traffic,
    "PrefixCachePage": _prefix_cache,
    "PricePage": _price,
    "ProfilePage": _trace,
    "RecommendationPage": _recommendation,
    "ScenarioPage": _scenario,
    "SpeculationPage": lambda page: Summary(
        f"When does speculation pay for {_subject(page.answer.plain.setup)}?", page.conclusion()
    ),
    "WhatIfPage": _what_if,
}
