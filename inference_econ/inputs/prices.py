"""Prices of an accelerator-hour: selection of a price in the file of a chip, and its source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar, get_args

from inference_econ.errors import InputError
from inference_econ.inputs.hardware import HardwareSpec, Seller

#: Kinds of prices in files, in order of preference: public offers come first, estimates last.
KINDS: tuple[str, ...] = ("on_demand", "reserved", "tco", "index", "spot", "paper", "estimate")
#: Kinds of sellers.
SELLERS: tuple[str, ...] = get_args(Seller)
#: Kind of the hourly cost of a purchased chip. It is computed, and not listed in files.
OWNED = "owned"
#: Kind of a price that the user gave.
GIVEN = "given"
#: Kind for a chip without a price, in a table of several chips. Its costs are omitted. Users cannot write this kind.
UNPRICED = "no_price_"
#: Value that requests prices of all chips from the same source.
ALIKE = "alike"
#: Date of the newest price in the repository; a test checks it.
NEWEST = "2026-11-09"
#: First day of the last quarter, which ends on :data:`NEWEST`.
_SINCE = (date.fromisoformat(NEWEST) - timedelta(days=92)).isoformat()
#: Accepted forms of a price, for messages.
FORMS = "USD per GPU-hour (2.50), USD per node-hour (23.60/node), or a kind"
#: Kind and seller of a price in the notation of users: ``tco:neocloud``.
_CLASSES = tuple(f"{kind}:{seller}" for kind in KINDS for seller in SELLERS)
T = TypeVar("T")
_PER = re.compile(r"([^/]*)/\s*(node|gpu)")


@dataclass(frozen=True, slots=True)
class HourPrice:
    """Price of an accelerator-hour [USD/h] with its source."""

    dollars: float
    kind: str = GIVEN
    """Kind of price: one of :data:`KINDS`, :data:`OWNED`, :data:`GIVEN` or :data:`UNPRICED`."""
    date: str | None = None
    """Date of observation, or ``undated``."""
    verified: bool | None = None
    """True if the price was read in its source; None for a price that the user gave."""
    ref: str = ""
    """Key of the reference."""
    where: str = ""
    """Location inside the reference."""
    seller: str = ""
    """Kind of seller: one of :data:`SELLERS`; empty if unknown."""
    years: int | None = None
    """Term of the contract [years]; None if unknown, or for a contract without a term."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which a user can request the price: its kind; kind and seller; or kind, seller and source."""
        return (self.kind, f"{self.kind}:{self.seller}", f"{self.kind}:{self.seller}:{self.ref}")

    @property
    def label(self) -> str:
        """Kind of price as text, with the term of a contract, or with the owner for a total cost of ownership."""
        kind = self.kind.replace("_", "-")
        if self.kind == "tco":
            return f"TCO of a {self.seller}"
        return kind if self.years is None else f"{kind} for {self.years} year{'s' if self.years > 1 else ''}"

    @property
    def doubt(self) -> str:
        """Reason why the price is unreliable; empty for a reliable price."""
        if self.kind == GIVEN:
            return ""
        if self.kind == "estimate":
            return "an estimate"
        return "undated" if self.date == "undated" else "" if self.verified else "not verified"

    @property
    def is_recent(self) -> bool:
        """True for a verified on-demand price of the last quarter."""
        return self.kind == "on_demand" and not self.doubt and str(self.date) >= _SINCE

    @property
    def order(self) -> int:
        """Rank of the price by its kind. Only prices of equal rank are compared.

        A price that the user gave has the rank of an on-demand price.
        """
        return (*KINDS, OWNED, UNPRICED).index(KINDS[0] if self.kind == GIVEN else self.kind)

    @property
    def mark(self) -> str:
        """Mark of the price in tables: its kind, or the date of an old on-demand price.

        Recent and user-given prices have no mark.
        """
        if self.kind == GIVEN or self.is_recent:
            return ""
        return str(self.date) if self.kind == "on_demand" else self.kind

    @property
    def terms(self) -> str:
        """Kind and date of the price, and a remark if the price was not verified."""
        doubt = ", not verified" if self.verified is False else ""
        return f"{self.label}{'' if self.date is None else f', {self.date}'}{doubt}"


