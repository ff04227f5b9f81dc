"""Record of a fit of assumptions to measurements: calibration data, prediction errors, and measured corrections."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from inference_econ.inputs import places
from inference_econ.inputs._spec import AfterValidator, Count, Date, Field, Names, Size, Spec
from inference_econ.inputs._yaml import entry_title

Quantity = Literal["tpot", "ttft", "request", "throughput"]
#: Property in which a query may differ from the calibration data: lengths and load only (``traffic``); engine version;
#: layout; the combination of engine, chip and model (``subject``); or an engine, chip or model that was not measured.
Unlike = Literal["traffic", "version", "layout", "subject", "model", "hardware", "engine"]
#: Kinds of parallelism: attention-DP groups, pipeline stages, expert-parallel ranks.
Axis = Literal["dp", "pp", "ep"]


def _measured(text: str) -> str:
    """Check that a text has the three parts of a measured combination: engine, chip and model."""
    if text.count(STROKE) != 2:
        raise ValueError("write 'engine / chip / model'")
    return text


#: Text between the three parts of a subject: engine, chip and model.
STROKE = " / "
Subject = Annotated[str, AfterValidator(_measured)]
Ratio = Annotated[int | float, Field(ge=-10, le=10, allow_inf_nan=False)]

Share = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]

#: Probabilities of the quantiles of an :class:`ErrorSpread` [1].
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def likely_ends(quantiles: Sequence[float], level: float = 0.8) -> tuple[float, float]:
    """Interval of errors that contains a given share of the measurements, and the prediction itself.

    Parameters
    ----------
    quantiles : sequence of float
        Quantiles of ln(measured / predicted) at :data:`LEVELS` [1].
    level : float
        Share of the errors inside the interval, up to 0.9 [1].

    Returns
    -------
    (float, float)
        Lower bound (at most 0) and upper bound (at least 0) of ln(measured / predicted) [1]. The interval contains the
        central errors. If the interval does not contain 0, which is the prediction itself, the interval is extended to
        0.

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
    """Range of a quantity in the calibration data."""

    low: Size
    """Minimum of the quantity."""
    high: Size
    """Maximum of the quantity."""


class MeasuredDays(Spec):
    """First and last day of the measurements."""

    since: Date
    """Day of the first measurement."""
    until: Date
    """Day of the last measurement."""


class ErrorSpread(Spec):
    """Cross-validation errors of the predictions of one quantity."""

    rows: Count
    """Number of measurements from which the prediction interval is derived [1].

    If the interval mainly comes from the parent profile, the number refers to the parent's measurements.
    """
    own: Count | None = None
    """Number of measurements in the profile's own fit, if the interval mainly comes from the parent profile [1]."""
    groups: Count | None = None
    """Number of groups of measurements in cross-validation. Each fit leaves one group out [1]."""
    misfits: Count | None = None
    """Number of outliers. The width of the prediction interval excludes the errors of outliers [1]."""
    median: Ratio | None = None
    """Median of |ln(measured / predicted)| in cross-validation [1]."""
    p90: Ratio | None = None
    """90th percentile of |ln(measured / predicted)| in cross-validation [1]."""
    covered: Share | None = None
    """Share of the measurements inside the 80% interval that was computed without the measurement's group [1]."""
    quantiles: Annotated[tuple[Ratio, ...], Field(min_length=len(LEVELS), max_length=len(LEVELS), strict=False)]
    """Quantiles of ln(measured / predicted) at 5, 10, 25, 50, 75, 90 and 95% [1]."""

    def _check_fields(self) -> None:
        if list(self.quantiles) != sorted(self.quantiles):
            raise ValueError(f"quantiles must ascend, got {self.quantiles}")

    @property
    def bias(self) -> float:
        """Median of ln(measured / predicted) in cross-validation [1]."""
        return float(self.quantiles[LEVELS.index(0.5)])

    @property
    def width(self) -> float:
        """Ratio of the upper to the lower end of the 80% interval [1]."""
        low, high = likely_ends(self.quantiles)
        return math.exp(high - low)


class LeftOut(Spec):
    """Errors of predictions for measurements that a fit left out."""

    by: Unlike
    """Property that the left-out measurements share: engine, chip, model, or combination of them (``subject``)."""
    name: str = Field(min_length=1)
    """Value of the property ``by``, such as the name of the chip."""
    rows: Count
    """Number of left-out measurements [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)|, by quantity [1]."""


