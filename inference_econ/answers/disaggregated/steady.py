"""Pools with as many requests in flight all the time: what users see of every decode layout at every batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.load import prefill_queue, seconds_without_waits
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED
from inference_econ.engine import node

#: Layouts that read prompts and are looked at for each that decodes, the cheapest ones [1].
_READERS = 6
#: Prefill or decode instances of a group at most, and of one kind for each of the other [1].
_MOST_INSTANCES, _MOST_RATIO = 16, 8


@dataclass(frozen=True)
class SteadyPools:
    """Prefill instances beside decode instances, in the whole numbers that cost least at every batch.

    Attributes
    ----------
    pools : Pools
        The layouts.
    longest_seconds : float
        Prompts that find nobody must be read in this time [s].

    Notes
    -----
    Decode instances have a batch all the time. Prefill instances are as many as keep up while they are filled to
    :data:`inference_econ.answers.slo.FILLED`, so that prompts wait little. Of all groups that fill nodes, or an
    even part of one, the smallest of those that are enough and hardly dearer than the cheapest is taken: nobody deploys
    13 chips together. A group with fewer that read is taken where it is cheaper per request and no larger, or
    noticeably cheaper, and its decode instances have as many requests as those that read feed: otherwise chips that
    decode faster would need another group, and be dearer. GPUs that idle are paid for.
    """

    pools: Pools
    longest_seconds: float = np.inf

    @cached_property
    def _chosen(self) -> tuple[Indices, Indices, Indices, Array]:
        """The prefill layout, how many instances read for how many that decode, and what share of a batch they feed.

        Arrays of shape (m, k); 0 instances where none can.
        """
        pools = self.pools
        rate = pools.decode.states.requests_per_second
        busy = pools.busy_seconds
        with np.errstate(invalid="ignore"):
            cost = np.where(
                np.isfinite(pools.transfer.seconds) & (pools.first_token_seconds <= self.longest_seconds),
                busy * pools.prefill.accelerators[:, None],
                np.inf,
            )
        order = np.argsort(cost, axis=0, kind="stable")[:_READERS]
        writers = np.arange(rate.shape[0])
        best = np.full(rate.shape, np.inf)
        readers_of, prefilling, decoding = (np.zeros(rate.shape, dtype=np.intp) for _ in range(3))
        share = np.ones(rate.shape)
        kinds = [pools.prefill.setup.hardware, pools.decode.setup.hardware]
        whole = tuple(node(kind) for kind in (kinds[1:] if kinds[0] == kinds[1] else kinds))
        for reader in order:
            reader_chips = pools.prefill.accelerators[reader]
            possible = np.isfinite(cost[reader, writers])[:, None] & (
                rate * pools.transfer.receiving_seconds[reader, writers][:, None] <= 1.0
            )
            with np.errstate(invalid="ignore"):
                wanted = np.where(possible, rate * busy[reader, writers][:, None] / FILLED, np.inf)
            sizes = reader_chips, pools.decode.accelerators
            readers, decoders, fed = _instances(wanted, *sizes, whole, pools.groups.most, self._relative_price)
            with np.errstate(divide="ignore", invalid="ignore"):
                paid = self._relative_price * readers * reader_chips[:, None] / decoders
                paid = paid + pools.decode.accelerators[:, None]
                paid = np.where(readers > 0, paid / fed, np.inf)
            # Where none can, none is better.
            better = paid < best
            best = np.where(better, paid, best)
            readers_of = np.where(better, reader[:, None], readers_of)
            prefilling, decoding = np.where(better, readers, prefilling), np.where(better, decoders, decoding)
            share = np.where(better, fed, share)
        return readers_of, prefilling, decoding, share

    @cached_property
    def _relative_price(self) -> float:
        """Price of a chip of the prefill pool over that of a chip of the decode pool [1]."""
        reading, decoding = (pool.setup for pool in (self.pools.prefill, self.pools.decode))
        if reading.hardware == decoding.hardware:
            return 1.0
        return reading.dollars_per_accelerator_hour / decoding.dollars_per_accelerator_hour

    @cached_property
    def paid_chips(self) -> Array:
        """Chips of the decode pool that cost as much as each group, shape (n, k) [1]; all chips where both are alike.

        NaN where there is no group.
        """
        prefill, readers, *_ = self._chosen
        chips = readers * self.pools.prefill.accelerators[prefill]
        return np.asarray(self.seen[2] + (self._relative_price - 1.0) * chips)

    @cached_property
    def seen(self) -> tuple[Array, Array, Array, Array, Array]:
        """TPOT, requests per second, chips, requests that decode, and batch of a group; NaN where none can."""
        pools, states, (prefill, readers, decoders, fed) = self.pools, self.pools.decode.states, self._chosen
        possible = readers > 0
        rate = np.where(possible, fed * states.requests_per_second, np.nan)
        chips = readers * pools.prefill.accelerators[prefill] + decoders * pools.decode.accelerators[:, None]
        tpot = np.where(possible, states.tpot_seconds, np.nan)
        for row in np.flatnonzero((fed < 1.0).any(axis=1)):
            less = fed[row] < 1.0
            # Whoever waits for places in a smaller batch does not lengthen it.
            rates_of_batches = np.log(np.maximum.accumulate(states.requests_per_second[row]))
            tpot[row, less] = np.exp(
                np.interp(np.log(rate[row, less]), rates_of_batches, np.log(states.tpot_seconds[row]))
            )
        batch: Array = np.where(fed < 1.0, rate * pools.requests.decode_steps * tpot, states.batch)
        rates: Array = np.asarray(decoders * rate, dtype=float)
        flight: Array = np.asarray(decoders * batch, dtype=float)
        return tpot, rates, np.where(possible, chips, np.nan), flight, batch

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean TTFT of some states, waits for other prompts included [s]; NaN where no pools can."""
        prefill, readers, *_ = (chosen[rows, columns] for chosen in self._chosen)
        rates = self.seen[1][rows, columns]
        seconds = np.full(rates.shape, np.nan)
        for group in set(zip(prefill.tolist(), rows.tolist(), readers.tolist(), strict=True)):
            reader, writer, count = group
            mine = (prefill == reader) & (rows == writer) & (readers == count)
            if count:
                queue = prefill_queue(self.pools, reader, writer, count, rates[mine], 1.0)
                seconds[mine] = seconds_without_waits(self.pools, (reader, writer), queue) + queue.wait_seconds
        return seconds

    def reading_rows(self, rows: Indices, columns: Indices) -> Indices:
        """The prefill layouts of some states."""
        return self._chosen[0][rows, columns]

    def instances_at(self, rows: Indices, columns: Indices) -> list[tuple[int, int]]:
        """Prefill and decode instances of some states [1]."""
        _, readers, decoders, _ = self._chosen
        return list(zip(readers[rows, columns].tolist(), decoders[rows, columns].tolist(), strict=True))


