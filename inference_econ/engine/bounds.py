"""Where measured values probably lie around predictions: factors, and columns beside those of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inference_econ._types import Array
from inference_econ.engine.uncertainty import Instances, Interval, Subject, factors_of, likely_errors, unlike_layouts
from inference_econ.inputs import Calibration, Quantity, Range

#: Probability of the intervals that are shown [1].
LEVEL = 0.8
#: Columns that follow from a quantity, and the power of it that they are proportional to [1].
Follows = Mapping[str, tuple[Quantity, int]]
#: From a value, or from each of n, to where measured ones probably lie; None where nobody knows [1].
Factors = tuple["float | Array | None", "float | Array | None"]
#: Factors of columns [1].
Ends = Mapping[str, Factors]
#: Of a decode step with its batch.
STEP: Follows = {
    "tokens_per_second_per_user": ("tpot", -1),
    "dollars_per_million_output_tokens": ("tpot", 1),
    "tokens_per_second_per_accelerator": ("tpot", -1),
    "tokens_per_second_per_megawatt": ("tpot", -1),
    "joules_per_output_token": ("tpot", 1),
    "step_seconds": ("tpot", 1),
    "milliseconds": ("tpot", 1),
}
#: Of a prefill step by itself: errors are known of TTFTs under load, which hold more than one step.
PREFILL: Ends = dict.fromkeys(
    ("tokens_per_second_per_user", "dollars_per_million_input_tokens", "step_seconds"), (None, None)
)
#: Of a service under a given load, whose bill is certain.
LOAD: Follows = {
    "ttft_seconds": ("ttft", 1),
    "tpot_seconds": ("tpot", 1),
    "e2e_seconds": ("request", 1),
    "e2e_seconds_per_output_token": ("request", 1),
    "requests_per_second_when_full": ("throughput", 1),
}
#: Of a service that always has as many requests in flight.
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
    """Where a measured value of any instance that is shown probably lies, over the predicted one [1]."""
    return _around(instances, [quantity])[quantity]


def _around(instances: Instances, quantities: Iterable[Quantity]) -> dict[Quantity, Interval | None]:
    """Return where measured values of several quantities probably lie [1].

    A request is no surer than its tokens, whose times add up to its own: where few requests were measured, they may all
    have been shorter than predicted.
    """
    subjects, assumptions = subjects_of(instances), instances.setup.assumptions
    errors = {quantity: likely_errors(assumptions, quantity, subjects) for quantity in {*quantities, "tpot"}}
    lying = {quantity: None if spread is None else factors_of(spread, LEVEL) for quantity, spread in errors.items()}
    request, tpot = lying.get("request"), lying["tpot"]
    if request is not None and tpot is not None:
        lying["request"] = Interval(min(request.low, tpot.low), max(request.high, tpot.high))
    return lying


def subjects_of(instances: Instances) -> list[Subject]:
    """Return what the instances have in common, and those that are the most unlike what was measured.

    Nothing if they speculate, and none like them was measured: no profile knows errors of such servers, so that all of
    them may speak.
    """
    calibration = instances.setup.assumptions.calibration
    if calibration is None or (instances.speculates and instances.subject.unseen is None):
        return []
    layouts = unlike_layouts(instances.layouts, instances.subject, calibration)[:1]
    return [instances.subject, *extremes(instances, calibration), *layouts]


def extremes(instances: Instances, calibration: Calibration) -> Iterator[Subject]:
    """The instances that are the most unlike those that were measured, by size and by the load of an accelerator."""
    for size in _beyond(instances.accelerators, calibration.accelerators):
        yield instances.subject._replace(accelerators=size)
    pairs = zip(instances.concurrency, instances.accelerators, strict=True) if instances.concurrency else ()
    loads = [flight / size for flight, size in pairs]
    # A size that was measured, so that the load alone counts.
    usual = float(calibration.accelerators.low)
    for load in _beyond(loads, calibration.requests_per_accelerator):
        yield instances.subject._replace(accelerators=usual, concurrency=load * usual)


def _beyond(values: Sequence[float], measured: Range) -> list[float]:
    """The least value if it is below a range, the largest if it is above."""
    if not values:
        return []
    low, high = float(min(values)), float(max(values))
    return [*([low] if low < measured.low else []), *([high] if high > measured.high else [])]


def ends(instances: Instances, follows: Follows) -> Ends:
    """Factors from columns to where measured values probably lie [1]; None where nobody knows."""
    factors: dict[str, Factors] = {}
    around_each = _around(instances, (quantity for quantity, _ in follows.values()))
    for name, (quantity, power) in follows.items():
        likely = around_each[quantity]
        factors[name] = (None, None)
        if likely is not None:
            low, high = sorted(end**power for end in likely)
            factors[name] = low, high
    return factors


def bounded(columns: Mapping[str, Any], factors: Ends) -> dict[str, Any]:
    """Columns with those beside them that hold where measured values probably lie.

    Parameters
    ----------
    columns : mapping of str
        Numbers, arrays of them, mappings of them or None.
    factors : mapping
        See :func:`ends`.

    Returns
    -------
    dict
        With ``NAME_low`` and ``NAME_high`` after each; None where the assumptions were not fitted to such a quantity.
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
