"""Prediction errors of fitted assumptions, and reasons why a query is outside the calibration data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from inference_econ._by_identity import by_identity
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

#: Factor by which a value may be outside the measured range and still be treated as measured [1].
_SLACK = 1.25
_BILLION = 1e9
#: Maximum number of unknown parts of a model that a message names [1].
_NAMED = 4
#: Probability level of the median [1].
_EVEN = 0.5
#: Name that is used if the engine of a measurement was not recorded.
UNKNOWN = "unknown"
#: Display names of the kinds of parallelism.
_AXES: Mapping[Axis, str] = {
    "pp": "pipeline parallelism (pp)",
    "dp": "attention data parallelism (dp)",
    "ep": "expert parallelism (ep)",
}
#: Fields of hardware and model files that do not affect predicted times.
_NO_TIME = ("prices", "watts", "name", "description", "year", "vendor", "max_context", "checkpoints")


class Interval(NamedTuple):
    """Lower and upper bound of a value."""

    low: float
    """Lower bound, in the unit of the value."""
    high: float
    """Upper bound, in the unit of the value."""


class Subject(NamedTuple):
    """Model, chip, load and layout of a predicted instance, for a comparison with calibration data.

    Properties that are not specified are None or empty.
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
    """Engine of the prediction; empty for any engine."""
    context: float | None = None
    """Mean context during decode, if request lengths are unknown [tokens]."""
    version: str = ""
    """Engine version; empty if unknown."""
    layout: str = ""
    """Layout of an instance, see :func:`layout_key`; empty if unknown."""
    unseen: Unseen | None = None
    """Most general property without measurements, which selects the prediction errors; None without a correction."""
    ahead: int = 0
    """Number of engine releases after the newest measured release [1]."""

    @property
    def corrected(self) -> bool:
        """True if the engine was measured with the model on this chip."""
        return self.unseen not in (None, "subject")


def asked_subject(
    setup: Setup,
    isl: float | None,
    osl: float | None,
    accelerators: float | None = None,
    concurrency: float | None = None,
) -> Subject:
    """Create the subject that describes a query.

    If prompt lengths are unknown, the subject has the context of the setup, unless the context is 0.
    """
    context = setup.context if isl is None and setup.context else None
    return Subject(
        setup.model, setup.hardware, setup.precision.experts, isl, osl, accelerators, concurrency,
        context=context,
    )  # fmt: skip


class Instances(NamedTuple):
    """Instances of a result that have the same setup.

    The instance that differs most from measured instances determines the prediction errors.
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
    """Name that distinguishes these instances from other instances in the result."""
    layouts: Sequence[str] = ()
    """Layouts of the instances, see :func:`layout_key`; empty if unknown."""

    @property
    def subject(self) -> Subject:
        """Subject with the properties that all instances share, and the least-measured property of their layouts."""
        subject = asked_subject(self.setup, self.isl, self.osl)
        if self.setup.levels is None:
            return subject
        levels = self.setup.levels.served(speculates=self.speculates)
        return subject._replace(unseen=levels.unseen(self.layouts), ahead=levels.ahead)

    @property
    def measured(self) -> list[bool]:
        """True for each instance whose layout was measured in this serving mode, under any engine version."""
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
    """Interval that contains the measured value with a given probability, from errors of cross-validation.

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
        Subjects that describe the query. The interval is wider if the subjects resemble the measurements less. Without
        subjects, the widest errors of the assumptions are used.

    Returns
    -------
    Interval or None
        Interval, in the unit of the value; None if the assumptions were not fitted to the quantity.

    Raises
    ------
    InputError
        If the level is not from 0 to 0.9.

    Notes
    -----
    The interval comes from the prediction errors of cross-validation. If the query has a model without measurements,
    for example, each fit excluded one model and predicted the measurements of this model; see :func:`unlike`. The
    errors include the uncertainty of the fitted constants, because each fit has different constants.
    """
    if not 0.0 <= level <= LEVELS[-1] - LEVELS[0] + 1e-12:
        raise InputError(f"level: must be from 0 to {LEVELS[-1] - LEVELS[0]:g}, got {level:g}")
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    factors = factors_of(errors.spread, level)
    return Interval(value * factors.low, value * factors.high)


def factors_of(errors: ErrorSpread, level: float) -> Interval:
    """Interval of measured / predicted values that has the probability ``level`` [1]."""
    low, high = likely_ends(errors.quantiles, level)
    return Interval(math.exp(low), math.exp(high))


class LeftOutErrors(NamedTuple):
    """Prediction errors on measurements that were excluded from the fit."""

    unlike: Unlike | Unseen
    """Property by which measurements were excluded from the fits or from the measured corrections."""
    spread: ErrorSpread
    """Distribution of the prediction errors."""


def error_spread(
    assumptions: Assumptions, quantity: Quantity, subjects: Iterable[Subject] = ()
) -> LeftOutErrors | None:
    """Widest distribution of prediction errors that applies to any of the subjects.

    See :func:`interval` for the parameters. The result is None if the assumptions were not fitted to the quantity.
    """
    by_part = {} if assumptions.calibration is None else assumptions.calibration.errors
    spreads = [LeftOutErrors(kind, errors[quantity]) for kind, errors in by_part.items() if quantity in errors]
    chosen = list(subjects)
    kinds = {kind for subject in chosen for kind in _unlike(subject, assumptions)}
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
    # Predictions assume that an unknown part is read once per step and multiplied in parallel. The part may actually
    # take no time, like a lookup table, or its arithmetic may not overlap with reads.
    shorter, longer = math.log1p(-share), math.log1p(share)
    below, above = (-longer, -shorter) if quantity == "throughput" else (shorter, longer)
    pairs = zip(LEVELS, widest.spread.quantiles, strict=True)
    moved = tuple(value + (below if level < _EVEN else above if level > _EVEN else 0.0) for level, value in pairs)
    return widest._replace(spread=widest.spread.model_copy(update={"quantiles": moved}))


def _with_releases(errors: ErrorSpread, deviation: float) -> ErrorSpread:
    """Add an independent normal error with the standard deviation ``deviation`` for unmeasured engine releases [1]."""
    moved = [
        errors.bias
        + math.copysign(math.hypot(value - errors.bias, deviation * NormalDist().inv_cdf(level)), level - _EVEN)
        for level, value in zip(LEVELS, errors.quantiles, strict=True)
    ]
    return errors.model_copy(update={"quantiles": tuple(moved)})


def likely_errors(assumptions: Assumptions, quantity: Quantity, subjects: Sequence[Subject]) -> ErrorSpread | None:
    """Prediction errors of a quantity; unknown errors of throughput are derived from the errors of TPOT.

    See :func:`interval` for the parameters. The result is None if the assumptions were fitted neither to the
    quantity nor, for throughput, to TPOT.

    Notes
    -----
    The error factors of throughput are assumed to be the inverse of the error factors of TPOT. Servers with
    measurements of throughput and TPOT confirm this assumption (``benchmarks/error_correlations.py``).
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is not None or quantity != "throughput":
        return None if errors is None else errors.spread
    tpot = error_spread(assumptions, "tpot", subjects)
    return None if tpot is None else tpot.spread.model_copy(update={"quantiles": _worse(tpot, "throughput")})


