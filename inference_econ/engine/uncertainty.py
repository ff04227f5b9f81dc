"""How far a prediction of fitted assumptions may be off, and whether it is an extrapolation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inference_econ.engine.layouts.pins import bare_key, key_degrees
from inference_econ.engine.setup import Setup
from inference_econ.errors import InputError
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    LEVELS,
    STROKE,
    Assumptions,
    Axis,
    Calibration,
    ErrorSpread,
    HardwareSpec,
    ModelSpec,
    Precision,
    Quantity,
    Range,
    Unlike,
    Unseen,
    likely_ends,
    number,
)

#: Beyond what was measured by more than this factor is outside [1].
_SLACK = 1.25
_BILLION = 1e9
#: Names of unknown parts that are told [1].
_NAMED = 4
#: Level of the median, at which a promise has no margin [1].
_EVEN = 0.5
#: What an engine is called that is not recorded.
UNKNOWN = "unknown"
#: Axes that an instance may be cut along, as people call them.
_AXES: Mapping[Axis, str] = {
    "pp": "pipeline stages",
    "dp": "groups of attention ranks (dp)",
    "ep": "expert-parallel ranks (ep)",
}
#: Fields of hardware and models that no time depends on.
_NO_TIME = ("prices", "watts", "name", "description", "year", "vendor", "max_context", "checkpoints")


class Interval(NamedTuple):
    """Where a value probably is."""

    low: float
    """[as the value]"""
    high: float
    """[as the value]"""


class Subject(NamedTuple):
    """Subject of a prediction; None where nothing is asked."""

    model: ModelSpec
    """Model that is served."""
    hardware: HardwareSpec
    """On what."""
    weights: str | None = None
    """Number format, None: as published."""
    isl: float | None = None
    """[tokens]"""
    osl: float | None = None
    """[tokens]"""
    accelerators: float | None = None
    """Of an instance [1]."""
    concurrency: float | None = None
    """Requests of an instance at a time [1]."""
    engine: str = ""
    """Empty if any will do."""
    context: float | None = None
    """Mean length during decode where the lengths of requests are not known [tokens]."""
    version: str = ""
    """Of the engine; empty if it is not known."""
    layout: str = ""
    """Of an instance, see :func:`layout_key`; empty if it is not known."""
    unseen: Unseen | None = None
    """Part of it that the level of measured servers has not seen; None where it is predicted without a level."""


def asked_subject(
    setup: Setup,
    isl: float | None = None,
    osl: float | None = None,
    accelerators: float | None = None,
    concurrency: float | None = None,
) -> Subject:
    """Return the subject of a question; its context counts where lengths of prompts are unknown, unless it is empty."""
    context = setup.context if isl is None and setup.context else None
    return Subject(
        setup.model, setup.hardware, setup.precision.experts, isl, osl, accelerators, concurrency,
        context=context,
    )  # fmt: skip


class Instances(NamedTuple):
    """The instances of one setup that an answer shows; what they are unlike among those that were measured counts."""

    setup: Setup
    """Model, chip and formats."""
    accelerators: Sequence[float] = ()
    """Of each instance [1]."""
    concurrency: Sequence[float] = ()
    """Requests of each instance at a time [1]; empty if they are not known."""
    isl: float | None = None
    """[tokens]; if it is not known, the context of the setup counts."""
    osl: float | None = None
    """[tokens]"""
    speculates: bool = False
    """Tokens are proposed and verified."""
    label: str = ""
    """Name among several."""
    layouts: Sequence[str] = ()
    """Of the instances, see :func:`layout_key`; empty if they are not known."""

    @property
    def subject(self) -> Subject:
        """Common subject of the instances, and how little is known of the least known of them."""
        subject = asked_subject(self.setup, self.isl, self.osl)
        if self.setup.levels is None:
            return subject
        levels = self.setup.levels.served(speculates=self.speculates)
        return subject._replace(unseen=levels.unseen(self.layouts))

    @property
    def measured(self) -> list[bool]:
        """Whether servers were measured of each layout, served in this way, under any version of the engine."""
        levels = self.setup.levels
        deployed = frozenset[str]() if levels is None else levels.served(speculates=self.speculates).deployed
        return [bare_key(layout) in deployed for layout in self.layouts]


def interval(
    value: float,
    assumptions: Assumptions,
    quantity: Quantity = "tpot",
    *,
    level: float = 0.8,
    subjects: Iterable[Subject] = (),
) -> Interval | None:
    """The interval that a measured value lies in with some probability, by the errors for rows a fit had not seen.

    Parameters
    ----------
    value : float
        Predicted time [s] or rate [1/s].
    assumptions : Assumptions
        It was predicted under.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        What it is.
    level : float
        Probability, from 0 to 0.9 [1].
    subjects : iterable of Subject
        What is asked: the more it is unlike what was measured, the wider the interval. Without any, all is unlike.

    Returns
    -------
    Interval or None
        Holds the value; None if the assumptions were not fitted to such a quantity.

    Raises
    ------
    InputError
        If the level is no probability up to 0.9.

    Notes
    -----
    The errors are of fits that left out what the question is unlike in: see :func:`unlike`. What the constants are
    uncertain by is in them, since each of these fits has constants of its own.
    """
    if not 0.0 <= level <= LEVELS[-1] - LEVELS[0] + 1e-12:
        raise InputError(f"level: must be from 0 to {LEVELS[-1] - LEVELS[0]:g}, got {level:g}")
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    factors = factors_of(errors.spread, level)
    return Interval(value * factors.low, value * factors.high)


def factors_of(errors: ErrorSpread, level: float) -> Interval:
    """The interval of a level [1] of errors, as factors on a predicted value [1]."""
    low, high = likely_ends(errors.quantiles, level)
    return Interval(math.exp(low), math.exp(high))


class LeftOutErrors(NamedTuple):
    """Errors of predictions for rows whose likes a fit had not seen."""

    unlike: Unlike | Unseen
    """Part that was left out of the fits, or of the levels of measured servers."""
    spread: ErrorSpread
    """The errors."""


def error_spread(
    assumptions: Assumptions, quantity: Quantity, subjects: Iterable[Subject] = ()
) -> LeftOutErrors | None:
    """The errors that :func:`interval` is made from: the widest of all that speak for some questions.

    See there for the parameters; None if the assumptions were not fitted to such a quantity.
    """
    by_part = {} if assumptions.calibration is None else assumptions.calibration.errors
    spreads = [LeftOutErrors(kind, errors[quantity]) for kind, errors in by_part.items() if quantity in errors]
    chosen = list(subjects)
    kinds = {kind for subject in chosen for kind in unlike(subject, assumptions)}
    applying = [errors for errors in spreads if errors.unlike in kinds]
    levels = {} if assumptions.levels is None else assumptions.levels.errors
    unseen = {subject.unseen for subject in chosen if subject.unseen is not None}
    applying += [LeftOutErrors(kind, levels[kind][quantity]) for kind in unseen if quantity in levels.get(kind, {})]
    widest = max(applying or spreads, key=lambda errors: errors.spread.width, default=None)
    share = max((unknown_share(subject.model) for subject in chosen), default=0.0)
    if widest is None or not share:
        return widest
    # A part of a step that is unknown is predicted to be read once and multiplied behind that. It may take nothing, as
    # a table does that is looked up, or be multiplied while nothing is read.
    shorter, longer = math.log1p(-share), math.log1p(share)
    below, above = (-longer, -shorter) if quantity == "throughput" else (shorter, longer)
    pairs = zip(LEVELS, widest.spread.quantiles, strict=True)
    moved = tuple(value + (below if level < _EVEN else above if level > _EVEN else 0.0) for level, value in pairs)
    return widest._replace(spread=widest.spread.replace(quantiles=moved))


def likely_errors(assumptions: Assumptions, quantity: Quantity, subjects: Sequence[Subject] = ()) -> ErrorSpread | None:
    """The errors that a quantity probably has: its own, or those that follow from the time per token.

    See :func:`interval` for the parameters; None if the assumptions were fitted to neither.

    Notes
    -----
    A rate that was measured nowhere is off as the time per token is, which it follows from: of servers of which both
    are known, these errors are opposite (``benchmarks/error_correlations.py``).
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is not None or quantity != "throughput":
        return None if errors is None else errors.spread
    tpot = error_spread(assumptions, "tpot", subjects)
    return None if tpot is None else tpot.spread.replace(quantiles=_worse(tpot, "throughput"))


