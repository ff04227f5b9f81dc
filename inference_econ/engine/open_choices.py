"""Set the engine and the KV-cache format of a setup, if the query does not set them."""

from __future__ import annotations

from dataclasses import replace

from inference_econ.engine.posterior import expected, opinions_of
from inference_econ.engine.setup import Setup, with_usual_cache
from inference_econ.errors import InputError
from inference_econ.inputs import ServingEngine, check_dtype, engines_for, lacks


def has_recipes(setup: Setup) -> bool:
    """True if published recipes of engines apply to a setup, which is only the case under the default profiles."""
    return setup.left_open is not None and setup.left_open.assumptions == setup.assumptions


def lacks_engine(setup: Setup) -> bool:
    """True if no known engine can run the model on the chip in these formats.

    The result is False for the published study, which assumes no engine.
    """
    idle = setup.assumptions.layout.attention_groups == "idle"
    return not setup.engines and not idle and not engines_for(setup.model, setup.hardware, setup.precision)


def with_cache(setup: Setup, kv: str | None) -> Setup:
    """Return the setup with the KV-cache format of a recipe, if the query does not set a format.

    If the recipe has no cache format (None), the format of the activations is used.

    Raises
    ------
    InputError
        If the chip or an engine does not support the format.
    """
    kv = kv or setup.precision.activations
    if setup.left_open is None or not setup.left_open.cache or kv == setup.precision.kv:
        return setup
    check_dtype(kv, "kv")
    precision = replace(setup.precision, kv=kv)
    missing = [lacks(engine, setup.model, setup.hardware, precision) for engine in setup.engines]
    if any(missing):
        raise InputError(str(missing[0]))
    return replace(setup, precision=precision)


def for_engine(setup: Setup, engine: ServingEngine) -> Setup:
    """Return the setup for one engine.

    The returned setup has the engine's profile and KV-cache format, and only layouts that the engine can start. If the
    setup allows all layouts, only its profile changes.

    Raises
    ------
    InputError
        If a change of an input (``assumptions.FIELD=VALUE``) in the setup is invalid.
    """
    left = setup.left_open
    if left is None:
        return setup
    if not left.engine:
        return expected(setup)
    able = (engine,) if setup.engines else ()
    precision = setup.precision
    if left.cache:
        precision = with_usual_cache(precision, able, setup.model, setup.hardware)
    opinions = opinions_of(engine, setup.hardware, left.changes)
    run = replace(setup, assumptions=opinions, engines=able, precision=precision)
    run = run.with_corrections(engine.name, engine.facts.version)
    return expected(replace(run, left_open=replace(left, engine=False, assumptions=run.assumptions)))
