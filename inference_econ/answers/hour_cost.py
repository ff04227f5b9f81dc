"""What an hour in use of an owned accelerator costs."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.inputs import HardwareSpec, catalog


@dataclass(frozen=True, slots=True)
class Ownership:
    """On what terms an accelerator is owned.

    Attributes
    ----------
    purchase_dollars : float
        Price of one accelerator with its share of host and network [USD].
    lifetime_years : float
        Until it is worth nothing [years].
    utilisation : float
        Share of all hours in which it works [1].
    board_watts : float or None
        Power of the accelerator at work; by default that of its file [W].
    host_watts : float
        Power of its share of the host and network, drawn at all hours [W].
    pue : float
        Power of the whole building over that of the computers [1].
    dollars_per_kwh : float
        Price of electricity [USD per kWh].
    yearly_operations : float
        Yearly cost of running it as a share of the purchase price [1].
    cost_of_capital : float
        Yearly interest [1].
    """

    purchase_dollars: float
    lifetime_years: float = 5.0
    utilisation: float = 0.8
    board_watts: float | None = None
    host_watts: float = 300.0
    pue: float = 1.2
    dollars_per_kwh: float = 0.08
    yearly_operations: float = 0.05
    cost_of_capital: float = 0.08


@dataclass(frozen=True, slots=True)
class HourCost:
    """An hour in use of one accelerator.

    Attributes
    ----------
    hardware : HardwareSpec
        The accelerator.
    ownership : Ownership
        The terms.
    board_watts : float
        Power of the accelerator at work [W].
    parts : money.HourCost
        Dollars by cause [USD/h].
    """

    hardware: HardwareSpec
    ownership: Ownership
    board_watts: float
    parts: money.HourCost


def hour_cost(hardware: HardwareSpec | catalog.Name, ownership: Ownership) -> HourCost:
    """Build up the cost of an hour in which an owned accelerator works.

    Parameters
    ----------
    hardware : spec, name or path
        The accelerator.
    ownership : Ownership
        What is paid for it, and how it is used.

    Returns
    -------
    HourCost
        By cause, see :func:`inference_econ.formulas.money.accelerator_hour_cost`.

    Raises
    ------
    InputError
        If a number is impossible, or nobody says what the accelerator draws.

    Examples
    --------
    >>> cost = hour_cost("h100_sxm", Ownership(30e3))
    >>> round(float(cost.parts.depreciation), 3)
    0.856
    """
    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    watts = chip.watts if ownership.board_watts is None else ownership.board_watts
    if watts is None:
        raise InputError(f"{chip.name} lists no watts; give --board-watts")
    parts = money.accelerator_hour_cost(
        ownership.purchase_dollars,
        ownership.lifetime_years,
        utilisation=ownership.utilisation,
        power=money.Power(watts, ownership.host_watts, ownership.pue, ownership.dollars_per_kwh),
        yearly_operations=ownership.yearly_operations,
        cost_of_capital=ownership.cost_of_capital,
    )
    return HourCost(chip, ownership, float(watts), parts)
