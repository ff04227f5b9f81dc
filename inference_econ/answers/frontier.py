"""Pareto-optimal deployments for decode steps alone, and the fastest step of each instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from inference_econ._types import Progress
from inference_econ.answers.layout_services import check_space, cpu_layers_advice, refuse_impossible
from inference_econ.engine import Setup, Space, Speculation, largest_sparsity, memory
from inference_econ.engine.layouts import grids
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Traffic
from inference_econ.search import Frontier, Sampling, compute
from inference_econ.search.fastest import fastest

#: Largest accepted number of GPUs, and largest accepted batch [1].
_MOST = 1e12
#: Largest instance of a grid [GPUs].
_LARGEST_INSTANCE = 2.0**18


def decode_frontier(
    setup: Setup,
    traffic: Traffic,
    space: Space | None = None,
    *,
    speculation: Speculation | None = None,
    sampling: Sampling | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """Compute the cost-speed frontier of decode steps, without prefill (``inference_econ.decode_frontier``).

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions, at the mean context of the workload.
    traffic : Traffic
        Request lengths, and the demand if the number of tokens is limited.
    space : Space, optional
        Deployments to search; by default all with integer parallelism degrees.
    speculation : Speculation, optional
        Speculative decoding. Plain decoding is used for deployments in which speculation is slower.
    sampling : Sampling, optional
        Restrict the search to the points of a logarithmic scan, as in Erdil (2025). By default, the search is exact.
    progress : callable, optional
        Receives the completed share of the work.

    Returns
    -------
    Frontier
        Pareto-optimal points, the slowest and cheapest first.

    Raises
    ------
    InputError
        If the price is unknown, a limit is out of range, the model does not support the speculation method, or fixed
        parallelism degrees do not divide the model.
    NothingFitsError
        If no deployment is feasible; the message has the number of deployments for each reason.

    Examples
    --------
    >>> front = decode_frontier(Setup.of("llama_3_8b", "h100_sxm"), Traffic(context=1000), Space(max_accelerators=2))
    >>> front.fastest().accelerators
    2.0
    """
    tried = Space() if space is None else space
    if sampling is not None and not (sampling.points >= 1 and 0 < sampling.decades < np.inf):
        raise InputError(f"a sampling needs points >= 1 and decades > 0, got {sampling}")
    served = replace(setup, context=traffic.mean_context, spread=traffic.spread, contexts=traffic.shares)
    try:
        return compute(
            served,
            make_grid(served, tried),
            speculation=speculation,
            max_tokens_per_second=traffic.max_tokens_per_second,
            sampling=sampling,
            traffic=traffic,
            progress=progress,
        )
    except NothingFitsError:
        if tried.grid == "whole":
            refuse_impossible(served, tried)
        raise


def make_grid(setup: Setup, space: Space) -> grids.InstanceGrid:
    """Create the grid of instances that a search space allows for a setup.

    Raises
    ------
    InputError
        If fixed parallelism degrees contradict each other, the model, the largest instance or the kind of grid.
    NothingFitsError
        If the weights do not fit in the largest allowed instance.
    """
    # Reject fixed parallelism degrees that contradict the setup or the space, before a grid is built.
    degrees = [name for name in space.pins.given() if name not in ("batch", "accelerators")]
    if space.grid == "paper" and degrees:
        raise InputError(
            f"{degrees[0]} cannot be fixed on the study's grid, because its degrees are not integers; fix only batch "
            "and instance_gpus, or use grid 'whole'"
        )
    check_space(setup, space)
    pins, largest = space.pins, 1 if setup.assumptions.cpu.layers else space.max_accelerators
    weights = memory.weight_bytes(setup.model, setup.precision, setup.assumptions.capacity.host_weights)
    usable = setup.hardware.hbm_bytes * setup.assumptions.capacity.usable_memory
    smallest = weights / usable
    most = _LARGEST_INSTANCE if largest is None else min(largest, _LARGEST_INSTANCE)
    only = pins.size
    if only is None and not smallest <= (np.floor(most) if space.grid == "whole" else most):
        raise NothingFitsError(
            f"nothing fits: {setup.model.name} ({setup.precision.weights}) needs {weights / 1e9:.4g} GB for its "
            f"weights, at least {np.ceil(smallest):.7g} accelerators of {usable / 1e9:.4g} usable GB "
            f"({setup.hardware.name}); at most {most:.7g} are allowed{cpu_layers_advice(setup)}"
        )
    if space.grid == "whole":
        limit = None if largest is None else int(most)
        chips = setup.hardware if setup.engines else None
        return grids.whole_grid(smallest, pipeline=space.pipeline, largest=limit, pins=pins, hardware=chips)
    study = grids.paper_grid(
        min(smallest, most),
        largest_sparsity(setup.model, setup.assumptions.experts),
        pipeline=space.pipeline,
        largest=most,
    )
    return grids.InstanceGrid(
        study.accelerators if only is None else np.array([float(only)]),
        study.batch if pins.batch is None else np.array([float(pins.batch)]),
        study.layouts,
    )


def best_step_seconds(
    setup: Setup, accelerators: npt.ArrayLike, batch: npt.ArrayLike, *, new_tokens: int = 1, pipeline: bool = False
) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
    """Time of one decode step in the fastest layout, for each instance size and batch [s].

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats and assumptions; the setup has the context.
    accelerators, batch : array_like
        Instance sizes [GPUs] and numbers of sequences [1]; positive, possibly fractional. Both arrays are broadcast to
        a common shape (...).
    new_tokens : int
        Tokens per sequence and step [1]. A step with several new tokens verifies a draft.
    pipeline : bool
        True to try pipeline parallelism.

    Returns
    -------
    numpy.ma.MaskedArray, shape (...)
        Step times [s]; infeasible instances are masked.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> setup = Setup.of("paper/llama_3_70b", "paper/h100", assumptions="paper")
    >>> best_step_seconds(setup, [1, 8], 16).round(5)
    masked_array(data=[--, 0.0111],
                 mask=[ True, False],
           fill_value=1e+20)
    """
    if not (new_tokens >= 1 and float(new_tokens).is_integer()):
        raise InputError(f"new_tokens must be an integer >= 1, got {new_tokens:g}")
    try:
        axes: list[Any] = [np.ma.asarray(axis, dtype=float) for axis in (accelerators, batch)]
        # Masked inputs stay masked in the result.
        masked = np.broadcast_arrays(*(np.ma.getmaskarray(axis) for axis in axes))
        sizes, batches = np.broadcast_arrays(*(axis.filled(1.0) for axis in axes))
    except (TypeError, ValueError) as error:
        raise InputError(f"accelerators and batch must be numbers that broadcast to one shape: {error}") from error
    for name, values in (("accelerators", sizes), ("batch", batches)):
        if not np.all((values > 0) & (values <= _MOST)):
            raise InputError(f"{name} must be positive and at most {_MOST:g}")
    seconds = fastest(
        setup, sizes.ravel(), batches.ravel(), grids.ContinuousLayouts(pipeline), new_tokens=new_tokens
    ).seconds.reshape(sizes.shape)
    return np.ma.masked_array(seconds, mask=~np.isfinite(seconds) | masked[0] | masked[1])