def unknown_share(model: ModelSpec) -> float:
    """The most of a step that parts may take which are unknown of a model [1].

    Of all that a step reads and multiplies, their share is at most that at one token: steps of more tokens read more
    experts, and caches; what else is read has at least the narrowest format of the model.
    """
    if not model.unknown_parameters:
        return 0.0
    precision = Precision.of(model)
    narrowest = min(BYTES_PER_ELEMENT[dtype] for dtype in precision.of_weights)
    unknown = model.unknown_parameters * BYTES_PER_ELEMENT[precision.weights]
    looked_up = 0.0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return unknown / (unknown + (model.active_parameters - looked_up - model.unknown_parameters) * narrowest)


def unlike(subject: Subject, assumptions: Assumptions) -> set[Unlike]:
    """In what a question is unlike the measurements behind some assumptions; its traffic always is.

    Parameters
    ----------
    subject : Subject
        What is asked. A version that it does not name is another one; an engine or a layout that it does not name is
        any of those that were measured.
    assumptions : Assumptions
        Under which it is answered; empty if they were not fitted.
    """
    calibration = assumptions.calibration
    if calibration is None:
        return set()
    if subject.unseen is not None:
        # Errors of predictions with levels speak for such servers, but for what lies beyond them.
        return {reason.unlike for reason in unlike_reasons(subject, assumptions)}
    kinds: set[Unlike] = {"traffic", *(reason.unlike for reason in unlike_reasons(subject, assumptions))}
    if f"{subject.engine} {subject.version}" not in calibration.versions or not subject.version:
        kinds.add("version")
    # Expert ranks are not always recorded.
    if subject.layout and bare_key(subject.layout) not in calibration.layouts:
        kinds.add("layout")
    engines = [subject.engine] if subject.engine else calibration.engines
    if {subject_key(engine, subject.hardware, subject.model) for engine in engines}.isdisjoint(calibration.subjects):
        # Which of an engine, chip and model that were not measured together was not measured at all.
        parts = [set(names) for names in zip(*(key.split(STROKE) for key in calibration.subjects), strict=True)]
        if not parts or subject.model.name not in parts[2]:
            kinds.add("model")
        else:
            kinds.add("subject" if subject.hardware.name in parts[1] else "hardware")
    return kinds