def _instances(
    wanted: Array, reading: Array, decoding: Array, whole: tuple[int, ...], most: int, relative_price: float = 1.0
) -> tuple[Indices, Indices, Array]:
    """Whole numbers of prefill and decode instances for some ratios, and the share of the ratio that they feed.

    Shape (m, k) each. The share is 1 where a group of at least the ratio costs least per request, and less where one of
    a smaller ratio does. The numbers are 0 where no group is of a ratio that is wanted. ``reading`` and ``decoding``
    are chips of an instance of either kind, shape (m,), ``whole`` those of a node: one number where both pools share
    nodes, otherwise one of each pool; ``most`` are the chips of a group at most. ``relative_price`` is that of a
    prefill chip over that of a decode chip.
    """
    counts, fed = np.zeros((*wanted.shape, 2), dtype=np.intp), np.ones(wanted.shape)
    for row, sizes in enumerate(zip(reading.tolist(), decoding.tolist(), strict=True)):
        groups = _groups(*sizes, whole, most, relative_price)
        at = np.searchsorted(groups.ratios, wanted[row] * (1.0 - 1e-9))
        enough = at < groups.ratios.size
        counts[row, enough] = groups.instances[at[enough]]
        fewer = np.flatnonzero(enough)
        fewer = fewer[groups.filled[at[fewer]] < groups.chips[at[fewer]] / wanted[row, fewer] * (1.0 - 1e-9)]
        taken = groups.before[at[fewer]]
        counts[row, fewer] = groups.instances[taken]
        fed[row, fewer] = groups.ratios[taken] / wanted[row, fewer]
    return counts[..., 0], counts[..., 1], fed


class _Groups(NamedTuple):
    """Groups of prefill and decode instances, of each ratio that there is; arrays of shape (n,)."""

    ratios: Array
    """Prefill instances for each that decodes, ascending [1]."""
    instances: Indices
    """Numbers of both of the group that is taken for a ratio, shape (n, 2) [1]; theirs may be larger."""
    chips: Array
    """Chips of that group for each instance that decodes [1]; prefill chips as many as cost the same."""
    before: Indices
    """Which smaller ratio costs least where its prefill instances are filled."""
    filled: Array
    """Its chips over the ratio, of a larger group as much more as it has to save [1]."""


@cache
def _groups(reading: float, decoding: float, whole: tuple[int, ...], most: int, relative_price: float) -> _Groups:
    """The groups of instances of some chips each.

    The chips of a group are whole nodes, or an even part of one, and no more than are deployed together; so are those
    of each pool where the pools share no nodes. Of groups that hardly differ in cost for each decode instance the
    smallest is taken.
    """
    numbers = np.array(list(product(range(1, _MOST_INSTANCES + 1), repeat=2)), dtype=np.intp)
    sides = numbers * np.array([reading, decoding])
    chips, ratios = sides.sum(axis=1), numbers[:, 0] / numbers[:, 1]
    placed = (chips,) if len(whole) == 1 else sides.T
    filled = np.ones(chips.size, dtype=bool)
    for part, size in zip(placed, whole, strict=True):
        filled &= (part % size == 0) | (size % part == 0)
    possible = filled & (chips <= most) & (np.maximum(ratios, 1.0 / ratios) <= _MOST_RATIO)
    order = np.flatnonzero(possible)[np.argsort(ratios[possible], kind="stable")]
    ratios, chips, numbers = ratios[order], chips[order], numbers[order]
    # They ascend with the ratio.
    costs = relative_price * reading * ratios + decoding
    dearer = np.searchsorted(costs, costs * (1.0 + SIMPLER), side="right")
    chosen = [start + int(np.argmin(chips[start:end])) for start, end in enumerate(dearer.tolist())]
    chips, costs = chips[chosen], costs[chosen]
    larger = chips[None, :] > chips[:, None]
    filled = np.where(np.tri(chips.size, k=-1), costs / ratios * (1.0 + SIMPLER * larger), np.inf)
    before = filled.argmin(axis=1) if filled.size else np.zeros(0, dtype=np.intp)
    return _Groups(ratios, numbers[chosen], costs, before, filled.min(axis=1, initial=np.inf))
