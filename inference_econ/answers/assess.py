"""A measured deployment held against what could be: decode steps, or services where lengths are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inference_econ._types import Array, Progress
from inference_econ.answers.assess_service import assess_service
from inference_econ.answers.assessment import Assessment
from inference_econ.answers.frontier import decode_frontier, make_grid
from inference_econ.answers.gaps import Gap, Shortage, StepPart, gap, step_parts
from inference_econ.answers.operating_point import ROUNDING, Observation, OperatingPoint, operating_point
from inference_econ.engine import (
    ContinuousLayouts,
    Grid,
    Pins,
    Plans,
    Setup,
    Space,
    asked_subject,
    evaluate,
    memory,
)
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import Requests, Traffic, catalog
from inference_econ.search import Point, candidates, compute
from inference_econ.serving import layouts


def assess(
    setup: Setup,
    traffic: Traffic | Requests,
    observed: Observation,
    pins: Pins | None = None,
    *,
    progress: Progress | None = None,
) -> Assessment:
    """Hold a measured deployment against the frontier of a profile and the ideal bound (``inference_econ.assess``).

    Parameters
    ----------
    setup : Setup
        What is served, on what, how.
    traffic : Traffic or Requests
        With lengths of prompts and answers the deployment is held against services, in continuous batching with the
        prefill of others; with a context alone, against decode steps.
    observed : Observation
        Speed, chips, and utilisation, batch or throughput.
    pins : Pins, optional
        The layout of an instance, as far as it is known; the fastest one is taken for the rest.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Assessment
        Gaps in speed and cost, and the time per token taken apart.

    Raises
    ------
    InputError
        If nobody knows the price, the layout contradicts the number of chips, or less than one sequence would be
        served.
    NothingFitsError
        If the model does not fit on so many chips, or in the layout.

    Examples
    --------
    >>> setup = Setup.of("llama_3_70b", "h100_sxm")
    >>> seen = Observation(tokens_per_second=40, batch=64, accelerators=8)
    >>> steps = assess(setup, Traffic(context=500), seen)
    >>> steps.same_size.verdict, round(steps.measured.throughput)
    ('behind', 2560)
    >>> assess(setup, Traffic(isl=400, osl=200), seen, Pins(tp=8)).requests.isl.mean
    400.0
    """
    pins = replace(Pins() if pins is None else pins, batch=None, accelerators=observed.instance_accelerators)
    pins.check_whole()
    if isinstance(traffic, Requests) or (traffic.isl is not None and traffic.osl is not None):
        return assess_service(setup, Requests.of(traffic), observed, pins, progress=progress)
    return _assess_steps(setup, traffic, observed, pins, progress)


def _assess_steps(
    setup: Setup, traffic: Traffic, observed: Observation, pins: Pins, progress: Progress | None
) -> Assessment:
    """Assessment of decode steps at a context."""
    accelerators = observed.instance_accelerators
    setup = replace(setup, context=traffic.mean_context, spread=traffic.spread)
    bound = replace(setup, assumptions=catalog.assumptions("ideal"))
    measured = operating_point(setup, observed)
    layout = decode_frontier(setup, traffic.replace(max_tokens_per_second=None), Space(pins))
    batches = _batches(measured, pins)
    subject = asked_subject(setup, traffic.isl, traffic.osl, float(accelerators), measured.instance_batch)

    def against(share: float, setting: Setup, grid: Grid) -> Gap:
        if progress is not None:
            progress(share, "frontiers")
        # The measured chips and batch need not be on the grid, and must not look better for it.
        wider = Grid(np.union1d(grid.accelerators, accelerators), np.union1d(grid.batch, batches), grid.layouts)
        front = compute(setting, wider, traffic=traffic)
        return gap(measured, setting, front, (front.tokens_per_second, front.dollars), front.point, subject)

    alike = make_grid(setup, Space(Pins(accelerators=accelerators)))
    same_size = against(0.0, setup, alike)
    anywhere = against(0.2, setup, make_grid(setup, Space()))
    # No server splits heads or experts better than evenly, whether that is possible or not.
    ideal = against(0.8, bound, replace(alike, layouts=ContinuousLayouts(pipeline=False)))
    grid = replace(layout.grid, batch=batches)
    parts: tuple[StepPart, ...] = ()
    shortage = predicted = None
    try:
        predicted = compute(setup, grid).fastest()
    except NothingFitsError:
        shortage = _shortage(setup, grid, measured.instance_batch)
    else:
        parts = _parts(predicted, bound, measured)
    if progress is not None:
        progress(1.0, "done")
    tried = layouts(setup, grid).shape[0]
    return Assessment(setup, None, measured, anywhere, same_size, ideal, predicted, tried, parts, shortage)


def _batches(measured: OperatingPoint, pins: Pins) -> Array:
    """The measured batch as whole sequences that groups of chips can share: the fullest group sets the pace."""
    chips = measured.instance_accelerators
    groups = [number for number in range(1, chips + 1) if chips % number == 0 and number % pins.groups == 0]
    return np.unique([np.ceil(measured.instance_batch / number - ROUNDING) * number for number in groups])


def _parts(predicted: Point, bound: Setup, measured: OperatingPoint) -> tuple[StepPart, ...]:
    """The predicted step beside the ideal one, and what is left of the measured time."""
    single = np.ones(1)
    ideal = evaluate(bound, Plans.of(single * predicted.accelerators, single * predicted.batch, single), "1d").parts
    left = measured.seconds - 1.0 / predicted.tokens_per_second_per_user
    return step_parts(predicted.parts, {name: float(seconds[0]) for name, seconds in ideal.items()}, left)


def _shortage(setup: Setup, grid: Grid, batch: float) -> Shortage:
    """Shortage of the layout that lacks least."""
    lacking = []
    for some in candidates(setup, grid):
        short = np.nonzero((some.codes == memory.WEIGHTS) | (some.codes == memory.CACHE))
        plans = some.plans.at(short)
        needed = setup.memory(plans)
        arrays = (needed.weight_bytes, needed.kv_bytes, needed.available_bytes, plans.batch)
        lacking.append(np.stack([np.broadcast_to(array, plans.shape) for array in arrays]))
    weights, cache, available, held = np.concatenate(lacking, axis=1)
    least = int(np.argmin(weights + cache - available))
    most = int(max(held[least] * (available[least] - weights[least]) / cache[least], 0.0))
    return Shortage(batch, float(weights[least] + cache[least]), float(available[least]), most)
