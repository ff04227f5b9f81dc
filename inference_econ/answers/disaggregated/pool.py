"""One pool of instances, each of which reads prompts, decodes, or does both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Instances, Setup, layout_keys, prompts_of_a_step, prompts_together, shared_steps
from inference_econ.formulas import money
from inference_econ.serving import Services, Steady

#: Numbers of prompts on an instance that are looked at [1].
_SHARED = 12


@dataclass(frozen=True)
class Pool:
    """Layouts that one pool can be made of.

    Attributes
    ----------
    services : Services
        The layouts, arrays of shape (n,); those whose groups cannot all hold a sequence are left out.
    processes : ndarray, shape (n,) or (1,)
        Instances of the layout that make one of the pool, a chain that reads prompts in parts [1]; see
        :func:`inference_econ.answers.disaggregated.chains.with_chains`.
    latency, busy : ndarray, shape (n,) or (1,)
        Time of a prompt in a chain, and of its busiest process, over the time of one process [1].
    """

    services: Services
    processes: Array = field(default_factory=lambda: np.ones(1))
    latency: Array = field(default_factory=lambda: np.ones(1))
    busy: Array = field(default_factory=lambda: np.ones(1))

    @property
    def setup(self) -> Setup:
        """Model, chip and formats."""
        return self.services.setup

    @property
    def accelerators(self) -> Array:
        """Chips of an instance [1], shape (n,)."""
        return np.asarray(self.services.plans.accelerators * self.processes)

    def processes_of(self, index: int) -> int:
        """Processes of an instance of a layout [1]: several in a chain."""
        return int(np.broadcast_to(self.processes, len(self.services))[index])

    @property
    def cache_chips(self) -> Array:
        """Chips that hold the cache of one sequence: those of an attention group, on all stages [1], shape (n,)."""
        return np.asarray(self.services.plans.attention_ranks * self.services.plans.pp)

    @cached_property
    def engines(self) -> list[tuple[str, ...]]:
        """The engines that can start each layout, by name; none where any layout is offered."""
        return self.setup.engines_of(self.services.plans)

    @cached_property
    def dollars_per_second(self) -> Array:
        """Of an instance [USD/s], shape (n,)."""
        return money.dollars_per_second(self.accelerators, self.setup.dollars_per_accelerator_hour)

    @property
    def prefill_seconds(self) -> Array:
        """One prompt by itself [s], shape (n,)."""
        return np.asarray(self.services.prompt.seconds[:, 0] * self.latency)

    @cached_property
    def waiting_prompts(self) -> Array:
        """Prompts of an instance, from one per stage to full steps of all groups, or all slots, shape (n, k) [1]."""
        services = self.services
        most = prompts_of_a_step(services.setup, services.requests.new_tokens)
        together = np.broadcast_to(prompts_together(services.setup, services.plans), services.slots.shape)
        stages = np.broadcast_to(services.plans.pp, services.slots.shape)[:, None]
        full = np.maximum(np.minimum(together * most, services.slots)[:, None], stages)
        counts = stages * (full / stages) ** np.linspace(0.0, 1.0, _SHARED)
        return np.asarray(counts * self.processes[:, None])

    @cached_property
    def shared_prefill_seconds(self) -> Array:
        """Time of an instance that each of :attr:`waiting_prompts` takes, shape (n, k) [s]."""
        services, prompts = self.services, self.waiting_prompts / self.processes[:, None]
        requests, plans = services.requests, services.plans.column(prompts)
        share = shared_steps(services.setup, plans, requests.new_tokens, requests.cached, prompts)
        return np.asarray(services.prompt.busy_seconds * self.busy[:, None] * share)

    @property
    def prefill_busy_seconds(self) -> Array:
        """Time of an instance that one prompt takes where steps are full of prompts [s], shape (n,)."""
        return np.asarray(self.shared_prefill_seconds.min(axis=1))

    @cached_property
    def states(self) -> Steady:
        """The steady states by batch of instances that decode what others have read; shape (n, k + 1).

        That of a full instance is the last one: prompts that are being read are among its requests.
        """
        services, states = self.services, self.services.states
        rows = zip(services.running, states.concurrency, states.batch, strict=True)
        full = [[np.exp(np.interp(np.log(limit), np.log(flight), np.log(batch)))] for limit, flight, batch in rows]
        batch = np.append(states.batch, full, axis=1)
        seconds = np.append(states.decode_seconds, services.decode_seconds(batch[:, -1:]), axis=1)
        return replace(states, batch=batch, decode_seconds=seconds).without_prompts(services.requests.decode_steps)

    @property
    def batch(self) -> Array:
        """Batches, shape (n, k + 1) [1]."""
        return self.states.batch

    def instances(self, shown: Sequence[int] = (), batches: Sequence[float] = (), label: str = "") -> Instances:
        """Some instances of the pool, by the positions of their layouts and the requests that each serves [1]."""
        requests, sizes = self.services.requests, self.accelerators[list(shown)].tolist()
        layouts = [self.layouts[index] for index in shown]
        speculates = self.services.speculation is not None
        return Instances(
            self.setup, sizes, batches, requests.isl.mean, requests.osl.mean, label=label, layouts=layouts,
            speculates=speculates,
        )  # fmt: skip

    @cached_property
    def layouts(self) -> list[str]:
        """Every layout by name, see :func:`inference_econ.engine.layout_key`; of chains with how many processes."""
        keys = layout_keys(self.services.plans, self.setup.assumptions.layout)
        if self.processes.size == 1:
            return keys
        processes = self.processes.tolist()
        return [f"chain of {n:.0f} x {key}" if n > 1 else key for n, key in zip(processes, keys, strict=True)]

    @property
    def step_seconds(self) -> Array:
        """A decode step that no prompt delays, shape (n, k + 1) [s]."""
        return self.states.decode_seconds
