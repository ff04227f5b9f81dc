"""A measured deployment beside what could be, in sentences."""

from __future__ import annotations

from inference_econ.answers.gaps import NEAR, Assessed, ComparedPoint, Gap, SteadyService, StepPart
from inference_econ.answers.operating_point import OperatingPoint
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.startable import grounds
from inference_econ.engine import bounds, error_spread
from inference_econ.records.texts import PART_NAMES, chips_label, dollars, layout_label, size

#: A smaller share of the measured time is not worth a sentence [1].
_NOTABLE = 0.02
#: What each part of the time per token is called.
NAMES = {**PART_NAMES, "prompts": "prompts of others"}


def findings(assessment: Assessed) -> tuple[str, ...]:
    """The answer in sentences."""
    sentences = [
        _measured(assessment),
        *_impossible(assessment),
        _beside_frontier(assessment),
        *_certain(assessment),
        *_alike(assessment),
        _beside_ideal(assessment),
    ]
    sentences += [text for text in (_unexplained(assessment), _lever(assessment)) if text]
    sentences.append(f"Assumptions: {assessment.setup.assumptions.name}. {_tried(assessment)}")
    return (*sentences, *grounds([assessment.setup], assessment.subjects()))


def verdict(assessment: Assessed) -> tuple[str, str, str]:
    """The answer in three lines of a terminal: beside the prediction, beside the frontier, what both rest on."""
    return _beside_prediction(assessment), _beside_others(assessment), _basis(assessment)


def _beside_prediction(assessment: Assessed) -> str:
    measured, predicted, likely = assessment.measured, assessment.predicted, assessment.likely_seconds
    seen = f"{_ms(measured.seconds)} per token measured"
    if predicted is None or assessment.expected is None:
        most = "" if assessment.shortage is None else f": {assessment.shortage.most:,} sequences do"
        return f"NO PREDICTION: {seen}, and a batch of {size(round(measured.instance_batch, 1))} does not fit{most}."
    if measured.mfu > 1.0:
        speed = f"{measured.tokens_per_second_per_user:g} tokens/s"
        return f"IMPOSSIBLE: {_beyond(measured)} If {speed} are of all requests together, give them as --throughput."
    words = {"faster": "FASTER THAN EXPECTED", "as expected": "AS EXPECTED", "slower": "SLOWER THAN EXPECTED"}
    sentence = f"{words[assessment.expected]}: {seen}, {1e3 / predicted.tokens_per_second_per_user:.3g} predicted"
    if likely is None:
        return f"{sentence}; no interval, as {assessment.setup.assumptions.name} was fitted to no server."
    return f"{sentence} ({1e3 * likely.low:.3g} to {1e3 * likely.high:.3g} in {100 * bounds.LEVEL:.0f} % of cases)."


def _beside_others(assessment: Assessed) -> str:
    gap = assessment.anywhere
    if gap.verdict == "on":
        return f"ON THE FRONTIER, within {100 * NEAR:.0f} %."
    where = "BEHIND" if gap.verdict == "behind" else "AHEAD OF"
    doubt = ", within errors" if gap.certain is False else ""
    return f"{where} the frontier{doubt}: {_in_short(gap)}."


def _in_short(gap: Gap) -> str:
    """Speed at the measured cost and cost at the measured speed, as multiples of what was measured too."""
    at_cost, at_speed = "nothing is as cheap", "nothing is as fast"
    if gap.faster is not None:
        at_cost = f"{gap.faster.tokens_per_second_per_user:.1f} tok/s ({gap.speed_factor:.2f} x) at this cost"
    if gap.cheaper is not None and gap.cost_factor is not None:
        cost = dollars(gap.cheaper.dollars_per_million_output_tokens)
        at_speed = f"${cost} ({1 / gap.cost_factor:.2f} x) at this speed"
    return f"{at_cost}, {at_speed}"


def _basis(assessment: Assessed) -> str:
    """Sentence on the profile and its rows, and on the layout and how it was chosen; headings say the lengths."""
    setup, measured = assessment.setup, assessment.measured
    rows = error_spread(setup.assumptions, "tpot", [assessment.anywhere.subject])
    profile = setup.assumptions.name + ("" if rows is None else f" ({rows.spread.rows:,} rows)")
    layout = ""
    if assessment.predicted is not None:
        pick = f", the fastest of {assessment.tried}" if assessment.tried > 1 else ""
        layout = f" {layout_label(assessment.predicted.layout)}{pick}"
    chips = f"{_fleet(measured)}{layout}"
    kind = "decode steps (--isl, --osl: services)" if assessment.requests is None else "services"
    return f"Held against {kind} by {profile}; {chips}."


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _fleet(measured: OperatingPoint) -> str:
    """All chips that were measured, as the instances that they are."""
    if measured.instances == 1:
        return chips_label(measured.accelerators)
    return f"{measured.instances} instances of {chips_label(measured.instance_accelerators)}"


