"""Price of an accelerator-hour: listed in the hardware file, given by the user, or calculated from a purchase price."""

from __future__ import annotations

from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.inputs import HardwareSpec, HourPrice, Ownership, catalog, prices


def or_unpriced(chip: catalog.Name, price: float | str | None) -> float | str | None:
    """Return the user's price, None for the listed price, or a marker if no price is known.

    The marker removes costs from the output. The marker is returned if neither the user nor the chip's file gives a
    price.
    """
    unknown = price is None and hour_price(catalog.hardware(chip), None) is None
    return prices.UNPRICED if unknown else price


def hour_price(chip: HardwareSpec, price: float | str | None) -> HourPrice | None:
    """Price of an accelerator-hour; None if the query gives no price and the chip's file lists no price.

    Parameters
    ----------
    chip : HardwareSpec
        Specification of the accelerator.
    price : float, str or None
        Price of an accelerator [USD/h], or of a node as ``23.60/node``. The price may also be a kind of price in the
        chip's file, or ``owned``. The default is the best price of the file. If the file lists only a purchase price,
        the default is ``owned``.

    Raises
    ------
    InputError
        If the kind of price does not exist, the file lists no price of this kind, or the node size is unknown.
    """
    if price is None or price == prices.ALIKE:
        listed = prices.best(chip)
        return owned_price(chip) if listed is None and chip.purchase and chip.watts else listed
    if isinstance(price, (int, float)):
        return HourPrice(float(price))
    words = prices.checked(price)
    if words == prices.UNPRICED:
        return HourPrice(1.0, prices.UNPRICED)
    if prices.is_amount(words):
        return HourPrice(prices.amount(chip, words))
    if words == prices.OWNED:
        return owned_price(chip)
    listed = prices.of_kind(chip, words)
    if not chip.prices:
        raise no_price(chip)
    if listed is None:
        kinds = ", ".join(prices.kinds(chip))
        others = [name for name in catalog.names("hardware") if prices.of_kind(catalog.hardware(name), words)]
        raise InputError(
            f"{chip.name} lists no price of the kind {words}; it lists {kinds}; {words} is listed by "
            f"{', '.join(others) or 'no file'}; or give USD per hour, for example --price 2.50",
            option="price",
        )
    return listed


def no_price(chip: HardwareSpec) -> InputError:
    """Error for a chip whose file lists no price."""
    owned = "" if chip.purchase is None else ", or --price owned, as it lists what one costs to buy"
    return InputError(
        f"{chip.name} lists no price; give one, for example --price 2.50 (USD per accelerator and hour){owned}",
        option="price",
    )


def owned_price(chip: HardwareSpec) -> HourPrice:
    """Cost per hour of an accelerator that is purchased at its list price, with the default terms of ownership.

    Every hour costs the same, as for rented accelerators. The load of a deployment determines its idle time.

    Parameters
    ----------
    chip : HardwareSpec
        Specification of the accelerator.

    Raises
    ------
    InputError
        If the file lists no purchase price or no power.
    """
    bought = chip.purchase
    if bought is None:
        raise InputError(
            f"{chip.name} lists no price of its purchase; run 'inference-econ gpu-cost HARDWARE --purchase USD' with "
            "what was paid, and give its total as the price",
            option="price",
        )
    total = float(hour_cost(chip, bought.dollars_per_accelerator, catalog.ownership()).total)
    where = f"{bought.where} ({bought.kind}: {bought.dollars_per_accelerator:,.0f} USD)"
    return HourPrice(total, prices.OWNED, bought.date, bought.kind != "estimate", bought.ref, where)


def hour_cost(
    chip: HardwareSpec, purchase_dollars: float, terms: Ownership, board_watts: float | None = None
) -> money.HourCostByCause:
    """Cost per hour of use of a purchased accelerator under given terms of ownership, by cause [USD/h].

    Parameters
    ----------
    chip : HardwareSpec
        Specification of the accelerator.
    purchase_dollars : float
        Purchase price of one accelerator with its share of host and network [USD].
    terms : Ownership
        Terms of use and financing, such as lifetime and interest.
    board_watts : float, optional
        Power of the board while it works [W]; by default the value in the chip's file.

    Raises
    ------
    InputError
        If a number is out of range, or the power is unknown.
    """
    watts = chip.watts if board_watts is None else board_watts
    if watts is None:
        raise InputError(f"{chip.name} lists no watts; give --board-watts", option="board_watts")
    return money.accelerator_hour_cost(
        purchase_dollars,
        terms.lifetime_years,
        utilisation=terms.utilisation,
        power=money.Power(watts, terms.host_watts, terms.pue, terms.dollars_per_kwh),
        yearly_operations=terms.yearly_operations,
        cost_of_capital=terms.cost_of_capital,
    )