def subject_key(engine: str, hardware: HardwareSpec, model: ModelSpec) -> str:
    """How a calibration names what was measured: engine, chip and model."""
    return STROKE.join((engine or UNKNOWN, hardware.name, model.name))


class UnlikeReason(NamedTuple):
    """Why a question is unlike the measurements behind some assumptions."""

    kind: str
    """Kind of reason, which questions have in common."""
    text: str
    """For people, with the numbers."""
    unlike: Unlike
    """Part that fits must have left out, so that their errors speak for the question."""


def outside(subject: Subject, assumptions: Assumptions) -> list[str]:
    """Why a question is unlike the measurements that some assumptions were fitted to; empty if it is like them.

    Parameters
    ----------
    subject : Subject
        What is asked.
    assumptions : Assumptions
        Under which it is answered.

    Returns
    -------
    list of str
        For people; empty for assumptions that were not fitted.
    """
    return [reason.text for reason in unlike_reasons(subject, assumptions)]


def unlike_reasons(subject: Subject, assumptions: Assumptions) -> list[UnlikeReason]:
    """Return the reasons of :func:`outside`, with what questions have in common."""
    if assumptions.calibration is None:
        return []
    calibration = assumptions.calibration
    if subject.unseen is not None:
        differences = [*_uncounted(subject.model), *_changed(subject)]
        return [*differences, *(reason for reason in _far(subject, calibration) if reason.unlike == "traffic")]
    return [
        *_uncounted(subject.model),
        *_unknown(subject, calibration),
        *_apart(subject, calibration),
        *_changed(subject),
        *_far(subject, calibration),
    ]