def _measured(assessment: Assessed) -> str:
    measured, requests = assessment.measured, assessment.requests
    batch = "a batch of " if requests is None else ""
    load = f"{batch}{size(round(measured.batch, 1))}{' in flight' if requests else ''}"
    gap = (
        f"Measured: {measured.tokens_per_second_per_user:g} tokens/s per user with {load} on {_fleet(measured)}: "
        f"{measured.throughput:,.0f} output tokens/s in all, {100 * measured.mfu:.1f} % of the peak, "
        f"${dollars(measured.dollars_per_million_output_tokens)} per million output tokens."
    )
    if requests is None or not isinstance(assessment.predicted, SteadyService):
        return gap
    return (
        f"{gap} Requests in flight, throughput and utilisation follow from each other by the measured time per token "
        f"and the predicted TTFT of {_ms(assessment.predicted.ttft_seconds)}; prompts count in the utilisation."
    )


def _tried(assessment: Assessed) -> str:
    front = assessment.anywhere.frontier
    sizes = front.candidates[0].plans.accelerators if isinstance(front, ServiceFrontier) else front.grid.accelerators
    return f"Any size: deployments of up to {max(sizes):g} GPUs."


def _certain(assessment: Assessed) -> list[str]:
    """Sentence on whether the gap to the frontier is larger than errors of predictions are."""
    gap, likely = assessment.anywhere, assessment.anywhere.likely_seconds
    if likely is None or gap.verdict == "on" or assessment.predicted is None:
        return []
    around = (
        f"with these GPUs and batch {100 * bounds.LEVEL:.0f} % of servers on the frontier of any size would "
        f"take {1e3 * likely.low:.4g} to {1e3 * likely.high:.4g} ms per token, and this one takes "
        f"{1e3 * gap.measured.seconds:.4g} ms"
    )
    if gap.certain:
        return [f"That is more than the profile itself is uncertain by: {around}."]
    return [f"The profile itself is uncertain by more than that: {around}."]


def _beyond(measured: OperatingPoint) -> str:
    return (
        f"{100 * measured.mfu:.0f} % of what the arithmetic units of {chips_label(measured.accelerators)} can do; the "
        "speed, the batch or throughput, the number format or the number of GPUs is not what it seems."
    )


def _impossible(assessment: Assessed) -> list[str]:
    sentences, shortage, measured = [], assessment.shortage, assessment.measured
    if measured.mfu > 1.0:
        sentences.append(f"That is impossible: {_beyond(measured)}")
    chips, precision = chips_label(measured.instance_accelerators), assessment.setup.precision
    if shortage is not None and assessment.requests is not None:
        sentences.append(
            f"{size(round(shortage.batch, 1))} in flight need {shortage.needed_bytes / 1e9:.0f} GB, and {chips} have "
            f"{shortage.available_bytes / 1e9:.0f} GB: {shortage.most:,} fit at most and the others wait, so that "
            f"what is predicted and counted as in flight is of those that fit. A cache narrower than {precision.kv} or "
            "shared prefixes would hold more."
        )
    elif shortage is not None:
        sentences.append(
            f"A batch of {size(round(shortage.batch, 1))} needs {shortage.needed_bytes / 1e9:.0f} GB, and {chips} have "
            f"{shortage.available_bytes / 1e9:.0f} GB: {shortage.most:,} sequences fit, and there is no prediction for "
            f"more. A cache narrower than {precision.kv}, weights narrower than {precision.weights}, shared prefixes "
            f"or a context shorter than {assessment.setup.context:g} would explain it, or waiting requests that were "
            "counted."
        )
    return sentences


def _beside_frontier(assessment: Assessed) -> str:
    gap, name = assessment.anywhere, assessment.setup.assumptions.name
    if gap.verdict == "on":
        return f"It lies on the frontier of {name}, within 2 %."
    if gap.verdict == "behind":
        return f"It lies behind the frontier of {name}: {_better(gap, named=True)}."
    return (
        f"It is better than every deployment under {name}: {_worse(gap)}. Either the server does better than the "
        "profile assumes (kernels, overlap), speculates (several tokens per step) or shares prefixes (less cache to "
        "read), or an input is off: number format, context, number of GPUs, or what was counted as batch or "
        "utilisation."
    )


