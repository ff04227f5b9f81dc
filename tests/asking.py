"""Calls of the Python API with all settings as keywords, sorted into a setup, a space and fixed values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated import pools as disaggregated
from inference_econ.answers.disaggregated.load import SteadyPools
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.speculate import Speculated
from inference_econ.answers.speculate import speculate as speculate_on
from inference_econ.engine import Speculation
from inference_econ.inputs import Length
from inference_econ.inputs.engine import profiles
from inference_econ.serving import Services

if TYPE_CHECKING:
    import numpy as np

_SETUP = ("weights", "activations", "kv", "assumptions", "price", "context", "changes", "engine")
_SPACE = ("max_accelerators", "pipeline", "grid")
_PINS = ("tp", "dp", "pp", "ep", "batch", "accelerators")


def _taken(settings: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: settings.pop(name) for name in names if name in settings}


def _setup(model: Any, hardware: Any, settings: dict[str, Any], grid: Any = "whole") -> ie.Setup:
    chosen = _taken(settings, _SETUP)
    return ie.Setup.of(model, hardware, **{**chosen, "assumptions": profiles.for_grid(chosen.get("assumptions"), grid)})


def pinned(**degrees: Any) -> ie.Pins:
    """Return fixed degrees; all others are searched."""
    return ie.Pins(**{**dict.fromkeys(("tp", "dp", "pp"), "any"), **degrees})


def _space(settings: dict[str, Any]) -> ie.Space:
    return ie.Space(pinned(**_taken(settings, _PINS)), **_taken(settings, _SPACE))


def setup(model: Any, hardware: Any, context: float = 0.0, **settings: Any) -> ie.Setup:
    """Return a setup, by default with the assumptions of the published study."""
    return ie.Setup.of(model, hardware, **{"assumptions": "paper", "context": context, **settings})


def frontier(model: Any, hardware: Any, traffic: ie.Traffic, **settings: Any) -> ie.Frontier:
    """Call :func:`inference_econ.decode_frontier`."""
    space = _space(settings)
    return ie.decode_frontier(_setup(model, hardware, settings, space.grid), traffic, space, **settings)


def explain(model: Any, hardware: Any, **settings: Any) -> ie.Explanation:
    """Call :func:`inference_econ.explain`."""
    pins = pinned(**_taken(settings, _PINS))
    apart = _taken(settings, ("context",))
    return ie.explain(_setup(model, hardware, settings), pins, **apart, **settings)


def assess(model: Any, hardware: Any, traffic: ie.Traffic, **settings: Any) -> ie.Assessment:
    """Call :func:`inference_econ.assess`."""
    observed = _taken(settings, ("tokens_per_second", "accelerators", "utilization", "batch", "throughput"))
    pins = pinned(**_taken(settings, _PINS))
    made = _setup(model, hardware, settings)
    return ie.assess(made, traffic, ie.Observation(**observed), pins, **settings)


def best_step_seconds(
    model: Any, hardware: Any, accelerators: Any, batch: Any, **settings: Any
) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
    """Call :func:`inference_econ.best_step_seconds`, by default with the assumptions of the study."""
    made = _setup(model, hardware, {"assumptions": "paper", **_taken(settings, _SETUP)})
    return ie.best_step_seconds(made, accelerators, batch, **settings)


def offer(model: Any, hardware: Any, requests: ie.Requests, **settings: Any) -> Services:
    """Call :func:`inference_econ.offer`; pins may be given as an object."""
    pins = settings.pop("pins", None)
    space = ie.Space(ie.Pins() if pins is None else pins, **_taken(settings, _SPACE))
    return ie.layouts(_setup(model, hardware, settings), requests, space, **settings)


def speculate(
    model: Any, hardware: Any, requests: ie.Requests, speculation: Speculation, **settings: Any
) -> Speculated:
    """Call :func:`inference_econ.answers.speculate.speculate`."""
    pins = pinned(**_taken(settings, _PINS))
    return speculate_on(_setup(model, hardware, settings), requests, speculation, pins)


def pools(model: Any, hardware: Any, requests: ie.Requests, **settings: Any) -> Pools:
    """Return pools of the layouts of a space; ``decode_on`` is other hardware for decode."""
    space, chosen = ie.Space(**_taken(settings, _SPACE)), _taken(settings, _SETUP)
    other, setup = settings.pop("decode_on", None), ie.Setup.of(model, hardware, **chosen)
    decode = setup if other is None else ie.Setup.of(model, other, **chosen)
    return pools_of(setup, requests, space, decode=decode, **settings)


def pools_of(
    setup: ie.Setup,
    requests: ie.Requests,
    space: ie.Space | None = None,
    *,
    decode: ie.Setup | None = None,
    speculation: Speculation | None = None,
    **settings: Any,
) -> Pools:
    """Call :func:`inference_econ.answers.disaggregated.pools.pools` with the layouts of a space."""
    prompts, alone = requests.replace(osl=Length(values=(1.0,))), setup.for_role(apart=True)
    writing = alone if decode is None else decode.for_role(apart=True)
    reading = ie.layouts(alone, prompts, space, speculation)
    largest = (space and space.max_accelerators) or math.inf
    return disaggregated.pools(reading, ie.layouts(writing, requests, space, speculation), largest=largest, **settings)


def apart_frontier(found: Pools) -> ie.ServiceFrontier:
    """Return the frontier of pools alone."""
    return service_frontier([Candidate(found.decode.services, SteadyPools(found))], ends=False)
