"""Records of a fit of assumptions to measurements: the rows that it saw, and how far it was off."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from inference_econ.inputs import places
from inference_econ.inputs._spec import Count, Date, Names, Size, Spec
from inference_econ.inputs._yaml import entry_title

Quantity = Literal["tpot", "ttft", "request", "throughput"]
#: In what a question may be unlike the rows of a fit: in its lengths and load alone, in the version of its engine, in
#: its layout, in the combination of engine, chip and model, or in one of these that was not measured at all.
Unlike = Literal["traffic", "version", "layout", "subject", "model", "hardware", "engine"]
#: Groups of attention ranks with sequences of their own, pipeline stages, expert-parallel ranks.
Axis = Literal["dp", "pp", "ep"]


def _measured(text: str) -> str:
    """Subject of a measurement, if it has all three parts."""
    if text.count(STROKE) != 2:
        raise PydanticCustomError("subject", "write 'engine / chip / model'")
    return text


#: Between the parts of what was measured.
STROKE = " / "
Subject = Annotated[str, AfterValidator(_measured)]
Ratio = Annotated[int | float, Field(ge=-10, le=10, allow_inf_nan=False)]

Share = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]

#: Probabilities of the quantiles of an :class:`ErrorSpread` [1].
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def likely_ends(quantiles: Sequence[float], level: float = 0.8) -> tuple[float, float]:
    """Ends of the interval that holds a share of all errors, and no error at all.

    Parameters
    ----------
    quantiles : sequence of float
        Of ln(measured / predicted) at :data:`LEVELS` [1].
    level : float
        Share, up to 0.9 [1].

    Returns
    -------
    (float, float)
        ln(measured / predicted) [1]: at most 0, and at least 0. It lies around the median of the errors, so that a bias
        moves it, and reaches as far as the prediction itself.

    Examples
    --------
    >>> [round(end, 3) for end in likely_ends((-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4))]
    [-0.1, 0.3]
    >>> [round(end, 3) for end in likely_ends((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7))]
    [0.0, 0.6]
    """
    low, high = np.interp([(1.0 - level) / 2.0, (1.0 + level) / 2.0], LEVELS, quantiles)
    return min(float(low), 0.0), max(float(high), 0.0)


class Range(Spec):
    """From the least to the most that was measured."""

    low: Size
    """Least."""
    high: Size
    """Most."""


class MeasuredDays(Spec):
    """From the first to the last day on which rows were measured."""

    since: Date
    """First."""
    until: Date
    """Last."""


class ErrorSpread(Spec):
    """Errors of predictions for rows that their fit had not seen."""

    rows: Count
    """How many say how wide the interval is, those of the base where it is mostly the base's [1]."""
    own: Count | None = None
    """Of the fit itself, where the interval is mostly that of its base [1]."""
    groups: Count | None = None
    """Groups that were left out one after the other [1]."""
    misfits: Count | None = None
    """Rows of runs that are too far from all others to say how wide it is [1]."""
    median: Ratio | None = None
    """Of |ln(measured / predicted)|, as the fits are, before any stretching [1]."""
    p90: Ratio | None = None
    """Nine of ten of these are not larger [1]."""
    covered: Share | None = None
    """Of the rows, those inside of 80 % intervals that were made without their group [1]."""
    quantiles: Annotated[tuple[Ratio, ...], Field(min_length=len(LEVELS), max_length=len(LEVELS), strict=False)]
    """Of ln(measured / predicted) at 5, 10, 25, 50, 75, 90 and 95 % [1]."""

    def _check_fields(self) -> None:
        if list(self.quantiles) != sorted(self.quantiles):
            raise PydanticCustomError("quantiles", "quantiles must ascend, got {given}", {"given": str(self.quantiles)})

    @property
    def bias(self) -> float:
        """Median of ln(measured / predicted) [1]."""
        return float(self.quantiles[LEVELS.index(0.5)])

    @property
    def width(self) -> float:
        """Highest over lowest value of an interval of 80 % [1]."""
        low, high = likely_ends(self.quantiles)
        return math.exp(high - low)