def listed(chip: HardwareSpec) -> tuple[HourPrice, ...]:
    """Prices in the file of a chip, in the order of the file."""
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
    """Default price of a chip; None if the chip's file lists no price. See :func:`typical`."""
    return typical(listed(chip))


def of_kind(chip: HardwareSpec, kind: str) -> HourPrice | None:
    """Typical price of a kind; None if the file of the chip has no price of this kind.

    The kind may be limited to a seller (``tco:neocloud``), or to a seller and a source.
    """
    return typical(price for price in listed(chip) if kind in price.names)


def typical(prices: Iterable[HourPrice]) -> HourPrice | None:
    """Median of the verified on-demand prices of the last quarter; None if ``prices`` is empty.

    The last quarter is the 92 days until :data:`NEWEST`, so that results depend only on the files. Without such
    on-demand prices, the result is the median of the newest prices of one kind. Dated and verified prices have
    priority, and then the first kind in :data:`KINDS`. For an even number of prices, the result is the lower middle
    price, because this price has a source.
    """
    by_cost = sorted(prices, key=lambda price: price.dollars)
    first = min(map(_rank, by_cost), default=None)
    group = [price for price in by_cost if _rank(price) == first]
    newest = max((str(price.date) for price in group), default="")
    group = [price for price in group if price.is_recent or price.date == newest]
    return group[(len(group) - 1) // 2] if group else None


def in_words(text: str) -> bool:
    """True if a text is a kind of price, or a price per node; false for a quantity."""
    return text.strip()[:1].isalpha() or is_amount(text.strip().lower())


def is_amount(text: str) -> bool:
    """True if a text is an amount per node or GPU; false for a kind. The text must come from :func:`checked`."""
    return _PER.fullmatch(text) is not None


def amount(chip: HardwareSpec, text: str) -> float:
    """Price of one accelerator [USD/h]. The text must come from :func:`checked`.

    Raises
    ------
    InputError
        If the text is the price of a node, and the node size of the chip is unknown.
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
    """Check the text of a price: a kind of price, or an amount per node or GPU.

    Raises
    ------
    InputError
        If the text is neither a kind of price nor an amount.
    """
    kind = text.strip().replace("-", "_").lower()
    if kind in (*KINDS, OWNED, ALIKE, UNPRICED, *_CLASSES) or kind.rpartition(":")[0] in _CLASSES:
        return kind
    match = _PER.fullmatch(text.strip().lower())
    if match is None:
        listed = ", ".join((*KINDS[:-2], OWNED, *KINDS[-2:]))
        sellers = ", ".join(SELLERS)
        raise InputError(
            f"{text!r} is not a price: give {FORMS}: {listed}; KIND:SELLER: {sellers}; or alike: one source"
        )
    try:
        dollars = float(match[1])
    except ValueError:
        dollars = math.nan
    if not 0.0 < dollars < math.inf:
        raise InputError(f"{text!r}: {match[1]!r} is not a positive number of USD; write for example 23.60/{match[2]}")
    return f"{dollars!r}/{match[2]}"


def priced_alike(chips: Iterable[HardwareSpec], price: T) -> T | str:
    """Replace the price ``alike`` by a kind, seller and source for which all chips have prices.

    All other prices are returned unchanged.

    Raises
    ------
    InputError
        If no source has prices of all chips.
    """
    if price != ALIKE:
        return price
    files = list(chips)
    names = [{price.names[-1] for price in listed(chip) if price.seller} for chip in files]
    shared = set.intersection(*names)
    if not shared:
        has = "; ".join(f"{chip.name}: {', '.join(kinds(chip)) or 'none'}" for chip in files)
        raise InputError(
            f"--price alike: no source has prices of one kind for all of these ({has}). Give one price for each, for "
            "example --price h100_sxm=2.50, or a kind that all have, --price on_demand",
            option="price",
        )
    return min(shared, key=lambda name: (max(_rank(quote) for chip in files if (quote := of_kind(chip, name))), name))


def kinds(chip: HardwareSpec) -> list[str]:
    """Kinds of the prices in the file of a chip, in the order of :data:`KINDS`."""
    return sorted({price.kind for price in listed(chip)}, key=KINDS.index)


def _rank(price: HourPrice) -> tuple[bool, bool, int]:
    return not price.is_recent, bool(price.doubt), KINDS.index(price.kind)