class UnseenErrors(Spec):
    """Errors for combinations of engine, chip and model that a fit left out, by engine and chip generation."""

    engine: str = Field(min_length=1)
    """Catalog name of the serving engine."""
    generation: str = Field(min_length=1)
    """Chip generation; see :func:`inference_econ.inputs.engine.profiles.generation_of`."""
    rows: Count
    """Number of measurements [1]."""
    medians: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """Median of |ln(predicted / measured)|, by quantity [1]."""
    p90s: Annotated[dict[Quantity, Ratio], Field(min_length=1)]
    """90th percentile of |ln(predicted / measured)|, by quantity [1]."""


class Calibration(Spec):
    """Measurements to which assumptions were fitted, and errors of the fit. Queries outside the ranges extrapolate."""

    date: str = Field(min_length=1)
    """Date of the fit."""
    rows: Count
    """Number of fitted measurements [1]."""
    measured: MeasuredDays | None = None
    """First and last day of the measurements; absent if no measurement has a date."""
    engines: Names
    """Catalog names of the measured serving engines."""
    models: Names
    """Catalog names of the measured models."""
    hardware: Names
    """Catalog names of the measured chips."""
    families: Names
    """Families of the measured chips; see :attr:`HardwareSpec.family`."""
    weights: Names
    """Formats of most of the weights of the measured models."""
    parameters: Range
    """Parameters of the measured models, including all experts [1]."""
    isl: Range
    """Input lengths of the measurements [tokens]."""
    osl: Range
    """Output lengths of the measurements [tokens]."""
    requests_per_accelerator: Range
    """Concurrent requests per accelerator in the measurements [1]."""
    accelerators: Range
    """Accelerators per measured instance [1]."""
    errors: Annotated[dict[Unlike, dict[Quantity, ErrorSpread]], Field(min_length=1)]
    """Cross-validation errors, by the property that the left-out measurements share, and by quantity."""
    subjects: Annotated[tuple[Subject, ...], Field(strict=False)] = ()
    """Measured combinations of engine, chip and model, separated by slashes."""
    versions: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Measured engines with their versions."""
    layouts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Layouts of the measured instances in the form of :func:`inference_econ.engine.layout_key`, without ep."""
    parallel: dict[Axis, Annotated[tuple[str, ...], Field(strict=False)]] | None = None
    """Display names of the models that were measured with a kind of parallelism, except on disaggregated servers."""
    left_out: Annotated[tuple[LeftOut, ...], Field(strict=False)] = ()
    """Errors of fits that left out a chip, a model, or a combination of engine, chip and model."""
    unseen: Annotated[tuple[UnseenErrors, ...], Field(strict=False)] = ()
    """Errors for combinations of engine, chip and model that the fit did not see, by engine and chip generation."""
    undetermined: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of fitted constants that the measurements do not determine well."""
    deployments: str = ""
    """Short hashes of the fitted deployments. The fit did not see deployments with other hashes.

    Hashes of the parent profile are included.
    """


#: Version of the file format for measured corrections.
LEVELS_FORM = 1
#: Property that the left-out measurements have in common in cross-validation of corrections: load, deployment, serving
#: mode, engine version, or combination of model and chip (``subject``).
Unseen = Literal["load", "deployment", "way", "version", "subject"]
#: ln(measured / predicted). Values beyond a factor of 7 are rejected, because they are mistakes [1].
Log = Annotated[int | float, Field(ge=-2, le=2, allow_inf_nan=False)]
Spread = Annotated[int | float, Field(ge=0, le=2, allow_inf_nan=False)]
#: Length of a hash of a file, in characters [1].
_DIGITS = 12


def _known(kind: places.Kind) -> AfterValidator:
    """Validator of the names of one kind of catalog entry."""

    def check(name: str) -> str:
        if name not in places.names(kind):
            close = difflib.get_close_matches(name, places.names(kind), n=1)
            hint = f", did you mean {close[0]}" if close else f", see inference-econ {kind}"
            raise ValueError(f"unknown name{hint}")
        return name

    return AfterValidator(check)


def _this_form(form: int) -> int:
    if form != LEVELS_FORM:
        raise ValueError(
            f"only levels of form {LEVELS_FORM} can be read; make the file again with 'inference-econ calibrate'"
        )
    return form


class MeasuredLevel(Spec):
    """Measured correction of step times. A correction includes the corrections of all larger groups of measurements."""

    rows: Count
    """Number of measurements from which the correction is derived [1]."""
    decode: Log
    """ln(measured / predicted) of the time of decode steps [1]."""
    prefill: Log
    """ln(measured / predicted) of the time of prefill steps [1]."""


class MeasuredDeployment(MeasuredLevel):
    """Correction for a layout and a weight format."""

    layout: str = Field(min_length=1)
    """Layout of an instance in the form of :func:`inference_econ.engine.layout_key`, without ep."""
    weights: str = Field(min_length=1)
    """Number format of most of the weights."""


class MeasuredWay(MeasuredLevel):
    """Correction for a serving mode: aggregated or disaggregated, with or without speculative decoding."""

    apart: bool = False
    """True for disaggregated prefill and decode instances."""
    speculates: bool = False
    """True for servers with speculative decoding."""
    deployments: Annotated[tuple[MeasuredDeployment, ...], Field(strict=False)] = ()
    """Corrections for the deployments that were measured in this mode."""


class MeasuredVersion(MeasuredLevel):
    """Correction for an engine version."""

    version: str
    """Version as recorded; empty if the measurements do not record the version."""
    ways: Annotated[tuple[MeasuredWay, ...], Field(strict=False)] = ()
    """Corrections for the serving modes that were measured with this version."""


class MeasuredSubject(MeasuredLevel):
    """Correction for a model on a chip."""

    model: Annotated[str, _known("models")]
    """Catalog name of the model."""
    hardware: Annotated[str, _known("hardware")]
    """Catalog name of the chip."""
    versions: Annotated[tuple[MeasuredVersion, ...], Field(strict=False)] = ()
    """Corrections for the engine versions that were measured with this model and chip."""


class SharedLevel(Spec):
    """Correction for all models and chips with certain engine releases, or with speculative decoding."""

    rows: Count
    """Number of measurements [1]."""
    decode: Log
    """ln(measured / predicted) of the time of decode steps [1]."""
    prefill: Log = 0.0
    """ln(measured / predicted) of the time of prefill steps [1]."""
    since: str = ""
    """First engine release for which the correction is valid, named as in the engine's file; empty for all releases."""
    speculates: bool = False
    """True if the correction is only valid for speculative decoding."""


