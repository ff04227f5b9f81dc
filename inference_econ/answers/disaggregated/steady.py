"""Prefill and decode instances at a constant concurrency: latencies and rates for every decode layout and batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.load import MOST_RATIO, prefill_queue, seconds_without_waits
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import FILLED
from inference_econ.engine import node

#: Number of prefill layouts that are evaluated per decode layout; the cheapest ones are used [1].
_READERS = 6


@dataclass(frozen=True)
class SteadyPools:
    """Prefill/decode groups with the lowest cost at every decode layout and batch.

    Attributes
    ----------
    pools : Pools
        Prefill and decode layouts.
    longest_seconds : float
        Longest prefill time of a prompt that does not queue [s].

    Notes
    -----
    Decode instances run at a constant batch. The load of prefill instances is at most
    :data:`inference_econ.answers.slo.FILLED`, so prompts rarely queue. A group occupies one or more full nodes, or an
    even fraction of a node. The smallest group within 10% of the lowest cost is used, because groups of unusual size,
    such as 13 GPUs, are not deployed.

    In some groups, prefill instances cannot supply the full batch of the decode instances, which then run fewer
    requests. Such a group is used if its cost per request is lower and it has no more GPUs, or if it is 10% cheaper.
    Without this rule, faster decode GPUs could require a larger group and raise the cost. The cost includes idle GPUs.
    """

    pools: Pools
    longest_seconds: float = np.inf

    @cached_property
    def _chosen(self) -> tuple[Indices, Indices, Indices, Array]:
        """Best groups: prefill layout, numbers of prefill and decode instances, and used share of the decode batch.

        All arrays have one entry per decode layout and batch, shape (m, k). The share is below 1 if the prefill
        instances cannot supply the full batch. The numbers of instances are 0 where no group is possible.
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
            # An infinite cost is never better.
            better = paid < best
            best = np.where(better, paid, best)
            readers_of = np.where(better, reader[:, None], readers_of)
            prefilling, decoding = np.where(better, readers, prefilling), np.where(better, decoders, decoding)
            share = np.where(better, fed, share)
        return readers_of, prefilling, decoding, share

    @cached_property
    def _relative_price(self) -> float:
        """Price of a prefill GPU divided by the price of a decode GPU [1]."""
        reading, decoding = (pool.setup for pool in (self.pools.prefill, self.pools.decode))
        if reading.hardware == decoding.hardware:
            return 1.0
        return reading.dollars_per_accelerator_hour / decoding.dollars_per_accelerator_hour

    @cached_property
    def paid_chips(self) -> Array:
        """Number of decode GPUs with the same cost as all GPUs of each group, shape (n, k) [1].

        If prefill and decode use the same kind of GPU, this is the number of all GPUs. The number is NaN where no group
        is possible.
        """
        prefill, readers, *_ = self._chosen
        chips = readers * self.pools.prefill.accelerators[prefill]
        return np.asarray(self.seen[2] + (self._relative_price - 1.0) * chips)

    @cached_property
    def seen(self) -> tuple[Array, Array, Array, Array, Array]:
        """TPOT [s], request rate [1/s], GPUs [1], concurrent decode requests [1] and decode batch [1] of each group.

        The values are NaN where no group is possible.
        """
        pools, states, (prefill, readers, decoders, fed) = self.pools, self.pools.decode.states, self._chosen
        possible = readers > 0
        rate = np.where(possible, fed * states.requests_per_second, np.nan)
        chips = readers * pools.prefill.accelerators[prefill] + decoders * pools.decode.accelerators[:, None]
        tpot = np.where(possible, states.tpot_seconds, np.nan)
        for row in np.flatnonzero((fed < 1.0).any(axis=1)):
            less = fed[row] < 1.0
            # If the batch is smaller, requests may wait for a slot, but steps do not become longer.
            rates_of_batches = np.log(np.maximum.accumulate(states.requests_per_second[row]))
            tpot[row, less] = np.exp(
                np.interp(np.log(rate[row, less]), rates_of_batches, np.log(states.tpot_seconds[row]))
            )
        batch: Array = np.where(fed < 1.0, rate * pools.requests.decode_steps * tpot, states.batch)
        rates: Array = np.asarray(decoders * rate, dtype=float)
        flight: Array = np.asarray(decoders * batch, dtype=float)
        return tpot, rates, np.where(possible, chips, np.nan), flight, batch

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean TTFT at the given decode layouts (rows) and batches (columns), including queueing [s].

        The TTFT is NaN where no group is possible.
        """
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
        """Indices of the prefill layouts that are used at the given decode layouts (rows) and batches (columns)."""
        return self._chosen[0][rows, columns]

    def instances_at(self, rows: Indices, columns: Indices) -> list[tuple[int, int]]:
        """Numbers of prefill and decode instances at the given decode layouts (rows) and batches (columns) [1]."""
        _, readers, decoders, _ = self._chosen
        return list(zip(readers[rows, columns].tolist(), decoders[rows, columns].tolist(), strict=True))


def _instances(
    wanted: Array, reading: Array, decoding: Array, whole: tuple[int, ...], most: float, relative_price: float = 1.0
) -> tuple[Indices, Indices, Array]:
    """Numbers of prefill and decode instances for each wanted ratio, and the share of the wanted ratio that is reached.

    All arrays have shape (m, k). The wanted ratio is a number of prefill instances per decode instance. The share is
    below 1 if the group with the lowest cost per request has a smaller ratio. The numbers are 0 if there is no group.

    ``reading`` and ``decoding`` are the numbers of GPUs in a prefill instance and in a decode instance, shape (m,).
    ``whole`` has the number of GPUs in a node: one entry if prefill and decode instances share nodes, else one entry
    for prefill and one for decode. ``most`` is the maximum number of GPUs in a group. ``relative_price`` is the price
    of a prefill GPU divided by the price of a decode GPU.
    """
    counts, fed = np.zeros((*wanted.shape, 2), dtype=np.intp), np.ones(wanted.shape)
    for row, sizes in enumerate(zip(reading.tolist(), decoding.tolist(), strict=True)):
        groups = _groups(*sizes, whole, most, relative_price)
        at = np.searchsorted(groups.ratios, wanted[row] * (1.0 - 1e-9))
        enough = at < groups.ratios.size
        counts[row, enough] = groups.instances[at[enough]]
        fewer = np.flatnonzero(np.isfinite(wanted[row]))
        fewer = fewer[groups.filled[at[fewer]] < groups.chips[at[fewer]] / wanted[row, fewer] * (1.0 - 1e-9)]
        taken = groups.before[at[fewer]]
        counts[row, fewer] = groups.instances[taken]
        fed[row, fewer] = groups.ratios[taken] / wanted[row, fewer]
    return counts[..., 0], counts[..., 1], fed


class _Groups(NamedTuple):
    """Prefill/decode groups, one per ratio of prefill to decode instances.

    Arrays have shape (n,), or shape (n + 1,) with a last entry for wanted ratios above the largest ratio.
    """

    ratios: Array
    """Number of prefill instances per decode instance, ascending [1]."""
    instances: Indices
    """Numbers of prefill and decode instances in the group that is used for each ratio, shape (n, 2) [1].

    The group may have a larger ratio if it has fewer GPUs.
    """
    chips: Array
    """GPUs of the group in ``instances`` per decode instance, shape (n + 1,) [1]; infinite in the last entry.

    Prefill GPUs are converted to decode GPUs of equal cost.
    """
    before: Indices
    """Index of the smaller ratio that has the lowest cost per request at full prefill load, shape (n + 1,)."""
    filled: Array
    """GPUs of the group in ``before`` per prefill instance, shape (n + 1,) [1].

    Prefill GPUs are converted to decode GPUs of equal cost. For a group with more GPUs, the value is increased by the
    share of the cost that it must save to be used.
    """


@cache
def _groups(reading: float, decoding: float, whole: tuple[int, ...], most: float, relative_price: float) -> _Groups:
    """List the prefill/decode groups for given sizes of a prefill and a decode instance [GPUs].

    A group occupies one or more full nodes, or an even fraction of a node, and has at most ``most`` GPUs. If prefill
    and decode instances do not share nodes, this rule applies to the prefill GPUs and to the decode GPUs. A group has
    at most ``MOST_RATIO`` prefill instances, and at most ``MOST_RATIO`` decode instances. Among groups with a similar
    cost per decode instance, the group with the fewest GPUs is used.
    """
    numbers = np.array(list(product(range(1, MOST_RATIO + 1), repeat=2)), dtype=np.intp)
    sides = numbers * np.array([reading, decoding])
    chips, ratios = sides.sum(axis=1), numbers[:, 0] / numbers[:, 1]
    placed = (chips,) if len(whole) == 1 else sides.T
    filled = np.ones(chips.size, dtype=bool)
    for part, size in zip(placed, whole, strict=True):
        filled &= (part % size == 0) | (size % part == 0)
    possible = filled & (chips <= most)
    order = np.flatnonzero(possible)[np.argsort(ratios[possible], kind="stable")]
    ratios, chips, numbers = ratios[order], chips[order], numbers[order]
    # Costs per decode instance ascend with the ratio.
    costs = relative_price * reading * ratios + decoding
    dearer = np.searchsorted(costs, costs * (1.0 + SIMPLER), side="right")
    chosen = [start + int(np.argmin(chips[start:end])) for start, end in enumerate(dearer.tolist())]
    chips, costs = chips[chosen], costs[chosen]
    larger = chips > np.append(chips, np.inf)[:, None]
    filled = np.where(np.tri(chips.size + 1, chips.size, -1), costs / ratios * (1.0 + SIMPLER * larger), np.inf)
    before = filled.argmin(axis=1) if filled.size else np.zeros(1, dtype=np.intp)
    return _Groups(ratios, numbers[chosen], np.append(costs, np.inf), before, filled.min(axis=1, initial=np.inf))
