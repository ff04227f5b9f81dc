"""Answer one question: from names and settings to frontiers, with the sources they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inference_econ._types import Progress
from inference_econ.answers.assess import Assessment, assess
from inference_econ.answers.frontier import frontier, make_grid
from inference_econ.answers.operating_point import Observation
from inference_econ.answers.sources import UsedSource, priced_sources, setup_sources, spec_sources
from inference_econ.answers.sources import sources as sources
from inference_econ.engine import memory
from inference_econ.engine.layouts import plans
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.layouts.space import Space
from inference_econ.engine.setup import Setup
from inference_econ.engine.speculation import ACCEPTANCE, PROPOSERS, Speculation
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto, roofline
from inference_econ.inputs import catalog, profiles
from inference_econ.inputs.asks import (
    AssessAsk,
    FrontierAsk,
    LatentVariantsAsk,
    RunaheadAsk,
    Series,
    Settings,
    SquareRootAsk,
    ToyAsk,
)
from inference_econ.inputs.scenario import Scenario
from inference_econ.inputs.traffic import Traffic
from inference_econ.search.frontier import Frontier, Sampling
from inference_econ.studies import kv_runahead, latent_attention
from inference_econ.studies.exhibits import CellTable, Chart

Array = npt.NDArray[np.float64]

#: What a question assumes where neither the caller nor a scenario says.
DEFAULTS = Settings(grid="whole", pipeline=True, isl=2000, osl=500)


@dataclass(frozen=True, slots=True)
class Curve:
    """One labelled frontier of points, slowest first.

    Attributes
    ----------
    label : str
        What the legend says.
    tokens_per_second, dollars, accelerators, batch : ndarray, shape (n,)
        Speed [tokens/s], cost [USD per 1e6 tokens], instance [1], sequences [1].
    frontier : Frontier or None
        Where it comes from; None for the toy model.
    sources : tuple of UsedSource
        What its numbers rest on.
    """

    label: str
    tokens_per_second: Array
    dollars: Array
    accelerators: Array
    batch: Array
    frontier: Frontier | None = None
    sources: tuple[UsedSource, ...] = ()

    def preferred_index(self, exponent: float) -> int:
        """The point that maximises speed^exponent / cost (eq. 45)."""
        return int(np.argmax(money.preference(self.tokens_per_second, self.dollars, exponent)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Published latencies beside the square-root law.

    Attributes
    ----------
    labels : tuple of str
        Models.
    parameters, measured, predicted : ndarray, shape (n,)
        Parameters [1] and seconds per token [s].
    """

    labels: tuple[str, ...]
    parameters: Array
    measured: Array
    predicted: Array


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a scenario.

    Attributes
    ----------
    scenario : Scenario
        The question.
    curves : tuple of Curve
        One per series; a single point each for the closed-form toy model.
    missing : mapping of str to str
        Series that fit nowhere, with the reason.
    comparison : Comparison or None
        For the square-root law.
    panels : tuple of Result
        For figures that show other scenarios side by side.
    tables : tuple of CellTable
        For questions that answer with numbers instead of frontiers.
    charts : tuple of Chart
        The same to be drawn.
    assessment : Assessment or None
        For a measured deployment.
    sources : tuple of UsedSource
        What the numbers rest on.
    """

    scenario: Scenario
    curves: tuple[Curve, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    panels: tuple[Result, ...] = ()
    tables: tuple[CellTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    assessment: Assessment | None = None
    sources: tuple[UsedSource, ...] = ()


def run(scenario: Scenario | catalog.Name, *, keep_going: bool = False, progress: Progress | None = None) -> Result:
    """Answer a scenario.

    Parameters
    ----------
    scenario : Scenario or str
        Or its name or path.
    keep_going : bool
        A series that fits nowhere goes into :attr:`Result.missing`, as long as one fits.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Returns
    -------
    Result
        Curves, comparison or panels, by the kind of question.

    Raises
    ------
    InputError
        If a name or setting cannot be used.
    NothingFitsError
        If a series has no feasible plan.
    """
    spec = scenario if isinstance(scenario, Scenario) else catalog.scenario(scenario)
    ask, own = spec.ask, spec_sources("scenario", spec)
    if isinstance(ask, SquareRootAsk):
        return Result(spec, comparison=_square_root(ask), sources=own)
    if isinstance(ask, AssessAsk):
        found = _assess(ask, progress)
        return Result(spec, assessment=found, sources=(*sources(found.anywhere.frontier), *own))
    if isinstance(ask, LatentVariantsAsk):
        answer = latent_attention.compare(ask)
        used = dict.fromkeys(found for one in answer.setups for found in setup_sources(one))
        return Result(spec, tables=answer.tables, charts=answer.charts, sources=(*used, *own))
    if isinstance(ask, RunaheadAsk):
        chains = kv_runahead.compare(ask)
        used = dict.fromkeys(found for model in chains.models for found in spec_sources("model", model))
        return Result(spec, tables=chains.tables, charts=chains.charts, sources=(*used, *own))
    if isinstance(ask, (FrontierAsk, ToyAsk)):
        curves, missing = [], {}
        for index, series in enumerate(ask.series):
            if progress is not None:
                progress(index / len(ask.series), series.label)
            settings = series.settings.over(ask.common)
            try:
                curves.append(_curve(series, settings) if isinstance(ask, FrontierAsk) else _toy(ask, series, settings))
            except NothingFitsError as error:
                if not keep_going:
                    raise
                missing[series.label] = str(error)
            except InputError as error:
                if len(ask.series) == 1 or type(error) is not InputError:
                    raise
                raise InputError(f"{series.label}: {error}") from error
        if not curves:
            raise NothingFitsError("\n".join(f"{label}: {reason}" for label, reason in missing.items()))
        used = dict.fromkeys(found for curve in curves for found in curve.sources)
        return Result(spec, tuple(curves), missing=missing, sources=(*used, *own))
    panels = tuple(run(_panel(name), progress=progress) for name in ask.scenarios)
    return Result(spec, panels=panels, sources=tuple(dict.fromkeys(s for panel in panels for s in panel.sources)))


def _panel(name: str) -> Scenario:
    """A scenario that can be a panel of another: one with curves."""
    spec = catalog.scenario(name)
    if not isinstance(spec.ask, (FrontierAsk, ToyAsk)):
        raise InputError(f"{name} cannot be a panel: a panel shows frontiers, and it is of the kind {spec.ask.kind!r}")
    return spec


def ask_frontier(settings: Settings, *, progress: Progress | None = None) -> Frontier:
    """The frontier that some settings describe; what they leave out is :data:`DEFAULTS`."""
    filled = _with_defaults(settings)
    traffic = Traffic(
        context=filled.context, isl=filled.isl, osl=filled.osl, max_tokens_per_second=filled.max_tokens_per_second
    )
    assert filled.grid is not None and filled.pipeline is not None
    sampling = None if filled.sampling is None else Sampling(filled.sampling.points, filled.sampling.decades)
    space = Space(_pins(filled), filled.max_accelerators, filled.pipeline, filled.grid)
    speculation = speculation_of(filled)
    return frontier(_setup(filled), traffic, space, speculation=speculation, sampling=sampling, progress=progress)


def _pins(filled: Settings) -> Pins:
    return Pins(filled.tp, filled.dp, filled.pp, filled.ep, filled.batch, filled.accelerators)


def _setup(filled: Settings) -> Setup:
    """What the settings of a series are about."""
    for name in ("model", "hardware"):
        if getattr(filled, name) is None:
            article = "a model; name one" if name == "model" else "hardware; name it"
            raise InputError(f"a series needs {article} in its settings or in 'common'")
    assert filled.model is not None and filled.hardware is not None
    return Setup.of(
        filled.model,
        filled.hardware,
        weights=filled.weights,
        activations=filled.activations,
        kv=filled.kv,
        assumptions=profiles.for_grid(filled.assumptions, filled.grid or "whole"),
        price=filled.price,
        changes=filled.changes,
    )


def speculation_of(settings: Settings) -> Speculation | None:
    """Who proposes tokens, if anybody.

    Raises
    ------
    InputError
        If a name cannot be used, or the longest draft and the list of probabilities differ in length.
    """
    proposer = next((name for name in PROPOSERS if getattr(settings, name)), None)
    if proposer is None:
        return None
    return Speculation.of(
        proposer,
        ACCEPTANCE if settings.acceptance is None else settings.acceptance,
        settings.max_draft,
        model=None if settings.draft is None else catalog.model(settings.draft),
        weights=settings.draft_weights,
    )


def _assess(asked: AssessAsk, progress: Progress | None) -> Assessment:
    filled = _with_defaults(asked.common)
    assert filled.accelerators is not None
    traffic = Traffic(context=filled.context, isl=filled.isl, osl=filled.osl)
    fullness = {name: getattr(asked, name) for name in ("utilization", "batch", "throughput")}
    observed = Observation(asked.tokens_per_second, round(filled.accelerators), **fullness)
    return assess(_setup(filled), traffic, observed, _pins(filled), progress=progress)


def _with_defaults(settings: Settings) -> Settings:
    """Settings with the defaults; a given context replaces the default lengths."""
    given = {name: value for name in settings.model_fields_set if (value := getattr(settings, name)) is not None}
    return Settings(**given).over(DEFAULTS)


_cached_frontier = lru_cache(maxsize=256)(ask_frontier)


def _frontier(settings: Settings) -> Frontier:
    """Tables and figures share series, and each is computed once; a user's file may have changed since."""
    shipped: tuple[tuple[catalog.Kind, tuple[str | None, ...]], ...] = (
        ("models", (settings.model, settings.draft)),
        ("hardware", (settings.hardware,)),
        ("assumptions", (settings.assumptions,)),
    )
    if all(name is None or name in catalog.names(kind) for kind, names in shipped for name in names):
        return _cached_frontier(settings)
    return ask_frontier(settings)