def unknown_share(model: ModelSpec) -> float:
    """Upper bound on the share of a step's time that unknown parts of a model take [1].

    The share is the largest at one token, because larger steps also read more experts and KV cache. All known weights
    are assumed to have the narrowest format of the model.
    """
    if not model.unknown_parameters:
        return 0.0
    precision = Precision.of(model)
    narrowest = min(BYTES_PER_ELEMENT[dtype] for dtype in precision.of_weights)
    unknown = model.unknown_parameters * BYTES_PER_ELEMENT[precision.weights]
    looked_up = 0.0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return unknown / (unknown + (model.active_parameters - looked_up - model.unknown_parameters) * narrowest)


def unlike(subject: Subject, assumptions: Assumptions) -> set[Unlike]:
    """Properties in which a query differs from the calibration data; ``traffic`` is included unless corrections apply.

    Parameters
    ----------
    subject : Subject
        Subject that describes the query. An unknown version is treated as not measured. An unknown engine or layout is
        treated as measured.
    assumptions : Assumptions
        Assumptions of the prediction. The result is empty for assumptions that were not fitted.
    """
    calibration = assumptions.calibration
    if calibration is None:
        return set()
    if subject.corrected:
        # The errors of measured corrections apply, except for properties outside the data of the corrections.
        return {reason.unlike for reason in unlike_reasons(subject, assumptions)}
    kinds: set[Unlike] = {"traffic", *(reason.unlike for reason in unlike_reasons(subject, assumptions))}
    if f"{subject.engine} {subject.version}" not in calibration.versions or not subject.version:
        kinds.add("version")
    # Layouts are compared without expert-parallel degrees, which are not always recorded.
    if subject.layout and bare_key(subject.layout) not in calibration.layouts:
        kinds.add("layout")
    engines = [subject.engine] if subject.engine else calibration.engines
    if {subject_key(engine, subject.hardware, subject.model) for engine in engines}.isdisjoint(calibration.subjects):
        # If the combination was not measured, find the property that was not measured at all.
        parts = [set(names) for names in zip(*(key.split(STROKE) for key in calibration.subjects), strict=True)]
        if not parts or subject.model.known_as not in parts[2]:
            kinds.add("model")
        else:
            kinds.add("subject" if subject.hardware.name in parts[1] else "hardware")
    return kinds


#: Cached :func:`unlike`, whose result all quantities share.
_unlike = by_identity(unlike)


