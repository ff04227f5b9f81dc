"""Comparison of measured speculative decoding with predictions, from acceptance and cost, and for whole deployments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Compared, NumberedRow, preset
from inference_econ.engine import Plans, Setup, Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import UnusableRowError, chip_count, hardware_name, model_name, served
from inference_econ.extras.servers.prediction.predict import head_weights
from inference_econ.formulas import speculation as formulas
from inference_econ.inputs import Assumptions, Precision, catalog
from inference_econ.inputs.units import integer

#: Columns needed to predict a deployment, with their names in messages.
_NEEDED = {"hardware": "hardware", "batch": "batch", "n_draft": "draft length", "accept_len": "tokens per round"}
_LENGTHS = re.compile(r"(\d+)K/(\d+)K")
_DEGREE = re.compile(r"\bTP(\d+)\b")
_USER = "tok/s/user"


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Predictions of every row under each preset."""
    pairs = list(product(lines, {name: preset(name) for name in names}.items()))
    points = [replace(point, assumptions=name) for line, (name, at) in pairs for point in _points(line, lines, at)]
    return points, (), ()


def _points(line: NumberedRow, lines: Sequence[NumberedRow], assumed: Assumptions) -> list[ComparedPoint]:
    """Comparisons of a row, or one point with the reason why it has none."""
    metric = line.text("metric")
    subject = ", ".join(filter(None, (line.text(name) for name in ("target_model", "draft_model", "method"))))
    unit, measured = line.text("unit"), line.number("value")
    blank = ComparedPoint(id=line.id, series=metric, subject=subject, assumptions="", unit=unit, measured=measured)
    try:
        if blank.measured is None:
            raise UnusableRowError("value is blank")
        if "alpha" in metric:
            raise UnusableRowError("an acceptance rate is measured on two models and a text, not predicted")
        if "vs" in metric:
            # Runs with another acceptance rule differ only in the tokens per round.
            same = ("source_id", "metric", "n_draft")
            group = [other for other in lines if all(other.text(name) == line.text(name) for name in same)]
            base = next((other for other in group if other.number("value") == 1.0), None)
            if base is None:
                raise UnusableRowError("the row that it is compared with is not in the file")
            if base is line:
                raise UnusableRowError("others are compared with this row")
            predicted = line.needed("accept_len") / base.needed("accept_len")
            return [replace(blank, series="speed-up of relaxed acceptance", unit="x", predicted=predicted)]
        if line.text("c_draft_cost"):
            cost, rate, length = _share(line, "c_draft_cost"), _share(line, "alpha"), line.count("n_draft")
            tokens = float(formulas.expected_tokens_by_position((rate,) * length))
            series = "speed-up by formula" if blank.series.startswith("theor") else "speed-up from acceptance and cost"
            return [replace(blank, series=series, unit="x", predicted=tokens / (1.0 + length * cost))]
        return list(_deployed(line, lines, assumed, blank))
    except UnusableRowError as error:
        return [replace(blank, note=str(error))]
    except InputError as error:
        return [replace(blank, note=str(error).removeprefix(f"{line.where}: "))]


def _deployed(
    line: NumberedRow, lines: Sequence[NumberedRow], assumed: Assumptions, blank: ComparedPoint
) -> Iterator[ComparedPoint]:
    """Speedup and speed of a deployment, and tokens per round from the acceptance of the first draft token."""
    missing = [word for name, word in _NEEDED.items() if not line.text(name)]
    if "tree" in line.text("method"):
        missing.append("size of the tree")
    if missing:
        raise UnusableRowError(f"not recorded: {', '.join(missing)}")
    gained, length = line.needed("accept_len"), line.count("n_draft")
    plain, whole = _times(line, assumed)
    baseline = line.number("baseline_value")
    if blank.unit == _USER:
        yield replace(blank, series="speed of a deployment", predicted=gained / whole)
        if blank.measured is None or baseline is None:
            return
        blank = replace(blank, measured=blank.measured / baseline)
    yield replace(blank, series="speed-up of a deployment", unit="x", predicted=gained * plain / whole)
    same = [other for other in lines if other.text("source_id") == line.text("source_id")]
    first = next((other for other in same if other.number("n_draft") == 1.0), None)
    if first is not None and length > 1:
        rate = min(first.needed("accept_len") - 1.0, 1.0)
        alike = float(formulas.expected_tokens_by_position((rate,) * length))
        blank = replace(blank, series="tokens per round, all alike", unit="tokens per round")
        yield replace(blank, measured=gained, predicted=alike)


def _times(line: NumberedRow, assumed: Assumptions) -> tuple[float, float]:
    """Times of a step without speculation and of a round with the longest draft, for the deployment of a row [s].

    Raises
    ------
    UnusableRowError
        If a name is unknown, or the layout or the lengths are not recorded.
    """
    text = line.text("hardware")
    chips = chip_count(text) or 1
    chip = hardware_name(_DEGREE.sub("", text).strip())
    written = line.text("target_model")
    name, weights = served(model_name(written), chip, written if "FP" in written.upper() else "")
    model, degree = catalog.model(name), _DEGREE.search(text)
    if degree is None or integer(degree[1]) != chips:
        raise UnusableRowError(f"the layout of {chips} accelerators is not recorded")
    lengths = _LENGTHS.search(line.text("task"))
    if lengths is None:
        raise UnusableRowError("no lengths of its requests are recorded")
    context = 1024.0 * (integer(lengths[1]) + integer(lengths[2]) / 2.0)
    precision = Precision.of(model, weights, embeddings=assumed.capacity.embedding_format)
    setup = Setup(model, catalog.hardware(chip), precision, context, assumed)
    ones = np.ones(1)
    plans = Plans(ones * chips, ones * line.needed("batch"), ones, ones * chips, ones, whole=True)
    kept = head_weights(name, weights)
    proposer = line.text("method")
    if "MTP" not in proposer:
        raise UnusableRowError(f"the speculation method {proposer!r} is not known")
    # The acceptance does not affect the time of a round.
    speculation = Speculation.of("mtp", 1.0, line.count("n_draft"), weights=kept)
    seconds = rounds(setup, plans, speculation).seconds[0]
    return float(seconds[0]), float(seconds[-1])


def _share(line: NumberedRow, column: str) -> float:
    """Number from 0 to 1.

    Raises
    ------
    UnusableRowError
        If the cell contains anything else, for example a range.
    """
    text = line.text(column)
    try:
        value = float(text)
    except ValueError:
        raise UnusableRowError(f"{column} is not a number: {text!r}") from None
    if not 0.0 <= value <= 1.0:
        raise UnusableRowError(f"{column} must be from 0 to 1, got {value:g}")
    return value
