"""Compute frontiers, and comparisons with measured servers, from the settings of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from inference_econ._types import Progress
from inference_econ.answers.layout_services import decode_frontier
from inference_econ.answers.settings import pins_of, promises_of, requests_of, setup_of, space_of, speculation_of
from inference_econ.errors import InputError
from inference_econ.inputs import (
    MEAN_CONTEXT,
    SPECIFICATIONS,
    AssessAsk,
    ModelSpec,
    Settings,
    Traffic,
    catalog,
    check_counted,
    with_defaults,
)
from inference_econ.inputs.models import sizes
from inference_econ.inputs.options import OPTIONS
from inference_econ.inputs.units import list_index
from inference_econ.search import Sampling
from inference_econ.studies.results import AnyFrontier

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from inference_econ.answers.assess import Assessment

#: Frontiers that other processes compute, by settings.
_AHEAD: ContextVar[Mapping[Settings, Future[AnyFrontier]] | None] = ContextVar("ahead", default=None)


def frontier_of(settings: Settings, among: tuple[str, ...] = ()) -> AnyFrontier:
    """Compute the frontier for settings; missing settings have the values in ``DEFAULTS``.

    The frontier is for whole services (prefill and decode), unless the settings select decode steps or the grid of the
    published study.

    Parameters
    ----------
    settings : Settings
        Settings of the frontier.
    among : tuple of str
        Labels of the candidate deployments of a service to use; empty for all candidates.

    Raises
    ------
    InputError
        If a name or setting is invalid, or a setting does not apply.
    NothingFitsError
        If no deployment is feasible, or no deployment meets the SLOs.
    """
    filled = with_defaults(settings)
    check_counted(filled)
    setup = setup_of(filled)
    speculation = speculation_of(filled, setup)
    space = space_of(filled)
    if not filled.counts_decode_steps:
        # The published study has decode steps only.
        from inference_econ.answers.deployments.serving_frontier import service_frontier
        from inference_econ.answers.deployments.serving_options import RECIPE, market, with_evidence

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
        offered = offered if filled.evidence is None else with_evidence(offered, filled.evidence)
        return service_frontier(offered, promises)
    lengths = ("context", "contexts", "isl", "osl", "max_tokens_per_second")
    traffic = Traffic(**{name: getattr(filled, name) for name in lengths})
    sampling = None if filled.sampling is None else Sampling(filled.sampling.points, filled.sampling.decades)
    return decode_frontier(setup, traffic, space, speculation=speculation, sampling=sampling)


_cached_frontier = lru_cache(maxsize=256)(frontier_of)


def shared_frontier(settings: Settings) -> AnyFrontier:
    """Compute the frontier for settings, or return it from the cache.

    The frontier is not cached if the settings name a file of the user, because the file may change.
    """
    if settings in (ahead := _AHEAD.get() or {}):
        return ahead[settings].result()
    shipped: tuple[tuple[catalog.Kind, tuple[str | None, ...]], ...] = (
        ("models", (settings.model, settings.draft)),
        ("hardware", (settings.hardware,)),
        ("assumptions", (settings.assumptions,)),
        ("traffic", (settings.traffic,)),
    )
    if all(name is None or name in catalog.names(kind) for kind, names in shipped for name in names):
        return _cached_frontier(settings)
    return frontier_of(settings)


@contextmanager
def computed_ahead(pool: Executor, wanted: Iterable[Settings]) -> Iterator[None]:
    """Let worker processes compute frontiers; within the block, :func:`shared_frontier` waits for their results."""
    token = _AHEAD.set({settings: pool.submit(shared_frontier, settings) for settings in wanted})
    try:
        yield
    finally:
        _AHEAD.reset(token)


def assessment_of(ask: AssessAsk, *, progress: Progress | None) -> Assessment:
    """Compare a measured deployment with predictions, as a scenario requests.

    Parameters
    ----------
    ask : AssessAsk
        Measured deployment.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current step.

    Raises
    ------
    InputError
        If a name or setting is invalid.
    """
    from inference_econ.answers.assess import Observation, assess, instance_count

    settings, filled = ask.common, with_defaults(ask.common)
    pins = pins_of(filled)
    lengths = settings.isl is not None or settings.osl is not None
    context = filled.context if filled.context is not None or lengths else MEAN_CONTEXT
    traffic = Traffic(isl=filled.isl, osl=filled.osl) if lengths else Traffic(context=context)
    fullness = {name: getattr(ask, name) for name in ("utilization", "batch", "throughput")}
    observed = Observation(ask.tokens_per_second, ask.gpus, **fullness, instances=instance_count(ask.gpus, pins))
    return assess(setup_of(filled), traffic, observed, pins, progress=progress)


#: Numeric settings of a query. All other numeric inputs are fields of a specification file, for example
#: ``hardware.watts``.
SETTINGS = tuple(option.name for option in OPTIONS.values() if option.number)
#: Default values of these settings.
_ABSENT = {"cached": 0.0, "shared_prefix": 0.0}


def number(settings: Settings, name: str) -> float:
    """Look up a numeric input of a query by name.

    Parameters
    ----------
    settings : Settings
        Settings of the query. Missing settings have the values in
        :data:`inference_econ.inputs.scenarios.scenario.DEFAULTS`.
    name : str
        Name of a setting in :data:`SETTINGS`, or of a number in a specification file: ``hardware.FIELD``,
        ``model.FIELD`` or ``assumptions.FIELD``.

    Returns
    -------
    float
        Value in base units (such as B, s, W).

    Raises
    ------
    InputError
        If the name is unknown, or the setting is not a number or has no value.

    Examples
    --------
    >>> number(Settings(model="llama_3_8b", hardware="h100_sxm"), "hardware.hbm_bytes_per_second")
    3350000000000.0
    """
    filled = with_defaults(settings)
    if name == "price":
        return setup_of(filled).dollars_per_accelerator_hour
    if "." in name:
        return _of_specification(filled, name)
    if name not in SETTINGS:
        raise InputError(
            f"{name!r} is not a number of a query; allowed: {', '.join(SETTINGS)}, and numbers of specifications "
            "(hardware.FIELD, model.FIELD, assumptions.FIELD)"
        )
    value = getattr(filled, name)
    present = _ABSENT.get(name) if value is None else value
    if not isinstance(present, (int, float)):
        raise InputError(f"{name}: the question sets none, or several; set a single number")
    return float(present)


def with_numbers(settings: Settings, values: Mapping[str, float]) -> Settings:
    """Replace numeric inputs of a query.

    Parameters
    ----------
    settings : Settings
        Settings of the query.
    values : mapping of str to float
        Values in base units, by the names that :func:`number` accepts.

    Returns
    -------
    Settings
        Changed settings. Numbers of specification files are appended to ``changes``.

    Raises
    ------
    InputError
        If a name is not valid for :func:`number`.

    Examples
    --------
    >>> with_numbers(Settings(model="llama_3_8b"), {"isl": 500.0, "hardware.watts": 800.0}).changes
    ('hardware.watts=800.0',)
    """
    for name in values:
        if name not in SETTINGS and name.partition(".")[0] not in SPECIFICATIONS:
            number(settings, name)
    plain = {name: value for name, value in values.items() if "." not in name}
    changes = (*settings.changes, *(f"{name}={value!r}" for name, value in values.items() if "." in name))
    return settings.replace(**plain, changes=changes)


def _of_specification(filled: Settings, name: str) -> float:
    """Number in the specification file of the model, the hardware or the assumptions."""
    specification, _, path = name.partition(".")
    if specification not in SPECIFICATIONS:
        allowed = ", ".join(f"{kind}.FIELD" for kind in SPECIFICATIONS)
        raise InputError(f"{name!r} is not a number of a query; specifications: {allowed}")
    value: object = getattr(setup_of(filled), specification)
    if isinstance(value, ModelSpec) and path in sizes.SHORT_KEYS:
        value = sizes.model_value(value, path)
    else:
        for part in path.split("."):
            value = _part(value, part)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name}: no such number; name a field that holds one, as in --set {name}=VALUE", option="set")
    return float(value)


def _part(value: object, name: str) -> object:
    """Field, entry or item of an object by its name; None if it does not exist."""
    if isinstance(value, Mapping):
        return cast("object", value.get(name))
    if isinstance(value, (tuple, list)):
        entry = list_index(name, len(value))
        return None if entry is None else value[entry]
    return getattr(value, name, None)