def subject_key(engine: str, hardware: HardwareSpec, model: ModelSpec) -> str:
    """Key of a measured combination of engine, chip and model in calibration data."""
    return STROKE.join((engine or UNKNOWN, hardware.name, model.known_as))


class UnlikeReason(NamedTuple):
    """Reason why a query differs from the calibration data."""

    kind: str
    """Kind of the reason; messages group reasons of the same kind for several subjects."""
    text: str
    """Text of the reason for users, with numbers."""
    unlike: Unlike
    """Property by which cross-validation must exclude measurements, so that its errors apply to the query."""


def outside(subject: Subject, assumptions: Assumptions) -> list[str]:
    """Texts of the reasons why a query is outside the calibration data; empty if it is inside.

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
    """Reasons why a query is outside the calibration data, as in :func:`outside`, with kind and property."""
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
        fitted = f"the profile was fitted on {', '.join(calibration.families)}"
        yield _worded(f"{fitted}, not on {subject.hardware.family} GPUs", "hardware")
    if subject.engine and subject.engine not in calibration.engines:
        measured = f"was not measured, only {', '.join(calibration.engines)}"
        yield _worded(
            "the engine is not recorded" if subject.engine == UNKNOWN else f"{subject.engine} {measured}", "engine"
        )
    weights = formats(subject.model, subject.weights)
    if weights not in calibration.weights:
        fitted = f"the profile was fitted with {', '.join(calibration.weights)}"
        yield _worded(f"{fitted}, not with {weights} weights", "model")


def _uncounted(model: ModelSpec) -> Iterator[UnlikeReason]:
    """Yield a reason for the unknown parts of a model, if it has any."""
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
    """Yield a reason for each kind of parallelism that no measured instance of the model used."""
    if calibration.parallel is None:
        return
    degrees, model = key_degrees(subject.layout), subject.model.known_as
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
    """Return one copy of a subject for each layout without measurements."""
    alike = (subject._replace(layout=layout) for layout in dict.fromkeys(layouts))
    return [
        unlike
        for unlike in alike
        if bare_key(unlike.layout) not in calibration.layouts or any(_apart(unlike, calibration))
    ]


def _worded(text: str, unlike: Unlike) -> UnlikeReason:
    return UnlikeReason(text, text, unlike)


def changed_values(spec: HardwareSpec | ModelSpec) -> list[str]:
    """Fields of a GPU or a model that what-ifs changed and that affect predicted times."""
    what_ifs = (field for field, source in spec.sources.items() if source.kind == "what_if")
    return [field for field in what_ifs if field.partition(".")[0] not in _NO_TIME]


def _changed(subject: Subject) -> Iterator[UnlikeReason]:
    """Yield reasons for changes of the chip or the model, because measurements apply only to the original."""
    parts: tuple[tuple[Unlike, HardwareSpec | ModelSpec], ...] = (
        ("hardware", subject.hardware),
        ("model", subject.model),
    )
    for part, spec in parts:
        if fields := changed_values(spec):
            yield _worded(f"the {part} has changed values ({', '.join(fields)})", part)


def _far(subject: Subject, calibration: Calibration) -> Iterator[UnlikeReason]:
    load = None
    if subject.concurrency is not None and subject.accelerators is not None:
        load = subject.concurrency / subject.accelerators
    context = Range.model_construct(low=calibration.isl.low, high=calibration.isl.high + calibration.osl.high / 2.0)
    parameters = Range.model_construct(
        low=calibration.parameters.low / _BILLION, high=calibration.parameters.high / _BILLION
    )
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
    """Name of the number format of most weights; for MoE models, of the experts."""
    precision = Precision.of(model, weights)
    return precision.experts if model.mixtures else precision.weights


def margin(
    assumptions: Assumptions, quantity: Quantity, confidence: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """Factor by which a prediction must be better than an SLO, so that a measured server meets the SLO.

    Parameters
    ----------
    assumptions : Assumptions
        Assumptions of the prediction.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        Quantity of the SLO; an SLO is a maximum for times and a minimum for rates.
    confidence : float
        Probability that the SLO is met, above 0.5 and at most 0.9 [1].
    subjects : iterable of Subject
        Subjects of the query, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        Factor [1]: quantile of measured / predicted times (or of predicted / measured rates) at the probability
        ``confidence``, but at least 1. A pessimistic bias therefore never loosens an SLO. None if the assumptions were
        not fitted to the quantity.

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
    """Reject a confidence level for which the quantile of prediction errors is unknown.

    Raises
    ------
    InputError
        If the confidence level is not above 0.5 and at most 0.9.
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
    """Probability that a measured server meets an SLO; the inverse function of :func:`margin`.

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
    """Quantiles of ln(measured / predicted) for times, or ln(predicted / measured) for rates, at :data:`LEVELS` [1]."""
    quantiles = errors.spread.quantiles
    return tuple(-value for value in reversed(quantiles)) if quantity == "throughput" else tuple(quantiles)
