"""Offer of a model on a chip: every layout as a service."""

from __future__ import annotations

import math
import reprlib
from dataclasses import replace

from inference_econ.answers.pinned import check_space, refuse_impossible
from inference_econ.engine import Pins, Setup, Space, Speculation, memory, whole_grid
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import ModelSpec, Requests, Traffic
from inference_econ.search import why_nothing_fits
from inference_econ.serving import Services, every_service, services


def offer(
    setup: Setup, traffic: Traffic | Requests, space: Space | None = None, speculation: Speculation | None = None
) -> Services:
    """Every layout of a model on a chip as a service.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how; at the mean context of the requests.
    traffic : Traffic or Requests
        Lengths and cached tokens.
    space : Space, optional
        Which instances are tried; whole numbers of chips.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.

    Returns
    -------
    Services
        Smallest instances first.

    Raises
    ------
    InputError
        If nobody knows the price, a degree, number or speculation cannot be used, or pinned degrees do not divide what
        they must.
    NothingFitsError
        If no layout fits.

    Examples
    --------
    >>> from inference_econ.inputs.traffic import Requests
    >>> setup = Setup.of("llama_3_8b", "h100_sxm", weights="fp8")
    >>> len(offer(setup, Requests(isl=1000, osl=200), Space(max_accelerators=2)))
    2
    """
    check_setup(setup)
    tried, requests = Space() if space is None else space, Requests.of(traffic)
    served = replace(
        setup,
        context=requests.mean_context,
        spread=requests.spread,
        price=setup.hour_price,
        shared_prefix=requests.shared_prefix,
    )
    check_space(served, tried)
    _check_contexts(setup, requests)
    usable = served.hardware.hbm_bytes * served.assumptions.capacity.usable_memory
    if not usable > 0.0:
        raise NothingFitsError(
            f"nothing fits: of the {served.hardware.hbm_bytes / 1e9:.3g} GB of {served.hardware.name} nothing is left "
            f"for a model under {served.assumptions.name}"
        )
    smallest = memory.weight_bytes(served.model, served.precision, served.assumptions.capacity.host_weights) / usable
    largest = None if tried.max_accelerators is None else int(tried.max_accelerators)
    chips = served.hardware if served.engines else None
    grid = whole_grid(smallest, pipeline=tried.pipeline, largest=largest, pins=tried.pins, hardware=chips)
    if not grid.accelerators.size:
        raise NothingFitsError(
            f"nothing fits: the weights of {served.model.name} ({served.precision.weights}) alone need "
            f"{math.ceil(smallest)} accelerators ({served.hardware.name}); {_allowed(tried.pins, largest)}"
        )
    try:
        return every_service(served, requests, grid, speculation)
    except NothingFitsError as error:
        refuse_impossible(served, tried)
        laid_out = services.layouts(served, grid).accelerators.size
        reason = str(error) if laid_out else why_nothing_fits(served, grid, speculation=speculation)
        too_long = beyond_model(setup.model, requests)
        raise NothingFitsError(f"{reason}; {too_long}, or larger chips" if too_long else reason) from None


def beyond_model(model: ModelSpec, requests: Requests) -> str:
    """Return that requests are longer than a model was made for, and what to do; empty where they are not."""
    tokens, most = requests.isl.mean + requests.osl.mean, model.max_context
    if most is None or tokens <= most:
        return ""
    return (
        f"these requests have {tokens:,.0f} tokens, and {model.name} was made for {most:,} at most; give shorter ones "
        "(--isl, --osl), take another model"
    )


def check_setup(setup: object) -> None:
    """Refuse what is no setup, such as names of a model and a chip.

    Raises
    ------
    InputError
        With how one is made.
    """
    if not isinstance(setup, Setup):
        raise InputError(
            f"setup: got {reprlib.repr(setup)}; make one of a model and a chip: Setup.of('llama_3_70b', 'h100_sxm')"
        )


def _check_contexts(setup: Setup, requests: Requests) -> None:
    """Refuse a recorded traffic with requests that are longer than the model was made for."""
    most = setup.model.max_context
    if requests.table is not None and most is not None and requests.longest > most:
        raise InputError(
            f"{requests.traffic}: prompt and answer of its longest request are {requests.longest:,.0f} tokens, and "
            f"{setup.model.name} was made for {most:,} at most; take another model, or leave such requests out"
        )


def _allowed(pins: Pins, largest: int | None) -> str:
    if pins.given():
        return f"{pins.text} leaves no instance of that size"
    return f"at most {largest} are allowed (--max-instance-gpus allows more)"