def _curve(series: Series, settings: Settings) -> Curve:
    front = _frontier(settings)
    return Curve(
        series.label, front.tokens_per_second, front.dollars, front.accelerators, front.batch, front, sources(front)
    )


def _toy(ask_toy: ToyAsk, series: Series, settings: Settings) -> Curve:
    """The toy model of section 2.2 for one series."""
    filled = _with_defaults(settings)
    setup = replace(_setup(filled.replace(assumptions=filled.assumptions or "paper")), context=filled.context or 0.0)
    price = setup.dollars_per_accelerator_hour
    width = memory.weight_bytes(setup.model, setup.precision) / setup.model.total_parameters
    if ask_toy.kind == "toy_optimum":
        best = roofline.toy_minimum_latency(
            setup.model.total_parameters,
            setup.model.layers,
            bytes_per_parameter=width,
            bytes_per_second=setup.hardware.hbm_bytes_per_second,
            reductions=ask_toy.reductions,
            hop_seconds=ask_toy.hop,
        )
        batch = roofline.critical_batch(
            width, setup.hardware.hbm_bytes_per_second, setup.flops_per_second(setup.precision.weights)
        )
        dollars = money.dollars_per_million_tokens(best.accelerators, best.seconds, batch, price)
        speed, cost, size, users = (np.atleast_1d(v) for v in (1 / best.seconds, dollars, best.accelerators, batch))
        return Curve(series.label, speed, cost, size, users, sources=priced_sources(setup, price))
    sizes, batches = make_grid(setup, Space(grid="paper", pipeline=False)).pairs()
    seconds = roofline.toy_latency(
        setup.model.total_parameters,
        setup.model.layers,
        sizes,
        batches,
        bytes_per_parameter=width,
        bytes_per_second=setup.bytes_per_second,
        flops_per_second=setup.flops_per_second(setup.precision.weights),
        reductions=ask_toy.reductions,
        hop_seconds=ask_toy.hop,
        base_seconds=ask_toy.base,
    )
    return _toy_curve(series.label, setup, filled, sizes, batches, seconds, price)


