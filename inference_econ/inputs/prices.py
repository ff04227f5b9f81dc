"""Which of the prices that a chip's file lists is meant, and what is known of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from inference_econ.errors import InputError
from inference_econ.inputs.hardware import HardwareSpec, Seller

#: Kinds that files list, the one to take by default first: what anybody can have, before what is bid for, or guessed.
KINDS: tuple[str, ...] = ("on_demand", "reserved", "tco", "index", "spot", "paper", "estimate")
#: Who sells, the class that several chips are compared by first.
SELLERS: tuple[str, ...] = get_args(Seller)
#: What an hour of a chip of one's own costs; computed, and listed by no file.
OWNED = "owned"
#: The kind of a price that somebody typed.
GIVEN = "given"
#: What people can ask for, in words.
FORMS = "USD per GPU-hour (2.50), USD per node-hour (23.60/node), or a kind"
#: Kinds of one class of sellers.
_CLASSES = tuple(f"{kind}:{seller}" for kind in KINDS for seller in SELLERS)
_PER = re.compile(r"([^/]*)/\s*(node|gpu)")


@dataclass(frozen=True, slots=True)
class HourPrice:
    """Price of an hour of one accelerator [USD/h], and its source, which a given price does not have."""

    dollars: float
    kind: str = GIVEN
    """One of :data:`KINDS`, :data:`OWNED` or :data:`GIVEN`."""
    date: str | None = None
    """Date on which the price was seen, or ``undated``."""
    verified: bool | None = None
    """True if the price was read in its source."""
    ref: str = ""
    """Key of the reference."""
    where: str = ""
    """Place inside the reference."""
    seller: str = ""
    """One of :data:`SELLERS`; empty if unknown."""
    years: int | None = None
    """Term of the contract [years]; None if it has none, or if it is unknown."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which it is asked for: by its kind, by kind and seller, and by the source that it stands in, too."""
        return (self.kind, f"{self.kind}:{self.seller}", f"{self.kind}:{self.seller}:{self.ref}")

    @property
    def label(self) -> str:
        """Its kind in words, with the term of its contract; of a cost of ownership whose it is, too."""
        kind = self.kind.replace("_", "-")
        if self.kind == "tco":
            return f"TCO of a {self.seller}"
        return kind if self.years is None else f"{kind} for {self.years} year{'s' if self.years > 1 else ''}"

    @property
    def doubt(self) -> str:
        """Why it is no basis for a decision; empty if it is one."""
        if self.kind == GIVEN:
            return ""
        if self.kind == "estimate":
            return "an estimate"
        return "undated" if self.date == "undated" else "" if self.verified else "not verified"

    @property
    def terms(self) -> str:
        """Its kind and date, and what is to be doubted, in words."""
        doubt = ", not verified" if self.verified is False else ""
        return f"{self.label}{'' if self.date is None else f', {self.date}'}{doubt}"


def listed(chip: HardwareSpec) -> tuple[HourPrice, ...]:
    """The prices of a file, in its order."""
    return tuple(
        HourPrice(
            entry.dollars_per_accelerator_hour,
            entry.kind.replace("-", "_"),
            entry.date,
            entry.verified,
            entry.ref,
            entry.where,
            entry.seller or "",
            entry.years,
        )
        for entry in chip.prices
    )


def best(chip: HardwareSpec) -> HourPrice | None:
    """The price to take where nobody asks for one; None if the file lists none.

    Costs of ownership and contracts of years, which nobody can have for an hour, come last; then what can be doubted
    after what cannot; then kinds count in their order, then prices in that of the file.
    """
    return min(listed(chip), key=_rank, default=None)


def of_kind(chip: HardwareSpec, kind: str) -> HourPrice | None:
    """The best price of a kind, of a seller (``tco:neocloud``), or in a source; None if the file lists none."""
    return min((price for price in listed(chip) if kind in price.names), key=_rank, default=None)


def in_words(text: str) -> bool:
    """Whether text is meant as a kind of price, or as one of a node, and not as a quantity."""
    return text.strip()[:1].isalpha() or is_amount(text.strip().lower())


def is_amount(text: str) -> bool:
    """Whether checked text is so much money, per node or GPU, and not a kind."""
    return _PER.fullmatch(text) is not None


def amount(chip: HardwareSpec, text: str) -> float:
    """Checked text as the price of one accelerator [USD/h].

    Raises
    ------
    InputError
        If it is of a node, and the file does not say how large nodes are.
    """
    dollars, _, unit = text.partition("/")
    if unit != "node":
        return float(dollars)
    if not chip.rented_as:
        raise InputError(
            f"{chip.name} does not say how many accelerators a node of it has; give USD per GPU-hour, or the machines, "
            "for example --set hardware.rented_as='[1, 8]'",
            option="price",
        )
    return float(dollars) / chip.rented_as[-1]


def checked(text: str) -> str:
    """A checked price in words: a kind of price, or a number per node or GPU.

    Raises
    ------
    InputError
        If it is neither.
    """
    kind = text.strip().replace("-", "_").lower()
    if kind in (*KINDS, OWNED, *_CLASSES) or kind.rpartition(":")[0] in _CLASSES:
        return kind
    match = _PER.fullmatch(text.strip().lower())
    if match is None:
        kinds = ", ".join((*KINDS[:-2], OWNED, *KINDS[-2:]))
        raise InputError(f"{text!r} is no price: give {FORMS}: {kinds}; or KIND:SELLER: {', '.join(SELLERS)}")
    try:
        dollars = float(match[1])
    except ValueError:
        dollars = math.nan
    if not 0.0 < dollars < math.inf:
        raise InputError(f"{text!r}: {match[1]!r} is no positive number of USD; write for example 23.60/{match[2]}")
    return f"{dollars!r}/{match[2]}"


def compared(chips: Iterable[HardwareSpec], price: float | str | None = None) -> float | str | None:
    """Price to ask of several chips so that like is compared with like; of a single one, the given price.

    Parameters
    ----------
    chips : iterable of HardwareSpec
        What is compared; those that list no price have a say in nothing.
    price : float, str or None
        The price that somebody asked for; a kind leaves sellers open, None the kind too.

    Returns
    -------
    float, str or None
        A kind and seller (``on_demand:neocloud``) that all files list, without doubts where there is such a class, the
        first kind and seller first, and of one source where one has all of them (``on_demand:neocloud:vultr_pricing``);
        else a kind that all list; else what was asked.
    """
    files = [chip for chip in chips if chip.prices]
    if len(files) < 2 or price not in (None, *KINDS):
        return price
    for names in (_CLASSES, KINDS):
        shared = [
            name
            for name in names
            if price in (None, name.partition(":")[0]) and all(of_kind(chip, name) for chip in files)
        ]
        firm = [name for name in shared if not any(quote.doubt for chip in files if (quote := of_kind(chip, name)))]
        if shared:
            chosen = (firm or shared)[0]
            if names is not _CLASSES:
                return chosen
            # Prices that stand in one source for all chips without doubts, as early as files have one.
            quotes = [[p.names[-1] for p in listed(chip) if chosen in p.names and not p.doubt] for chip in files]
            sources = set.intersection(*map(set, quotes))
            return min(sources, key=lambda name: (sum(q.index(name) for q in quotes), name), default=chosen)
    return price


def _rank(price: HourPrice) -> tuple[bool, bool, int]:
    return price.kind == "tco" or price.years is not None, bool(price.doubt), KINDS.index(price.kind)
