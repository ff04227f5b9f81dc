"""How far off what is shown may be: remarks below tables, and columns of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inference_econ.engine.setup import Setup
from inference_econ.engine.uncertainty import Interval, Subject, asked_subject, error_spread, interval, outside
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.calibration import Calibration, Quantity, Range

#: Probability of the intervals that are shown [1].
LEVEL = 0.8
#: What quantities are called when there are several.
_NAMES: Mapping[Quantity, str] = {
    "tpot": "TPOTs",
    "ttft": "TTFTs",
    "request": "times of requests",
    "throughput": "throughputs",
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
    "requests_per_second_when_full": ("throughput", 1),
}
#: Of a service that always has as many requests in flight.
FULL: Follows = {
    "tokens_per_second_per_user": ("tpot", -1),
    "ttft_seconds": ("ttft", 1),
    "tpot_seconds": ("tpot", 1),
    "dollars_per_million_tokens": ("throughput", -1),
    "dollars_per_million_output_tokens": ("throughput", -1),
    "tokens_per_second_per_accelerator": ("throughput", 1),
    "tokens_per_second_per_megawatt": ("throughput", 1),
}


class Asked(NamedTuple):
    """A question, and the instances that are shown as its answer."""

    setup: Setup
    """What, on what, how."""
    accelerators: Sequence[float] = ()
    """Of each instance [1]."""
    concurrency: Sequence[float] = ()
    """Requests of each instance at a time [1]; empty if they are not known."""
    isl: float | None = None
    """[tokens]; if it is not known, the context of the question counts."""
    osl: float | None = None
    """[tokens]"""
    speculates: bool = False
    """Tokens are proposed and verified."""
    label: str = ""
    """What it is called among several."""


def remarks(every: Asked | Iterable[Asked], quantities: Sequence[Quantity] = ("tpot",)) -> list[str]:
    """What a reader must know about the errors of what is shown.

    Parameters
    ----------
    every : Asked or iterable of Asked
        What is shown; several with their labels.
    quantities : sequence of str
        What is predicted.

    Returns
    -------
    list of str
        For each set of assumptions where measured values lie around its predictions, or that nobody knows; for each
        question that is unlike the measurements, why.
    """
    found = [every] if isinstance(every, Asked) else list(every)
    spreads: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for one in found:
        spreads.setdefault(spread(one, quantities), []).append(one.label)
        for text in extrapolations(one):
            reasons.setdefault(text, []).append(one.label)
    # Where all have the same errors, they need not be listed.
    known = _labelled(spreads) if len(spreads) > 1 else list(spreads)
    return [*known, *_labelled(reasons)]


def _labelled(texts: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{', '.join(labels)}: {text}" if any(labels) else text for text, labels in texts.items()]


def spread(asked: Asked, quantities: Sequence[Quantity]) -> str:
    """Where measured values lie around predictions, or that nobody knows."""
    parts: list[str] = []
    for quantity, (around, rows) in _errors(asked, quantities).items():
        verb, beside = ("lie ", " around such predictions") if not parts else ("", "")
        parts.append(f"{_NAMES[quantity]} {verb}{percent(around)}{beside} ({rows:,} rows)")
    name = name_of(asked.setup.assumptions)
    if not parts:
        return f"No interval: {name} was fitted to no measured server."
    return f"{100 * LEVEL:.0f} % of measured {', of '.join(parts)}: {name}."


def around(asked: Asked, quantity: Quantity) -> Interval | None:
    """Where a measured value of any instance that is shown probably lies, over the predicted one [1]."""
    return interval(1.0, asked.setup.assumptions, quantity, level=LEVEL, subject=_alike(asked))


def _alike(asked: Asked) -> Subject | None:
    """What is asked, if no instance of it is unlike what was measured."""
    return None if any(outside_of(asked)) else _subject(asked)


def _errors(asked: Asked, quantities: Iterable[Quantity]) -> dict[Quantity, tuple[Interval, int]]:
    """The intervals that are known, and the rows behind them."""
    found: dict[Quantity, tuple[Interval, int]] = {}
    assumptions, subject = asked.setup.assumptions, _alike(asked)
    for quantity in quantities:
        one = interval(1.0, assumptions, quantity, level=LEVEL, subject=subject)
        spread = error_spread(assumptions, quantity, subject)
        if one is not None and spread is not None:
            found[quantity] = one, spread.rows
    return found


def name_of(assumptions: Assumptions) -> str:
    """What assumptions are called; what-ifs are said to."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def percent(one: Interval) -> str:
    """An interval around 1 as percentages."""
    return f"from {100 * (one.low - 1):+.0f} % to {100 * (one.high - 1):+.0f} %"


