"""Pools with as many requests in flight all the time: what users see of every decode layout at every batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.load import prefill_queue, seconds_without_waits
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import NOTICED
from inference_econ.answers.promises import FILLED
from inference_econ.engine import node

#: Chips that are deployed together at most [1]: published pools of one service have up to 320 (DeepSeek-V3's report,
#: section 3.4), those of public measurements up to 72.
_LARGEST_GROUP = 144
#: Prefill instances that are busy for a smaller share of the time are not deployed apart [1].
_IDLEST = 0.25
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
    :data:`inference_econ.answers.promises.FILLED`, so that prompts wait little. Of all groups that fill nodes, or an
    even part of one, the smallest of those that are enough and hardly dearer than the cheapest is taken: nobody deploys
    13 chips together. Pools whose prefill instances would be idle for most of the time are none.
    """

    pools: Pools
    longest_seconds: float = np.inf

    @cached_property
    def _chosen(self) -> tuple[Indices, Indices, Indices]:
        """The prefill layout, and how many instances read for how many that decode; shape (m, k), 0 where none can."""
        pools = self.pools
        rate = pools.decode.states.requests_per_second
        busy = np.maximum(pools.prefill.prefill_busy_seconds[:, None], pools.transfer.sending_seconds)
        with np.errstate(invalid="ignore"):
            cost = np.where(
                np.isfinite(pools.transfer.seconds) & (pools.first_token_seconds <= self.longest_seconds),
                busy * pools.prefill.accelerators[:, None],
                np.inf,
            )
        order = np.argsort(cost, axis=0, kind="stable")[:_READERS]
        writers = np.arange(rate.shape[0])
        best = np.full(rate.shape, np.inf)
        chosen = tuple(np.zeros(rate.shape, dtype=np.intp) for _ in range(3))
        whole = node(pools.decode.setup.hardware)
        for reader in order:
            each = pools.prefill.accelerators[reader]
            possible = np.isfinite(cost[reader, writers])[:, None] & (
                rate * pools.transfer.receiving_seconds[reader, writers][:, None] <= 1.0
            )
            with np.errstate(invalid="ignore"):
                wanted = np.where(possible, rate * busy[reader, writers][:, None] / FILLED, np.inf)
            readers, decoders = _instances(wanted, each, pools.decode.accelerators, whole)
            with np.errstate(divide="ignore", invalid="ignore"):
                busy_enough = wanted * decoders / readers >= _IDLEST / FILLED
                chips = np.where((readers > 0) & busy_enough, readers * each[:, None] / decoders, np.inf)
            # Where none can, none is better.
            better = chips < best
            best = np.where(better, chips, best)
            for mine, values in zip(
                chosen, (np.broadcast_to(reader[:, None], rate.shape), readers, decoders), strict=True
            ):
                mine[better] = values[better]
        return chosen[0], chosen[1], chosen[2]

    @cached_property
    def seen(self) -> tuple[Array, Array, Array, Array, Array]:
        """TPOT, requests per second, chips, requests that decode, and batch of a group; NaN where none can."""
        pools, states, (prefill, readers, decoders) = self.pools, self.pools.decode.states, self._chosen
        possible = readers > 0
        rate = np.where(possible, decoders * states.requests_per_second, np.nan)
        chips = readers * pools.prefill.accelerators[prefill] + decoders * pools.decode.accelerators[:, None]
        tpot = np.where(possible, states.tpot_seconds, np.nan)
        return tpot, rate, np.where(possible, chips, np.nan), decoders * states.batch, states.batch

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean TTFT of some states, waits for other prompts included [s]; NaN where no pools can."""
        prefill, readers, _ = (chosen[rows, columns] for chosen in self._chosen)
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
        _, readers, decoders = self._chosen
        return list(zip(readers[rows, columns].tolist(), decoders[rows, columns].tolist(), strict=True))


def _instances(wanted: Array, reading: Array, decoding: Array, whole: int) -> tuple[Indices, Indices]:
    """Whole numbers of prefill and decode instances of at least some ratios, shape (m, k); 0 where no group has them.

    ``reading`` and ``decoding`` are chips of an instance of either kind, shape (m,), ``whole`` those of a node.
    """
    counts = np.zeros((*wanted.shape, 2), dtype=np.intp)
    for row, sizes in enumerate(zip(reading.tolist(), decoding.tolist(), strict=True)):
        ratios, instances = _groups(*sizes, whole)
        at = np.searchsorted(ratios, wanted[row] * (1.0 - 1e-9))
        enough = at < ratios.size
        counts[row, enough] = instances[at[enough]]
    return counts[..., 0], counts[..., 1]


@cache
def _groups(reading: float, decoding: float, whole: int) -> tuple[Array, npt.NDArray[np.intp]]:
    """Ratios of prefill to decode instances that groups have, ascending, and numbers with at least each, shape (n, 2).

    The chips of a group are whole nodes, or an even part of one, and no more than are deployed together. Of groups that
    hardly differ in chips for each decode instance the smallest is taken.
    """
    numbers = np.array(list(product(range(1, _MOST_INSTANCES + 1), repeat=2)), dtype=np.intp)
    chips, ratios = numbers @ np.array([reading, decoding]), numbers[:, 0] / numbers[:, 1]
    filled = (np.mod(chips, whole) == 0) | (np.mod(whole, chips) == 0)
    possible = filled & (chips <= _LARGEST_GROUP) & (np.maximum(ratios, 1.0 / ratios) <= _MOST_RATIO)
    order = np.flatnonzero(possible)[np.argsort(ratios[possible], kind="stable")]
    ratios, chips, numbers = ratios[order], chips[order], numbers[order]
    # They ascend with the ratio.
    costs = reading * ratios + decoding
    dearer = np.searchsorted(costs, costs * (1.0 + NOTICED), side="right")
    chosen = [start + int(np.argmin(chips[start:end])) for start, end in enumerate(dearer.tolist())]
    return ratios, numbers[chosen]