class LeftOut(Spec):
    """Rows that were predicted by a fit to the others."""

    by: Unlike
    """In what they were unlike the others; a subject is an engine on a chip with a model."""
    name: str = Field(min_length=1)
    """Of that."""
    rows: Count
    """How many [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)| by quantity [1]."""


class UnseenErrors(Spec):
    """Errors of rows of an engine on a generation of chips, by fits without the subject of each row."""

    engine: str = Field(min_length=1)
    """Serving engine."""
    generation: str = Field(min_length=1)
    """Of chips, see :func:`inference_econ.inputs.engine.profiles.generation_of`."""
    rows: Count
    """How many [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)| by quantity [1]."""
    p90s: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Nine of ten of these are not larger [1]."""


class Calibration(Spec):
    """The rows behind fitted assumptions. A question that is unlike them is an extrapolation."""

    date: str = Field(min_length=1)
    """Of the fit."""
    rows: Count
    """Measurements that were fitted [1]."""
    measured: MeasuredDays | None = None
    """Days of the rows that have a date; absent where none has."""
    engines: Names
    """Serving engines."""
    models: Names
    """Models, by their names in the catalogue."""
    hardware: Names
    """Chips, by their names in the catalogue."""
    families: Names
    """See :attr:`HardwareSpec.family`."""
    weights: Names
    """Number formats of the weights that take most room."""
    parameters: Range
    """Of the models, experts included [1]."""
    isl: Range
    """Input lengths [tokens]."""
    osl: Range
    """Output lengths [tokens]."""
    requests_per_accelerator: Range
    """At a time [1]."""
    accelerators: Range
    """Of an instance [1]."""
    errors: Annotated[dict[Unlike, dict[Quantity, ErrorSpread]], Field(min_length=1)]
    """By what was left out of the fits that they are errors of, and quantity."""
    subjects: Annotated[tuple[Subject, ...], Field(strict=False)] = ()
    """Subjects of the measurements: engine, chip and model, with strokes between."""
    versions: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Engines with the versions that were measured."""
    layouts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Layouts of the instances that were measured, as :func:`inference_econ.engine.layout_key` has them, without ep."""
    parallel: dict[Axis, Annotated[tuple[str, ...], Field(strict=False)]] | None = None
    """Models, by their names for people, whose instances had several of an axis; those of two pools do not count."""
    left_out: Annotated[tuple[LeftOut, ...], Field(strict=False)] = ()
    """How far fits were off that did not see a chip, a model, or a subject."""
    unseen: Annotated[tuple[UnseenErrors, ...], Field(strict=False)] = ()
    """Errors on unseen rows by engine and generation of chips."""
    undetermined: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Constants that the rows say little about."""
    deployments: str = ""
    """Short hashes of the deployments that were fitted, here or for the base: they tell rows that are not."""


#: Form of the files that are read.
LEVELS_FORM = 1
#: What was left out where errors of predictions with levels were counted: the load of a row, or all that its
#: deployment, its way of serving, or its version of the engine say.
Unseen = Literal["load", "deployment", "way", "version"]
#: ln(measured / predicted): a factor of 7 either way is no level but a mistake [1].
Log = Annotated[int | float, Field(ge=-2, le=2, allow_inf_nan=False)]
Spread = Annotated[int | float, Field(ge=0, le=2, allow_inf_nan=False)]
#: Digits of a hash of a file that tell it from its other versions [1].
_DIGITS = 12


def _known(kind: places.Kind) -> AfterValidator:
    """Names of the catalogue only."""

    def check(name: str) -> str:
        if name not in places.names(kind):
            close = difflib.get_close_matches(name, places.names(kind), n=1)
            hint = f", did you mean {close[0]}" if close else f", see inference-econ {kind}"
            raise PydanticCustomError("name", "unknown name{hint}", {"hint": hint})
        return name

    return AfterValidator(check)


def _this_form(form: int) -> int:
    if form != LEVELS_FORM:
        raise PydanticCustomError(
            "form",
            "only levels of form {form} can be read; make the file again with 'inference-econ calibrate'",
            {"form": LEVELS_FORM},
        )
    return form


