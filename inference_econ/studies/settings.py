"""Answers that the settings of a scenario ask for: frontiers, assessments."""

from __future__ import annotations

from functools import lru_cache

from inference_econ._types import Progress
from inference_econ.answers.assess import assess
from inference_econ.answers.assessment import Assessment
from inference_econ.answers.frontier import decode_frontier
from inference_econ.answers.market import RECIPE, market
from inference_econ.answers.operating_point import Observation, instances_of
from inference_econ.answers.serving_frontier import service_frontier
from inference_econ.answers.settings import pins_of, promises_of, requests_of, setup_of, space_of, speculation_of
from inference_econ.inputs import MEAN_CONTEXT, AssessAsk, Settings, Traffic, catalog, check_counted, with_defaults
from inference_econ.search import Sampling
from inference_econ.studies.results import AnyFrontier


def frontier_of(settings: Settings, among: tuple[str, ...] = ()) -> AnyFrontier:
    """The frontier that some settings describe; what they leave out is :data:`inference_econ.inputs.counted.DEFAULTS`.

    Of services, unless decode steps alone are asked for or the grid is that of the published study.

    Parameters
    ----------
    settings : Settings
        What is served on what.
    among : tuple of str
        Of services, only candidates of these labels; all if there are none.

    Raises
    ------
    InputError
        If a name or setting cannot be used, or means nothing for what is counted.
    NothingFitsError
        If there is no feasible plan, or none keeps the promises.
    """
    filled = with_defaults(settings)
    check_counted(filled)
    setup = setup_of(filled)
    speculation = speculation_of(filled, setup)
    space = space_of(filled)
    if not filled.counts_decode_steps:
        promises = promises_of(filled)
        offered = market(
            setup,
            requests_of(filled),
            space,
            speculation=RECIPE if speculation is None and filled.speculate is not False else speculation,
            arrangement=filled.arrangement or "both",
            slots=filled.slots,
            ttft_seconds=promises.ttft_seconds,
            among=among,
        )
        return service_frontier(offered, promises)
    lengths = ("context", "contexts", "isl", "osl", "max_tokens_per_second")
    traffic = Traffic(**{name: getattr(filled, name) for name in lengths})
    sampling = None if filled.sampling is None else Sampling(filled.sampling.points, filled.sampling.decades)
    return decode_frontier(setup, traffic, space, speculation=speculation, sampling=sampling)


_cached_frontier = lru_cache(maxsize=256)(frontier_of)


def shared_frontier(settings: Settings) -> AnyFrontier:
    """Frontier of settings, computed once for all tables and figures; a user's file may have changed since."""
    shipped: tuple[tuple[catalog.Kind, tuple[str | None, ...]], ...] = (
        ("models", (settings.model, settings.draft)),
        ("hardware", (settings.hardware,)),
        ("assumptions", (settings.assumptions,)),
        ("traffic", (settings.traffic,)),
    )
    if all(name is None or name in catalog.names(kind) for kind, names in shipped for name in names):
        return _cached_frontier(settings)
    return frontier_of(settings)


def assessment_of(ask: AssessAsk, *, progress: Progress | None = None) -> Assessment:
    """The assessment that a scenario asks for.

    Parameters
    ----------
    ask : AssessAsk
        What was measured on what.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Raises
    ------
    InputError
        If a name or setting cannot be used.
    """
    settings, filled = ask.common, with_defaults(ask.common)
    pins = pins_of(filled)
    lengths = settings.isl is not None or settings.osl is not None
    context = filled.context if filled.context is not None or lengths else MEAN_CONTEXT
    traffic = Traffic(isl=filled.isl, osl=filled.osl) if lengths else Traffic(context=context)
    fullness = {name: getattr(ask, name) for name in ("utilization", "batch", "throughput")}
    observed = Observation(ask.tokens_per_second, ask.gpus, **fullness, instances=instances_of(ask.gpus, pins))
    return assess(setup_of(filled), traffic, observed, pins, progress=progress)