class LevelSpreads(Spec):
    """Standard deviations of ln(measured / predicted) [1].

    The standard deviations determine how far a correction is moved toward the mean of its group.
    """

    subject: Spread
    """Standard deviation between combinations of model and chip."""
    version: Spread
    """Standard deviation between engine versions."""
    way: Spread
    """Standard deviation between serving modes."""
    deployment: Spread
    """Standard deviation between deployments."""
    speculation: Spread = 0
    """Standard deviation between servers with and without speculative decoding."""
    release: Spread = 0
    """Standard deviation of the change between consecutive engine releases, over all models."""
    row: Spread
    """Standard deviation between measurements of one deployment."""


class MeasuredLevels(Spec):
    """Measured corrections of a fitted profile for an engine on a chip generation."""

    form: Annotated[int, AfterValidator(_this_form)]
    """Version of the file format."""
    profile: Annotated[str, _known("assumptions")]
    """Catalog name of the fitted profile."""
    constants: str = Field(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")
    """Short hash of the file of the profile to which the corrections belong."""
    engine: Annotated[str, _known("engines")]
    """Catalog name of the serving engine."""
    date: Date
    """Date of the fit."""
    rows: Count
    """Number of measurements [1]."""
    newest: str = ""
    """Newest engine release among the measurements of the engine, named as in the engine's file; empty if unknown."""
    spreads: dict[Quantity, LevelSpreads]
    """Standard deviations of the corrections, by quantity; see :class:`LevelSpreads`."""
    errors: dict[Unseen, dict[Quantity, ErrorSpread]] = Field(default_factory=dict)
    """Cross-validation errors with corrections, by the property of the left-out measurements, and by quantity."""
    shared: Annotated[tuple[SharedLevel, ...], Field(strict=False)] = ()
    """Corrections for all models and chips.

    Corrections that are valid for a query are added to the correction for its model and chip.
    """
    subjects: Annotated[tuple[MeasuredSubject, ...], Field(min_length=1, strict=False)]
    """Corrections for combinations of model and chip."""

    def of(self, model: str, hardware: str) -> MeasuredSubject | None:
        """Corrections for a model on a chip, given their display names; None if the combination was not measured."""
        for subject in self.subjects:
            files = places.files("hardware")[subject.hardware], places.files("models")[subject.model]
            if tuple(map(entry_title, files)) == (hardware, model):
                return subject
        return None


def constants_of(profile: str) -> str:
    """Short hash of the file of a profile.

    The hash changes if the file changes, so that corrections for older files can be rejected.
    """
    path = places.folder("assumptions") / f"{profile}.yaml"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
