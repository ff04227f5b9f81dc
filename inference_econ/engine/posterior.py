"""Expected step times of engines that nobody measured for a model on a GPU: pulled towards the other engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import evidence
from inference_econ.engine.evidence import bare_name
from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.engine.measured_corrections import SetupLevels
from inference_econ.engine.memory import weight_bytes
from inference_econ.engine.prefill import prefill
from inference_econ.engine.setup import Setup, changed, without_exceptions
from inference_econ.engine.step import step_seconds
from inference_econ.inputs import (
    Assumptions,
    HardwareSpec,
    ModelSpec,
    Precision,
    ServingEngine,
    catalog,
    engines_for,
    with_engine,
)
from inference_econ.inputs.engine import profiles

#: Share of the way from an engine's own prediction to the mean of all engines [1].
#:
#: The predicted difference between two engines that were not measured for a model on a GPU says little: over 89 pairs
#: kept apart, measured differences have a standard deviation of 0.46, predicted ones 0.31, and their correlation is
#: 0.26. The regression of measured on predicted differences has a slope of 0.47. The expected time is then the mean of
#: the engines and 0.47 of what is predicted beyond it.
PULL = 0.5
#: ln of the factor on steps in a layout that no engine was measured in, where others were measured with the model on
#: the GPU [1]; by whether the engine was.
#:
#: Of the fixed servers of the ruler (docs/evidence/costs.md) answers in such layouts cost less than what was measured,
#: by a median of 16 % if the engine was measured and of 30 to 50 % if not; answers in measured layouts were right. A
#: step that is longer by 1 % makes a token of the same speed dearer by about 1.7 %.
UNKNOWN_LAYOUT = {True: 0.1, False: 0.25}
#: Where engines are compared: sequences of an instance, and the tokens of their contexts and prompts [1], [tokens].
_BATCHES, _TOKENS = (8.0, 64.0), 2000.0


def opinions_of(engine: ServingEngine, hardware: HardwareSpec, changes: tuple[str, ...] = ()) -> Assumptions:
    """The profile of an engine on a GPU with its rules, and what-ifs."""
    opinions = without_exceptions(profiles.for_hardware(hardware, engine.name, changes=changes), changes)
    return with_engine(opinions, engine.facts, hardware, changed(changes))


def expected(setup: Setup) -> Setup:
    """The setup of one engine with the expected times of its steps.

    Parameters
    ----------
    setup : Setup
        Of one engine, under its own profile.

    Returns
    -------
    Setup
        Where others were measured, layouts that nobody measured with the model on the GPU take longer, see
        :data:`UNKNOWN_LAYOUT`. An engine that was not measured with it is pulled towards the others: its steps that
        decode, and those that prefill, take as much longer or shorter as brings them half of the way to the mean of all
        engines that can start the model, in logarithms. Rounds of speculation are not pulled: engines differ in what
        they can propose, which the mean would hide.
    """
    left = setup.left_open
    if left is None or len(setup.engines) != 1 or setup.assumptions != left.assumptions:
        return setup
    engine = setup.engines[0].name
    weights = setup.precision.experts if has_experts(setup.model) else setup.precision.weights
    subject = bare_name(setup.model.name, weights), setup.hardware.name
    engines = evidence.runs().engines(*subject)
    measured = engine in engines
    levels = setup.levels or SetupLevels(engine, None, (), (), (), weights)
    if engines:
        levels = replace(levels, known=evidence.runs().layouts(*subject), unknown=UNKNOWN_LAYOUT[measured])
        setup = replace(setup, levels=levels)
    if measured:
        return setup
    precision = replace(setup.precision, kv=setup.precision.activations)
    times = _times(_Question(setup.model, setup.hardware, precision, left.changes))
    if len(times) < 2 or engine not in times:
        return setup
    decode, reading = (PULL * (np.mean(list(times.values()), axis=0) - times[engine])).tolist()
    return replace(setup, levels=replace(levels, pull=(decode, reading)))


class _Question(NamedTuple):
    """What the engines are compared for; two are equal if their specifications are the same objects."""

    model: ModelSpec
    hardware: HardwareSpec
    precision: Precision
    changes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash((id(self.model), id(self.hardware), self.precision, self.changes))


@lru_cache(maxsize=8)
def _times(question: _Question) -> Mapping[str, Array]:
    """Mean logarithms of the times of steps that decode and that prefill in usual layouts by engine, shape (2,) [1]."""
    model, hardware, precision, changes = question
    least = weight_bytes(model, precision) / hardware.hbm_bytes
    sizes = [size for size in (1.0, 2.0, 4.0, 8.0) if size > least] or [16.0]
    chips, batches = (axis.ravel() for axis in np.meshgrid(sizes, _BATCHES))
    plans = Plans.of(chips, batches, np.ones(chips.size))
    times: dict[str, Array] = {}
    with catalog.uncopied():
        for engine in engines_for(model, hardware, precision):
            setup = Setup(
                model, hardware, precision, _TOKENS, opinions_of(engine, hardware, changes), engines=(engine,)
            ).with_corrections(engine.name, engine.facts.version)
            steps = np.minimum.reduce(step_seconds(setup, plans))
            reads = prefill(setup, plans, _TOKENS).seconds
            times[engine.name] = np.array([np.log(steps).mean(), np.log(reads).mean()])
    return times
