"""Reuse of blocks of memory: how far apart uses are, and so what a cache of any size would find."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from zlib import crc32

#: Values of the hash that chooses blocks; all are chosen until there are too many [1].
_HASHES = 1 << 24
#: Places in time of a part that are counted together [1].
_PART = 512
#: Blocks that are followed at most; of more a random part, by their hashes, stands for all [1].
_MOST = 1 << 18


def _hash(block: Hashable) -> int:
    """A number below :data:`_HASHES`, the same in every process [1]."""
    return crc32(repr(block).encode()) % _HASHES


class StackDistances:
    """LRU stack distances of blocks that come as prefixes, counted as they come.

    A block is found by a cache of C blocks that forgets the least recently used if fewer than C other blocks were used
    since; of a prefix the last blocks count as used first, so that its end is forgotten before its beginning. Of more
    blocks than ``most`` those are followed whose hash is below a threshold, and stand for as many as they are of all:
    time grows with the number of uses, memory not at all.

    Parameters
    ----------
    most : int
        Blocks that are followed at once [1].

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
        #: Uses that were followed, those that found their block, and by the blocks that room was needed for.
        self.followed, self.hits = 0.0, 0.0
        self.rooms: dict[int, float] = {}
        #: Last uses by their places in time, which of the places are last uses, and how many are in each part of them.
        self._last: dict[Hashable, int] = {}
        self._used, self._end = bytearray(2 * most + _PART), 0
        self._counts = [0] * (len(self._used) // _PART + 1)

    def use(self, blocks: Sequence[Hashable]) -> int:
        """Use the blocks of a prefix; return how many from its beginning on were used before [1]."""
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
            self._place(block)
        if len(last) > self.most:
            # A smaller part of the blocks stands for all.
            self.below //= 2
            self._last = {block: place for block, place in last.items() if _hash(block) < self.below}
            self._renumber()
        return round(count * len(blocks) / len(chosen)) if chosen else 0

    @property
    def share(self) -> float:
        """Share of all uses that a cache finds which forgets nothing [1]."""
        return self.hits / self.followed if self.followed else 0.0

    @property
    def distinct(self) -> int:
        """Different blocks, about [1]."""
        return round(len(self._last) * _HASHES / self.below)

    def found(self, rooms: Sequence[int]) -> list[float]:
        """Share of all uses that caches of some numbers of blocks find [1]."""
        return [sum(n for need, n in self.rooms.items() if need <= room) / self.followed for room in rooms]

    def _place(self, block: Hashable) -> None:
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

    def _renumber(self) -> None:
        """Close the gaps between the places of last uses; the dictionary has them in order."""
        self._last = {block: place for place, block in enumerate(self._last)}
        self._end = len(self._last)
        self._used = bytearray(b"\1" * self._end).ljust(max(len(self._used), 2 * self._end + 1), b"\0")
        parts = range(0, len(self._used) + _PART, _PART)
        self._counts = [max(min(self._end - begin, _PART), 0) for begin in parts]
