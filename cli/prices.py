"""Prices on the command line: USD per GPU or node, a kind of those that files list, or either by chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from inference_econ import inputs
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import catalog

from .parameters import POSITIVE

#: USD per accelerator and hour; or a kind of price, or USD per node, in words.
Rate = float | str
Prices = Rate | Mapping[str, Rate] | None


def parsed(ctx: click.Context | None, param: click.Parameter | None, texts: Sequence[str]) -> Prices:
    """Prices that ``--price`` gives: one rate for all, rates by chip, or none.

    Raises
    ------
    BadParameter, InputError
        If a text is no rate, or one for all stands beside another.
    """
    if len(texts) == 1 and "=" not in texts[0]:
        return _rate(texts[0], param, ctx)
    by_chip: dict[str, Rate] = {}
    for text in texts:
        name, sign, rate = (part.strip() for part in text.rpartition("="))
        with of_option("price"):
            chip = catalog.meaning("hardware", name).name if sign else ""
        if not chip or chip in by_chip:
            raise click.BadParameter(
                f"{text!r}: write one price for all, or HARDWARE=PRICE once for each chip.", param=param, ctx=ctx
            )
        by_chip[chip] = _rate(rate, param, ctx)
    return by_chip or None


def of_chip(price: Prices, chip: str) -> Rate | None:
    """The rate of one chip; None for the default of its file."""
    return price.get(chip) if isinstance(price, Mapping) else price


def of_chips(price: Prices, chips: Sequence[str]) -> Prices:
    """The rates of all chips of a question: one kind and seller for all by default, where their files list one.

    Raises
    ------
    InputError
        If a number is to be the price of several chips, or a chip is named that is not asked about.
    """
    if isinstance(price, Mapping):
        for chip in price:
            if chip not in chips:
                raise InputError(
                    f"--price {chip}=...: {chip!r} is not among the hardware: {', '.join(chips)}", option="price"
                )
        return price
    if len(chips) > 1 and price is not None and (not isinstance(price, str) or inputs.prices.is_amount(price)):
        pairs = " ".join(f"--price {chip}=USD" for chip in chips)
        amount = price if isinstance(price, str) else f"{price:g}"
        raise InputError(
            f"--price {amount} is a price of one kind of hardware; write {pairs}, or a kind of price for all, for "
            "example --price on_demand",
            option="price",
        )
    return inputs.prices.compared(map(catalog.hardware, chips), price)


def _rate(text: str, param: click.Parameter | None, ctx: click.Context | None) -> Rate:
    try:
        float(text)
    except ValueError:
        try:
            return inputs.prices.checked(text)
        except InputError as error:
            raise click.BadParameter(f"{error}.", param=param, ctx=ctx) from error
    return POSITIVE.convert(text, param, ctx)
