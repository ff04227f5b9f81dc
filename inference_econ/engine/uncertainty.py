"""Prediction errors of fitted assumptions, and the properties of a query that are outside the calibration data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
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

#: Factor by which a value may exceed the measured range and still be treated as measured [1].
_SLACK = 1.25
_BILLION = 1e9
#: Names of unknown parts that are listed [1].
_NAMED = 4
#: Probability level of the median [1].
_EVEN = 0.5
#: Name of an engine that was not recorded.
UNKNOWN = "unknown"
#: Kinds of parallelism in words.
_AXES: Mapping[Axis, str] = {
    "pp": "pipeline parallelism (pp)",
    "dp": "attention data parallelism (dp)",
    "ep": "expert parallelism (ep)",
}
#: Fields of hardware and models that affect no time.
_NO_TIME = ("prices", "watts", "name", "description", "year", "vendor", "max_context", "checkpoints")


class Interval(NamedTuple):
    """Bounds of a value."""

    low: float
    """Lower bound, in the unit of the value."""
    high: float
    """Upper bound, in the unit of the value."""


class Subject(NamedTuple):
    """Model, chip, load and layout of a prediction, for a comparison with calibration data.

    Unspecified properties are None.
    """

    model: ModelSpec
    """Model that is served."""
    hardware: HardwareSpec
    """Chip that runs the model."""
    weights: str | None = None
    """Weight format; None for the published format."""
    isl: float | None = None
    """Input tokens per request [tokens]."""
    osl: float | None = None
    """Output tokens per request [tokens]."""
    accelerators: float | None = None
    """Number of chips of an instance [1]."""
    concurrency: float | None = None
    """Number of concurrent requests of an instance [1]."""
    engine: str = ""
    """Engine of the prediction; empty for any."""
    context: float | None = None
    """Mean context during decode, if request lengths are unknown [tokens]."""
    version: str = ""
    """Engine version; empty if unknown."""
    layout: str = ""
    """Layout of an instance, see :func:`layout_key`; empty if unknown."""
    unseen: Unseen | None = None
    """Property that the measured correction does not cover; None without a correction."""
    ahead: int = 0
    """Number of engine releases after the newest measured one [1]."""

    @property
    def corrected(self) -> bool:
        """True if measured corrections include the model on this chip."""
        return self.unseen not in (None, "subject")


def asked_subject(
    setup: Setup,
    isl: float | None = None,
    osl: float | None = None,
    accelerators: float | None = None,
    concurrency: float | None = None,
) -> Subject:
    """Subject that describes a query.

    If prompt lengths are unknown, the context of the setup is used unless it is 0.
    """
    context = setup.context if isl is None and setup.context else None
    return Subject(
        setup.model, setup.hardware, setup.precision.experts, isl, osl, accelerators, concurrency,
        context=context,
    )  # fmt: skip


class Instances(NamedTuple):
    """Instances of a result that have the same setup.

    The instance that differs most from measured ones determines the errors.
    """

    setup: Setup
    """Setup with model, chip and formats."""
    accelerators: Sequence[float] = ()
    """Number of chips of each instance [1]."""
    concurrency: Sequence[float] = ()
    """Concurrent requests of each instance [1]; empty if unknown."""
    isl: float | None = None
    """Input tokens per request [tokens]; if unknown, the context of the setup is used."""
    osl: float | None = None
    """Output tokens per request [tokens]."""
    speculates: bool = False
    """True if the instances use speculative decoding."""
    label: str = ""
    """Name that distinguishes these instances from others in the result."""
    layouts: Sequence[str] = ()
    """Layouts of the instances, see :func:`layout_key`; empty if unknown."""

    @property
    def subject(self) -> Subject:
        """Properties that all instances share, with the least-measured property of their corrections."""
        subject = asked_subject(self.setup, self.isl, self.osl)
        if self.setup.levels is None:
            return subject
        levels = self.setup.levels.served(speculates=self.speculates)
        return subject._replace(unseen=levels.unseen(self.layouts), ahead=levels.ahead)

    @property
    def measured(self) -> list[bool]:
        """True for each layout that was measured in this serving mode, under any engine version."""
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
    """Interval that contains the measured value with a given probability, from cross-validation errors.

    Parameters
    ----------
    value : float
        Predicted time [s] or rate [1/s].
    assumptions : Assumptions
        Assumptions of the prediction.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        Quantity that is predicted.
    level : float
        Probability, from 0 to 0.9 [1].
    subjects : iterable of Subject
        Subjects that describe the query. The less they resemble the measurements, the wider is the interval. Without
        subjects, the widest errors are used.

    Returns
    -------
    Interval or None
        Interval around the value; None if the assumptions were not fitted to the quantity.

    Raises
    ------
    InputError
        If the level is not from 0 to 0.9.

    Notes
    -----
    The errors come from cross-validation. For a query with a new model, for example, each fit left out one model and
    predicted it; see :func:`unlike`. The errors include the uncertainty of the fitted constants, because each fit has
    different constants.
    """
    if not 0.0 <= level <= LEVELS[-1] - LEVELS[0] + 1e-12:
        raise InputError(f"level: must be from 0 to {LEVELS[-1] - LEVELS[0]:g}, got {level:g}")
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    factors = factors_of(errors.spread, level)
    return Interval(value * factors.low, value * factors.high)


def factors_of(errors: ErrorSpread, level: float) -> Interval:
    """Interval with the probability ``level`` [1], as factors on a predicted value [1]."""
    low, high = likely_ends(errors.quantiles, level)
    return Interval(math.exp(low), math.exp(high))


class LeftOutErrors(NamedTuple):
    """Prediction errors on measurements that were left out of the fit."""

    unlike: Unlike | Unseen
    """Property whose measurements were left out of the fits, or of the measured corrections."""
    spread: ErrorSpread
    """Distribution of the errors."""


def error_spread(
    assumptions: Assumptions, quantity: Quantity, subjects: Iterable[Subject] = ()
) -> LeftOutErrors | None:
    """Widest distribution of errors that applies to any of the subjects.

    The parameters are as in :func:`interval`. None if the assumptions were not fitted to the quantity.
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
    ahead = max((subject.ahead for subject in chosen), default=0)
    if widest is not None and ahead and assumptions.levels is not None:
        spread = assumptions.levels.spreads["ttft" if quantity == "ttft" else "tpot"].release * math.sqrt(ahead)
        widest = widest._replace(spread=_with_releases(widest.spread, spread))
    share = max((unknown_share(subject.model) for subject in chosen), default=0.0)
    if widest is None or not share:
        return widest
    # Predictions assume that an unknown part is read once and multiplied in parallel. In fact it may take no time, like
    # a lookup table, or its arithmetic may not overlap with any read.
    shorter, longer = math.log1p(-share), math.log1p(share)
    below, above = (-longer, -shorter) if quantity == "throughput" else (shorter, longer)
    pairs = zip(LEVELS, widest.spread.quantiles, strict=True)
    moved = tuple(value + (below if level < _EVEN else above if level > _EVEN else 0.0) for level, value in pairs)
    return widest._replace(spread=widest.spread.replace(quantiles=moved))


