"""Ask one question of the engine: from names and settings to a frontier or to seconds."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from inference_econ._types import Progress
from inference_econ.engine import economics, memory
from inference_econ.engine.layouts import grids
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.layouts.plans import has_experts
from inference_econ.engine.operators.feed_forward import largest_sparsity
from inference_econ.engine.setup import Setup
from inference_econ.engine.speculation import Speculation
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog, profiles
from inference_econ.inputs.asks import GridName
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.catalog import Name
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.precision import Precision
from inference_econ.inputs.traffic import Traffic
from inference_econ.search.every_plan import common_problems
from inference_econ.search.fastest import fastest
from inference_econ.search.frontier import Frontier, Sampling, compute

#: Longer contexts [tokens], more accelerators and larger batches [1] are typing errors.
_MOST = 1e12
#: No grid has larger instances [1].
_LARGEST_INSTANCE = 2.0**18


def solve(
    model: ModelSpec | Name,
    hardware: HardwareSpec | Name,
    traffic: Traffic,
    *,
    assumptions: Assumptions | Name | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    price: float | None = None,
    grid: GridName = "whole",
    pipeline: bool = True,
    speculation: Speculation | None = None,
    max_accelerators: float | None = None,
    tp: int | None = None,
    dp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    batch: float | None = None,
    accelerators: float | None = None,
    sampling: Sampling | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The cost-speed frontier of a model on a chip (``inference_econ.search.frontier``).

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    traffic : Traffic
        Lengths, and demand if it is limited.
    assumptions : Assumptions, name or path, optional
        Opinions; by default the profile of the chip's generation for whole numbers, ``paper`` for the study's grid
        (:func:`inference_econ.inputs.profiles.assumed`).
    weights, activations, kv : str, optional
        Number formats; published ones and 16 bits by default.
    price : float, optional
        Of one accelerator [USD/h]; by default the first price of its file.
    grid : {'whole', 'paper'}
        Whole-number instances and layouts, or the published study's logarithmic grid.
    pipeline : bool
        Try pipeline depths other than 1.
    speculation : Speculation, optional
        Speculate where it helps.
    max_accelerators : float, optional
        Largest instance [1].
    tp, dp, pp, ep : int, optional
        Pin a degree, on the whole-number grid: accelerators that share attention, groups of them in a stage,
        pipeline stages, expert-parallel ranks of a stage [1].
    batch, accelerators : float, optional
        Pin the sequences decoded together, or the size of the instance; they need not be on the grid [1].
    sampling : Sampling, optional
        Only what a logarithmic scan visits, as in the published study; exact by default.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Frontier
        Slowest and cheapest point first.

    Raises
    ------
    InputError
        If a name, format, price or limit cannot be used, the speculation does not go with the model, or pinned degrees
        do not divide what they must.
    NothingFitsError
        If no plan of the grid is feasible, with the counts of the reasons.
    """
    if grid not in get_args(GridName):
        raise InputError(f"grid: got {grid!r}; allowed: {', '.join(sorted(get_args(GridName), reverse=True))}")
    if max_accelerators is not None and not max_accelerators > 0:
        raise InputError(f"max_accelerators must be positive, got {max_accelerators:g}")
    if sampling is not None and not (sampling.points >= 1 and 0 < sampling.decades < np.inf):
        raise InputError(f"a sampling needs points >= 1 and decades > 0, got {sampling}")
    opinions = profiles.assumed(assumptions, hardware, grid)
    setup = ask(
        model, hardware, traffic.mean_context, assumptions=opinions, weights=weights, activations=activations, kv=kv
    )
    rate = economics.rate(setup.hardware, price)
    if speculation is not None and not isinstance(speculation, Speculation):
        raise InputError(
            "speculation must be a Speculation, for example ie.Speculation.of('draft', 0.8, "
            f"model=ie.model('llama_3_8b')), got {speculation!r}"
        )
    pins = Pins(tp, dp, pp, ep, batch, accelerators)
    try:
        return compute(
            setup,
            make_grid(setup, grid, pipeline=pipeline, largest=max_accelerators, pins=pins),
            rate,
            speculation=speculation,
            max_tokens_per_second=traffic.max_tokens_per_second,
            sampling=sampling,
            traffic=traffic,
            progress=progress,
        )
    except NothingFitsError:
        if grid == "whole" and pins.given():
            _refuse_impossible(setup, pins, pipeline=pipeline)
        raise


def ask(
    model: ModelSpec | Name,
    hardware: HardwareSpec | Name,
    context: float,
    *,
    assumptions: Assumptions | Name = "paper",
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
) -> Setup:
    """A question from specs or names.

    Raises
    ------
    InputError
        If a name or number format cannot be used, or the context is no sensible number of tokens.
    """
    if not 0 <= context <= _MOST:
        raise InputError(f"the context must be a number of tokens from 0 to {_MOST:g}, got {context:g}")
    served = model if isinstance(model, ModelSpec) else catalog.model(model)
    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    opinions = assumptions if isinstance(assumptions, Assumptions) else catalog.assumptions(assumptions)
    return Setup.of(served, chip, Precision.of(served, weights, activations, kv), context, opinions)


