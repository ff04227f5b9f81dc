"""Records of a fit of assumptions to measurements: the calibration data, and the errors."""

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
#: Property in which a query may differ from the calibration data: only lengths and load; engine version; layout; the
#: combination of engine, chip and model; or an engine, chip or model that was not measured at all.
Unlike = Literal["traffic", "version", "layout", "subject", "model", "hardware", "engine"]
#: Attention-DP groups, pipeline stages, expert-parallel ranks.
Axis = Literal["dp", "pp", "ep"]


def _measured(text: str) -> str:
    """Check that the subject of a measurement has all three parts."""
    if text.count(STROKE) != 2:
        raise PydanticCustomError("subject", "write 'engine / chip / model'")
    return text


#: Separator between the parts of a subject.
STROKE = " / "
Subject = Annotated[str, AfterValidator(_measured)]
Ratio = Annotated[int | float, Field(ge=-10, le=10, allow_inf_nan=False)]

Share = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]

#: Probabilities of the quantiles of an :class:`ErrorSpread` [1].
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def likely_ends(quantiles: Sequence[float], level: float = 0.8) -> tuple[float, float]:
    """Bounds of the interval that contains a given share of all errors, and the error 0.

    Parameters
    ----------
    quantiles : sequence of float
        Quantiles of ln(measured / predicted) at :data:`LEVELS` [1].
    level : float
        Share, up to 0.9 [1].

    Returns
    -------
    (float, float)
        Bounds of ln(measured / predicted): at most 0, and at least 0 [1]. The interval is centered on the median of the
        errors, and extended to the prediction itself.

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
    """Measured range."""

    low: Size
    """Minimum."""
    high: Size
    """Maximum."""


class MeasuredDays(Spec):
    """First and last day of measurements."""

    since: Date
    """First day."""
    until: Date
    """Last day."""


class ErrorSpread(Spec):
    """Cross-validation errors of predictions."""

    rows: Count
    """Number of measurements behind the interval; those of the parent profile if the interval is mostly pooled with it
    [1]."""
    own: Count | None = None
    """Measurements of the fit itself, if the interval is mostly that of its parent profile [1]."""
    groups: Count | None = None
    """Number of groups that were held out [1]."""
    misfits: Count | None = None
    """Number of outliers, which are excluded from the width of the interval [1]."""
    median: Ratio | None = None
    """Median of |ln(measured / predicted)|, before any widening [1]."""
    p90: Ratio | None = None
    """90th percentile of |ln(measured / predicted)| [1]."""
    covered: Share | None = None
    """Share of measurements inside the 80 % intervals computed without their group [1]."""
    quantiles: Annotated[tuple[Ratio, ...], Field(min_length=len(LEVELS), max_length=len(LEVELS), strict=False)]
    """Quantiles of ln(measured / predicted) at 5, 10, 25, 50, 75, 90 and 95 % [1]."""

    def _check_fields(self) -> None:
        if list(self.quantiles) != sorted(self.quantiles):
            raise PydanticCustomError("quantiles", "quantiles must ascend, got {given}", {"given": str(self.quantiles)})

    @property
    def bias(self) -> float:
        """Median of ln(measured / predicted) [1]."""
        return float(self.quantiles[LEVELS.index(0.5)])

    @property
    def width(self) -> float:
        """Highest over lowest value of an 80 % interval [1]."""
        low, high = likely_ends(self.quantiles)
        return math.exp(high - low)


class LeftOut(Spec):
    """Held-out measurements, predicted by a fit to the others."""

    by: Unlike
    """Property in which they differ from the others; a subject is an engine on a chip with a model."""
    name: str = Field(min_length=1)
    """Value of the property."""
    rows: Count
    """Number of measurements [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)| by quantity [1]."""


class UnseenErrors(Spec):
    """Errors of fits that held out the subject of each measurement, for an engine and a chip generation."""

    engine: str = Field(min_length=1)
    """Serving engine."""
    generation: str = Field(min_length=1)
    """Chip generation, see :func:`inference_econ.inputs.engine.profiles.generation_of`."""
    rows: Count
    """Number of measurements [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)| by quantity [1]."""
    p90s: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """90th percentile of |ln(predicted / measured)| by quantity [1]."""


class Calibration(Spec):
    """Measurements behind fitted assumptions. A query that differs from them is an extrapolation."""

    date: str = Field(min_length=1)
    """Date of the fit."""
    rows: Count
    """Number of fitted measurements [1]."""
    measured: MeasuredDays | None = None
    """Days of the measurements; absent if none has a date."""
    engines: Names
    """Serving engines."""
    models: Names
    """Catalog names of models."""
    hardware: Names
    """Catalog names of chips."""
    families: Names
    """Families of chips, see :attr:`HardwareSpec.family`."""
    weights: Names
    """Number formats of most weights."""
    parameters: Range
    """Parameters of the models, including all experts [1]."""
    isl: Range
    """Input lengths [tokens]."""
    osl: Range
    """Output lengths [tokens]."""
    requests_per_accelerator: Range
    """Concurrent requests per accelerator [1]."""
    accelerators: Range
    """Sizes of instances [1]."""
    errors: Annotated[dict[Unlike, dict[Quantity, ErrorSpread]], Field(min_length=1)]
    """Cross-validation errors by held-out property and quantity."""
    subjects: Annotated[tuple[Subject, ...], Field(strict=False)] = ()
    """Measured subjects: engine, chip and model, separated by slashes."""
    versions: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Engines with the measured versions."""
    layouts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Layouts of the measured instances, as in :func:`inference_econ.engine.layout_key`, without ep."""
    parallel: dict[Axis, Annotated[tuple[str, ...], Field(strict=False)]] | None = None
    """Display names of models that were measured with a kind of parallelism, without disaggregated servers."""
    left_out: Annotated[tuple[LeftOut, ...], Field(strict=False)] = ()
    """Errors of fits that held out a chip, a model, or a subject."""
    unseen: Annotated[tuple[UnseenErrors, ...], Field(strict=False)] = ()
    """Cross-validation errors by engine and chip generation."""
    undetermined: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Constants that the measurements hardly determine."""
    deployments: str = ""
    """Short hashes of the fitted deployments, including those of the parent profile; they identify measurements that
    were not fitted."""