def extrapolations(asked: Asked) -> list[str]:
    """Why a question is unlike the measurements behind its assumptions, in one sentence; empty if it is like them."""
    always, sometimes = outside_of(asked)
    if not always and not sometimes:
        return []
    text = "; ".join([*always, *([f"among the rows, {'; '.join(sometimes)}"] if sometimes else [])])
    return [f"Unlike what {asked.setup.assumptions.name} was fitted to, so that errors may be larger: {text}."]


def outside_of(asked: Asked) -> tuple[list[str], list[str]]:
    """Why a question is unlike the measurements behind its assumptions: whatever the instance, and for some of them."""
    setup = asked.setup
    calibration = setup.assumptions.calibration
    if calibration is None:
        return [], []
    whole = _subject(asked)
    always = outside(whole, setup.assumptions)
    if asked.speculates:
        always.append("no server that speculates was measured")
    found = [
        {reason for reason in outside(one, setup.assumptions) if reason not in always}
        for one in _sizes(asked, whole, calibration)
    ]
    every = sorted(set().union(*found))
    if len(asked.accelerators) == 1:
        return [*always, *every], []
    return always, every


def _subject(asked: Asked) -> Subject:
    """What is asked, whatever the instance."""
    return asked_subject(asked.setup, asked.isl, asked.osl)


def _sizes(asked: Asked, whole: Subject, known: Calibration) -> Iterator[Subject]:
    """The instances that are the most unlike those that were measured, by size and by the load of an accelerator."""
    for size in _beyond(asked.accelerators, known.accelerators):
        yield whole._replace(accelerators=size)
    pairs = zip(asked.concurrency, asked.accelerators, strict=True) if asked.concurrency else ()
    loads = [flight / size for flight, size in pairs]
    # A size that was measured, so that the load alone counts.
    usual = float(known.accelerators.low)
    for load in _beyond(loads, known.requests_per_accelerator):
        yield whole._replace(accelerators=usual, concurrency=load * usual)


def _beyond(values: Sequence[float], known: Range) -> list[float]:
    """The least value if it is below a range, the largest if it is above."""
    if not values:
        return []
    low, high = float(min(values)), float(max(values))
    return [*([low] if low < known.low else []), *([high] if high > known.high else [])]


def calibration_record(asked: Asked, quantities: Sequence[Quantity] = ("tpot",)) -> dict[str, object] | None:
    """What :func:`remarks` says as plain data; None if the assumptions were not fitted."""
    assumptions = asked.setup.assumptions
    if assumptions.calibration is None:
        return None
    errors = {
        quantity: {"rows": rows, "low": one.low, "high": one.high}
        for quantity, (one, rows) in _errors(asked, quantities).items()
    }
    always, sometimes = outside_of(asked)
    return {"level": LEVEL, "measured_over_predicted": errors, "outside": [*always, *sometimes]}


def ends(asked: Asked, follows: Follows) -> Ends:
    """Factors from columns to where measured values probably lie [1]; None where nobody knows."""
    found: dict[str, tuple[float | None, float | None]] = {}
    for name, (quantity, power) in follows.items():
        one = around(asked, quantity)
        found[name] = (None, None)
        if one is not None:
            low, high = sorted(end**power for end in one)
            found[name] = low, high
    return found


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
    found: dict[str, Any] = {}
    for name, value in columns.items():
        found[name] = value
        if name in factors:
            found[f"{name}_low"], found[f"{name}_high"] = (_times(value, end) for end in factors[name])
    return found


def _times(value: Any, factor: float | None) -> Any:
    if isinstance(value, Mapping):
        return {name: _times(one, factor) for name, one in value.items()}
    return None if value is None or factor is None else value * factor