def _unknown(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    if subject.hardware.family not in calibration.families:
        yield _worded(
            f"no chip of the family {subject.hardware.family} was measured ({', '.join(calibration.families)})",
            "hardware",
        )
    if subject.engine and subject.engine not in calibration.engines:
        measured = f"was not measured ({', '.join(calibration.engines)})"
        yield _worded(
            "the engine is not recorded" if subject.engine == UNKNOWN else f"{subject.engine} {measured}", "engine"
        )
    weights = formats(subject.model, subject.weights)
    if weights not in calibration.weights:
        yield _worded(f"no weights in {weights} were measured ({', '.join(calibration.weights)})", "model")


def _uncounted(model: ModelSpec) -> Iterator[UnlikeReason]:
    """Parts that nobody here knows."""
    if model.unknown:
        names = [part.name for part in sorted(model.unknown, key=lambda part: -part.parameters)]
        listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        less_or_more = f"{100 * unknown_share(model):.2g} % of a step less or more" if model.unknown_parameters else ""
        taken = f" ({model.unknown_parameters / _BILLION:.3g} billion parameters, up to {less_or_more})"
        yield UnlikeReason(
            "parts of the model are unknown", f"unknown are {listed}{taken if less_or_more else ''}", "model"
        )


def _apart(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    """Ways of cutting a model up that no instance of it had, or none at all."""
    if calibration.parallel is None:
        return
    degrees, model = key_degrees(subject.layout), subject.model.name
    for axis, words in _AXES.items():
        measured = calibration.parallel.get(axis, ())
        if degrees[axis] == 1.0 or model in measured:
            continue
        if measured:
            yield _worded(f"no measured instance of {model} had {words} (measured: {', '.join(measured)})", "layout")
        else:
            yield _worded(f"no measured instance had {words}", "layout")


def unlike_layouts(layouts: Iterable[str], subject: Subject, calibration: Calibration) -> list[Subject]:
    """Return the subject with each layout that is unlike those that were measured, once."""
    alike = (subject._replace(layout=layout) for layout in dict.fromkeys(layouts))
    return [
        unlike
        for unlike in alike
        if bare_key(unlike.layout) not in calibration.layouts or any(_apart(unlike, calibration))
    ]


def _worded(text: str, unlike: Unlike) -> UnlikeReason:
    return UnlikeReason(text, text, unlike)


def _changed(subject: Subject) -> Iterator[UnlikeReason]:
    """What-ifs: a chip or model that nobody has measured, although it has the name of one that was."""
    parts: tuple[tuple[Unlike, HardwareSpec | ModelSpec], ...] = (
        ("hardware", subject.hardware),
        ("model", subject.model),
    )
    for part, spec in parts:
        fields = [
            field for field, source in spec.sources.items()
            if source.kind == "what_if" and field.partition(".")[0] not in _NO_TIME
        ]  # fmt: skip
        if fields:
            yield _worded(f"the {part} is changed ({', '.join(fields)})", part)


def _far(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    load = None
    if subject.concurrency is not None and subject.accelerators is not None:
        load = subject.concurrency / subject.accelerators
    context = Range(low=calibration.isl.low, high=calibration.isl.high + calibration.osl.high / 2.0)
    parameters = Range(low=calibration.parameters.low / _BILLION, high=calibration.parameters.high / _BILLION)
    values: tuple[tuple[str, str, float | None, Range, Unlike], ...] = (
        ("parameters", "{} billion parameter{}", subject.model.total_parameters / _BILLION, parameters, "model"),
        ("isl", "isl of {} token{}", subject.isl, calibration.isl, "traffic"),
        ("osl", "osl of {} token{}", subject.osl, calibration.osl, "traffic"),
        ("context", "context of {} token{}", subject.context, context, "traffic"),
        ("accelerators", "{} accelerator{}", subject.accelerators, calibration.accelerators, "layout"),
        (
            "requests per accelerator",
            "{} request{} per accelerator",
            load,
            calibration.requests_per_accelerator,
            "traffic",
        ),
    )
    for name, words, value, seen, part in values:
        if value is not None and not seen.low / _SLACK <= value <= seen.high * _SLACK:
            text = words.format(number(value), "" if value == 1.0 else "s")
            ends = " to ".join(dict.fromkeys(number(end) for end in (seen.low, seen.high)))
            yield UnlikeReason(f"{name} outside of what was measured", f"{text} (measured: {ends})", part)


def formats(model: ModelSpec, weights: str | None) -> str:
    """The number format of the weights that take most room: of experts where there are some."""
    precision = Precision.of(model, weights)
    return precision.experts if model.mixtures else precision.weights


def margin(
    assumptions: Assumptions, quantity: Quantity, confidence: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """How many times better than a promise a prediction must be, so that measured values keep it.

    Parameters
    ----------
    assumptions : Assumptions
        Under which it is predicted.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        What is promised: times at most, rates at least.
    confidence : float
        Probability that the promise is kept, above 0.5 and at most 0.9 [1].
    subjects : iterable of Subject
        What is asked, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        The quantile of measured over predicted at that probability, at least 1: predictions that are known to be too
        large are no reason to promise more [1]. None if the assumptions were not fitted to such a quantity.

    Raises
    ------
    InputError
        If the confidence is out of its range.
    """
    check_confidence(confidence)
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    return math.exp(max(float(np.interp(confidence, LEVELS, _worse(errors, quantity))), 0.0))


def check_confidence(confidence: float) -> None:
    """Refuse a probability that nobody can plan with.

    Raises
    ------
    InputError
        If it is not above 0.5 and at most 0.9.
    """
    if not _EVEN < confidence <= LEVELS[-2]:
        raise InputError(
            f"confidence: must be above {100 * _EVEN:g} % and at most {100 * LEVELS[-2]:g} %, got "
            f"{100 * confidence:g} %: errors of predictions are known up to their {100 * LEVELS[-1]:g} % quantile, and "
            "that from few rows"
        )


def chance(
    assumptions: Assumptions, quantity: Quantity, slack: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """The probability that measured values keep a promise: the inverse of :func:`margin`.

    Parameters
    ----------
    assumptions : Assumptions
        Under which it is predicted.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        What is promised.
    slack : float
        How many times better than the promise the prediction is: promised over predicted time, or predicted over
        promised rate [1].
    subjects : iterable of Subject
        What is asked, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        From 0.05 to 0.95, which stand for less and for more: beyond them nothing is known of the errors [1]. None if
        the assumptions were not fitted to such a quantity.
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    worse = math.log(slack) if slack > 0.0 else -math.inf
    return float(np.interp(worse, _worse(errors, quantity), LEVELS))


def _worse(errors: LeftOutErrors, quantity: Quantity) -> tuple[float, ...]:
    """Logarithms of how many times worse than predicted measured values are, at :data:`LEVELS`, which are symmetric."""
    quantiles = errors.spread.quantiles
    return tuple(-value for value in reversed(quantiles)) if quantity == "throughput" else tuple(quantiles)