class MeasuredLevel(Spec):
    """By how much steps of some measured servers differ from predictions, all that is wider included."""

    rows: Count
    """Measurements [1]."""
    decode: Log
    """Of steps that decode: natural logarithm of what they take over what is predicted [1]."""
    prefill: Log
    """Of steps that read prompts [1]."""


class MeasuredDeployment(MeasuredLevel):
    """One layout in one format."""

    layout: str = Field(min_length=1)
    """Of an instance, as :func:`inference_econ.engine.layout_key` has it, without ep."""
    weights: str = Field(min_length=1)
    """Number format of the weights that take most room."""


class MeasuredWay(MeasuredLevel):
    """One way of serving."""

    apart: bool = False
    """Prompts are read by other instances than those that decode."""
    speculates: bool = False
    """Tokens are proposed and verified."""
    deployments: Annotated[tuple[MeasuredDeployment, ...], Field(strict=False)] = ()
    """Deployments that were measured so."""


class MeasuredVersion(MeasuredLevel):
    """One version of the engine."""

    version: str
    """As the measurements have it; empty where they do not say."""
    ways: Annotated[tuple[MeasuredWay, ...], Field(strict=False)] = ()
    """Ways of serving that were measured of it."""


class MeasuredSubject(MeasuredLevel):
    """One model on one chip."""

    model: Annotated[str, _known("models")]
    """Name in the catalogue."""
    hardware: Annotated[str, _known("hardware")]
    """Name in the catalogue."""
    versions: Annotated[tuple[MeasuredVersion, ...], Field(strict=False)] = ()
    """Versions of the engine that were measured with them."""


class SharedLevel(Spec):
    """By how much steps that decode differ where tokens are proposed and verified, whatever the model and chip."""

    rows: Count
    """Measurements [1]."""
    decode: Log
    """Natural logarithm of what steps take over what is predicted [1]."""


class LevelSpreads(Spec):
    """Standard deviations of the logarithms of one quantity, from which levels are pooled [1]."""

    subject: Spread
    """Models on chips around the profile."""
    version: Spread
    """Versions around those."""
    way: Spread
    """Ways of serving around those."""
    deployment: Spread
    """Deployments around those."""
    speculation: Spread = 0
    """Engines that propose tokens, around theirs that do not."""
    row: Spread
    """Rows around their deployment."""


class MeasuredLevels(Spec):
    """Levels of one engine on one generation of chips, over the predictions of its fitted profile."""

    form: Annotated[int, AfterValidator(_this_form)]
    """Of the file."""
    profile: Annotated[str, _known("assumptions")]
    """Fitted assumptions that the levels are over."""
    constants: str = Field(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")
    """Short hash of the file of the profile."""
    engine: Annotated[str, _known("engines")]
    """Serving engine."""
    date: Date
    """Of the fit."""
    rows: Count
    """Measurements [1]."""
    spreads: dict[Quantity, LevelSpreads]
    """Spreads that the levels are pooled with, by quantity."""
    errors: dict[Unseen, dict[Quantity, ErrorSpread]] = Field(default_factory=dict)
    """Of predictions with levels, by what the levels had not seen of a row."""
    shared: Annotated[tuple[SharedLevel, ...], Field(strict=False)] = ()
    """Of all models and chips, beside which those of subjects are."""
    subjects: Annotated[tuple[MeasuredSubject, ...], Field(min_length=1, strict=False)]
    """Subjects of the measurements."""

    def of(self, model: str, hardware: str) -> MeasuredSubject | None:
        """Subject of a model on a chip, None if nobody measured it, by the names that are printed of both."""
        for subject in self.subjects:
            files = places.files("hardware")[subject.hardware], places.files("models")[subject.model]
            if tuple(map(entry_title, files)) == (hardware, model):
                return subject
        return None


def constants_of(profile: str) -> str:
    """The short hash of the file of a profile, so that levels over another version of it are told."""
    path = places.folder("assumptions") / f"{profile}.yaml"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
