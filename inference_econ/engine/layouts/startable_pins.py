"""Check that an engine can start fixed parallelism degrees; errors name the violated rule and the nearest layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.pins import Pins, divisors, nearest
from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.engine.layouts.startable import (
    RuleCode,
    any_can_start,
    indivisible,
    indivisible_context,
    rule_text,
    rules_of,
)
from inference_econ.engine.protocols import Served
from inference_econ.errors import InputError
from inference_econ.inputs import ModelSpec, ServingEngine, TensorLayout

#: Values to search for degrees that are not fixed, and for alternatives to fixed values that no engine can start [1].
_DEGREES = (1, 2, 4, 8, 16, 32, 64)
#: Weights in the distance between layouts [1]: of a factor of two in instance size, and of a factor of two in pipeline
#: stages that are not fixed. A factor of two in a fixed degree has the weight 1.
_SIZE_WEIGHT, _STAGES_WEIGHT = 4.0, 2.0


def check_startable(setup: Served, pins: Pins, cut: TensorLayout = "1d") -> None:
    """Reject fixed parallelism degrees that no engine can start for any values of the other degrees.

    Parameters
    ----------
    setup : Served
        Engines, model and chip; if no engines are given, all degrees are accepted.
    pins : Pins
        Fixed parallelism degrees, as integers.
    cut : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).

    Raises
    ------
    InputError
        If no engine can start the fixed degrees. The message names the violated rules and the nearest layout that an
        engine can start.
    """
    if not setup.engines or not _degrees(pins):
        return
    if setup.assumptions.cpu.layers and (pins.size or pins.chips) > 1:
        raise InputError(f"--cpu-layers: layers on the CPU are modeled for one GPU (got {pins.text})", option="tp")
    if cut != "1d":
        text = rule_text("cut", setup.engines, setup.model)
        raise InputError(
            f"cut {cut}: {text}; nearest that can be started: 1d; any is answered with --any-layout", option="cut"
        )
    kept = _layouts(setup, {name: (int(value),) for name, value in _degrees(pins).items()}, pins.dcp)
    if kept is None or _able(setup, kept).any():
        return
    # For each engine, the message names the rule that most plans violate.
    broken: dict[RuleCode, list[ServingEngine]] = {}
    for engine in setup.engines:
        rules = rules_of(engine, setup.model, setup.hardware.generation, kept)
        worst = max(rules, key=lambda rule: np.broadcast_to(rule.where, kept.shape).sum())
        broken.setdefault(worst.code, []).append(engine)
    why = "; ".join(rule_text(code, engines, setup.model) for code, engines in broken.items())
    free = _layouts(setup, {name: (*_DEGREES, int(value)) for name, value in _degrees(pins).items()}, 1)
    raise InputError(
        f"{_text(_degrees(pins), pins.dcp)}: no layout with that can be started; {why}. "
        f"{_nearest(setup, free, pins)}; any layout is answered with --any-layout",
        option=next(iter(_degrees(pins)), "any_layout"),
    )


def _degrees(pins: Pins) -> dict[str, float]:
    return {name: value for name, value in pins.given().items() if name in ("tp", "dp", "pp", "ep")}


def _text(degrees: dict[str, float], dcp: float | None) -> str:
    listed = [f"{name}={value:g}" for name, value in degrees.items()]
    return ", ".join([*listed, *([f"dcp={dcp:g}"] if dcp and dcp > 1 else [])])


def _layouts(setup: Served, degrees: dict[str, Sequence[int]], dcp: float | None) -> Plans | None:
    """Plans with the given parallelism degrees that split the model evenly; None if no such plan exists."""
    axes = (dict.fromkeys(degrees.get(name, _DEGREES)) for name in ("tp", "dp", "pp"))
    rows = [
        (tp * dp * pp, tp, pp, ep)
        for tp, dp, pp in itertools.product(*axes)
        for ep in degrees.get("ep", divisors(tp, dp) if has_experts(setup.model) else (1,))
        if tp * dp % ep == 0 and pp <= setup.model.layers
    ]
    if not rows:
        return None
    size, ranks, pp, ep = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    plans = Plans(size, size * pp, pp, ranks, ep, whole=True, dcp=float(dcp or 1))
    uneven = [problem.where for problem in indivisible(setup.model, plans, "1d", setup.assumptions)]
    whole = ~np.any(np.broadcast_arrays(*uneven), axis=0)
    return plans.at((np.flatnonzero(np.broadcast_to(whole, plans.shape)),)) if whole.any() else None


def _able(setup: Served, plans: Plans) -> Array:
    """True for plans that at least one of the setup's engines can start."""
    able = any_can_start(setup.engines, setup.model, setup.hardware.generation, plans)
    return np.asarray(np.broadcast_to(able, plans.shape))


