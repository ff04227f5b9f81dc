"""LRU stack distances of cache blocks. Stack distances give the hit rate of a cache of any size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from zlib import crc32

#: Range of the hash that selects blocks [1]. All blocks are selected until there are too many.
_HASHES = 1 << 24
#: Number of positions in time that are counted as one part [1].
_PART = 512
#: Maximum number of blocks that are tracked [1]. If there are more, a random sample (by hash) represents all blocks.
_MOST = 1 << 18


def _hash(block: Hashable) -> int:
    """Hash of a block, below :data:`_HASHES` [1]. The hash is the same in every process."""
    return crc32(repr(block).encode()) % _HASHES


class StackDistances:
    """Online counter of the LRU stack distances of prompt blocks.

    An LRU cache of C blocks contains a block if fewer than C other blocks were used since its last use. Within a
    prompt, the last block is treated as used first, so the end of a prompt is evicted before its start.

    If there are more than ``most`` blocks, only blocks with a hash below a threshold are tracked. The tracked blocks
    represent all blocks in proportion. Run time grows with the number of uses, and memory is constant.

    Parameters
    ----------
    most : int
        Maximum number of tracked blocks [1].

    Notes
    -----
    Mattson et al. (1970), "Evaluation techniques for storage hierarchies"; sampling by hashes: Waldspurger et al.
    (2015), "Efficient MRC construction with SHARDS".

    Examples
    --------
    >>> distances = StackDistances()
    >>> distances.use([1, 2, 3]), distances.use([1, 2, 4]), distances.use([1])
    (0, 2, 1)
    >>> distances.uses, distances.share, distances.found([1, 2, 3])
    (7, 0.42857142857142855, [0.2857142857142857, 0.42857142857142855, 0.42857142857142855])
    """

    def __init__(self, most: int = _MOST) -> None:
        self.most, self.below, self.uses = most, _HASHES, 0
        #: Number of tracked uses, number of those that found their block, and counts by the cache size that they
        #: required.
        self.followed, self.hits = 0.0, 0.0
        self.rooms: dict[int, float] = {}
        #: Last use of each block as a position in time; which positions are last uses; and number of last uses in each
        #: part.
        self._last: dict[Hashable, int] = {}
        self._used, self._end = bytearray(2 * most + _PART), 0
        self._counts = [0] * (len(self._used) // _PART + 1)

    def use(self, blocks: Sequence[Hashable]) -> int:
        """Use the blocks of a prompt, and return the number of leading blocks that were used before [1]."""
        last, chosen = self._last, list(blocks)
        self.uses += len(chosen)
        if self.below < _HASHES:
            chosen = [block for block in chosen if _hash(block) < self.below]
        weight = _HASHES / self.below
        self.followed += weight * len(chosen)
        count, before = 0, [0]
        for block in chosen:
            place = last.get(block)
            if place is None:
                break
            if not count:
                before = [0, *accumulate(self._counts)]
            count += 1
            earlier = before[place // _PART] + self._used.count(1, place - place % _PART, place)
            room = round(weight * (len(last) - earlier))
            self.rooms[room] = self.rooms.get(room, 0.0) + weight
        self.hits += weight * count
        for block in reversed(chosen):
            if self._end >= len(self._used):
                self._renumber()
            former = self._last.pop(block, None)
            if former is not None:
                self._used[former] = 0
                self._counts[former // _PART] -= 1
            self._last[block] = self._end
            self._used[self._end] = 1
            self._counts[self._end // _PART] += 1
            self._end += 1
        if len(last) > self.most:
            # From here on, a smaller sample of the blocks is tracked.
            self.below //= 2
            self._last = {block: place for block, place in last.items() if _hash(block) < self.below}
            self._renumber()
        return round(count * len(blocks) / len(chosen)) if chosen else 0

    @property
    def share(self) -> float:
        """Hit rate of an unlimited cache, as a share of all uses [1]."""
        return self.hits / self.followed if self.followed else 0.0

    @property
    def distinct(self) -> int:
        """Approximate number of different blocks [1]."""
        return round(len(self._last) * _HASHES / self.below)

    def found(self, rooms: Sequence[int]) -> list[float]:
        """Hit rates of caches with given numbers of blocks, as a share of all uses [1]."""
        return [sum(n for need, n in self.rooms.items() if need <= room) / self.followed for room in rooms]

    def _renumber(self) -> None:
        """Close the gaps between the positions of last uses. The dictionary has them in order."""
        self._last = {block: place for place, block in enumerate(self._last)}
        self._end = len(self._last)
        self._used = bytearray(b"\1" * self._end).ljust(max(len(self._used), 2 * self._end + 1), b"\0")
        parts = range(0, len(self._used) + _PART, _PART)
        self._counts = [max(min(self._end - begin, _PART), 0) for begin in parts]