def _alike(assessment: Assessed) -> list[str]:
    """Sentence on the point among deployments of its size, where that is a better verdict."""
    gap, chips = assessment.same_size, chips_label(assessment.measured.instance_accelerators)
    if gap.verdict == assessment.anywhere.verdict:
        return []
    if gap.verdict == "on":
        return [
            f"Among deployments on {chips} it lies on the frontier, within 2 %: others need another number of GPUs."
        ]
    return [f"Among deployments on {chips} it is ahead of all: {_worse(gap)}."]


def _beside_ideal(assessment: Assessed) -> str:
    gap, chips = assessment.ideal, chips_label(assessment.measured.instance_accelerators)
    if gap.verdict == "behind":
        return f"The ideal bound for {chips} (full peaks, free communication, no launches): {_better(gap)}."
    if gap.verdict == "on":
        return f"It lies on the ideal bound for {chips}, within 2 %: nothing is left to gain but by speculation."
    return (
        f"It is better than the ideal bound for {chips}: {_worse(gap)}. Only speculation or shared prefixes allow "
        "that; without them an input is wrong: a narrower number format, a shorter context, more GPUs, a batch that "
        "counts waiting requests, or a throughput that counts prompts."
    )


def _better(gap: Gap, *, named: bool = False) -> str:
    """Words for how much better a frontier is than a point behind it, perhaps with the deployments that do it."""
    fast, cheap = gap.faster, gap.cheaper
    assert fast is not None and cheap is not None and gap.cost_factor is not None
    by = [f", by {_deployment(point)}" if named else "" for point in (fast, cheap)]
    return (
        f"at this cost {fast.tokens_per_second_per_user:.1f} tokens/s ({gap.speed_factor:.2f} times as fast, "
        f"{gap.speed_lost:+z.1f}{by[0]}), at this speed ${dollars(cheap.dollars_per_million_output_tokens)} "
        f"({1 / gap.cost_factor:.2f} times the cost, ${dollars(gap.dollars_lost or 0.0)} less{by[1]})"
    )


def _deployment(point: ComparedPoint) -> str:
    load = f"{point.batch:.0f} in flight" if isinstance(point, SteadyService) else f"a batch of {size(point.batch)}"
    return f"{layout_label(point.layout)} on {chips_label(point.accelerators)} with {load}"


def _worse(gap: Gap) -> str:
    """Words for how much worse a frontier is than a point ahead of it."""
    at_cost, at_speed = "nothing is as cheap", "nothing is as fast"
    if gap.faster is not None:
        at_cost = f"at this cost {gap.faster.tokens_per_second_per_user:.1f} tokens/s at most"
    if gap.cheaper is not None:
        at_speed = f"at this speed ${dollars(gap.cheaper.dollars_per_million_output_tokens)} at least"
    return f"{at_cost}, {at_speed}"


def _unexplained(assessment: Assessed) -> str | None:
    left = assessment.unexplained_seconds
    if left is None:
        return None
    measured = assessment.measured.seconds
    predicted = f"Of {1e3 * measured:.2f} ms per token the profile predicts {1e3 * (measured - left):.2f} ms"
    likely = assessment.likely_seconds
    if likely is not None:
        predicted += f" ({1e3 * likely.low:.2f} to {1e3 * likely.high:.2f} ms in {100 * bounds.LEVEL:.0f} % of cases)"
    if abs(left) < _NOTABLE * measured:
        return f"{predicted}: nothing is unexplained."
    prompts = ", prompts of other requests" if assessment.requests is None else ""
    if left < 0:
        return f"{predicted}: the server is faster than predicted by {-1e3 * left:.2f} ms."
    return f"{predicted}; {1e3 * left:.2f} ms are unexplained: scheduler, sampling{prompts}, kernels."


def _lever(assessment: Assessed) -> str | None:
    """The parts that close most of the gap to what can be reached, and else to the bound."""
    name, gap = (
        ("frontier", assessment.anywhere)
        if assessment.anywhere.verdict == "behind"
        else ("ideal bound", assessment.ideal)
    )
    levers = sorted(assessment.parts, key=lambda part: -part.closes(gap))[:2]
    named = [_closing(part, gap) for part in levers if part.closes(gap) >= _NOTABLE]
    if not named:
        return None
    return f"To the {name} {1e3 * gap.seconds:.2f} ms would have to go; alone could close of it: {', '.join(named)}."


def _closing(part: StepPart, gap: Gap) -> str:
    what = "the unexplained time" if part.name == "unexplained" else NAMES[part.name]
    return f"{what} ({100 * part.closes(gap):.0f} %)"