#: Version of the file format.
LEVELS_FORM = 1
#: Property that was held out to compute errors of measured corrections: the load of a measurement, its deployment, its
#: serving mode, or its engine version.
Unseen = Literal["load", "deployment", "way", "version"]
#: ln(measured / predicted), limited to a factor of 7 either way; larger values are errors [1].
Log = Annotated[int | float, Field(ge=-2, le=2, allow_inf_nan=False)]
Spread = Annotated[int | float, Field(ge=0, le=2, allow_inf_nan=False)]
#: Length of a file hash [1].
_DIGITS = 12


def _known(kind: places.Kind) -> AfterValidator:
    """Validator of catalog names."""

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
    """Measured correction: difference between measured and predicted step times, including wider corrections."""

    rows: Count
    """Number of measurements [1]."""
    decode: Log
    """ln(measured / predicted) of decode steps [1]."""
    prefill: Log
    """ln(measured / predicted) of prefill steps [1]."""


class MeasuredDeployment(MeasuredLevel):
    """Correction of a layout in a weight format."""

    layout: str = Field(min_length=1)
    """Layout of an instance, as in :func:`inference_econ.engine.layout_key`, without ep."""
    weights: str = Field(min_length=1)
    """Number format of most weights."""


class MeasuredWay(MeasuredLevel):
    """Correction of a serving mode."""

    apart: bool = False
    """True for disaggregated prefill and decode instances."""
    speculates: bool = False
    """True with speculative decoding."""
    deployments: Annotated[tuple[MeasuredDeployment, ...], Field(strict=False)] = ()
    """Deployments measured in this mode."""


class MeasuredVersion(MeasuredLevel):
    """Correction of an engine version."""

    version: str
    """Version as recorded; empty if not recorded."""
    ways: Annotated[tuple[MeasuredWay, ...], Field(strict=False)] = ()
    """Serving modes measured with it."""


class MeasuredSubject(MeasuredLevel):
    """Correction of a model on a chip."""

    model: Annotated[str, _known("models")]
    """Catalog name of the model."""
    hardware: Annotated[str, _known("hardware")]
    """Catalog name of the chip."""
    versions: Annotated[tuple[MeasuredVersion, ...], Field(strict=False)] = ()
    """Engine versions measured with them."""


class SharedLevel(Spec):
    """Correction of decode steps with speculative decoding, for all models and chips."""

    rows: Count
    """Number of measurements [1]."""
    decode: Log
    """ln(measured / predicted) of step times [1]."""


class LevelSpreads(Spec):
    """Standard deviations of ln(measured / predicted) with which corrections of one quantity are pooled [1]."""

    subject: Spread
    """Between models on chips."""
    version: Spread
    """Between engine versions."""
    way: Spread
    """Between serving modes."""
    deployment: Spread
    """Between deployments."""
    speculation: Spread = 0
    """Between engines with and without speculative decoding."""
    row: Spread
    """Between measurements of a deployment."""


class MeasuredLevels(Spec):
    """Measured corrections of an engine on a chip generation, relative to its fitted profile."""

    form: Annotated[int, AfterValidator(_this_form)]
    """Version of the file format."""
    profile: Annotated[str, _known("assumptions")]
    """Fitted profile that the corrections apply to."""
    constants: str = Field(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")
    """Short hash of the profile's file."""
    engine: Annotated[str, _known("engines")]
    """Serving engine."""
    date: Date
    """Date of the fit."""
    rows: Count
    """Number of measurements [1]."""
    spreads: dict[Quantity, LevelSpreads]
    """Standard deviations for pooling, by quantity."""
    errors: dict[Unseen, dict[Quantity, ErrorSpread]] = Field(default_factory=dict)
    """Errors of predictions with corrections, by held-out property and quantity."""
    shared: Annotated[tuple[SharedLevel, ...], Field(strict=False)] = ()
    """Corrections for all models and chips, added to those of subjects."""
    subjects: Annotated[tuple[MeasuredSubject, ...], Field(min_length=1, strict=False)]
    """Corrections by subject."""

    def of(self, model: str, hardware: str) -> MeasuredSubject | None:
        """Subject of a model on a chip, by display names; None if it was not measured."""
        for subject in self.subjects:
            files = places.files("hardware")[subject.hardware], places.files("models")[subject.model]
            if tuple(map(entry_title, files)) == (hardware, model):
                return subject
        return None


def constants_of(profile: str) -> str:
    """Short hash of the file of a profile, which identifies corrections for another version of it."""
    path = places.folder("assumptions") / f"{profile}.yaml"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
