"""Toy model of section 2.2 of Erdil (2025), and the square-root law of the time per token."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.layout_services import make_grid
from inference_econ.answers.settings import setup_of
from inference_econ.engine import Plans, Setup, Space, memory
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import money, pareto, roofline
from inference_econ.inputs import Settings, SquareRootAsk, ToyAsk, with_defaults
from inference_econ.records.sources import priced_sources
from inference_econ.studies.results import Curve, Result, SquareRootLaw
from inference_econ.studies.scenario import ScenarioRun


class _Points(NamedTuple):
    """Instances of the toy model, in arrays of shape (n,)."""

    seconds: Array
    """Step time [s]."""
    accelerators: Array
    """Number of GPUs [1]."""
    batch: Array
    """Batch [1]."""


def answer_square_root_law(run: ScenarioRun, ask: SquareRootAsk) -> Result:
    """Compare published times per token with the square-root law of the parameter count."""
    parameters = np.array([float(model.parameters) for model in ask.measured])
    measured = np.array([model.latency for model in ask.measured])
    predicted = roofline.square_root_law(parameters, parameters[0], measured[0])
    labels = tuple(model.label for model in ask.measured)
    return run.result(comparison=SquareRootLaw(labels, parameters, measured, predicted))


def answer_toy(run: ScenarioRun, ask: ToyAsk) -> Result:
    """Run a scenario of the toy model."""
    return run.drawn(ask, partial(_curve, ask))


def _curve(ask: ToyAsk, label: str, settings: Settings) -> Curve:
    """Compute the toy model for one model and GPU.

    Parameters
    ----------
    ask : ToyAsk
        Constants of the toy model, and whether to compute the exact optimum or the frontier.
    label : str
        Label of the curve.
    settings : Settings
        Model, GPU and other settings. Missing settings have the values in
        :data:`inference_econ.inputs.scenarios.scenario.DEFAULTS`.

    Returns
    -------
    Curve
        Curve with the points of the frontier, or with a single point for the optimum.

    Raises
    ------
    InputError
        If a name or setting is invalid.
    NothingFitsError
        If the model and its KV cache fit on no instance of the grid.
    """
    filled = with_defaults(settings)
    setup = setup_of(filled.model_copy(update={"assumptions": filled.assumptions or "paper"}))
    setup, price = replace(setup, context=filled.context or 0.0), setup.dollars_per_accelerator_hour
    points = _optimum(ask, setup) if ask.kind == "toy_optimum" else _fitting(ask, setup, filled, label)
    dollars = money.dollars_per_million_tokens(points.accelerators, points.seconds, points.batch, price)
    best = pareto.undominated(points.seconds, dollars)
    if filled.sampling is not None:
        best = best[pareto.sampled(points.seconds[best], filled.sampling.points, filled.sampling.decades)]
    best = best[::-1]
    return Curve(
        label,
        1.0 / points.seconds[best],
        dollars[best],
        points.accelerators[best],
        points.batch[best],
        sources=priced_sources(setup),
    )


def bytes_per_parameter(setup: Setup) -> float:
    """Mean size of a stored weight [B]."""
    return memory.weight_bytes(setup.model, setup.precision) / setup.model.total_parameters


def _optimum(ask: ToyAsk, setup: Setup) -> _Points:
    """Fastest instance at its critical batch, from the exact solution."""
    width, bandwidth = bytes_per_parameter(setup), setup.hardware.hbm_bytes_per_second
    network = roofline.ToyNetwork(ask.reductions, ask.hop)
    toy = roofline.ToyModel(setup.model.total_parameters, setup.model.layers, width, bandwidth, network=network)
    best = roofline.toy_minimum_latency(toy)
    batch = roofline.critical_batch(width, bandwidth, setup.rates.flops_per_second(setup.precision.weights))
    return _Points(*np.atleast_1d(best.seconds, best.accelerators, batch))


def _fitting(ask: ToyAsk, setup: Setup, filled: Settings, label: str) -> _Points:
    """Instances and batches of the published study's grid that fit in memory and do not exceed the demand."""
    sizes, batches = make_grid(setup, Space(grid="paper", pipeline=False)).pairs()
    toy = roofline.ToyModel(
        setup.model.total_parameters,
        setup.model.layers,
        bytes_per_parameter(setup),
        setup.rates.bytes_per_second,
        setup.rates.flops_per_second(setup.precision.weights),
        roofline.ToyNetwork(ask.reductions, ask.hop, ask.base),
    )
    seconds = roofline.toy_latency(toy, sizes, batches)
    fits, demand = setup.memory(Plans.of(sizes, batches, np.ones((1, 1)))).fits, filled.max_tokens_per_second
    if demand is not None:
        fits = fits & (batches <= demand * seconds)
    if not fits.any():
        limit = "" if demand is None else f", or each produces more than {demand:g} tokens/s"
        raise NothingFitsError(
            f"nothing fits: {label}: no instance of the grid holds weights and cache of {setup.model.name}{limit}"
        )
    return _Points(seconds[fits], *(np.broadcast_to(axis, seconds.shape)[fits] for axis in (sizes, batches)))