def _nearest(setup: Served, plans: Plans | None, pins: Pins) -> str:
    """Text with the most similar layout that an engine can start."""
    able = np.zeros(0, dtype=bool) if plans is None else _able(setup, plans)
    if plans is None or not able.any():
        return "None like it can be"
    some = plans.at((np.flatnonzero(able),))
    columns = {"tp": some.attention_ranks, "dp": some.stage / some.attention_ranks, "pp": some.pp, "ep": some.ep}
    wanted = _degrees(pins)
    chips = float(pins.chips)
    far = _SIZE_WEIGHT * np.abs(np.log2(some.accelerators / chips)) + sum(
        np.abs(np.log2(np.asarray(columns[name]) / value)) for name, value in wanted.items()
    )
    far = far + (wanted.get("pp", 1.0) == 1.0) * _STAGES_WEIGHT * np.log2(some.pp)
    best = int(np.argmin(far))
    shown = {name: float(np.asarray(column)[best]) for name, column in columns.items()}
    if not has_experts(setup.model):
        del shown["ep"]
    return f"Nearest that can be: {_text(shown, None)}"


def check_pins(model: ModelSpec, pins: Pins) -> None:
    """Reject parallelism degrees that a model does not support at any instance size.

    Parameters
    ----------
    model : ModelSpec
        Model that is served.
    pins : Pins
        Fixed parallelism degrees.

    Raises
    ------
    InputError
        If there are more pipeline stages than layers, or a stage cannot be divided into the expert-parallel ranks. If
        there are more context-parallel ranks than copies of the KV cache.
    """
    if pins.pp is not None and pins.pp > model.layers:
        raise InputError(
            f"pp={pins.pp}: the {model.layers} layers of {model.name} fill at most {model.layers} pipeline stages"
        )
    if pins.ep is not None and pins.tp is not None and pins.dp is not None:
        stage = int(pins.tp * pins.dp)
        if stage % pins.ep:
            raise InputError(
                f"ep={pins.ep}: the {stage} accelerators of a stage, tp x dp, do not split over {pins.ep} "
                f"expert-parallel ranks; nearest: {nearest(int(pins.ep), divisors(int(pins.tp), int(pins.dp)))}"
            )
    if pins.dcp is None or pins.tp is None:
        return
    dcp, specs, ranks = pins.dcp, [block.attention for block in model.blocks], np.asarray(float(pins.tp))
    problems = {
        degree: [problem for spec in specs for problem in indivisible_context(spec, ranks, degree)]
        for degree in divisors(pins.tp)
    }
    possible = [
        degree
        for degree, found in problems.items()
        if degree == 1 or not any(np.any(problem.where) for problem in found)
    ]
    if dcp not in possible:
        heads = max(spec.cache.heads for spec in specs)
        copies = max(pins.tp // heads, 1.0)
        raise InputError(
            f"dcp={dcp} on tp={pins.tp}: {model.name} has {heads:g} KV head{'' if heads == 1 else 's'}, so that its "
            f"ranks hold {copies:g} cop{'y' if copies == 1 else 'ies'} of a sequence's cache to share; "
            f"nearest: {nearest(dcp, possible)}"
        )
