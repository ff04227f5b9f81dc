"""Prediction intervals of result columns: ratios of both bounds to the prediction, and columns with the bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine.uncertainty import Instances, Interval, Subject, factors_of, likely_errors, unlike_layouts
from inference_econ.inputs import Calibration, Quantity, Range

#: Probability that a measured value is in the displayed prediction interval [1].
LEVEL = 0.8
#: For each result column: the predicted quantity (TPOT, TTFT, ...) that determines the column, and the exponent of this
#: quantity in the column [1].
Follows = Mapping[str, tuple[Quantity, int]]
#: Ratios of the lower and upper bound of the measured value to the predicted value [1]; None if unknown.
Factors = tuple["float | Array | None", "float | Array | None"]
#: Ratios of interval bounds to the predicted value, by column [1].
Ends = Mapping[str, Factors]
#: Columns of a decode step with a given batch.
STEP: Follows = {
    "tokens_per_second_per_user": ("tpot", -1),
    "dollars_per_million_output_tokens": ("tpot", 1),
    "tokens_per_second_per_accelerator": ("tpot", -1),
    "tokens_per_second_per_megawatt": ("tpot", -1),
    "joules_per_output_token": ("tpot", 1),
    "step_seconds": ("tpot", 1),
    "milliseconds": ("tpot", 1),
}
#: Columns of a single prefill step. Their errors are unknown, because measured TTFTs include load and several steps.
PREFILL: Ends = dict.fromkeys(
    ("tokens_per_second_per_user", "dollars_per_million_input_tokens", "step_seconds"), (None, None)
)
#: Columns of a service under a given load. The cost has no error, because the number of GPUs and the load are given.
LOAD: Follows = {
    "ttft_seconds": ("ttft", 1),
    "tpot_seconds": ("tpot", 1),
    "e2e_seconds": ("request", 1),
    "e2e_seconds_per_output_token": ("request", 1),
    "requests_per_second_when_full": ("throughput", 1),
}
#: Columns of a service at constant concurrency.
FULL: Follows = {
    "tokens_per_second_per_user": ("tpot", -1),
    "milliseconds": ("tpot", 1),
    "ttft_seconds": ("ttft", 1),
    "ttft_milliseconds": ("ttft", 1),
    "tpot_seconds": ("tpot", 1),
    "e2e_seconds": ("request", 1),
    "e2e_seconds_per_output_token": ("request", 1),
    "dollars_per_million_tokens": ("throughput", -1),
    "dollars_per_million_output_tokens": ("throughput", -1),
    "tokens_per_second_per_accelerator": ("throughput", 1),
    "tokens_per_second_per_megawatt": ("throughput", 1),
    "joules_per_output_token": ("throughput", -1),
}


def around(instances: Instances, quantity: Quantity) -> Interval | None:
    """Interval of measured / predicted values that contains the prediction intervals of all given instances [1]."""
    return _around(instances)[quantity]


@by_identity
def _around(instances: Instances) -> dict[Quantity, Interval | None]:
    """Interval of measured / predicted values for each quantity (TPOT, TTFT, ...) [1]; None if unknown.

    The interval of the end-to-end latency contains the interval of the TPOT, because decoding takes most of this
    latency.
    """
    subjects, assumptions = subjects_of(instances), instances.setup.assumptions
    errors = {quantity: likely_errors(assumptions, quantity, subjects) for quantity in get_args(Quantity)}
    lying = {quantity: None if spread is None else factors_of(spread, LEVEL) for quantity, spread in errors.items()}
    request, tpot = lying.get("request"), lying["tpot"]
    if request is not None and tpot is not None:
        lying["request"] = Interval(min(request.low, tpot.low), max(request.high, tpot.high))
    return lying


def subjects_of(instances: Instances) -> list[Subject]:
    """Subjects (sets of properties) whose prediction errors apply to the given instances.

    The first subject has the properties that all instances share. The other subjects are the instances that differ most
    from measured instances.

    With speculative decoding, the list is empty if no similar server was measured. The profile's widest prediction
    errors then apply.
    """
    calibration = instances.setup.assumptions.calibration
    if calibration is None or (instances.speculates and not instances.subject.corrected):
        return []
    layouts = unlike_layouts(instances.layouts, instances.subject, calibration)[:1]
    return [instances.subject, *extremes(instances, calibration), *layouts]


def extremes(instances: Instances, calibration: Calibration) -> Iterator[Subject]:
    """Yield subjects for extreme instance sizes and numbers of requests per accelerator outside the measured range."""
    for size in _beyond(instances.accelerators, calibration.accelerators):
        yield instances.subject._replace(accelerators=size)
    pairs = zip(instances.concurrency, instances.accelerators, strict=True) if instances.concurrency else ()
    loads = [flight / size for flight, size in pairs]
    # The instance size is a measured size, so that only the load differs from the measurements.
    usual = float(calibration.accelerators.low)
    for load in _beyond(loads, calibration.requests_per_accelerator):
        yield instances.subject._replace(accelerators=usual, concurrency=load * usual)


def _beyond(values: Sequence[float], measured: Range) -> list[float]:
    """Smallest value if it is below the measured range, and largest value if it is above this range."""
    if not values:
        return []
    low, high = float(min(values)), float(max(values))
    return [*([low] if low < measured.low else []), *([high] if high > measured.high else [])]


def ends(instances: Instances, follows: Follows) -> Ends:
    """Ratios of the interval bounds to the predicted value, for each column [1]; None if unknown."""
    factors: dict[str, Factors] = {}
    around_each = _around(instances)
    for name, (quantity, power) in follows.items():
        likely = around_each[quantity]
        factors[name] = (None, None)
        if likely is not None:
            low, high = sorted(end**power for end in likely)
            factors[name] = low, high
    return factors


def bounded(columns: Mapping[str, Any], factors: Ends) -> dict[str, Any]:
    """Add the lower and upper bound of each column that has an interval.

    Parameters
    ----------
    columns : mapping of str
        Values by column: numbers, arrays, mappings of numbers or arrays, or None.
    factors : mapping
        See :func:`ends`.

    Returns
    -------
    dict
        The given columns; each column with an interval is followed by ``NAME_low`` and ``NAME_high``. The bounds are
        None if the assumptions were not fitted to measurements of the quantity.
    """
    beside: dict[str, Any] = {}
    for name, value in columns.items():
        beside[name] = value
        if name in factors:
            beside[f"{name}_low"], beside[f"{name}_high"] = (_times(value, end) for end in factors[name])
    return beside


def _times(value: Any, factor: float | Array | None) -> Any:
    if isinstance(value, Mapping):
        return {name: _times(number, factor) for name, number in value.items()}
    return None if value is None or factor is None else value * factor
