"""The question and the answer of a page, in a sentence each, with what its numbers rest on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from operator import attrgetter

from inference_econ.answers.prefill import WAYS
from inference_econ.answers.serving_frontier import ServicePoint
from inference_econ.answers.sources import UsedSource, priced_sources
from inference_econ.calibration import QUANTITIES
from inference_econ.calibration.validation.servers import overall
from inference_econ.engine import Setup
from inference_econ.inputs import percent
from inference_econ.report.assess import AssessmentPage
from inference_econ.report.assess_findings import chips_label, verdict
from inference_econ.report.calibrate import CalibrationPage
from inference_econ.report.claims import ClaimsPage
from inference_econ.report.compare import ComparisonPage
from inference_econ.report.disaggregated import DisaggregatedPage
from inference_econ.report.disaggregated import verdict as pools_verdict
from inference_econ.report.explain import ExplanationPage, named_parts
from inference_econ.report.frontier import FrontierPage
from inference_econ.report.heading import promises_label
from inference_econ.report.hour_cost import HourCostPage
from inference_econ.report.implied import ExponentsPage, ImpliedHourPage
from inference_econ.report.infer import InferencePage
from inference_econ.report.intensity import IntensityPage, said_of_step
from inference_econ.report.load import LoadPage
from inference_econ.report.most_traffic import MostTrafficPage
from inference_econ.report.page import Page
from inference_econ.report.prefill import PrefillPage
from inference_econ.report.prefix_cache import PrefixCachePage
from inference_econ.report.price import KIND_NAMES, PricePage
from inference_econ.report.recommend import RecommendationPage
from inference_econ.report.scenario import ScenarioPage
from inference_econ.report.service import fleet_name, milliseconds
from inference_econ.report.serving_frontier import ServingFrontierPage
from inference_econ.report.speculate import SpeculationPage
from inference_econ.report.sweep import SweepPage, counted
from inference_econ.report.table import PART_NAMES, amount, dollars, layout_label, per_hour
from inference_econ.report.uncertainty import UncertaintyPage, findings
from inference_econ.report.validate import ValidationPage
from inference_econ.report.web.working import working
from inference_econ.report.what_if import WhatIfPage, by_size
from inference_econ.search import Point
from inference_econ.studies.inference.posterior import interval
from inference_econ.studies.results import Curve

#: Parts of an answer: texts, and amounts that follow the price of a chip.
Pieces = Sequence[str]


@dataclass(frozen=True, slots=True)
class Told:
    """What a page says in two sentences.

    Attributes
    ----------
    question : str
        One sentence.
    answer : sequence of str
        Pieces of one sentence; an :class:`~.table.Amount` follows the price of a chip.
    setups : sequence of Setup
        What was asked about, on what, how.
    used : sequence of UsedSource
        What it rests on.
    proportional : bool
        Whether all that is shown as an amount is in proportion to the price of a chip.
    """

    question: str
    answer: Pieces
    setups: Sequence[Setup] = ()
    used: Sequence[UsedSource] = field(default=())
    proportional: bool = True


def _told(question: str, answer: Pieces, setups: Iterable[Setup], *, proportional: bool = True) -> Told:
    """The same with the sources of the setups."""
    shown = list(setups)
    used = dict.fromkeys(source for setup in shown for source in priced_sources(setup))
    return Told(question, answer, shown, tuple(used), proportional)


@singledispatch
def told(page: Page) -> Told:
    """The question and the answer of a page; of pages that have no better ones, title and first note of a table."""
    table = page.tables()[0]
    return Told(f"{table.title}?", table.notes[:1])


@told.register
def _(page: ServingFrontierPage) -> Told:
    front = page.front
    question = f"What does it cost to serve {_subject(front.setup)} at each speed?"
    return _told(question, _frontier(front.points()[0], front.fastest(), front.preferred()), [front.setup])


@told.register
def _(page: FrontierPage) -> Told:
    front = page.front
    question = f"What does decoding {_subject(front.setup)} cost at each speed, without prefill?"
    return _told(question, _frontier(front.points()[0], front.fastest(), front.preferred()), [front.setup])


def _frontier(slowest: ServicePoint | Point, fastest: ServicePoint | Point, best: ServicePoint | Point) -> Pieces:
    cost, speed = attrgetter("dollars_per_million_output_tokens"), attrgetter("tokens_per_second_per_user")
    return (
        "From $", dollars(cost(slowest)), f" per million output tokens at {amount(speed(slowest))} tokens/s per user "
        "to $", dollars(cost(fastest)), f" at {amount(speed(fastest))}; the largest speed³ / cost is "
        f"{amount(speed(best))} tokens/s at $", dollars(cost(best)),
        f", on {chips_label(best.accelerators)} ({layout_label(best.layout)}).",
    )  # fmt: skip


@told.register
def _(page: ComparisonPage) -> Told:
    curves = page.result.curves
    setups = _setups(curves)
    names = _listed([curve.label for curve in curves], "or")
    speed = page.speeds[len(page.speeds) // 2]
    return Told(
        f"Which is the cheapest at which speed: {names}?", _cheapest(curves, speed), setups, page.result.sources
    )


def _cheapest(curves: Sequence[Curve], speed: float) -> Pieces:
    """What some series cost at a speed, the cheapest first."""
    costs = {curve.label: cost for curve in curves if (cost := curve.dollars_at(speed)) is not None}
    ranked = sorted(costs.items(), key=lambda item: item[1])
    pieces = [f"At {speed:g} tokens/s per user "]
    for index, (label, cost) in enumerate(ranked):
        pieces += ["; " if index else "", f"{label} costs $", dollars(cost), " per million output tokens" * (not index)]
    slow = [curve.label for curve in curves if curve.label not in costs]
    return (*pieces, *([f"; {_listed(slow, 'and')} cannot be as fast"] if slow else []), ".")


@told.register
def _(page: SweepPage) -> Told:
    swept = page.swept
    only = "".join(f", {name} {value}" for name, value in swept.where.items())
    return Told(f"Which {swept.among} serves each {swept.rows} the cheapest at which speed{only}?", [counted(swept)])


@told.register
def _(page: LoadPage) -> Told:
    point = working(page.points, page.targets)
    sheet, load = point.sheet, point.load
    most = sheet.replicas * sheet.service.most_requests_per_second
    question = (
        f"What do users of {_subject(sheet.service.setup)} wait, and what do tokens cost, as traffic on "
        f"{fleet_name(page.points[0].sheet.service, sheet.replicas)} grows?"
    )
    answer = (
        f"It completes {amount(most)} requests/s at most; at {point.requests_per_second:.4g} requests/s 90 % of "
        f"requests wait {milliseconds(load.ttft_seconds['p90'])} ms or less for the first token and "
        f"{milliseconds(load.tpot_seconds['p90'])} ms or less for each further one, at $",
        dollars(point.dollars_per_million_output_tokens), " per million output tokens.",
    )  # fmt: skip
    return _told(question, answer, [sheet.service.setup])


@told.register
def _(page: PricePage) -> Told:
    sheet = page.sheet
    rate = sheet.load.requests_per_second * sheet.replicas
    question = f"What does each kind of token cost on {_subject(sheet.service.setup)} at {rate:.4g} requests/s?"
    kinds = [kind for kind, hourly in sheet.tokens_per_hour.items() if hourly]
    costs = [piece for kind in kinds for piece in (", $", dollars(sheet.average[kind]), f" of {KIND_NAMES[kind]}")]
    fleet = fleet_name(sheet.service, sheet.replicas)
    answer = (
        "A million tokens cost $",
        *costs[1:],
        f" on {fleet}, at $",
        per_hour(sheet.dollars_per_hour),
        " per hour.",
    )
    # A margin over the prices of somebody else is a difference, not in proportion to anything.
    return _told(question, answer, [sheet.service.setup], proportional=page.api is None)


@told.register
def _(page: RecommendationPage) -> Told:
    best, targets = page.answer[0], page.answer.targets
    ttft, tpot = (f"{targets.percentile_of(name)} {name.upper()}" for name in ("ttft", "tpot"))
    promise = promises_label(targets)
    rate = best.load.requests_per_second * best.replicas
    question = (
        f"Which deployment serves {best.service.setup.model.name} at {rate:.4g} requests/s"
        f"{f' with {promise}' if promise else ''} for the least money?"
    )
    tried = f" of {page.answer.layouts} layouts" if page.answer.layouts else ""
    answer = (
        f"{fleet_name(best.service, best.replicas)} is the cheapest{tried}: $", per_hour(best.dollars_per_hour),
        " per hour, $", dollars(best.dollars_per_million_output_tokens), f" per million output tokens, "
        f"{100 * best.load.utilization:.0f} % busy, {ttft} {milliseconds(targets.seen('ttft', best.load))} ms and "
        f"{tpot} {milliseconds(targets.seen('tpot', best.load))} ms.",
    )  # fmt: skip
    return _told(question, answer, (choice.service.setup for choice in page.answer))


@told.register
def _(page: MostTrafficPage) -> Told:
    best = page.answer[0]
    promise = promises_label(page.answer.targets)
    rate = best.load.requests_per_second * best.replicas
    question = (
        f"How much traffic of {best.service.setup.model.name} do {page.answer.means.text} carry"
        f"{f' with {promise}' if promise else ''}?"
    )
    fleet = fleet_name(best.service, best.replicas)
    answer = (f"{rate:.4g} requests/s on {fleet}, for $", per_hour(best.dollars_per_hour), " per hour.")
    # At other prices a budget buys other fleets.
    proportional = page.answer.means.dollars_per_hour is None
    return _told(question, answer, (choice.service.setup for choice in page.answer), proportional=proportional)


@told.register
def _(page: DisaggregatedPage) -> Told:
    pools = page.compared.pools
    question = f"Is {_subject(pools.prefill.setup)} cheaper with prompts and answers on instances of their own?"
    return _told(question, (pools_verdict(page.compared),), [pools.prefill.setup, pools.decode.setup])


@told.register
def _(page: AssessmentPage) -> Told:
    assessment = page.assessment
    measured = assessment.measured
    question = (
        f"Is {measured.tokens_per_second_per_user:g} tokens/s per user of {_subject(assessment.setup)} on "
        f"{chips_label(measured.accelerators)} good or bad, and what limits it?"
    )
    predicted, others, _ = verdict(assessment)
    return _told(question, (f"{predicted} {others}",), [assessment.setup])


@told.register
def _(page: ExplanationPage) -> Told:
    step = page.explanation
    phase = "decode" if step.prompt is None else "prefill"
    parts = sorted(named_parts(step).items(), key=lambda part: -part[1])[:3]
    total = sum(named_parts(step).values())
    shares = ", ".join(f"{100 * value / total:.0f} % {name}" for name, value in parts)
    question = f"Where does the time of a {phase} step of {_subject(step.setup)} go?"
    answer = [f"It takes {milliseconds(step.seconds)} ms, limited by {PART_NAMES[step.limited_by]}: {shares}"]
    cost = [] if step.dollars is None else ["; a million tokens cost $", dollars(step.dollars)]
    setups = [step.setup] if step.setup.price is not None else []
    return _told(question, (*answer, *cost, "."), setups)


@told.register
def _(page: IntensityPage) -> Told:
    answer = page.answer
    question = f"From which {answer.over} on is arithmetic the limit of {_subject(answer.setup)}?"
    return _told(question, [said_of_step(answer)], [answer.setup] if answer.setup.price is not None else [])


@told.register
def _(page: SpeculationPage) -> Told:
    answer = page.speculated
    question = f"When does speculation pay for {_subject(answer.plain.setup)}?"
    return _told(question, page.tables()[0].notes[:1], [answer.plain.setup])


@told.register
def _(page: PrefixCachePage) -> Told:
    answer = page.offloading
    read = " and ".join(f"{milliseconds(each.seconds)} ms from {each.tier}" for each in answer.readings[1:])
    question = f"Is a repeated prefix of {_subject(answer.service.setup)} better read from a cache than computed again?"
    said = (
        f"Computing its {answer.prefix_tokens:,.0f} tokens takes {milliseconds(answer.computing_seconds)} ms of an "
        f"instance{f', reading them {read}' if read else ''}."
    )
    return _told(question, (said,), [answer.service.setup])


@told.register
def _(page: HourCostPage) -> Told:
    cost = page.cost
    question = f"What does an hour of {cost.hardware.name} cost its owner?"
    answer = f"${float(cost.parts.total):.3f}, if it is bought for ${cost.purchase_dollars:,.0f} and used for "
    return Told(question, (f"{answer}{cost.terms.lifetime_years:g} years.",), proportional=False)


@told.register
def _(page: UncertaintyPage) -> Told:
    study = page.study
    what = "costs, and the choice" if len(study.labels) > 1 else "cost"
    question = f"How sure {'are' if len(study.labels) > 1 else 'is'} the {what} at {study.speed:g} tokens/s per user?"
    setups = [series.present.setup for series in study.series]
    return Told(question, [" ".join(findings(study))], setups, study.used, proportional=False)


@told.register
def _(page: PrefillPage) -> Told:
    ways = page.ways
    question = f"How do several chips read one prompt of {ways.setup.model.name} fastest?"
    said = [
        f"{row.prompt:,} tokens on {chips_label(row.ranks)}: {WAYS[row.fastest]}, in "
        f"{milliseconds(row.ways[row.fastest].seconds)} ms"
        for row in ways.rows
        if row.ways
    ]
    return Told(question, (f"{'; '.join(said)}.",) if said else (), [ways.setup], proportional=False)


@told.register
def _(page: WhatIfPage) -> Told:
    answer = page.answer
    question = f"What moves the cost of serving {_subject(answer.front.setup)} most?"
    effect = by_size(answer)[0]
    said = (
        f"A per cent more of {effect.input.label} changes the cost of {amount(answer.speeds[0])} tokens/s per user by "
        f"{effect.cost():+.2f} %."
    )
    return _told(question, (said,), [answer.front.setup], proportional=False)


@told.register
def _(page: ImpliedHourPage) -> Told:
    implied = page.implied
    setup, hour = implied.front.setup, implied.dollars_per_accelerator_hour
    question = f"What do tokens of {setup.model.name} pay for an hour of {setup.hardware.name}?"
    said = f"At most ${hour:.3g} per GPU-hour, at {amount(implied.tokens_per_second)} tokens/s per user."
    # The price is what was asked for; that of the setup is a unit.
    return Told(question, (said,), [replace(setup, price=None)], proportional=False)


@told.register
def _(page: ExponentsPage) -> Told:
    return Told("Which buyers would choose which offer?", page.tables()[0].notes[:1], proportional=False)


@told.register
def _(page: InferencePage) -> Told:
    draws, weights = page.inferred.draws, page.inferred.weights
    low, middle, high = (amount(value / 1e9) for value in interval(draws.active, weights))
    said = f"Between {low} and {high} billion active parameters with 80 %, {middle} in the median."
    return Told("How large could the model behind these offers be?", (said,), proportional=False)


@told.register
def _(page: ValidationPage) -> Told:
    said = [
        f"{quantity.title}: {percent(errors.median)} in the median of {errors.predicted:,} rows"
        for report in page.servers
        for quantity in QUANTITIES
        if (errors := overall(report.counted(), quantity)) is not None and errors.median is not None
    ]
    question = "How far are predictions from what was measured?"
    return Told(question, (f"{'; '.join(said)}.",) if said else (), proportional=False)


@told.register
def _(page: CalibrationPage) -> Told:
    fitted = page.fitted
    errors = [f"{target} {percent(fitted.median_error(target))}" for target in fitted.targets]
    said = f"After a fit to {len(fitted.rows)} rows, median errors are: {', '.join(errors)}."
    return Told("Which constants describe these measurements?", (said,), proportional=False)


@told.register
def _(page: ClaimsPage) -> Told:
    return Told("Which claims hold?", page.tables()[-1].notes[:1], used=page.ledger.sources, proportional=False)


@told.register
def _(page: ScenarioPage) -> Told:
    result = page.result
    if result.assessment is not None:
        measured = told(AssessmentPage(result.assessment))
        return Told(result.scenario.description, measured.answer, measured.setups, result.sources)
    answer = _best(result.curves) or page.tables()[0].notes[-1:]
    return Told(result.scenario.description, answer, _setups(result.curves), result.sources, proportional=False)


def _best(curves: Sequence[Curve]) -> Pieces:
    """The preferred points of some series."""
    points = [(curve, curve.preferred_index(3.0)) for curve in curves]
    said = (
        f"{curve.label} has {amount(float(curve.tokens_per_second[at]))} tokens/s per user at "
        f"${dollars(float(curve.dollars[at]))} per million output tokens"
        for curve, at in points
    )
    return (f"Where speed³ / cost is largest, {'; '.join(said)}.",) if points else ()


def _setups(curves: Sequence[Curve]) -> list[Setup]:
    return [curve.frontier.setup for curve in curves if curve.frontier is not None]


def _subject(setup: Setup) -> str:
    return f"{setup.model.name} on {setup.hardware.name}"


def _listed(names: Sequence[str], last: str) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> _listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
