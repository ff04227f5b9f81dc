"""What the settings of a scenario ask for: specifications by name, frontiers, assessments."""

from __future__ import annotations

from functools import lru_cache

from inference_econ._types import Progress
from inference_econ.answers.assess import Assessment, assess
from inference_econ.answers.frontier import DraftModel, solve
from inference_econ.errors import InputError
from inference_econ.inputs import catalog, profiles
from inference_econ.inputs.asks import AssessAsk, Settings
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.traffic import Traffic
from inference_econ.inputs.what_if import split_changes
from inference_econ.search.frontier import Frontier, Sampling

#: What a scenario assumes where neither the caller nor its file says.
DEFAULTS = Settings(grid="whole", pipeline=True, isl=2000, osl=500, acceptance=0.8, max_draft=5)


def with_defaults(settings: Settings) -> Settings:
    """Settings with the defaults; a given context replaces the default lengths."""
    said = {name: value for name in settings.model_fields_set if (value := getattr(settings, name)) is not None}
    return Settings(**said).over(DEFAULTS)


def changes_of(settings: Settings, specification: str) -> tuple[str, ...]:
    """The what-ifs of one specification, ``FIELD=VALUE``; see :func:`~inference_econ.inputs.what_if.split_changes`."""
    return tuple(split_changes(settings.changes)[specification])


def model_of(settings: Settings) -> ModelSpec:
    """The model that settings name, with its what-ifs.

    Raises
    ------
    InputError
        If they name none, or one that is not there.
    """
    if settings.model is None:
        raise InputError("a series needs a model; name one in its settings or in 'common'")
    return catalog.model(settings.model, changes=changes_of(settings, "model"))


def hardware_of(settings: Settings) -> HardwareSpec:
    """The hardware that settings name, with its what-ifs.

    Raises
    ------
    InputError
        If they name none, or some that is not there.
    """
    if settings.hardware is None:
        raise InputError("a series needs hardware; name it in its settings or in 'common'")
    return catalog.hardware(settings.hardware, changes=changes_of(settings, "hardware"))


def frontier_of(settings: Settings, *, progress: Progress | None = None) -> Frontier:
    """The frontier that some settings describe; what they leave out is :data:`DEFAULTS`.

    Parameters
    ----------
    settings : Settings
        What is served on what.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Raises
    ------
    InputError
        If a name or setting cannot be used.
    NothingFitsError
        If there is no feasible plan.
    """
    filled = with_defaults(settings)
    hardware = hardware_of(filled)
    assert filled.grid is not None and filled.pipeline is not None
    return solve(
        model_of(filled),
        hardware,
        Traffic(
            context=filled.context, isl=filled.isl, osl=filled.osl, max_tokens_per_second=filled.max_tokens_per_second
        ),
        assumptions=profiles.assumed(
            filled.assumptions, hardware, filled.grid, changes=changes_of(filled, "assumptions")
        ),
        weights=filled.weights,
        activations=filled.activations,
        kv=filled.kv,
        price=filled.price,
        grid=filled.grid,
        pipeline=filled.pipeline,
        draft=_draft(filled),
        max_accelerators=filled.max_accelerators,
        **{axis: getattr(filled, axis) for axis in ("tp", "dp", "pp", "ep", "batch", "accelerators")},
        sampling=None if filled.sampling is None else Sampling(filled.sampling.points, filled.sampling.decades),
        progress=progress,
    )


def _draft(filled: Settings) -> DraftModel | None:
    if filled.draft is None:
        return None
    assert filled.acceptance is not None and filled.max_draft is not None
    return DraftModel(catalog.model(filled.draft), filled.acceptance, filled.max_draft)


_cached_frontier = lru_cache(maxsize=256)(frontier_of)


def shared_frontier(settings: Settings) -> Frontier:
    """The same, computed once for all tables and figures that share it; a user's file may have changed since."""
    shipped: tuple[tuple[catalog.Kind, tuple[str | None, ...]], ...] = (
        ("models", (settings.model, settings.draft)),
        ("hardware", (settings.hardware,)),
        ("assumptions", (settings.assumptions,)),
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
    filled = with_defaults(ask.common)
    hardware = hardware_of(filled)
    assert filled.accelerators is not None
    return assess(
        model_of(filled),
        hardware,
        Traffic(context=filled.context, isl=filled.isl, osl=filled.osl),
        tokens_per_second=ask.tokens_per_second,
        accelerators=round(filled.accelerators),
        **{name: getattr(ask, name) for name in ("utilization", "batch", "throughput")},
        **{name: getattr(filled, name) for name in ("tp", "dp", "pp", "ep", "weights", "activations", "kv", "price")},
        assumptions=profiles.assumed(filled.assumptions, hardware, changes=changes_of(filled, "assumptions")),
        progress=progress,
    )
