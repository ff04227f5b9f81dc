"""How far off what is shown may be: remarks below tables, and columns of data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inference_econ.engine import Instances, Interval, LeftOutErrors, Subject, error_spread, interval, outside
from inference_econ.inputs import Assumptions, Calibration, Quantity, Range, Unlike, misfits_of, prices

if TYPE_CHECKING:
    import pandas as pd

    from inference_econ.engine import Setup

#: Probability of the intervals that are shown [1].
LEVEL = 0.8
#: What quantities are called when there are several.
_NAMES: Mapping[Quantity, str] = {
    "tpot": "TPOTs",
    "ttft": "TTFTs",
    "request": "times of requests",
    "throughput": "throughputs",
}

#: What fits have not seen of the rows whose errors speak for a question, by what the question is unlike in.
WITHOUT: Mapping[Unlike, str] = {
    "traffic": "their traffic",
    "version": "the version of their engine",
    "layout": "their layout",
    "subject": "their engine, chip and model together",
    "model": "their model",
    "hardware": "their chip",
    "engine": "their engine",
}

#: Columns that follow from a quantity, and the power of it that they are proportional to [1].
Follows = Mapping[str, tuple[Quantity, int]]
#: Factors of columns [1].
Ends = Mapping[str, tuple[float | None, float | None]]
#: Of a decode step with its batch.
STEP: Follows = {
    "tokens_per_second_per_user": ("tpot", -1),
    "dollars_per_million_output_tokens": ("tpot", 1),
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
    "ttft_seconds": ("ttft", 1),
    "tpot_seconds": ("tpot", 1),
    "e2e_seconds": ("request", 1),
    "e2e_seconds_per_output_token": ("request", 1),
    "dollars_per_million_tokens": ("throughput", -1),
    "dollars_per_million_output_tokens": ("throughput", -1),
    "tokens_per_second_per_accelerator": ("throughput", 1),
    "tokens_per_second_per_megawatt": ("throughput", 1),
}


def remarks(subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)) -> list[str]:
    """What a reader must know about the errors of what is shown.

    Parameters
    ----------
    subjects : iterable of Instances
        What an answer shows; several with their labels.
    quantities : sequence of str
        What is predicted.

    Returns
    -------
    list of str
        For each set of assumptions where measured values lie around its predictions, or that nobody knows; for each
        question that is unlike the measurements, why; and which prices need a second look.
    """
    spreads: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    setups = []
    for instances in subjects:
        setups.append(instances.setup)
        spreads.setdefault(spread(instances, quantities), []).append(instances.label)
        for text in extrapolations(instances):
            reasons.setdefault(text, []).append(instances.label)
    # Where all have the same errors, they need not be listed.
    known = _labelled(spreads) if len(spreads) > 1 else list(spreads)
    return [*known, *_labelled(reasons), *price_remarks(setups)]


def price_remarks(setups: Iterable[Setup]) -> list[str]:
    """What a reader must know of listed prices: that they are of different kinds, that one is undated or estimated."""
    listed = {setup.hardware.name: prices.listed_as(setup.hardware, setup.price) for setup in setups}
    known = {chip: price for chip, price in listed.items() if price is not None}
    doubtful = [
        f"{chip} (${price.dollars_per_accelerator_hour:g}, {price.kind}, {price.date})"
        for chip, price in known.items()
        if price.date == "undated" or price.kind == "estimate"
    ]
    remarks = []
    if len({price.kind for price in known.values()}) > 1:
        kinds = ", ".join(f"{chip} {price.kind}" for chip, price in known.items())
        remarks.append(f"Prices are of different kinds: {kinds}. --price takes one kind for all, or HARDWARE=USD.")
    if doubtful:
        remarks.append(f"Prices that are undated or estimates: {', '.join(doubtful)}. Give today's with --price.")
    return remarks


def misfits(instances: Instances) -> list[str]:
    """Measured servers like these that are far from what is predicted; none where another engine is meant."""
    setup = instances.setup
    meant = {engine.name for engine in setup.engines}
    return [
        f"Measured servers of {misfit.engine} with {setup.model.name} on {setup.hardware.name} took {misfit.factor:g} "
        f"times the predicted time per token ({misfit.rows} rows): {misfit.why}."
        for misfit in misfits_of(setup.model.name, setup.hardware.name)
        if not meant or misfit.engine in meant
    ]


def _labelled(texts: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{', '.join(labels)}: {text}" if any(labels) else text for text, labels in texts.items()]


def spread(instances: Instances, quantities: Sequence[Quantity]) -> str:
    """Where measured values lie around predictions, or that nobody knows."""
    parts: list[str] = []
    without: list[str] = []
    for quantity, (around, errors) in _errors(instances, quantities).items():
        verb, beside = ("lie ", " around such predictions") if not parts else ("", "")
        rows = f"{errors.spread.rows:,} rows"
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
            rows += f", by fits without {without[-1]}"
        parts.append(f"{_NAMES[quantity]} {verb}{percent(around)}{beside} ({rows})")
    name = name_of(instances.setup.assumptions)
    if not parts:
        return f"No interval: {name} was fitted to no measured server."
    return f"{100 * LEVEL:.0f} % of measured {', of '.join(parts)}: {name}."


def around(instances: Instances, quantity: Quantity) -> Interval | None:
    """Where a measured value of any instance that is shown probably lies, over the predicted one [1]."""
    return interval(1.0, instances.setup.assumptions, quantity, level=LEVEL, subjects=_subjects(instances))


def _subjects(instances: Instances) -> list[Subject]:
    """What the instances have in common, and those that are the most unlike what was measured.

    Nothing if they speculate: of such servers no profile knows errors, so that all of them may speak.
    """
    calibration = instances.setup.assumptions.calibration
    if calibration is None or instances.speculates:
        return []
    unknown = (layout for layout in instances.layouts if layout not in calibration.layouts)
    layouts = [instances.subject._replace(layout=layout) for layout in itertools.islice(unknown, 1)]
    return [instances.subject, *_extremes(instances, calibration), *layouts]


def _errors(instances: Instances, quantities: Iterable[Quantity]) -> dict[Quantity, tuple[Interval, LeftOutErrors]]:
    """The intervals that are known, and the errors behind them."""
    known: dict[Quantity, tuple[Interval, LeftOutErrors]] = {}
    assumptions, subjects = instances.setup.assumptions, _subjects(instances)
    for quantity in quantities:
        likely = interval(1.0, assumptions, quantity, level=LEVEL, subjects=subjects)
        errors = error_spread(assumptions, quantity, subjects)
        if likely is not None and errors is not None:
            known[quantity] = likely, errors
    return known


def name_of(assumptions: Assumptions) -> str:
    """What assumptions are called; what-ifs are said to."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def percent(interval: Interval) -> str:
    """An interval around 1 as percentages."""
    return f"from {100 * (interval.low - 1):+z.0f} % to {100 * (interval.high - 1):+z.0f} %"


