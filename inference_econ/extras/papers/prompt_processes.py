"""Prefill of one prompt on several copies of the model, by context parallelism or by a prefill chain (KV-Runahead).

A process is one copy of the model, on one GPU or on several tensor-parallel GPUs. In a prefill chain, a process
prefills some tokens of the prompt, then sends the KV cache of all earlier tokens to the next process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from inference_econ import _work
from inference_econ._types import Array
from inference_econ.answers.disaggregated.pools import PoolLayouts
from inference_econ.engine import Plans, Setup, prompts_together
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers import runahead_formulas as kv_runahead
from inference_econ.extras.papers import shared_prompt as engine
from inference_econ.extras.papers.shared_prompt import PromptPart
from inference_econ.inputs import Free

#: Numbers of part lengths and prefix lengths for which layer times are calculated [1]. The search interpolates between
#: these lengths.
_LENGTHS, _BEFORE = 20, 4
#: Shortest part length for which times are calculated, relative to the longest prompt [1].
_SHORTEST = 1.0 / 512.0
#: Parts of a layer: before and after the point where the layer needs the KV cache of earlier processes.
_PIECES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Way:
    """Time and traffic of one method that prefills a prompt on several processes.

    Attributes
    ----------
    seconds : float
        Time to first token on otherwise idle GPUs [s].
    linked_seconds : float
        Decrease of ``seconds`` if the links were infinitely fast [s].
    moved_bytes : float
        Total traffic between GPUs during the prefill of the prompt [B].
    parts : tuple of int
        Number of prompt tokens in each process of a prefill chain, in prompt order [tokens]; empty for other methods.
    """

    seconds: float
    linked_seconds: float
    moved_bytes: float
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Processes:
    """Processes (copies of the model) with equal numbers of GPUs, and methods that split a prompt over processes.

    Attributes
    ----------
    setup, free : Setup
        Setup with the real links, and the same setup with infinitely fast links.
    process : Plans
        Layout of one copy of the model, shape (1,).
    longest : float
        Longest prompt [tokens].
    cached, prompts : float
        Number of cached tokens before each prompt, in every process [tokens], and number of prompts per batch [1].
    known : dict
        Cache of the calculated times of prompt parts. A key has three entries: True for real links, tokens of the part,
        and tokens before the part.
    """

    setup: Setup
    free: Setup
    process: Plans
    longest: float
    cached: float = 0.0
    prompts: float = 1.0
    known: dict[tuple[bool, float, float], PromptPart] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, setup: Setup, process: Plans, longest: float, cached: float = 0.0, prompts: float = 1.0) -> Processes:
        """Create the processes of a setup, with real and with infinitely fast links."""
        free = replace(setup, assumptions=setup.assumptions.changed({"network.collectives": Free(kind="free")}))
        return cls(setup, free, process, longest, cached, prompts)

    def alone(self, tokens: float) -> Way:
        """Prefill of the whole prompt on one process."""
        seconds, unlinked = (self._whole(linked, tokens, 0.0) for linked in (True, False))
        return Way(seconds, seconds - unlinked, self.moved_bytes(tokens, 0.0))

    def gathered(self, tokens: float, processes: int) -> Way:
        """Prefill by context parallelism with all-gather.

        In every layer, all processes exchange their KV caches before attention.
        """
        gather = engine.gathering_seconds(self.setup, processes, self._cache_bytes(tokens), self._domains(processes))
        return self._balanced(tokens, processes, gather)

    def ring(self, tokens: float, processes: int) -> Way:
        """Prefill by ring attention.

        Processes pass parts of the KV cache around a ring. Each transfer overlaps with attention to the part that was
        received before.
        """
        hop = float(
            engine.hand_over_seconds(
                self.setup, self._cache_bytes(tokens / processes), min(self._domains(processes), 2.0)
            )
        )
        # Attention to the cached prefix runs only once. It does not overlap with a transfer.
        of_prompt = 1.0 / (1.0 + self.cached / (tokens / self._masked))
        of_process = of_prompt * self.part(True, *self._balanced_part(tokens, processes)).attention / processes
        return self._balanced(tokens, processes, (processes - 1) * max(hop - of_process, 0.0))

    def _balanced(self, tokens: float, processes: int, exposed: float) -> Way:
        """Prefill by context parallelism if all processes have equal attention work.

        ``exposed`` is the communication time per layer that does not overlap with work [s].
        """
        part = self._balanced_part(tokens, processes)
        seconds, unlinked = (self._whole(linked, *part) for linked in (True, False))
        seconds += self.setup.model.layers * exposed
        passed = (processes - 1) * self.sent_bytes(tokens)
        inside = processes * self.moved_bytes(*part)
        return Way(seconds, seconds - unlinked, inside + passed)

    def _balanced_part(self, tokens: float, processes: int) -> tuple[float, float]:
        """Tokens per process, and the prefix length with which they have the mean attention work of a process [tokens].

        Each process gets tokens from the start and from the end of the prompt, so all processes have equal work. If
        kernels also compute masked scores, any split gives equal work.
        """
        share = tokens / processes
        return share, (tokens - share) / self._masked

    @property
    def _masked(self) -> float:
        """Attention scores of a prompt divided by the computed scores [1]: 2 if kernels skip masked scores, else 1."""
        return 2.0 if self.setup.assumptions.attention.masked_scores == "skipped" else 1.0

    def between(self, parts: Array, before: Array) -> Array:
        """Interpolated layer times before and after the need of earlier KV cache, shape (2, ...) [s].

        Interpolation is linear in part length and in prefix length.
        """
        lengths, times = self._times
        shares = [np.interp(before, self._cached, unit) for unit in np.eye(_BEFORE)]
        return np.array(
            [
                sum(
                    share * np.interp(parts, lengths, at_lengths)
                    for share, at_lengths in zip(shares, at_parts, strict=True)
                )
                for at_parts in times
            ]
        )

    def hops(self, before: Array, domains: Array) -> Array:
        """Time to transfer the KV cache of all earlier tokens [s], within one link domain and between two domains."""
        return engine.hand_over_seconds(self.setup, [self._cache_bytes(float(cached)) for cached in before], domains)

    def hops_between(self, before: Array, domains: Array) -> Array:
        """Time to transfer the KV cache of all earlier tokens, interpolated from :meth:`hops`, shape (...) [s]."""
        near, far = (np.interp(before, self._cached, hops) for hops in self._hops)
        return np.where(domains > 1.0, far, near)

    @cached_property
    def _times(self) -> tuple[Array, Array]:
        """Part lengths, shape (n,) [tokens], and the layer times for each of m prefix lengths, shape (2, m, n) [s]."""
        lengths = np.geomspace(max(self.longest * _SHORTEST, 1.0), self.longest, _LENGTHS)
        parts = [[self.part(True, n, c) for n in lengths] for c in self._cached]
        return lengths, np.array(
            [[[getattr(part_times, name) for part_times in row] for row in parts] for name in _PIECES]
        )

    @cached_property
    def _cached(self) -> Array:
        return np.linspace(0.0, self.longest, _BEFORE)

    @cached_property
    def _hops(self) -> list[Array]:
        """Times to transfer the KV cache of each prefix length [s], within one link domain and between two domains."""
        sizes = [self._cache_bytes(cached) for cached in self._cached]
        return [engine.hand_over_seconds(self.setup, sizes, domains) for domains in (1.0, 2.0)]

    def part(self, linked: bool, tokens: float, cached: float) -> PromptPart:
        """Prefill times of a part of the prompt after ``cached`` earlier tokens, with real or infinitely fast links."""
        # A process on one GPU uses no links.
        key = (linked or self.chips == 1, float(tokens), float(cached))
        if key not in self.known:
            setup = self.setup if key[0] else self.free
            self.known[key] = engine.part_of_prompt(setup, self.process, key[1], self.cached + key[2], self.prompts)
        return self.known[key]

    def _whole(self, linked: bool, tokens: float, cached: float) -> float:
        part = self.part(linked, tokens, cached)
        return (part.before + part.after) * self.setup.model.layers + part.end

    def _cache_bytes(self, tokens: float) -> float:
        """KV-cache size of some tokens in one layer, for all prompts of the batch, on one GPU of a process [B]."""
        return self.prompts * engine.layer_cache_bytes(self.setup, self.process, tokens)

    def moved_bytes(self, tokens: float, before: float) -> float:
        """Traffic between the GPUs of a process while it prefills its part of all prompts [B]."""
        return self.prompts * engine.moved_bytes(self.setup, self.process, tokens, self.cached + before)

    def sent_bytes(self, tokens: float) -> float:
        """KV-cache size of some tokens, in all layers and on all GPUs of a process [B]."""
        return self._cache_bytes(tokens) * self.setup.model.layers * self.chips

    def _domains(self, processes: int) -> float:
        """Number of link domains that the processes span, at most one per process [1]."""
        chips = processes * self.chips
        return float(min(np.ceil(chips / self.setup.hardware.link_domain), processes))

    @property
    def chips(self) -> int:
        """Number of GPUs of one process [1]."""
        return int(self.process.accelerators[0])


@dataclass(frozen=True)
class PrefillChain:
    """Prefill chain (KV-Runahead): a pipeline of processes that prefill one prompt.

    A process sends the KV cache of all earlier tokens to the next process, possibly on another kind of GPU.

    Attributes
    ----------
    runs : tuple of (Processes, int)
        Groups of equal processes with the number of processes in each, in prompt order.
    """

    runs: tuple[tuple[Processes, int], ...]

    @property
    def processes(self) -> int:
        """Number of processes [1]."""
        return sum(number for _, number in self.runs)

    @property
    def _slices(self) -> list[tuple[Processes, slice]]:
        """Positions in the chain of each group of equal processes."""
        ends = np.cumsum([number for _, number in self.runs]).tolist()
        return [(run, slice(end - number, end)) for (run, number), end in zip(self.runs, ends, strict=True)]

    def even(self, tokens: int) -> Way:
        """Prefill by the chain if all processes prefill the same number of tokens."""
        return self._of_parts(_whole_tokens(kv_runahead.even_partition(tokens, self.processes)))

    def searched(self, tokens: int) -> Way:
        """Prefill by the chain with the fastest split of the prompt that the search finds.

        The search starts from two splits: parts with equal numbers of tokens, and parts with equal times.
        """

        def about_seconds(parts: Array) -> Array:
            ahead, after = self._between(parts)
            return kv_runahead.handed_on_seconds(ahead, after, self._hops(_before(parts), "hops_between"), self._layers)

        def layer_seconds(parts: Array) -> Array:
            return np.asarray(self._between(parts).sum(axis=0))

        starts = [
            kv_runahead.even_partition(tokens, self.processes),
            kv_runahead.balanced_partition(layer_seconds, tokens, self.processes),
        ]
        chain = [
            _whole_tokens(kv_runahead.best_partition(about_seconds, tokens, self.processes, start)) for start in starts
        ]
        ways = [self.even(tokens), *(self._of_parts(parts) for parts in chain if min(parts) > 0)]
        return min(ways, key=lambda way: way.seconds)

    def _of_parts(self, parts: tuple[int, ...]) -> Way:
        """Prefill by the chain with the given number of tokens in each process."""
        before, times = np.cumsum([0, *parts[:-1]]), []
        each = list(self._each(parts, before))
        for linked, hops in ((True, self._hops(before, "hops")), (False, np.zeros(len(parts)))):
            read = [run.part(linked, n, c) for run, n, c in each]
            ahead, after = ([getattr(part, name) for part in read] for name in _PIECES)
            times.append(float(kv_runahead.handed_on_seconds(ahead, after, hops, self._layers)) + read[-1].end)
        seconds, unlinked = times
        inside = sum(run.moved_bytes(n, c) for run, n, c in each)
        passed = sum(run.sent_bytes(float(cached)) for run, _, cached in each[1:])
        return Way(seconds, seconds - unlinked, inside + passed, parts)

    def busiest_seconds(self, parts: tuple[int, ...]) -> float:
        """Longest time that one prompt occupies a process or a link, excluding waits [s]."""
        before = np.cumsum([0, *parts[:-1]])
        read = [run.part(True, n, c) for run, n, c in self._each(parts, before)]
        seconds = [self._layers * (part.before + part.after) for part in read]
        seconds[-1] += read[-1].end
        return float(max(*seconds, *(self._layers * self._hops(before, "hops")[1:])))

    def _each(self, parts: tuple[int, ...], before: Array) -> Iterator[tuple[Processes, int, float]]:
        runs = [run for run, number in self.runs for _ in range(number)]
        return zip(runs, parts, before, strict=True)

    @property
    def _layers(self) -> int:
        return self.runs[0][0].setup.model.layers

    def _between(self, parts: Array) -> Array:
        """Interpolated layer times before and after the need of earlier KV cache, shape (2, ..., processes) [s]."""
        before = _before(parts)
        return np.concatenate([run.between(parts[..., at], before[..., at]) for run, at in self._slices], axis=-1)

    def _hops(self, before: Array, how: Literal["hops", "hops_between"]) -> Array:
        """Time of the KV-cache transfer to each process from the process before it [s].

        If the two processes have different GPUs, the slower side limits the transfer.
        """
        # Number of link domains that the transfer to each process spans: 1 or 2. Processes on GPUs of one kind are next
        # to each other.
        crossing = []
        for run, number in self.runs:
            domain, chips = run.setup.hardware.link_domain, float(run.chips)
            begins = np.arange(number) * chips
            ends = (begins, begins + chips - 1.0)
            crossing.append(np.any([end // domain != (end - chips) // domain for end in ends], axis=0))
        # A transfer between different kinds of GPUs crosses domains. The first process receives nothing.
        domains = np.where(np.concatenate(crossing), 2.0, 1.0)
        hops = [np.array(getattr(run, how)(before[..., at], domains[at])) for run, at in self._slices]
        for (run, at), received in zip(self._slices, hops[1:], strict=False):
            sent = getattr(run, how)(before[..., at.stop : at.stop + 1], np.array([2.0]))
            received[..., :1] = np.maximum(received[..., :1], sent)
        return np.concatenate(hops, axis=-1)


def read_whole(setup: Setup) -> Setup:
    """Copy of a setup without chunked prefill and without engines, so that no engine needs to support the layout."""
    return replace(setup, engines=(), assumptions=setup.assumptions.changed({"serving.prefill_chunk": 0}))


def check_kept(setup: Setup) -> None:
    """Reject a split of the prompt if the assumptions store no KV cache."""
    if setup.assumptions.attention.cache == "recomputed":
        raise InputError(
            "parts of a prompt need the cache of those before, and none is kept: attention.cache is recomputed"
        )


def _before(parts: Array) -> Array:
    """Number of prompt tokens before the part of each process [tokens]."""
    return np.asarray(np.cumsum(parts, axis=-1) - parts)


def _whole_tokens(parts: Array) -> tuple[int, ...]:
    """Round the tokens of each process to integers, and keep their sum."""
    ends = np.rint(np.cumsum(parts)).astype(int)
    return tuple(int(part) for part in np.diff(ends, prepend=0))


#: Largest number of instances in a prefill chain [1]. Search time per layout, and per instance of a chain [s].
_LONGEST, _TABLE_SECONDS, _PROCESS_SECONDS = 64, 0.6, 0.05


def with_chains(pool: PoolLayouts, numbers: Sequence[int], largest: float = math.inf) -> PoolLayouts:
    """Add prefill chains (KV-Runahead) to prefill layouts.

    The instances of a chain prefill successive parts of the same prompt.

    Parameters
    ----------
    pool : PoolLayouts
        Prefill layouts.
    numbers : sequence of int
        Numbers of instances per chain [1]; all instances of a chain have the same layout and kind of GPU.
    largest : float
        Maximum number of GPUs in a chain [1].

    Returns
    -------
    PoolLayouts
        The given layouts, followed by the chains of these layouts. A chain is treated as one instance with the GPUs of
        all its members. :class:`PrefillChain` computes the times of a prompt in the chain and in its busiest member.
        The members of a chain may process different prompts at the same time. The last member sends the whole KV cache
        to a decode instance.

    Raises
    ------
    InputError
        If a number of instances is out of range, or the model stores no KV cache.
    NothingFitsError
        If no layout can be a member of a chain.
    """
    services = pool.services
    tokens, cached = round(services.requests.new_tokens), float(services.requests.cached)
    for number in numbers:
        if not 2 <= number <= _LONGEST:
            raise InputError(f"a chain has from 2 to {_LONGEST} processes, got {number}", option="prefill_chain")
        if tokens < number:
            raise InputError(f"a prompt of {tokens} tokens has no token for each of {number} processes")
    check_kept(services.setup)
    plans, slots, whole = services.plans, services.slots, read_whole(services.setup)
    alone = np.broadcast_to((prompts_together(services.setup, plans) == 1.0) & (plans.pp == 1.0), slots.shape)
    seconds = alone.sum() * (_TABLE_SECONDS + _PROCESS_SECONDS * sum(numbers))
    _work.check(f"{alone.sum() * len(numbers):,} chains", seconds=float(seconds), smaller="prefill_chain")
    most = min(largest, services.setup.most_linked or math.inf)
    chains: list[tuple[float, ...]] = []
    for index in np.flatnonzero(alone).tolist():
        processes = Processes.of(whole, plans.at((np.array([index]),)), float(tokens), cached)
        once = processes.alone(tokens).seconds
        for chain in (PrefillChain(((processes, number),)) for number in numbers if number * processes.chips <= most):
            way = chain.searched(tokens)
            busiest = chain.busiest_seconds(way.parts)
            chains.append((index, chain.processes, way.seconds / once, busiest / once))
    if not chains:
        raise NothingFitsError(
            f"no layout of {services.setup.model.name} on {services.setup.hardware.name} that processes one prompt at "
            f"a time forms a chain of {' or '.join(map(str, numbers))} within {most:g} GPUs; allow larger instances"
        )
    single = np.arange(len(services))
    rows, *columns = np.array(chains).T
    ones = np.ones(single.size)
    every = services.take(np.concatenate([single, rows.astype(np.intp)]))
    return PoolLayouts(every, *(np.concatenate([ones, column]) for column in columns))