def _toy_curve(
    label: str, setup: Setup, settings: Settings, sizes: Array, batches: Array, seconds: Array, price: float
) -> Curve:
    fits = setup.memory(plans.Plans.of(sizes, batches, np.ones((1, 1)))).fits
    if settings.max_tokens_per_second is not None:
        fits = fits & (batches <= settings.max_tokens_per_second * seconds)
    if not fits.any():
        demand = settings.max_tokens_per_second
        limit = "" if demand is None else f", or each produces more than {demand:g} tokens/s"
        raise NothingFitsError(
            f"nothing fits: {label}: no instance of the grid holds weights and cache of {setup.model.name}{limit}"
        )
    sizes, batches = (np.broadcast_to(axis, seconds.shape)[fits] for axis in (sizes, batches))
    seconds = seconds[fits]
    dollars = money.dollars_per_million_tokens(sizes, seconds, batches, price)
    best = pareto.undominated(seconds, dollars)
    if settings.sampling is not None:
        best = best[pareto.sampled(seconds[best], settings.sampling.points, settings.sampling.decades)]
    best = best[::-1]
    used = priced_sources(setup, price)
    return Curve(label, 1.0 / seconds[best], dollars[best], sizes[best], batches[best], sources=used)


def _square_root(law: SquareRootAsk) -> Comparison:
    parameters = np.array([float(one.parameters) for one in law.measured])
    measured = np.array([one.latency for one in law.measured])
    predicted = roofline.square_root_law(parameters, parameters[0], measured[0])
    return Comparison(tuple(one.label for one in law.measured), parameters, measured, predicted)
