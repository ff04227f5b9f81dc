"""Conversion of scenario and command-line settings into a setup, layouts, requests, SLOs and speculation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from inference_econ.engine import PROPOSERS, Pins, Setup, Space, Speculation, as_setting, expected, instance_pins
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, Settings, catalog
from inference_econ.inputs.engine import profiles

if TYPE_CHECKING:
    from inference_econ.answers.slo import Targets


def setup_of(settings: Settings, engines: str | tuple[str, ...] | None = None) -> Setup:
    """Create a setup, with price and assumptions, from settings.

    Parameters
    ----------
    settings : Settings
        Model, GPU, formats, price and assumptions by name.
    engines : str or tuple of str, optional
        Engines that replace the engine of the settings; ``ANY_LAYOUT`` for layouts that need no engine.

    Raises
    ------
    InputError
        If the model or GPU is missing, or a name is unknown.
    """
    for name, article in (("model", "a model; name one"), ("hardware", "hardware; name it")):
        if getattr(settings, name) is None:
            raise InputError(f"a series needs {article} in its settings or in 'common'")
    assert settings.model is not None and settings.hardware is not None
    setup = Setup.of(
        settings.model,
        settings.hardware,
        weights=settings.weights,
        activations=settings.activations,
        kv=settings.kv,
        assumptions=profiles.for_grid(settings.assumptions, settings.grid or "whole"),
        price=settings.price,
        changes=settings.changes,
        engine=settings.engine if engines is None else engines,
    )
    return expected(setup)


def pins_of(settings: Settings, write: Callable[[str, object], str] = as_setting) -> Pins:
    """Return the parallelism degrees and batch that settings fix.

    Parameters
    ----------
    settings : Settings
        Settings with parallelism degrees, batch and instance size.
    write : callable
        Function that formats a name and its value for error messages.

    Raises
    ------
    InputError
        If the parallelism degrees contradict the instance size.
    """
    degrees = {name: getattr(settings, name) for name in ("tp", "pp", "dp", "ep")}
    return instance_pins(degrees, settings.instance_gpus, batch=settings.batch, dcp=settings.dcp, write=write)


def space_of(settings: Settings, write: Callable[[str, object], str] = as_setting) -> Space:
    """Return the instances that settings allow to search; see :func:`pins_of` for the other inputs."""
    pipeline = True if settings.pipeline is None else settings.pipeline
    grid, largest = settings.grid or "whole", settings.max_instance_gpus
    return Space(pins_of(settings, write), largest, pipeline, grid, bool(settings.any_group), settings.gpus)


def requests_of(settings: Settings) -> Requests:
    """Create the requests of a service from settings.

    Raises InputError if the workload is unknown.
    """
    if settings.traffic is not None:
        return catalog.traffic(settings.traffic).requests
    reused = {"cached": settings.cached or 0, "shared_prefix": settings.shared_prefix or 0}
    return Requests.build({"isl": settings.isl, "osl": settings.osl, **reused}, origin="settings")


def promises_of(settings: Settings) -> Targets:
    """Create the SLOs on mean latencies from settings."""
    from inference_econ.answers.slo import Targets  # loads services, which decode steps do not need

    ttft, tpot, e2e = (seconds or math.inf for seconds in (settings.ttft, settings.tpot, settings.e2e))
    return Targets(ttft, tpot, "mean", e2e)


def speculation_of(settings: Settings, setup: Setup) -> Speculation | None:
    """Create the speculation method from settings; None without speculation.

    Raises
    ------
    InputError
        If a name is unknown, or the maximum draft length differs from the number of acceptance rates.
    """
    proposer = next((name for name in PROPOSERS if getattr(settings, name)), None)
    if proposer is None:
        return None
    speculation = Speculation.of(
        proposer,
        settings.acceptance,
        settings.max_draft if settings.draft_length is None else settings.draft_length,
        model=None if settings.draft is None else catalog.model(settings.draft),
        weights=settings.draft_weights,
        setup=setup,
    )
    return speculation if settings.draft_length is None else speculation.of_one_length()