def extrapolations(instances: Instances) -> list[str]:
    """Measurements that do not fit, and why instances are unlike those behind their assumptions; empty if neither."""
    always, sometimes = outside_of(instances)
    if not always and not sometimes:
        return misfits(instances)
    text = "; ".join([*always, *([f"among the rows, {'; '.join(sometimes)}"] if sometimes else [])])
    unlike = f"Unlike what {instances.setup.assumptions.name} was fitted to, so that errors may be larger: {text}."
    return [*misfits(instances), unlike]


def outside_of(instances: Instances) -> tuple[list[str], list[str]]:
    """Why instances are unlike the measurements behind their assumptions: all of them, and some of them."""
    assumptions = instances.setup.assumptions
    calibration = assumptions.calibration
    if calibration is None:
        return [], []
    always = outside(instances.subject, assumptions)
    if instances.speculates:
        always.append("its constants were fitted to no server that speculates")
    of_extremes = [outside(subject, assumptions) for subject in _extremes(instances, calibration)]
    sometimes = sorted({reason for reasons in of_extremes for reason in reasons if reason not in always})
    if len(instances.accelerators) == 1:
        return [*always, *sometimes], []
    return always, sometimes


def _extremes(instances: Instances, known: Calibration) -> Iterator[Subject]:
    """The instances that are the most unlike those that were measured, by size and by the load of an accelerator."""
    for size in _beyond(instances.accelerators, known.accelerators):
        yield instances.subject._replace(accelerators=size)
    pairs = zip(instances.concurrency, instances.accelerators, strict=True) if instances.concurrency else ()
    loads = [flight / size for flight, size in pairs]
    # A size that was measured, so that the load alone counts.
    usual = float(known.accelerators.low)
    for load in _beyond(loads, known.requests_per_accelerator):
        yield instances.subject._replace(accelerators=usual, concurrency=load * usual)


def _beyond(values: Sequence[float], known: Range) -> list[float]:
    """The least value if it is below a range, the largest if it is above."""
    if not values:
        return []
    low, high = float(min(values)), float(max(values))
    return [*([low] if low < known.low else []), *([high] if high > known.high else [])]


def calibration_record(instances: Instances, quantities: Sequence[Quantity] = ("tpot",)) -> dict[str, object] | None:
    """What :func:`remarks` says as plain data; None if the assumptions were not fitted."""
    if instances.setup.assumptions.calibration is None:
        return None
    errors = {
        quantity: {"rows": left_out.spread.rows, "without": left_out.unlike, "low": likely.low, "high": likely.high}
        for quantity, (likely, left_out) in _errors(instances, quantities).items()
    }
    always, sometimes = outside_of(instances)
    return {"level": LEVEL, "measured_over_predicted": errors, "outside": [*always, *sometimes]}


def ends(instances: Instances, follows: Follows) -> Ends:
    """Factors from columns to where measured values probably lie [1]; None where nobody knows."""
    factors: dict[str, tuple[float | None, float | None]] = {}
    for name, (quantity, power) in follows.items():
        likely = around(instances, quantity)
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


def bounded_frame(frame: pd.DataFrame, factors: Ends) -> pd.DataFrame:
    """A frame with columns beside others for where measured values lie."""
    import pandas as pd

    return pd.DataFrame(bounded({str(name): column for name, column in frame.items()}, factors))


def _times(value: Any, factor: float | None) -> Any:
    if isinstance(value, Mapping):
        return {name: _times(number, factor) for name, number in value.items()}
    return None if value is None or factor is None else value * factor
