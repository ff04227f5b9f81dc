"""Layouts of a model on a GPU: services for requests, and the Pareto-optimal deployments for decode steps alone."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from inference_econ import search
from inference_econ._types import Progress
from inference_econ.engine import (
    Pins,
    Setup,
    Space,
    Speculation,
    WholeLayouts,
    check_pins,
    check_startable,
    has_experts,
    largest_sparsity,
    memory,
    whole_grid,
)
from inference_econ.engine.layouts import grids, plans
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import ModelSpec, Requests, Traffic
from inference_econ.records.texts import formats_label
from inference_econ.serving import Services, Steady, every_service
from inference_econ.serving import services as services_offer
from inference_econ.serving.services import services


def with_slots(layouts: Services, slots: int) -> Services:
    """Limit the concurrent requests of each instance; further requests queue first come, first served.

    Parameters
    ----------
    layouts : Services
        Layouts (:func:`inference_econ.answers.layout_services.offer`).
    slots : int
        Maximum concurrent requests per instance [1]; memory may limit them further.

    Returns
    -------
    Services
        The same layouts, with steady states up to the concurrency limit.

    Raises
    ------
    InputError
        If the limit is not positive, or exceeds the token budget of a step (one token per request).
    """
    if slots < 1:
        raise InputError(f"slots must be an integer >= 1, got {slots:g}")
    chunk = layouts.setup.assumptions.serving.prefill_chunk
    if 0 < chunk < slots:
        raise InputError(
            f"a step of at most {chunk:g} tokens (--token-budget) cannot work on {slots} requests (--slots), each of "
            "which has a token in it; give a larger budget or fewer slots",
            option="token_budget",
        )
    most = np.minimum(layouts.slots, float(slots))
    setup, requests, speculation = layouts.setup, layouts.requests, layouts.speculation
    wider = services(setup, requests, layouts.plans, most, speculation=speculation)

    def states() -> Steady:
        # Requests in prefill are concurrent requests too, so the largest decode batch is smaller than the limit.
        rows = zip(wider.running, wider.states.concurrency, wider.states.batch, strict=True)
        batch = [np.exp(np.interp(np.log(limit), np.log(flight), np.log(values))) for limit, flight, values in rows]
        shares = np.linspace(0.0, 1.0, wider.states.batch.shape[1])
        return wider.states_at(np.array(batch)[:, None] ** shares)

    return replace(wider, steady=states, limit=float(slots))


def check_space(setup: Setup, space: Space) -> None:
    """Reject fixed parallelism degrees whose error can be found before the search.

    Raises
    ------
    InputError
        If a parallelism degree is not an integer, or if degrees contradict each other, the model, the engines or the
        limit on the instance size.
    """
    pins, largest = space.pins, space.largest
    if space.grid == "whole":
        pins.check_whole()
        check_pins(setup.model, pins)
        check_startable(setup, pins)
    if pins.ep is not None and pins.ep > 1 and not has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {pins.ep}")
    if not space.pipeline and pins.pp is not None and pins.pp > 1:
        raise InputError(f"pp={pins.pp} contradicts 'no pipeline': leave one of them out")
    needed = pins.size or pins.chips
    if pins.given() and largest is not None and needed > largest:
        raise InputError(f"{pins.text}: {needed:g} GPUs are needed, and at most {largest:g} are allowed")


def refuse_impossible(setup: Setup, space: Space) -> None:
    """Reject fixed parallelism degrees that do not divide the model, without a check of memory.

    Each degree is checked separately, then all degrees are checked together.

    Raises
    ------
    InputError
        If the fixed degrees do not divide the model; the message has these degrees and the model dimensions. Degrees
        that are not fixed are never rejected.
    """
    pinned = space.pins.given()
    for some in (*({name: value} for name, value in pinned.items()), pinned):
        alone = Pins(**{**dict.fromkeys(("tp", "dp", "pp"), "any"), **some})  # type: ignore[arg-type]
        problems = search.common_problems(setup, whole_grid(1.0, pipeline=space.pipeline, pins=alone)) if some else ()
        if problems:
            option = alone.text.partition("=")[0] if len(some) == 1 else None
            raise InputError(f"{setup.model.name} cannot be laid out with {alone.text}: {problems[0]}", option=option)


def deployments(setup: Setup, pins: Pins) -> plans.Plans:
    """List the layouts with the given parallelism degrees, shape (n,); degrees that are not given are 1.

    If expert parallelism is not given, the list includes all divisors of the number of ranks.
    """
    tp, dp, pp, batch = pins.tp or 1, pins.dp or 1, pins.pp or 1, pins.batch or 1.0
    if pins.accelerators is not None and pins.accelerators != tp * dp * pp:
        raise InputError(f"instance_gpus={pins.accelerators:g} contradicts tp={tp}, dp={dp}, pp={pp}")
    if pins.ep is not None and pins.ep > 1 and not plans.has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {pins.ep}")
    single = np.ones(1)
    bare = plans.Plans(single * tp * dp * pp, single * batch, single * pp, single * tp, single)
    layouts = WholeLayouts(pipeline=True, pins=Pins(tp, dp, pp, pins.ep, dcp=pins.dcp))
    variants = layouts.variants(setup.model, setup.assumptions, bare)
    return variants.at(np.nonzero(np.ones(variants.shape, dtype=bool)))


def offer(
    setup: Setup, traffic: Traffic | Requests, space: Space | None = None, speculation: Speculation | None = None
) -> Services:
    """List the layouts of a model on a GPU that can serve a workload.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions, at the mean context of the requests.
    traffic : Traffic or Requests
        Lengths and cached tokens.
    space : Space, optional
        Instances to try, in integer numbers of GPUs.
    speculation : Speculation, optional
        Speculation method, on the same GPUs.

    Returns
    -------
    Services
        Layouts with the smallest instances first.

    Raises
    ------
    InputError
        If the price is unknown, an input is out of range, or fixed parallelism degrees do not divide the model.
    NothingFitsError
        If no layout fits.

    Examples
    --------
    >>> from inference_econ.inputs.workload.traffic import Requests
    >>> setup = Setup.of("llama_3_8b", "h100_sxm", weights="fp8")
    >>> len(offer(setup, Requests(isl=1000, osl=200), Space(max_accelerators=2)))
    2
    """
    tried, requests = Space() if space is None else space, Requests.of(traffic)
    if setup.assumptions.cpu.layers:
        tried = replace(tried, max_accelerators=1)
    served = replace(
        setup,
        context=requests.mean_context,
        spread=requests.spread,
        price=setup.hour_price,
        shared_prefix=requests.shared_prefix,
    )
    check_space(served, tried)
    _check_context(setup.model, requests)
    usable = served.hardware.hbm_bytes * served.assumptions.capacity.usable_memory
    if not usable > 0.0:
        raise NothingFitsError(
            f"nothing fits: of the {served.hardware.hbm_bytes / 1e9:.3g} GB of {served.hardware.name} nothing is left "
            f"for a model under {served.assumptions.name}"
        )
    smallest = memory.weight_bytes(served.model, served.precision, served.assumptions.capacity.host_weights) / usable
    largest = None if tried.largest is None else int(tried.largest)
    chips = served.hardware if served.engines else None
    grid = whole_grid(smallest, pipeline=tried.pipeline, largest=largest, pins=tried.pins, hardware=chips)
    if not grid.accelerators.size:
        option = "--gpus" if largest == tried.gpus else "--max-instance-gpus"
        allowed = f"at most {largest} are allowed ({option} allows more)"
        if tried.pins.given():
            allowed = f"{tried.pins.text} leaves no instance of that size"
        formats = formats_label(replace(served.precision, embeddings=served.precision.weights)).removeprefix("weights ")
        raise NothingFitsError(
            f"nothing fits: the weights of {served.model.name} ({formats}) alone need "
            f"{math.ceil(smallest)} accelerators ({served.hardware.name}); {allowed}{cpu_layers_advice(served)}"
        )
    try:
        return every_service(served, requests, grid, speculation)
    except NothingFitsError as error:
        refuse_impossible(served, tried)
        laid_out = services_offer.layouts(served, grid).accelerators.size
        reason = str(error) if laid_out else search.why_nothing_fits(served, grid, speculation=speculation)
        reason += cpu_layers_advice(served)
        raise NothingFitsError(reason) from None


def cpu_layers_advice(setup: Setup, start: str = "; one") -> str:
    """Return advice with the smallest number of layers that the CPU must compute so that a model fits one desktop GPU.

    The text is empty if layers on the CPU are not possible or not sufficient.

    Parameters
    ----------
    setup : Setup
        Model, GPU and formats. The context of the setup must fit.
    start : str
        Words with which the returned advice starts.
    """
    layers, link = setup.model.layers, setup.hardware.host_link_bytes_per_second_one_way
    if not (setup.hardware.desk and link and any(engine.name == "llama_cpp" for engine in setup.engines)):
        return ""
    one = deployments(setup, Pins(1, 1, 1))

    def split(count: int) -> Setup:
        return replace(setup, assumptions=setup.assumptions.changed({"cpu.layers": count, "cpu.memory_bytes": None}))

    fewest = bisect_left(range(1, layers), True, key=lambda count: bool(np.all(split(count).memory(one).fits))) + 1
    if fewest >= layers:
        return ""
    needed = f"{memory.cpu_weight_bytes(split(fewest)) / 1e9:.3g} GB of host memory"
    return f"{start} GPU is enough with --cpu-layers {fewest} (llama.cpp) and {needed}"


def _check_context(model: ModelSpec, requests: Requests) -> None:
    """Reject requests that exceed the maximum context of a model: on average, or the longest one of a table.

    Sessions are checked before they are simulated.

    Raises
    ------
    InputError
        If the requests are too long.
    """
    most, is_table = model.max_context, requests.table is not None
    tokens = requests.longest if is_table else requests.isl.mean + requests.osl.mean
    if most is not None and tokens > most and not requests.longest_turn:
        which = f"{requests.traffic}: its longest request has" if is_table else "these requests have"
        raise InputError(
            f"{which} {tokens:,.0f} tokens, but {model.name} supports {most:,}. Shorten --isl or --osl, or "
            f"extend the context, as with --set model.max_context={math.ceil(tokens)}",
            option="isl",
        )


#: Public name of :func:`offer`.
layouts = offer


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
    sampling: search.Sampling | None = None,
    progress: Progress | None = None,
) -> search.Frontier:
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
        return search.compute(
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
    pins, largest = space.pins, 1 if setup.assumptions.cpu.layers else space.largest
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
    seconds = search.fastest.fastest(
        setup, sizes.ravel(), batches.ravel(), grids.ContinuousLayouts(pipeline), new_tokens=new_tokens
    ).seconds.reshape(sizes.shape)
    return np.ma.masked_array(seconds, mask=~np.isfinite(seconds) | masked[0] | masked[1])