def make_grid(
    setup: Setup, grid: GridName, *, pipeline: bool, largest: float | None = None, pins: Pins | None = None
) -> grids.Grid:
    """The grid of instances for a question.

    Raises
    ------
    InputError
        If what is pinned contradicts itself, the model, the limit or the kind of grid.
    NothingFitsError
        If the largest instance allowed cannot hold the weights.
    """
    fixed = Pins() if pins is None else pins
    _check_pins(setup, fixed, grid, pipeline=pipeline, largest=largest)
    weights = memory.weight_bytes(setup.model, setup.precision)
    usable = setup.hardware.hbm_bytes * setup.assumptions.capacity.usable_memory
    smallest = weights / usable
    most = _LARGEST_INSTANCE if largest is None else min(largest, _LARGEST_INSTANCE)
    only = fixed.size
    if only is None and not smallest <= (np.floor(most) if grid == "whole" else most):
        raise NothingFitsError(
            f"nothing fits: {setup.model.name} ({setup.precision.weights}) needs {weights / 1e9:.4g} GB for its "
            f"weights, at least {np.ceil(smallest):.7g} accelerators of {usable / 1e9:.4g} usable GB "
            f"({setup.hardware.name}); at most {most:.7g} are allowed"
        )
    if grid == "whole":
        return grids.whole_grid(smallest, pipeline=pipeline, largest=None if largest is None else int(most), pins=fixed)
    found = grids.paper_grid(
        min(smallest, most),
        largest_sparsity(setup.model, setup.assumptions),
        pipeline=pipeline,
        largest=most,
    )
    return grids.Grid(
        found.accelerators if only is None else np.array([float(only)]),
        found.batch if fixed.batch is None else np.array([float(fixed.batch)]),
        found.layouts,
    )


def _check_pins(setup: Setup, pins: Pins, grid: GridName, *, pipeline: bool, largest: float | None) -> None:
    """Refuse what can be seen without trying."""
    if grid == "paper":
        degrees = [name for name in pins.given() if name not in ("batch", "accelerators")]
        if degrees:
            raise InputError(
                f"{degrees[0]} cannot be pinned on the study's grid, whose degrees are no whole numbers: "
                "only batch and accelerators can; grid 'whole' takes all of them"
            )
    else:
        pins.check_whole()
    if pins.ep is not None and pins.ep > 1 and not has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {pins.ep}")
    if not pipeline and pins.pp is not None and pins.pp > 1:
        raise InputError(f"pp={pins.pp} contradicts 'no pipeline': leave one of them out")
    needed = pins.size or pins.chips
    if largest is not None and needed > largest:
        raise InputError(f"{pins.text}: {needed:g} accelerators are needed, and at most {largest:g} are allowed")


def _refuse_impossible(setup: Setup, pins: Pins, *, pipeline: bool) -> None:
    """Say so if what is pinned divides nothing, whatever the memory: each axis by itself, then all together."""
    given = pins.given()
    for some in (*({name: value} for name, value in given.items()), given):
        alone = Pins(**some)  # type: ignore[arg-type]
        problems = common_problems(setup, grids.whole_grid(1.0, pipeline=pipeline, pins=alone))
        if problems:
            raise InputError(f"{setup.model.name} cannot be laid out with {alone.text}: {problems[0]}")


def best_step_seconds(
    model: ModelSpec | Name,
    hardware: HardwareSpec | Name,
    accelerators: npt.ArrayLike,
    batch: npt.ArrayLike,
    *,
    context: float,
    new_tokens: int = 1,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    assumptions: Assumptions | Name = "paper",
    pipeline: bool = False,
) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
    """Seconds of one decode step in the fastest layout of each instance.

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    accelerators, batch : array_like
        Instance sizes and sequences [1], positive; fractions allowed; broadcast to a common shape (...).
    context : float
        Tokens in the cache of each sequence [tokens].
    new_tokens : int
        Tokens per sequence and step [1]: more than 1 when a draft is verified.
    weights, activations, kv : str, optional
        Number formats.
    assumptions : Assumptions, name or path
        Opinions.
    pipeline : bool
        Try pipeline depths other than 1.

    Returns
    -------
    numpy.ma.MaskedArray, shape (...)
        [s]; infeasible instances are masked.

    Raises
    ------
    InputError
        If a name, format or number cannot be used.

    Examples
    --------
    >>> best_step_seconds("paper/llama_3_70b", "paper/h100", [1, 8], 16, context=0).round(5)
    masked_array(data=[--, 0.0111],
                 mask=[ True, False],
           fill_value=1e+20)
    """
    if not (new_tokens >= 1 and float(new_tokens).is_integer()):
        raise InputError(f"new_tokens must be a whole number from 1 on, got {new_tokens:g}")
    setup = ask(model, hardware, context, assumptions=assumptions, weights=weights, activations=activations, kv=kv)
    try:
        axes: list[Any] = [np.ma.asarray(axis, dtype=float) for axis in (accelerators, batch)]
        # What is masked in the question is masked in the answer.
        masked = np.broadcast_arrays(*(np.ma.getmaskarray(axis) for axis in axes))
        sizes, batches = np.broadcast_arrays(*(axis.filled(1.0) for axis in axes))
    except (TypeError, ValueError) as error:
        raise InputError(f"accelerators and batch must be numbers that broadcast to one shape: {error}") from error
    for name, values in (("accelerators", sizes), ("batch", batches)):
        if not np.all((values > 0) & (values <= _MOST)):
            raise InputError(f"{name} must be positive and at most {_MOST:g}")
    found = fastest(
        setup, sizes.ravel(), batches.ravel(), grids.ContinuousLayouts(pipeline), new_tokens=new_tokens
    ).seconds.reshape(sizes.shape)
    return np.ma.masked_array(found, mask=~np.isfinite(found) | masked[0] | masked[1])
