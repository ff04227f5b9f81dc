"""Prediction errors as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from inference_econ.engine import Instances, Interval, LeftOutErrors, error_spread, interval, outside, unlike_layouts
from inference_econ.engine.bounds import LEVEL, extremes, subjects_of
from inference_econ.inputs import Quantity

#: Latencies that users observe.
SEEN: tuple[Quantity, ...] = ("tpot", "ttft")
#: Latencies that users observe, and the throughput of the operator.
SERVED: tuple[Quantity, ...] = (*SEEN, "throughput")


def known_errors(
    instances: Instances, quantities: Iterable[Quantity]
) -> dict[Quantity, tuple[Interval, LeftOutErrors]]:
    """80% interval of measured / predicted values and its errors, for each quantity that has known errors."""
    by_quantity: dict[Quantity, tuple[Interval, LeftOutErrors]] = {}
    assumptions, subjects = instances.setup.assumptions, subjects_of(instances)
    for quantity in quantities:
        likely = interval(1.0, assumptions, quantity, level=LEVEL, subjects=subjects)
        errors = error_spread(assumptions, quantity, subjects)
        if likely is not None and errors is not None:
            by_quantity[quantity] = likely, errors
    return by_quantity


def outside_of(instances: Instances) -> tuple[list[str], list[str]]:
    """Reasons that place all instances outside the calibration data, and reasons that apply only to some instances."""
    assumptions = instances.setup.assumptions
    calibration = assumptions.calibration
    if calibration is None:
        return [], []
    always = outside(instances.subject, assumptions)
    # Corrections of this model and GPU may include servers with speculative decoding.
    levels = instances.setup.levels
    corrected = levels is not None and levels.with_speculation and instances.subject.corrected
    if instances.speculates and not corrected:
        always.append("no fitted server used speculative decoding")
    layouts = unlike_layouts(instances.layouts, instances.subject, calibration)
    of_extremes = [outside(subject, assumptions) for subject in (*extremes(instances, calibration), *layouts)]
    sometimes = sorted({reason for reasons in of_extremes for reason in reasons if reason not in always})
    if len(instances.accelerators) == 1:
        return [*always, *sometimes], []
    return always, sometimes


def calibration_record(instances: Instances, quantities: Sequence[Quantity] = ("tpot",)) -> dict[str, object] | None:
    """Return the prediction errors as plain data; None if the assumptions were not fitted."""
    if instances.setup.assumptions.calibration is None:
        return None
    errors = {
        quantity: {
            "rows": left_out.spread.own or left_out.spread.rows,
            "rows_of_base": None if left_out.spread.own is None else left_out.spread.rows,
            "without": left_out.unlike,
            "low": likely.low,
            "median": math.exp(left_out.spread.bias),
            "high": likely.high,
        }
        for quantity, (likely, left_out) in known_errors(instances, quantities).items()
    }
    always, sometimes = outside_of(instances)
    return {"level": LEVEL, "measured_over_predicted": errors, "outside": [*always, *sometimes]}