def _with_releases(errors: ErrorSpread, deviation: float) -> ErrorSpread:
    """Errors plus an independent normal error for unmeasured releases, whose standard deviation is given [1]."""
    moved = [
        errors.bias
        + math.copysign(math.hypot(value - errors.bias, deviation * NormalDist().inv_cdf(level)), level - _EVEN)
        for level, value in zip(LEVELS, errors.quantiles, strict=True)
    ]
    return errors.replace(quantiles=tuple(moved))


def likely_errors(assumptions: Assumptions, quantity: Quantity, subjects: Sequence[Subject] = ()) -> ErrorSpread | None:
    """Errors of a quantity. If the errors of throughput are unknown, they are derived from the errors of TPOT.

    The parameters are as in :func:`interval`. None if the assumptions were fitted neither to the quantity nor to
    TPOT.

    Notes
    -----
    The errors of throughput are assumed to be the inverse of the errors of TPOT. Servers with both measurements confirm
    this (``benchmarks/error_correlations.py``).
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is not None or quantity != "throughput":
        return None if errors is None else errors.spread
    tpot = error_spread(assumptions, "tpot", subjects)
    return None if tpot is None else tpot.spread.replace(quantiles=_worse(tpot, "throughput"))


def unknown_share(model: ModelSpec) -> float:
    """Upper bound on the share of a step that unknown parts of a model take [1].

    The share is largest at one token, because larger steps also read more experts and cache. All known weights are
    assumed to have the narrowest format of the model.
    """
    if not model.unknown_parameters:
        return 0.0
    precision = Precision.of(model)
    narrowest = min(BYTES_PER_ELEMENT[dtype] for dtype in precision.of_weights)
    unknown = model.unknown_parameters * BYTES_PER_ELEMENT[precision.weights]
    looked_up = 0.0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return unknown / (unknown + (model.active_parameters - looked_up - model.unknown_parameters) * narrowest)


def unlike(subject: Subject, assumptions: Assumptions) -> set[Unlike]:
    """Properties in which a query differs from the calibration data; traffic is always included.

    Parameters
    ----------
    subject : Subject
        Subject that describes the query. An unknown version is treated as unmeasured, and an unknown engine or layout
        as measured.
    assumptions : Assumptions
        Assumptions of the prediction. No property is returned for assumptions that were not fitted.
    """
    calibration = assumptions.calibration
    if calibration is None:
        return set()
    if subject.corrected:
        # Errors of measured corrections apply, except to properties outside their data.
        return {reason.unlike for reason in unlike_reasons(subject, assumptions)}
    kinds: set[Unlike] = {"traffic", *(reason.unlike for reason in unlike_reasons(subject, assumptions))}
    if f"{subject.engine} {subject.version}" not in calibration.versions or not subject.version:
        kinds.add("version")
    # Expert-parallel degrees are not always recorded.
    if subject.layout and bare_key(subject.layout) not in calibration.layouts:
        kinds.add("layout")
    engines = [subject.engine] if subject.engine else calibration.engines
    if {subject_key(engine, subject.hardware, subject.model) for engine in engines}.isdisjoint(calibration.subjects):
        # Find the property that was not measured at all, out of a combination that was not measured.
        parts = [set(names) for names in zip(*(key.split(STROKE) for key in calibration.subjects), strict=True)]
        if not parts or subject.model.name not in parts[2]:
            kinds.add("model")
        else:
            kinds.add("subject" if subject.hardware.name in parts[1] else "hardware")
    return kinds


def subject_key(engine: str, hardware: HardwareSpec, model: ModelSpec) -> str:
    """Key of a measured combination of engine, chip and model in calibration data."""
    return STROKE.join((engine or UNKNOWN, hardware.name, model.name))


class UnlikeReason(NamedTuple):
    """Reason why a query differs from the calibration data."""

    kind: str
    """Kind of the reason; reasons of the same kind are grouped over several subjects."""
    text: str
    """Reason as text for users, with the numbers."""
    unlike: Unlike
    """Property that cross-validation must leave out, so that its errors apply to the query."""


def outside(subject: Subject, assumptions: Assumptions) -> list[str]:
    """Reasons why a query differs from the calibration data; empty if it does not.

    Parameters
    ----------
    subject : Subject
        Subject that describes the query.
    assumptions : Assumptions
        Assumptions of the prediction.

    Returns
    -------
    list of str
        Texts for users; empty for assumptions that were not fitted.
    """
    return [reason.text for reason in unlike_reasons(subject, assumptions)]


def unlike_reasons(subject: Subject, assumptions: Assumptions) -> list[UnlikeReason]:
    """Reasons why a query differs from the calibration data, as in :func:`outside`, with kind and property."""
    if assumptions.calibration is None:
        return []
    calibration = assumptions.calibration
    if subject.corrected:
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
            f"no {subject.hardware.family} GPU was measured, only {', '.join(calibration.families)}",
            "hardware",
        )
    if subject.engine and subject.engine not in calibration.engines:
        measured = f"was not measured, only {', '.join(calibration.engines)}"
        yield _worded(
            "the engine is not recorded" if subject.engine == UNKNOWN else f"{subject.engine} {measured}", "engine"
        )
    weights = formats(subject.model, subject.weights)
    if weights not in calibration.weights:
        yield _worded(f"no server with {weights} weights was measured, only {', '.join(calibration.weights)}", "model")


def _uncounted(model: ModelSpec) -> Iterator[UnlikeReason]:
    """Unknown parts of a model."""
    if model.unknown:
        names = [part.name for part in sorted(model.unknown, key=lambda part: -part.parameters)]
        listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        less_or_more = f"{100 * unknown_share(model):.2g} % of a step less or more" if model.unknown_parameters else ""
        taken = f" ({model.unknown_parameters / _BILLION:.3g} billion parameters, up to {less_or_more})"
        yield UnlikeReason(
            "parts of the model are unknown",
            f"parts of the model are unknown: {listed}{taken if less_or_more else ''}",
            "model",
        )


def _apart(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    """Kinds of parallelism that no measured instance of the model used; or the fact that no instance was measured."""
    if calibration.parallel is None:
        return
    degrees, model = key_degrees(subject.layout), subject.model.name
    for axis, words in _AXES.items():
        measured = calibration.parallel.get(axis, ())
        if degrees[axis] == 1.0 or model in measured:
            continue
        if measured:
            yield _worded(
                f"no measured instance of {model} used {words}, only instances of {', '.join(measured)}", "layout"
            )
        else:
            yield _worded(f"no measured instance used {words}", "layout")


def unlike_layouts(layouts: Iterable[str], subject: Subject, calibration: Calibration) -> list[Subject]:
    """Copies of a subject, one for each layout without measurements."""
    alike = (subject._replace(layout=layout) for layout in dict.fromkeys(layouts))
    return [
        unlike
        for unlike in alike
        if bare_key(unlike.layout) not in calibration.layouts or any(_apart(unlike, calibration))
    ]


def _worded(text: str, unlike: Unlike) -> UnlikeReason:
    return UnlikeReason(text, text, unlike)


def _changed(subject: Subject) -> Iterator[UnlikeReason]:
    """What-ifs that change the chip or the model. Measurements of the original do not apply to the changed one."""
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
            yield _worded(f"the {part} has changed values ({', '.join(fields)})", part)


def _far(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    load = None
    if subject.concurrency is not None and subject.accelerators is not None:
        load = subject.concurrency / subject.accelerators
    context = Range(low=calibration.isl.low, high=calibration.isl.high + calibration.osl.high / 2.0)
    parameters = Range(low=calibration.parameters.low / _BILLION, high=calibration.parameters.high / _BILLION)
    values: tuple[tuple[str, str, float | None, Range, Unlike], ...] = (
        (
            "parameters",
            "the model has {} billion parameter{}",
            subject.model.total_parameters / _BILLION,
            parameters,
            "model",
        ),
        ("isl", "ISL is {}", subject.isl, calibration.isl, "traffic"),
        ("osl", "OSL is {}", subject.osl, calibration.osl, "traffic"),
        ("context", "the context is {} token{}", subject.context, context, "traffic"),
        ("GPUs", "an instance has {} GPU{}", subject.accelerators, calibration.accelerators, "layout"),
        (
            "requests per GPU",
            "the load is {} concurrent request{} per GPU",
            load,
            calibration.requests_per_accelerator,
            "traffic",
        ),
    )
    for name, words, value, seen, part in values:
        if value is not None and not seen.low / _SLACK <= value <= seen.high * _SLACK:
            text = words.format(number(value), "" if value == 1.0 else "s")
            ends = " to ".join(dict.fromkeys(number(end) for end in (seen.low, seen.high)))
            yield UnlikeReason(f"{name} outside the measured range", f"{text} (measured: {ends})", part)


def formats(model: ModelSpec, weights: str | None) -> str:
    """Number format of most weights; for MoE models, the format of the experts."""
    precision = Precision.of(model, weights)
    return precision.experts if model.mixtures else precision.weights


def margin(
    assumptions: Assumptions, quantity: Quantity, confidence: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """Factor by which a prediction must be better than an SLO, so that measured servers meet the SLO.

    Parameters
    ----------
    assumptions : Assumptions
        Assumptions of the prediction.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        Quantity of the SLO, which is a maximum for times and a minimum for rates.
    confidence : float
        Probability that the SLO is met, above 0.5 and at most 0.9 [1].
    subjects : iterable of Subject
        Subjects of the query, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        Quantile of measured / predicted at this probability [1]. The quantile is at least 1, so that a pessimistic bias
        never loosens an SLO. None if the assumptions were not fitted to the quantity.

    Raises
    ------
    InputError
        If the confidence is out of range.
    """
    check_confidence(confidence)
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    return math.exp(max(float(np.interp(confidence, LEVELS, _worse(errors, quantity))), 0.0))


def check_confidence(confidence: float) -> None:
    """Check that the known errors support a confidence level.

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
    """Probability that measured servers meet an SLO; it is the inverse function of :func:`margin`.

    Parameters
    ----------
    assumptions : Assumptions
        Assumptions of the prediction.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        Quantity of the SLO.
    slack : float
        Factor by which the prediction is better than the SLO [1]: SLO / predicted time, or predicted rate / SLO.
    subjects : iterable of Subject
        Subjects of the query, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        Probability [1]; 0.05 means "at most 5%", and 0.95 means "at least 95%". None if the assumptions were not fitted
        to the quantity.
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    worse = math.log(slack) if slack > 0.0 else -math.inf
    return float(np.interp(worse, _worse(errors, quantity), LEVELS))


def _worse(errors: LeftOutErrors, quantity: Quantity) -> tuple[float, ...]:
    """Quantiles of ln(measured / predicted) in the unfavorable direction, at the symmetric :data:`LEVELS` [1]."""
    quantiles = errors.spread.quantiles
    return tuple(-value for value in reversed(quantiles)) if quantity == "throughput" else tuple(quantiles)
