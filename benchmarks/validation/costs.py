"""Compare the cost of the best measured servers with the lowest predicted cost at their speed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Report
from benchmarks.validation.bound import EXPLAINED
from inference_econ._types import Array
from inference_econ.answers.deployments.serving_options import Arrangement, Candidate, label_of, market
from inference_econ.answers.slo import likely_ends
from inference_econ.engine import Instances, Setup, layout_keys
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers import measurements
from inference_econ.extras.servers.accuracy import (
    calibration_behind,
    instance_chips,
    layout_of,
    requests_per_accelerator,
    was_fitted,
)
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import Prediction, Profiles, predict
from inference_econ.extras.servers.validation.servers import of_hardware
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Assumptions, Requests, catalog
from inference_econ.inputs.engine import profiles
from inference_econ.records.plain import finite_or_none
from inference_econ.serving import Services

#: Name that stands for the profiles of chip and engine.
OWN = "profile"
#: Name for those profiles without measured corrections, which were fitted to these rows.
UNSEEN = "profile, levels left out"
#: Shipped files of compared servers.
FILES = ("serving_points", "inferencemax_aggregated", "inferencemax_disaggregated")
#: Corrections fitted without each compared deployment, by ``data.levels.judged.deployment_of``.
#: ``sh run.sh refit levels`` writes them.
WITHOUT = Path(__file__).with_name("without_deployments.json")
#: Arbitrary price, since both sides use the same chips [USD/h].
_PRICE = 1.0
#: Fewest servers of a combination [1].
_ENOUGH = 3
#: Relative cost error that counts as wrong [1].
NOTICED = 0.25
#: Reasons for a missing prediction.
FASTEST, OUT_OF_REACH = "the fastest measured server; no candidate is as fast", "out of reach: no candidate is as fast"
NOBODY = "no candidate serves so"
#: Factor within which concurrencies count as similar [1].
_ABOUT = math.sqrt(2.0)
#: Kinds of points, by arrangement and speculation of the measured server.
SERIES = {
    (False, False): "aggregated",
    (False, True): "aggregated, speculating",
    (True, False): "disaggregated",
    (True, True): "disaggregated, speculating",
}

NOTES = (
    "A group has the measured servers of one model, weight format, GPU and pair of lengths, at constant concurrency. "
    "Only its Pareto-optimal servers are compared: no other server of the group is both faster and cheaper. Servers "
    "without speculation compete only with each other, and servers with speculation with all. Disaggregated and "
    "aggregated servers form separate groups. The answer is the cheapest candidate of a default frontier at the same "
    "speed, lengths and price per GPU. For servers without speculation, candidates with speculation are excluded. "
    "Cost is interpolated as a power of speed between two batches of one layout, but never between layouts.",
    "The throughput of a server is the measured one. If it was not measured, it follows from TTFT and TPOT at constant "
    "concurrency. For servers with both, this value is 2 % higher.",
    "'out of reach': no candidate is as fast as this server, although another measured server is even faster. If no "
    "candidate is as fast as the fastest server of a group, this server is excluded. Even an unbiased model would be "
    "slower than half of the fastest servers.",
    "An answer that is cheaper than the measured server can be right, because its deployment may never have been "
    "measured. 'measured layouts': the answer has a measured layout of the group, at a concurrency within a factor "
    "of 1.4 of the measured range. 'own layouts': the answer is restricted to the engine and layout of the measured "
    "server. The version and the cache format may differ, and so may the prefill layout of disaggregated servers. The "
    "column has the number of servers, the ratio of predicted to measured cost, and the error. The rest of the error "
    "of the full answer comes from the choice of another engine or layout.",
    "'in 80 % band': the measured cost is in the 80 % interval of the answer. The interval shifts speed and cost of "
    "the whole frontier by their errors. If the layout of the answer was not measured, the upper end is at least the "
    "predicted cost of the cheapest measured layout. A user can fall back on this layout.",
)


class Combination(NamedTuple):
    """Compared combination: a model in a format, a chip, and lengths."""

    model: str
    """Model, by catalog name."""
    hardware: str
    """Chip, by catalog name."""
    weights: str | None
    """Weight format; None as published."""
    isl: float
    """Mean input length [tokens]."""
    osl: float
    """Mean output length [tokens]."""

    @property
    def text(self) -> str:
        """Description."""
        weights = "" if self.weights is None else f" {self.weights}"
        return f"{self.model}{weights} on {self.hardware}, {self.isl:.4g}/{self.osl:.4g}"


@dataclass(frozen=True)
class Curves:
    """Layouts of one engine and recipe at every batch, from the candidates.

    Attributes
    ----------
    services : Services
        Aggregated or decode layouts, under the setup of the engine.
    tokens_per_second, dollars : ndarray, shape (n, k)
        Speed of a user [tokens/s] and total cost over output tokens [USD per 1e6 tokens] by layout and batch, at a
        common price.
    accelerators, concurrency : ndarray, shape (n, k)
        Accelerators of a deployment, and its concurrency [1].
    apart : bool
        True if disaggregated.
    """

    services: Services
    tokens_per_second: Array
    dollars: Array
    accelerators: Array
    concurrency: Array
    apart: bool = False

    @classmethod
    def of(cls, candidate: Candidate) -> Curves:
        """Curves of a candidate."""
        seen, decoders = candidate.metrics, candidate.all_decoders
        return cls(
            candidate.services,
            np.asarray(1.0 / seen.tpot_seconds),
            candidate.dollars,
            np.asarray(seen.accelerators / decoders),
            np.asarray(seen.concurrency / decoders),
            candidate.pools is not None,
        )

    @property
    def speculates(self) -> bool:
        """True with speculation."""
        return self.services.speculation is not None

    @cached_property
    def layouts(self) -> list[str]:
        """Names of the layouts."""
        return layout_keys(self.services.plans, self.services.setup.assumptions.layout)

    def of_layout(self, name: str) -> Curves:
        """Restrict to one layout; expert-parallel ranks are ignored, since they are not always recorded."""
        return self._without([layout.partition("ep")[0] != name for layout in self.layouts])

    def of_measured_layouts(self) -> Curves:
        """Restrict to measured layouts."""
        instances = Instances(self.services.setup, speculates=self.speculates, layouts=self.layouts)
        return self._without([not measured for measured in instances.measured])

    def _without(self, other: Sequence[bool]) -> Curves:
        speeds, dollars = (np.array(values, copy=True) for values in (self.tokens_per_second, self.dollars))
        speeds[list(other)], dollars[list(other)] = np.nan, np.nan
        return replace(self, tokens_per_second=speeds, dollars=dollars)

    @property
    def label(self) -> str:
        """Engine and recipe in words."""
        return label_of(self.services.setup, self.services.speculation, apart=self.apart)


#: Function that returns candidates for a combination, a preset (None for the profiles), and an arrangement.
Market = Callable[[Combination, str | None, Arrangement], Sequence[Curves]]


def default_market(group: Combination, assumptions: str | None, arrangement: Arrangement = "both") -> list[Curves]:
    """Curves of the default frontier of a model on a chip.

    Raises
    ------
    InputError
        If a name of the combination is unknown.
    NothingFitsError
        If no layout fits.
    """
    unseen = assumptions == UNSEEN
    preset = None if unseen else assumptions
    setup = Setup.of(group.model, group.hardware, weights=group.weights, assumptions=preset, price=_PRICE)
    requests = Requests.model_validate({"isl": group.isl, "osl": group.osl})
    candidates = market(setup, requests, arrangement=arrangement, levels=not unseen)
    if all(candidate.speculation for candidate in candidates):
        candidates += market(setup, requests, speculation=None, arrangement=arrangement, levels=not unseen)
    return [Curves.of(candidate) for candidate in candidates]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint(ComparedPoint):
    """Cost of a Pareto-optimal measured server with the lowest predicted cost at its speed.

    Attributes
    ----------
    combination : str
        Model, weights, chip and lengths.
    engine, chips : str
        Engine and chip generation of the measured server.
    tokens_per_second : float
        Speed of a user [tokens/s].
    fastest : bool
        True if no comparable measured server of the combination is faster.
    out_of_reach : bool
        True if no candidate reaches the speed, although a measured server is faster still.
    answer : str
        Layout and recipe of the prediction; empty if nothing is fast enough.
    tried : bool
        True if that layout was measured in the combination, at a similar concurrency, or at lower and higher ones.
    low, high : float or None
        80% interval of the cost at the speed; None if errors are unknown, or an end does not reach the speed.
    inside : bool or None
        True if the measured cost is within the interval; None if errors are unknown.
    own : float or None
        Prediction restricted to the engine, arrangement and (decode) layout of the measured server [USD per 1e6
        tokens]; None if it is not fast enough.
    own_inside : bool or None
        True if the measured cost is within the 80% interval of ``own``; None if errors are unknown.
    own_engine : float or None
        Prediction restricted to the engine of the measured server [USD per 1e6 tokens]; None if it is not fast enough.
    at_load, at_speed : float or None
        Prediction of the measured server itself, at its concurrency and at its speed [USD per 1e6 tokens]; None if
        unknown.
    """

    combination: str
    engine: str
    chips: str
    tokens_per_second: float
    fastest: bool
    out_of_reach: bool = False
    answer: str = ""
    tried: bool = False
    low: float | None = None
    high: float | None = None
    inside: bool | None = None
    own: float | None = None
    own_inside: bool | None = None
    own_engine: float | None = None
    at_load: float | None = None
    at_speed: float | None = None


class CostScore(NamedTuple):
    """Errors compared with the best measured servers; None without points."""

    servers: int
    """Points: Pareto-optimal measured servers [1]."""
    compared: int
    """Points with a prediction [1]."""
    ratio: float | None
    """Median of predicted over measured cost [1]."""
    median: float | None
    """Median of |ln(predicted / measured)| [1]."""
    p90: float | None
    """90th percentile of |ln(predicted / measured)| [1]."""
    dearer: float | None
    """Share of points, including those out of reach, with a prediction more than 25% too expensive [1]."""
    cheaper: float | None
    """Share of these points with a prediction more than 25% too cheap [1]."""
    out_of_reach: float | None
    """Share of these points that no candidate reaches [1]."""
    inside: float | None
    """Share within the 80% interval, of points with one [1]."""
    width: float | None
    """Median ratio of the ends of the intervals [1]."""
    tried: int
    """Points whose predicted layout was measured [1]."""
    tried_median: float | None
    """Median of |ln(predicted / measured)| of these [1]."""
    own: int
    """Points with a prediction restricted to the measured engine and layout [1]."""
    own_ratio: float | None
    """Median of that prediction over measured cost [1]."""
    own_median: float | None
    """Median of |ln(predicted / measured)| of that prediction [1]."""


def cost_score(points: Iterable[CostPoint]) -> CostScore:
    """Score of points."""
    judged = list(points)
    logs = [(point.log_error, point.tried) for point in judged]
    errors = [error for error, _ in logs if error is not None]
    tried = [abs(error) for error, measured in logs if measured and error is not None]
    own = _logs(judged, lambda point: point.own)
    held = [point.inside for point in judged if point.inside is not None]
    widths = [point.high / point.low for point in judged if point.low and point.high]
    out = sum(point.out_of_reach for point in judged)
    number, limit = len(errors) + out, math.log1p(NOTICED)
    return CostScore(
        servers=len(judged),
        compared=len(errors),
        ratio=math.exp(statistics.median(errors)) if errors else None,
        median=statistics.median(map(abs, errors)) if errors else None,
        p90=float(np.quantile(np.abs(errors), 0.9)) if errors else None,
        dearer=sum(error > limit for error in errors) / number if number else None,
        cheaper=sum(error < -limit for error in errors) / number if number else None,
        out_of_reach=out / number if number else None,
        inside=sum(held) / len(held) if held else None,
        width=statistics.median(widths) if widths else None,
        tried=len(tried),
        tried_median=statistics.median(tried) if tried else None,
        own=len(own),
        own_ratio=math.exp(statistics.median(own)) if own else None,
        own_median=statistics.median(map(abs, own)) if own else None,
    )


class Stage(NamedTuple):
    """Errors if only a part of the deployment is open; None without points."""

    servers: int
    """Points with such a cost [1]."""
    ratio: float | None
    """Median ratio to the measured cost [1]."""
    median: float | None
    """Median absolute log error [1]."""
    mean: float | None
    """Mean absolute log error over points with costs at every stage [1]."""
    adds: float | None
    """Increase of the mean over the previous stage [1]; the increases sum to the mean of the last stage."""
    inside: float | None
    """Share of measured costs within the 80% interval, of points with one [1]; None if the stage has none."""


#: Stages of a prediction, from the measured server itself, each with more choice.
STAGES: dict[str, Callable[[CostPoint], float | None]] = {
    "the server itself, its load": lambda point: point.at_load,
    "the server itself, its speed": lambda point: point.at_speed,
    "its layout, newest version": lambda point: point.own,
    "any layout of its engine": lambda point: point.own_engine,
    "any engine: the answer": lambda point: point.predicted,
}
#: Predictions whose layout was measured, and others.
_COVERED, _NOT_COVERED = "answers whose layout was measured", "answers whose layout was not measured"


def stages(points: Iterable[CostPoint]) -> dict[str, Stage]:
    """Errors by :data:`STAGES`, then of predictions with and without measured layouts."""
    judged = [point for point in points if point.measured]
    whole = [point for point in judged if all(cost_of(point) for cost_of in STAGES.values())]
    rows, before = {}, 0.0
    for name, cost_of in STAGES.items():
        mean = statistics.mean(_errors(whole, cost_of)) if whole else None
        held = {"its layout, newest version": "own_inside", "any engine: the answer": "inside"}.get(name)
        rows[name] = _stage(judged, cost_of, held, mean, None if mean is None else mean - before)
        before = mean or 0.0
    for name, tried in ((_COVERED, True), (_NOT_COVERED, False)):
        part = [point for point in judged if point.tried == tried]
        rows[name] = _stage(part, lambda point: point.predicted, "inside")
    return rows


def _stage(
    points: Sequence[CostPoint],
    cost_of: Callable[[CostPoint], float | None],
    held: str | None,
    mean: float | None = None,
    adds: float | None = None,
) -> Stage:
    logs = _logs(points, cost_of)
    inside = [] if held is None else [getattr(point, held) for point in points if cost_of(point)]
    judged = [value for value in inside if value is not None]
    return Stage(
        len(logs),
        math.exp(statistics.median(logs)) if logs else None,
        statistics.median(map(abs, logs)) if logs else None,
        mean,
        adds,
        sum(judged) / len(judged) if judged else None,
    )


def _logs(points: Iterable[CostPoint], cost_of: Callable[[CostPoint], float | None]) -> list[float]:
    """ln(cost / measured) of the points with that cost [1]."""
    return [math.log(cost / point.measured) for point in points if (cost := cost_of(point)) and point.measured]


def _errors(points: Iterable[CostPoint], cost_of: Callable[[CostPoint], float | None]) -> list[float]:
    return [abs(error) for error in _logs(points, cost_of)]


def report(
    paths: Sequence[Path] = (), names: Sequence[str] = (OWN, UNSEEN), offered: Market = default_market
) -> Report:
    """Compare the best servers of all combinations with predictions under each preset.

    Parameters
    ----------
    paths : sequence of Path
        Files of measured servers; :data:`FILES` by default.
    names : sequence of str
        Presets by name or path; :data:`OWN` for the profiles of a combination.
    offered : callable
        Candidates; by default those of default results. Candidates without corrections or profiles from the combination
        show errors for unmeasured combinations.

    Returns
    -------
    Report
        Report of :class:`CostPoint`.

    Raises
    ------
    InputError
        If a file is invalid, or has no combination with enough servers.
    """
    paths = paths or _shipped()
    groups = read_combinations(paths)
    if not groups:
        raise InputError(
            f"{', '.join(path.name for path in paths)}: nothing to compare: costs need {_ENOUGH} or more servers of "
            "one model, weights, chip and lengths, each under a constant number of requests and with a TPOT and a TTFT "
            "(or output tokens/s)"
        )
    points = [
        point
        for name in names
        for combination, servers in groups.items()
        for point in _points(combination, servers, name, offered)
    ]
    return Report("costs", "Cost at the speed of the best measured servers", points, NOTES)


def read_combinations(paths: Sequence[Path] = ()) -> dict[Combination, list[Measurement]]:
    """:func:`combinations` of given files, or of the shipped ones."""
    rows = (row for path in paths or _shipped() for row in measurements.read_measurements(path))
    return combinations([row for row in rows if isinstance(row, Measurement)])


def _shipped() -> list[Path]:
    return [catalog.server_files()[name] for name in FILES]


def best_servers() -> list[Measurement]:
    """Pareto-optimal servers of the shipped files, by combination and arrangement."""
    return [row for servers in read_combinations().values() for row, _ in best(servers)]


def combinations(rows: Sequence[Measurement]) -> dict[Combination, list[Measurement]]:
    """Closed-loop servers with known speed and cost by combination, if there are enough.

    Repeats, invalid runs, series faster than the physical bound, suspected speculation, and pools with unknown workers
    are excluded.
    """
    groups: dict[Combination, list[Measurement]] = {}
    for row in measurements.distinct(list(rows)):
        if not _usable(row):
            continue
        assert row.isl is not None and row.osl is not None
        groups.setdefault(Combination(row.model, row.hardware, row.weights, row.isl, row.osl), []).append(row)
    return {combination: servers for combination, servers in groups.items() if len(servers) >= _ENOUGH}


def _usable(row: Measurement) -> bool:
    lengths = (row.isl or 0.0) >= 1.0 and (row.osl or 0.0) > 1.0
    rated = row.output_tokens_per_second_per_accelerator or (row.ttft_seconds and row.concurrency)
    doubtful = row.spoilt or row.unknown or row.speculation == "suspected"
    wrong = any(explained.applies(row) for explained in EXPLAINED)
    measured = lengths and rated and row.tpot_seconds and row.accelerators
    return bool(row.load == "concurrency" and measured and not doubtful and not wrong)


def dollars_of(row: Measurement) -> float:
    """Total cost of a measured server over its output tokens, at :data:`_PRICE` [USD per 1e6 tokens].

    Without a measured rate, it is that of a closed loop.
    """
    rate = row.output_tokens_per_second_per_accelerator or row.closed_loop_rate
    assert rate is not None
    return float(money.dollars_per_million_tokens(1.0, 1.0, rate, _PRICE))


def best(servers: Sequence[Measurement]) -> list[tuple[Measurement, bool]]:
    """Pareto-optimal servers in speed and cost by :data:`SERIES`, with True for the fastest."""
    found = []
    for apart, speculates in SERIES:
        alike = [row for row in servers if (row.decode is not None) == apart and (speculates or not row.speculates)]
        seconds = [float(row.tpot_seconds or math.inf) for row in alike]
        places = pareto.undominated(seconds, [dollars_of(row) for row in alike])
        found += [(alike[at], place == 0) for place, at in enumerate(places) if alike[at].speculates == speculates]
    return found


def _points(group: Combination, servers: Sequence[Measurement], name: str, candidates: Market) -> Iterator[CostPoint]:
    try:
        curves, why = candidates(group, None if name == OWN else name, arrangement_of(servers)), ""
    except (InputError, NothingFitsError) as error:
        curves, why = [], str(error)
    rows = best(servers)
    alone = itself([row for row, _ in rows], lambda row: _assumptions(row, name))
    for (row, fastest), predicted in zip(rows, alone, strict=True):
        yield answered(blank(group, row, name, predicted, fastest=fastest), row, servers, curves, why)


def arrangement_of(servers: Sequence[Measurement]) -> Arrangement:
    """Arrangement of candidates: only aggregated if every measured server is."""
    return "both" if any(row.decode is not None for row in servers) else "aggregated"


def _assumptions(row: Measurement, name: str) -> Assumptions:
    """Assumptions for a measured server itself."""
    if name in (OWN, UNSEEN):
        return of_hardware(row.hardware, row.engine, levels=name == OWN)
    return catalog.assumptions(name)


def blank(group: Combination, row: Measurement, name: str, alone: Itself, *, fastest: bool) -> CostPoint:
    """Point without a prediction."""
    assert row.tpot_seconds is not None
    server = f"{row.engine} {row.engine_version} {layout_of(row) or 'layout not recorded'}"
    speed = 1.0 / row.tpot_seconds
    at_load, at_speed = (
        None if rate is None else float(money.dollars_per_million_tokens(1.0, 1.0, rate, _PRICE)) for rate in alone
    )
    return CostPoint(
        id=row.id,
        series=SERIES[row.decode is not None, row.speculates],
        subject=f"{group.text}: {server} at {speed:.1f} tokens/s".replace("  ", " "),
        assumptions=name,
        unit="USD per 1e6 output tokens at 1 USD per accelerator-hour",
        measured=dollars_of(row),
        combination=group.text,
        engine=row.engine,
        chips=profiles.generation_of(catalog.hardware(row.hardware)),
        tokens_per_second=speed,
        fastest=fastest,
        at_load=at_load,
        at_speed=at_speed,
    )


#: Lowest and highest measured concurrency of instances, by layout.
_Tried = dict[str, tuple[float, float]]


def _tried(servers: Sequence[Measurement]) -> _Tried:
    """Aggregated layouts with their lowest and highest measured concurrency."""
    ranges: _Tried = {}
    for row in servers:
        per_accelerator, chips = requests_per_accelerator(row), instance_chips(row)
        if row.decode is None and per_accelerator is not None and chips is not None:
            requests, layout = per_accelerator * chips, layout_of(row)
            low, high = ranges.get(layout, (math.inf, 0.0))
            ranges[layout] = min(low, requests), max(high, requests)
    return ranges


def answered(
    point: CostPoint, row: Measurement, servers: Sequence[Measurement], curves: Sequence[Curves], why: str = ""
) -> CostPoint:
    """Add the lowest cost of the candidates at the point's speed.

    Parameters
    ----------
    point : CostPoint
        Point without a prediction.
    row : Measurement
        Measured server.
    servers : sequence of Measurement
        All servers of its combination.
    curves : sequence of Curves
        Candidates. Speculation and disaggregation are allowed only if the server uses them.
    why : str
        Reason if there are no candidates.
    """
    offered = [
        curves_of
        for curves_of in curves
        if (row.speculates or not curves_of.speculates) and (row.decode is not None or not curves_of.apart)
    ]
    if not offered:
        return replace(point, note=why or NOBODY)
    speed = point.tokens_per_second
    least = _least(offered, speed)
    judged = _alone(_in_band(point, offered, least or _fastest(offered)), row, offered)
    if least is None:
        return replace(judged, note=FASTEST if point.fastest else OUT_OF_REACH, out_of_reach=not point.fastest)
    return replace(
        judged,
        predicted=least.dollars,
        fitted=bool(was_fitted(row, calibration_behind(least.curves.services.setup.assumptions))),
        answer=f"{least.layout} by {least.curves.label}",
        tried=least.is_among(_tried(servers)),
    )


class _State(NamedTuple):
    """Layout of a candidate at a batch."""

    dollars: float
    """Cost [USD per 1e6 tokens]."""
    curves: Curves
    """Curves of the candidate."""
    row: int
    """Index of the layout."""
    column: int
    """Index of the batch, or of the next smaller one."""

    @property
    def layout(self) -> str:
        """Name of the layout."""
        return self.curves.layouts[self.row]

    @property
    def instances(self) -> Instances:
        """Instances for error estimates."""
        curves, at = self.curves, (self.row, self.column)
        requests = curves.services.requests
        return Instances(
            curves.services.setup,
            [float(curves.accelerators[at])],
            [float(curves.concurrency[at])],
            requests.isl.mean,
            requests.osl.mean,
            speculates=curves.speculates,
            layouts=[self.layout],
        )

    def is_among(self, tried: _Tried) -> bool:
        """Check whether the layout was measured at a similar concurrency, or at lower and higher ones.

        Expert-parallel ranks are ignored, since they are not always recorded.
        """
        low, high = tried.get(self.layout.partition("ep")[0], (math.inf, 0.0))
        requests = float(self.curves.concurrency[self.row, self.column])
        return not self.curves.apart and low / _ABOUT <= requests <= high * _ABOUT


def _least(offered: Sequence[Curves], speed: float) -> _State | None:
    """Lowest cost of any candidate at or above a speed; None if none is fast enough."""
    states = []
    for curves in offered:
        least = pareto.least_from(curves.tokens_per_second, curves.dollars, speed)
        if least is not None:
            dollars, row, place = least
            states.append(_State(dollars, curves, row, place % curves.dollars.shape[1]))
    return min(states, key=lambda state: state.dollars, default=None)


def _alone(point: CostPoint, row: Measurement, offered: Sequence[Curves]) -> CostPoint:
    """Add predictions restricted to the engine of the server, in its layout and in any."""
    engine = [curves for curves in offered if [spec.name for spec in curves.services.setup.engines] == [row.engine]]
    apart, layout = row.decode is not None, layout_of(row).rpartition("+")[2]
    own = [
        curves.of_layout(layout) for curves in engine if (curves.speculates, curves.apart) == (row.speculates, apart)
    ]
    least, best = _least(own, point.tokens_per_second), _least(engine, point.tokens_per_second)
    return replace(
        point,
        own=None if least is None else least.dollars,
        own_inside=None if least is None else _in_band(point, own, least).inside,
        own_engine=None if best is None else best.dollars,
    )


def _fastest(offered: Sequence[Curves]) -> _State:
    """Fastest state of any candidate."""
    curves = max(offered, key=lambda curve: float(np.nanmax(curve.tokens_per_second)))
    speeds = curves.tokens_per_second
    row, column = (int(place) for place in np.unravel_index(int(np.nanargmax(speeds)), speeds.shape))
    return _State(float(curves.dollars[row, column]), curves, row, column)


def _in_band(point: CostPoint, offered: Sequence[Curves], state: _State) -> CostPoint:
    """Add the 80% interval of the cost from the errors of a state, if known."""

    def least(speeds: Array, measured: bool) -> Array:
        among = [curves.of_measured_layouts() for curves in offered] if measured else offered
        states = [_least(among, speed) for speed in speeds.tolist()]
        return np.array([math.inf if state is None else state.dollars for state in states])

    (least_end,), (most_end,) = likely_ends(least, np.array([point.tokens_per_second]), state.instances)
    if math.isnan(least_end) or point.measured is None:
        return point
    low, high = finite_or_none(float(least_end)), finite_or_none(float(most_end))
    inside = low is not None and low <= point.measured and (high is None or point.measured <= high)
    return replace(point, low=low, high=high, inside=inside)


#: Loads for the search of a server's speed, relative to its own load [1].
_LOADS = (2.0 ** np.arange(-2.0, 2.5, 0.5)).tolist()


class Itself(NamedTuple):
    """Predicted output throughput per chip of a measured server; None if unknown [tokens/s]."""

    at_load: float | None
    """Throughput at the measured concurrency."""
    at_speed: float | None
    """Throughput at the concurrency with the measured speed."""


def itself(servers: Sequence[Measurement], profiles: Profiles) -> list[Itself]:
    """Predict measured servers as deployed, with their versions.

    Parameters
    ----------
    servers : sequence of Measurement
        Closed-loop measurements.
    profiles : callable
        Returns the assumptions for a measurement.

    Returns
    -------
    list of Itself
        Predictions in the order of the servers.
    """
    loaded = [
        replace(row, concurrency=max(load * (row.concurrency or 1.0), 1.0), requests=None, spread=None)
        for row in servers
        for load in _LOADS
    ]
    states, number = predict(loaded, profiles), len(_LOADS)
    return [
        Itself(
            prediction.output_tokens_per_second_per_accelerator,
            _at_speed(row, states[index * number : (index + 1) * number]),
        )
        for index, (row, prediction) in enumerate(zip(servers, predict(servers, profiles), strict=True))
    ]


def _at_speed(row: Measurement, loads: Sequence[Prediction]) -> float | None:
    """Output throughput per chip at the measured speed [tokens/s], interpolated as a power of speed."""
    states = [
        (1.0 / load.tpot_seconds, 1.0 / load.output_tokens_per_second_per_accelerator)
        for load in loads
        if load.tpot_seconds and load.output_tokens_per_second_per_accelerator
    ]
    if not states or not row.tpot_seconds:
        return None
    speeds, seconds = (np.array([values]) for values in zip(*states, strict=True))
    least = pareto.least_from(speeds, seconds, 1.0 / row.tpot_seconds)
    return None if least is None else 1.0 / least[0]
