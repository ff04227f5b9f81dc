"""LRU stack distances of cache blocks, which give the hit rate of an LRU cache of any size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from zlib import crc32

#: Number of different hashes of blocks [1]; the hash selects the tracked blocks if there are too many blocks.
_HASHES = 1 << 24
#: Number of positions in time per part, for which one sum is stored [1].
_PART = 512
#: Maximum number of tracked blocks [1]. If there are more blocks, a random sample (by hash) represents all blocks.
_MOST = 1 << 18


def _hash(block: Hashable) -> int:
    """Hash of a block, below :data:`_HASHES` [1]; equal in every Python process."""
    return crc32(repr(block).encode()) % _HASHES


class StackDistances:
    """Online counter of the LRU stack distances of prompt blocks.

    An LRU cache of C blocks contains a block if fewer than C other blocks were used since the last use of the block.
    Within a prompt, the last block is treated as the least recently used, so the end of a prompt is evicted before its
    start.

    If there are more than ``most`` blocks, only blocks with a hash below a threshold are tracked, and results are
    scaled in proportion. Run time grows with the number of uses, and memory is bounded.

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
        #: Number of tracked uses, number of uses whose block was used before, and number of uses by the cache size that
        #: a hit requires.
        self.followed, self.hits = 0.0, 0.0
        self.rooms: dict[int, float] = {}
        #: Position in time of the last use of each block; True for positions that are last uses; and number of last
        #: uses per part.
        self._last: dict[Hashable, int] = {}
        self._used, self._end = bytearray(2 * most + _PART), 0
        self._counts = [0] * (len(self._used) // _PART + 1)

    def use(self, blocks: Sequence[Hashable]) -> int:
        """Record a use of the blocks of a prompt, and return the number of leading blocks that were used before [1]."""
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
            # A smaller sample of the blocks is tracked from now on.
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
        """Hit rates of LRU caches with ``rooms`` blocks each, as shares of all uses [1]."""
        return [sum(n for need, n in self.rooms.items() if need <= room) / self.followed for room in rooms]

    def _renumber(self) -> None:
        """Renumber the positions of last uses consecutively, in their order."""
        self._last = {block: place for place, block in enumerate(self._last)}
        self._end = len(self._last)
        self._used = bytearray(b"\1" * self._end).ljust(max(len(self._used), 2 * self._end + 1), b"\0")
        parts = range(0, len(self._used) + _PART, _PART)
        self._counts = [max(min(self._end - begin, _PART), 0) for begin in parts]
