"""Memory check: how many GPUs a model needs, how many requests fit, and the longest request that fits."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inference_econ._answer import Shown
from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Setup, Space, attention_groups, for_engine, has_recipes, memory, needed_memory, node
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import HourPrice, Requests, Traffic
from inference_econ.inputs.prices import UNPRICED
from inference_econ.records.facts import facts
from inference_econ.records.plain import attributes
from inference_econ.serving import Service

#: Longest request to try for a model without a maximum context [tokens].
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class FittingInstance:
    """Instance of one size in which a model fits.

    Attributes
    ----------
    service : Service
        Layout that fits the most concurrent requests, among all engines unless the query sets one.
    largest_context : int
        Input plus output of the longest single request that fits [tokens].
    cached_tokens : int
        Total KV-cache capacity in tokens, for requests with the mean context in full cache blocks [tokens].
    """

    service: Service
    largest_context: int
    cached_tokens: int

    @property
    def slot_tokens(self) -> float:
        """KV-cache tokens of a request in a full instance, with the output that the engine reserves [tokens]."""
        setup = self.service.setup
        reserved = 0.0 if setup.admission is None else setup.admission.other_answers
        return setup.context + reserved * setup.spread / 2.0


@dataclass(frozen=True, slots=True, repr=False)
class Fits(Shown):
    """Instances in which a model fits, smallest first.

    Attributes
    ----------
    instances : tuple of FittingInstance
        One instance per number of GPUs.
    requests : Requests
        Request lengths.
    """

    page = "report.questions.fits:FitsPage"

    instances: tuple[FittingInstance, ...]
    requests: Requests

    @property
    def setup(self) -> Setup:
        """Model, GPU and formats."""
        return self.instances[0].service.setup

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of each instance size."""
        return [fit.service.setup for fit in self.instances]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        named = ("model", "hardware", "weights", "isl", "osl", "cached", "shared_prefix")
        return {
            **facts(self.setup, *named, requests=self.requests),
            "most_context": self.setup.model.max_context,
            "instances": self.records(),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per instance size."""
        return [
            {
                "accelerators": fit.service.accelerators,
                "layout": layout_of(fit.service),
                "assumptions": fit.service.setup.assumptions.name,
                "kv": fit.service.setup.precision.kv,
                "slots": fit.service.slots,
                **attributes(fit, "largest_context cached_tokens"),
                "weight_bytes": float(np.ravel(fit.service.setup.memory(fit.service.plans).weight_bytes)[0]),
            }
            for fit in self.instances
        ]


def fits(setup: Setup, traffic: Traffic | Requests, space: Space | None = None, *, concurrency: int = 1) -> Fits:
    """Check whether a model fits a GPU, for each instance size.

    If the query sets no engine, each size uses the engine that fits the most requests.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats and assumptions; a price is not needed.
    traffic : Traffic or Requests
        Request lengths.
    space : Space, optional
        Instances to try; by default instances of one machine.
    concurrency : int
        Number of concurrent requests that must fit [1].

    Returns
    -------
    Fits
        Instances in which the longest request and the concurrency fit, one per number of GPUs.

    Raises
    ------
    NothingFitsError
        If the model fits in no instance. The message has the missing memory, and the smallest instance across several
        machines in which the model would fit.

    Examples
    --------
    >>> found = fits(Setup.of("llama_3_8b", "h100_sxm"), Requests(isl=1000, osl=200))
    >>> [fit.service.accelerators for fit in found.instances], found.instances[0].largest_context
    ([1, 2, 4, 8], 131072)
    """
    tried, requests = Space() if space is None else space, Requests.of(traffic)
    free = setup if setup.price is not None else replace(setup, price=HourPrice(1.0, UNPRICED))
    if tried.largest is not None or tried.pins.given():
        return _of_sizes(free, requests, tried, concurrency)
    try:
        return _of_sizes(free, requests, replace(tried, max_accelerators=node(setup.hardware)), concurrency)
    except NothingFitsError as one_machine:
        try:
            smallest = _of_sizes(free, requests, tried, concurrency).instances[0]
        except NothingFitsError:
            raise one_machine from None
        chips = smallest.service.accelerators
        raise NothingFitsError(
            f"{one_machine}; over several machines {chips} would do: --max-instance-gpus {chips}"
        ) from None


def _of_sizes(setup: Setup, requests: Requests, space: Space, concurrency: int) -> Fits:
    """Find the instances of a search space in which the longest request and the concurrency fit.

    Raises
    ------
    NothingFitsError
        If no instance fits.
    """
    held: dict[int, Service] = {}
    # Layouts that fit the model. If the query sets no engine, there is one entry per engine.
    runs = [for_engine(setup, engine) for engine in setup.engines] if has_recipes(setup) else []
    services, reasons = [], []
    for run in runs or [setup]:
        try:
            services.append(offer(run, requests, space))
        except (InputError, NothingFitsError) as reason:
            reasons.append(reason)
    if not services:
        # If no engine has a layout that fits, first report problems that do not depend on the engine.
        offer(setup, requests, space)
        raise reasons[0]
    for layouts in services:
        for index in range(len(layouts)):
            service = layouts.service(index)
            other = held.get(service.accelerators)
            if other is None or service.slots > other.slots:
                held[service.accelerators] = service
    longest, fitting = requests.longest, [_fit(service) for service in held.values()]
    kept = [fit for fit in fitting if fit.largest_context >= longest and fit.service.slots >= concurrency]
    if not kept:
        best = max(fitting, key=lambda fit: (fit.largest_context >= longest, fit.service.slots))
        chips = f"{best.service.accelerators} x {setup.hardware.name}"
        if best.largest_context < longest:
            raise NothingFitsError(
                f"a request of {longest:,.0f} tokens does not fit: {chips} hold {best.largest_context:,} at most"
            )
        raise NothingFitsError(
            f"{concurrency} concurrent requests do not fit: {chips} hold {best.service.slots:,.0f} of "
            f"{requests.mean_context:,.0f} tokens on average"
        )
    return Fits(tuple(sorted(kept, key=lambda fit: fit.service.accelerators)), requests)


def _fit(service: Service) -> FittingInstance:
    setup, plans = service.setup, service.plans
    alone = replace(plans, batch=np.array(attention_groups(plans, setup.assumptions.layout), dtype=float, ndmin=1))

    def lacks(tokens: int) -> bool:
        at = replace(setup, context=float(tokens), spread=0.0, shared_prefix=0.0)
        return not bool(np.all(needed_memory(at, alone, None).fits))

    most = setup.model.max_context or _LONGEST
    largest = bisect_left(range(1, int(most) + 1), True, key=lacks)
    whole = replace(setup, spread=0.0, shared_prefix=0.0)
    needed = needed_memory(whole, alone, None)
    block = setup.assumptions.capacity.kv_block
    cached = memory.cached_tokens(needed, alone, math.ceil(whole.context / block) * block, setup.assumptions)
    return FittingInstance(service, largest, int(np.ravel(cached)[0]))
