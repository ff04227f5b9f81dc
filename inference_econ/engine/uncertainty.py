"""How far a prediction of fitted assumptions may be off, and whether it is an extrapolation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from inference_econ.engine.setup import Setup
from inference_econ.errors import InputError
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.calibration import LEVELS, Calibration, ErrorSpread, Quantity, Range
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.precision import Precision
from inference_econ.inputs.units import number

#: Beyond what was measured by more than this factor is outside [1].
_SLACK = 1.25
_BILLION = 1e9
#: Fields of hardware and models that no time depends on.
_NO_TIME = ("prices", "watts", "name", "description", "year", "vendor", "max_context")


class Interval(NamedTuple):
    """Where a value probably is."""

    low: float
    """[as the value]"""
    high: float
    """[as the value]"""


class Subject(NamedTuple):
    """What a prediction is about; None where nothing is asked."""

    model: ModelSpec
    """What is served."""
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
    """Empty if it is not known."""
    context: float | None = None
    """Mean length during decode where the lengths of requests are not known [tokens]."""


def asked_subject(
    setup: Setup,
    isl: float | None = None,
    osl: float | None = None,
    accelerators: float | None = None,
    concurrency: float | None = None,
) -> Subject:
    """What a question is about; its context counts where the length of prompts is not known, unless it is empty."""
    context = setup.context if isl is None and setup.context else None
    return Subject(
        setup.model, setup.hardware, setup.precision.experts, isl, osl, accelerators, concurrency,
        context=context,
    )  # fmt: skip


class Instances(NamedTuple):
    """The instances of one setup that an answer shows; what they are unlike among those that were measured counts."""

    setup: Setup
    """What, on what, how."""
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
    """What it is called among several."""

    @property
    def subject(self) -> Subject:
        """What they have in common."""
        return asked_subject(self.setup, self.isl, self.osl)


def interval(
    value: float,
    assumptions: Assumptions,
    quantity: Quantity = "tpot",
    *,
    level: float = 0.8,
    subject: Subject | None = None,
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
    subject : Subject, optional
        What is asked: if its engine, chip and model were measured together, and nothing is
        outside of what was, only other traffic is new, and the interval is narrower.

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
    The errors are of fits that left out chips and models, or only traffic. What the constants are uncertain by is in
    them, since each of these fits has constants of its own.
    """
    if not 0.0 <= level <= LEVELS[-1] - LEVELS[0] + 1e-12:
        raise InputError(f"level: must be from 0 to {LEVELS[-1] - LEVELS[0]:g}, got {level:g}")
    spread = error_spread(assumptions, quantity, subject)
    if spread is None:
        return None
    low, high = np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], LEVELS, spread.quantiles)
    return Interval(value * math.exp(min(low, 0.0)), value * math.exp(max(high, 0.0)))


def error_spread(assumptions: Assumptions, quantity: Quantity, subject: Subject | None = None) -> ErrorSpread | None:
    """The errors that :func:`interval` is made from; None if the assumptions were not fitted to such a quantity."""
    calibration = assumptions.calibration
    if calibration is None:
        return None
    spread = calibration.errors.get(quantity)
    if subject is not None and measured(subject, assumptions):
        spread = calibration.measured_errors.get(quantity, spread)
    return spread


def measured(subject: Subject, assumptions: Assumptions) -> bool:
    """Whether engine, chip and model were measured together, and no number is outside of what was.

    Without an engine, any will do. See :func:`outside` for the parameters.
    """
    if assumptions.calibration is None:
        return False
    engines = [subject.engine] if subject.engine else assumptions.calibration.engines
    keys = {subject_key(engine, subject.hardware, subject.model) for engine in engines}
    return not keys.isdisjoint(assumptions.calibration.subjects) and not outside(subject, assumptions)


def subject_key(engine: str, hardware: HardwareSpec, model: ModelSpec) -> str:
    """How a calibration names what was measured: engine, chip and model."""
    return " / ".join((engine or "unknown", hardware.name, model.name))


class Reason(NamedTuple):
    """Why a question is unlike the measurements behind some assumptions."""

    kind: str
    """What questions have in common."""
    text: str
    """For people, with the numbers."""


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
    return [reason.text for reason in reasons(subject, assumptions)]


def reasons(subject: Subject, assumptions: Assumptions) -> list[Reason]:
    """The same as :func:`outside`, with what questions have in common."""
    if assumptions.calibration is None:
        return []
    words = (*_unknown(subject, assumptions.calibration), *_changed(subject))
    return [*(Reason(text, text) for text in words), *_far(subject, assumptions.calibration)]


def _unknown(asked: Subject, known: Calibration) -> Iterator[str]:
    if asked.hardware.family not in known.families:
        yield f"no chip of the family {asked.hardware.family} was measured ({', '.join(known.families)})"
    if asked.engine and asked.engine not in known.engines:
        yield f"{asked.engine} was not measured ({', '.join(known.engines)})"
    weights = formats(asked.model, asked.weights)
    if weights not in known.weights:
        yield f"no weights in {weights} were measured ({', '.join(known.weights)})"


def _changed(asked: Subject) -> Iterator[str]:
    """What-ifs: a chip or model that nobody has measured, although it has the name of one that was."""
    for word, spec in (("hardware", asked.hardware), ("model", asked.model)):
        fields = [
            field for field, one in spec.sources.items()
            if one.kind == "what_if" and field.partition(".")[0] not in _NO_TIME
        ]  # fmt: skip
        if fields:
            yield f"the {word} is changed ({', '.join(fields)})"


def _far(asked: Subject, known: Calibration) -> Iterator[Reason]:
    each = None
    if asked.concurrency is not None and asked.accelerators is not None:
        each = asked.concurrency / asked.accelerators
    context = Range(low=known.isl.low, high=known.isl.high + known.osl.high / 2.0)
    parameters = Range(low=known.parameters.low / _BILLION, high=known.parameters.high / _BILLION)
    values = (
        ("parameters", "{} billion parameter{}", asked.model.total_parameters / _BILLION, parameters),
        ("isl", "isl of {} token{}", asked.isl, known.isl),
        ("osl", "osl of {} token{}", asked.osl, known.osl),
        ("context", "context of {} token{}", asked.context, context),
        ("accelerators", "{} accelerator{}", asked.accelerators, known.accelerators),
        ("requests per accelerator", "{} request{} per accelerator", each, known.requests_per_accelerator),
    )
    for name, words, value, seen in values:
        if value is not None and not seen.low / _SLACK <= value <= seen.high * _SLACK:
            text = words.format(number(value), "" if value == 1.0 else "s")
            ends = " to ".join(dict.fromkeys(number(end) for end in (seen.low, seen.high)))
            yield Reason(f"{name} outside of what was measured", f"{text} (measured: {ends})")


def formats(model: ModelSpec, weights: str | None) -> str:
    """The number format of the weights that take most room: of experts where there are some."""
    precision = Precision.of(model, weights)
    experts = any(block.feed_forward.kind == "experts" for block in model.blocks)
    return precision.experts if experts else precision.weights
