"""Deployments as services: every layout with its steady states, from one request to a full cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ.engine import memory
from inference_econ.engine import speculation as drafting
from inference_econ.engine.layouts.grids import Grid
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.prefill import Prefill, prompts_together
from inference_econ.engine.setup import Setup
from inference_econ.engine.speculation import Speculation
from inference_econ.errors import NothingFitsError
from inference_econ.inputs.traffic import Requests
from inference_econ.serving.steady import Steady, steady, steady_rounds

Array = npt.NDArray[np.float64]

#: Batches per layout, from one request to a full cache in equal ratios.
_BATCHES = 48


@dataclass(frozen=True, slots=True)
class Deployments:
    """Some layouts as services.

    Attributes
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths.
    plans : Plans
        Layouts, arrays of shape (n,).
    slots : ndarray, shape (n,)
        Requests whose cache fits [1].
    states : Steady
        Arrays of shape (n, k): steady states by batch, ascending.
    speculation : Speculation or None
        Who proposes tokens.
    """

    setup: Setup
    requests: Requests
    plans: Plans
    slots: Array
    states: Steady
    speculation: Speculation | None = None

    def __len__(self) -> int:
        return self.slots.size

    def service(self, index: int) -> Service:
        """One of them."""
        states = self.states
        return Service(
            setup=self.setup,
            requests=self.requests,
            plans=self.plans.at((np.array([index]),)),
            slots=int(self.slots[index]),
            concurrency=states.concurrency[index],
            batch=states.batch[index],
            ttft_seconds=states.ttft_seconds[index],
            tpot_seconds=states.tpot_seconds[index],
            requests_per_second=states.requests_per_second[index],
            prefill_share=states.prefill_share[index],
            queue_seconds=states.queue_seconds[index],
            running_seconds=states.running_seconds[index],
            decode_seconds=states.decode_seconds[index],
            prefill_seconds=float(states.prefill.seconds[index, 0]),
            prefill_busy_seconds=float(states.prefill.busy_seconds[index, 0]),
            speculation=self.speculation,
        )


@dataclass(frozen=True, slots=True)
class Service:
    """One layout as a service.

    Attributes
    ----------
    setup : Setup
        What, on what, how.
    requests : Requests
        Lengths.
    plans : Plans
        The layout, of shape (1,).
    slots : int
        Requests whose cache fits [1].
    concurrency, batch, ttft_seconds, tpot_seconds, requests_per_second : ndarray, shape (k,)
        Steady states: requests in flight [1], those of a decode step [1], latencies [s] and rate [1/s].
    prefill_share, queue_seconds, running_seconds, decode_seconds : ndarray, shape (k,)
        See :class:`inference_econ.serving.steady.Steady` [1] and [s].
    prefill_seconds, prefill_busy_seconds : float
        One prompt by itself, and what it takes of the instance's time [s].
    speculation : Speculation or None
        Who proposes tokens.
    """

    setup: Setup
    requests: Requests
    plans: Plans
    slots: int
    concurrency: Array
    batch: Array
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    prefill_share: Array
    queue_seconds: Array
    running_seconds: Array
    decode_seconds: Array
    prefill_seconds: float
    prefill_busy_seconds: float
    speculation: Speculation | None = None

    @property
    def accelerators(self) -> int:
        """Chips of an instance [1]."""
        return int(self.plans.accelerators[0])

    @property
    def most_requests_per_second(self) -> float:
        """With all slots taken [1/s]."""
        return float(self.at(self.slots).requests_per_second)

    def reading(self, tokens: float, cached: float = 0.0) -> Prefill:
        """Time to read a prompt of so many new tokens after cached ones, by whoever proposes tokens as well."""
        return drafting.read_prompt(self.setup, self.plans, tokens, cached, self.speculation)

    def at(self, concurrency: npt.ArrayLike) -> At:
        """The steady state with some requests in flight, shape (...); at most as many as there are slots."""
        wanted = np.log(np.clip(np.asarray(concurrency, dtype=float), 1.0, self.slots))
        known = np.log(self.concurrency)

        def read(values: Array) -> Array:
            positive = bool(np.all(values > 0.0))
            found = np.interp(wanted, known, np.log(values) if positive else values)
            return np.asarray(np.exp(found) if positive else found)

        columns = (
            self.batch, self.ttft_seconds, self.tpot_seconds, self.requests_per_second,
            self.prefill_share, self.queue_seconds, self.running_seconds,
        )  # fmt: skip
        return At(*(read(column) for column in columns))


@dataclass(frozen=True, slots=True)
class At:
    """A steady state; arrays of one shape."""

    batch: Array
    """Requests that a decode step works on [1]."""
    ttft_seconds: Array
    """[s]"""
    tpot_seconds: Array
    """[s]"""
    requests_per_second: Array
    """[1/s]"""
    prefill_share: Array
    """[1]"""
    queue_seconds: Array
    """[s]"""
    running_seconds: Array
    """[s]"""


def deployments(setup: Setup, requests: Requests, grid: Grid, speculation: Speculation | None = None) -> Deployments:
    """Every layout of a grid that fits, as a service.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths and cached tokens.
    grid : Grid
        Sizes and layouts; its batches do not count.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.

    Returns
    -------
    Deployments
        Smallest instances first.

    Raises
    ------
    InputError
        If the speculation does not go with the model.
    NothingFitsError
        If no layout holds the weights and the cache of one request.
    """
    plans = layouts(setup, grid)
    slots = slots_of(setup, plans, speculation)
    kept = np.flatnonzero(slots >= 1.0)
    if not kept.size:
        raise NothingFitsError(_nothing(setup, plans, grid, speculation))
    return services(setup, requests, plans.at((kept,)), slots[kept], speculation=speculation)


def services(
    setup: Setup,
    requests: Requests,
    plans: Plans,
    slots: Array,
    *,
    batches: int = _BATCHES,
    speculation: Speculation | None = None,
) -> Deployments:
    """Given layouts as services, whether they fit or not.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests.
    requests : Requests
        Lengths and cached tokens.
    plans : Plans
        Layouts, arrays of shape (n,); their batch does not count.
    slots : ndarray, shape (n,)
        Requests in flight at most [1]; fewer where prompts cannot begin as fast as that many would end.
    batches : int
        Steady states per layout, from one request to all slots in equal ratios [1].
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.
    """
    slots = np.minimum(slots, _begun(setup, requests, plans))
    shares = np.arange(batches) / (batches - 1.0)
    rows = Plans(
        plans.accelerators[:, None],
        slots[:, None] ** shares,
        plans.pp[:, None],
        plans.attention_ranks[:, None],
        None if plans.ep is None else plans.ep[:, None],
        whole=True,
    )
    if speculation is not None:
        states = steady_rounds(setup, rows, requests, speculation)
        return Deployments(setup, requests, plans, slots, states, speculation)
    return Deployments(setup, requests, plans, slots, steady(setup, rows, requests))


def _begun(setup: Setup, requests: Requests, plans: Plans) -> Array | float:
    """Prompts that fit the steps of one answer, and that answer: more cannot be decoding [1]."""
    chunk = setup.assumptions.serving.prefill_chunk
    if not chunk or requests.decode_steps <= 0.0:
        return np.inf
    groups = prompts_together(setup, plans)
    return np.asarray(1.0 + np.floor(requests.decode_steps * chunk * groups / requests.new_tokens))


def layouts(setup: Setup, grid: Grid) -> Plans:
    """Every layout of a grid that divides what it must, with one sequence per group and stage; shape (n,)."""
    found: list[Plans] = []
    sizes, model, assumed = grid.accelerators, setup.model, setup.assumptions
    for depth in grid.layouts.depths(model, assumed, sizes, np.zeros(1)):
        depth = np.broadcast_to(depth, sizes.shape)
        chosen = depth > 0
        plans = grid.layouts.variants(model, assumed, Plans.of(sizes[chosen], depth[chosen], depth[chosen]))
        plans = replace(plans, batch=np.asarray(prompts_together(setup, plans)))
        possible = np.zeros(plans.shape, dtype=bool)
        for cut in assumed.layout.tensor_layouts:
            codes = setup.reasons(plans, cut)
            possible |= (codes != memory.DIVIDE) & (codes != memory.NETWORK)
        found.append(plans.at(np.nonzero(possible)))
    size, batch, pp, ranks, ep = (
        np.concatenate([np.asarray(getattr(plans, name), dtype=float) for plans in found])
        for name in ("accelerators", "batch", "pp", "attention_ranks", "ep")
    )
    order = np.lexsort((ep, ranks, pp, size))
    return Plans(size[order], batch[order], pp[order], ranks[order], ep[order], whole=True)


def slots_of(setup: Setup, plans: Plans, speculation: Speculation | None = None) -> Array:
    """Requests whose cache fits beside the weights, rounded down [1]; the workspace grows with them."""
    batch = plans.batch
    # From below, every second pass ends at a batch that fits: the more sequences are reckoned with, the fewer fit.
    for _ in range(4):
        needed = drafting.memory(setup, replace(plans, batch=batch), speculation)
        room = np.maximum(needed.available_bytes - needed.weight_bytes, 0.0)
        batch = np.maximum(np.floor(room / (needed.kv_bytes / batch)), 1.0)
    needed = drafting.memory(setup, replace(plans, batch=batch), speculation)
    return np.where(np.broadcast_to(needed.fits, batch.shape), batch, 0.0)


def _nothing(setup: Setup, plans: Plans, grid: Grid, speculation: Speculation | None) -> str:
    subject = f"{setup.model.name} ({setup.precision.weights}) on {setup.hardware.name}"
    sizes = f"{grid.accelerators.min():g} to {grid.accelerators.max():g} accelerators"
    if not plans.accelerators.size:
        return f"nothing fits: {subject}: no layout of {sizes} divides heads, layers, experts and widths"
    one = plans.at((np.array([plans.accelerators.size - 1]),))
    weights, cache, available = drafting.memory(setup, one, speculation).of_one_plan()
    proposer = "" if speculation is None else f", those of the {drafting.PROPOSERS[speculation.proposer]} included"
    return (
        f"nothing fits: {subject}, {sizes}: on the largest, {weights / 1e9:.1f} GB of weights and "
        f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB{proposer}"
    )
