"""Which of the prices that a chip's file lists is meant, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from inference_econ.errors import InputError
from inference_econ.inputs.hardware import HardwareSpec, Price, PriceKind

#: Kinds of prices, as they are written on the command line.
KINDS: tuple[str, ...] = tuple(kind.replace("-", "_") for kind in get_args(PriceKind))


def dollars(chip: HardwareSpec, asked: float | str | None) -> float | None:
    """The price of one accelerator [USD/h]; None if nobody asked for one and the file lists none.

    Parameters
    ----------
    chip : HardwareSpec
        Of what.
    asked : float, str or None
        A price [USD/h]; a kind of :data:`KINDS`, of which the first that is listed counts; or the first of all.

    Raises
    ------
    InputError
        If the file lists no price of that kind, or there is no such kind.
    """
    if isinstance(asked, (int, float)):
        return float(asked)
    if asked is None:
        return chip.prices[0].dollars_per_accelerator_hour if chip.prices else None
    listed = _of_kind(chip, checked_kind(asked))
    if listed is None:
        others = ", ".join(dict.fromkeys(price.kind.replace("-", "_") for price in chip.prices)) or "none"
        raise InputError(f"{chip.name} lists no price of the kind {asked}; listed: {others}; or give USD per hour")
    return listed.dollars_per_accelerator_hour


def checked_kind(text: str) -> str:
    """A kind of price.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    kind = text.replace("-", "_").lower()
    if kind == "owned":
        raise InputError(
            "what an hour of a chip of one's own costs depends on what was paid for it: give the total of "
            "'inference-econ hour-cost HARDWARE --purchase USD' as the price"
        )
    if kind not in KINDS:
        raise InputError(f"{text!r} is neither a number of USD per hour nor a kind of price: {', '.join(KINDS)}")
    return kind


def common_kind(chips: Iterable[HardwareSpec]) -> str | None:
    """The kind of the first chip's price, if the files of all chips list one of it; else None."""
    listed = list(chips)
    kind = listed[0].prices[0].kind.replace("-", "_") if listed and listed[0].prices else None
    return kind if kind is not None and all(_of_kind(chip, kind) for chip in listed) else None


def listed_as(chip: HardwareSpec, price: float | None) -> Price | None:
    """The entry of the file that a price is from; None if it was given."""
    return next((entry for entry in chip.prices if entry.dollars_per_accelerator_hour == price), None)


def _of_kind(chip: HardwareSpec, kind: str) -> Price | None:
    return next((price for price in chip.prices if price.kind.replace("-", "_") == kind), None)
